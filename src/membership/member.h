// membership::Member: one member as etcd writes it down, ids from names, and URL lists.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/types.h"

namespace mainstay::membership {

struct Member {
  MemberId id;
  std::vector<std::string> peer_urls = {};
  bool is_learner = false;
  std::string name = {};  // empty until the member has published itself: "not started"
  std::vector<std::string> client_urls = {};

  bool IsStarted() const { return !name.empty(); }
  friend bool operator==(const Member&, const Member&) = default;
};

// First 8 bytes of SHA-1 over the sorted peer URLs, the token and, when given, the decimal Unix
// second. Bootstrap: the cluster token and no time. MemberAdd: an empty token and the time.
MemberId ComputeMemberId(std::vector<std::string> peer_urls,
                         std::string_view token,
                         std::optional<int64_t> unix_seconds = std::nullopt);
// First 8 bytes of SHA-1 over the ascending ids, 8 big-endian bytes each.
ClusterId ComputeClusterId(std::vector<MemberId> ids);

// {"id":1,"peerURLs":["http://a:1"],"isLearner":true,"name":"m1","clientURLs":["http://a:2"]}:
// byte for byte what etcd stores; the last three are left out when empty.
std::string MemberToJson(const Member& member);
// Accepts what etcd writes, in any order and with unknown fields. DataLoss else.
StatusOr<Member> MemberFromJson(std::string_view json);

// The context of a ConfChange: a member, and whether it is a promotion.
struct ChangeContext {
  Member member;
  bool is_promote = false;
};
// As etcd: a member's JSON for add and update; for a promotion only the id, "peerURLs":null and
// "isPromote":true.
std::string ChangeContextToJson(const ChangeContext& context);
StatusOr<ChangeContext> ChangeContextFromJson(std::string_view json);

// etcd's rules for one URL (operations.md 1.1). InvalidArgument with etcd's text.
Status CheckUrl(std::string_view url);
// Trims, checks and sorts. An empty list is an error.
StatusOr<std::vector<std::string>> ParseUrls(std::vector<std::string> urls);
// "name=url,name=url2,other=url3": URLs by name, each list checked and sorted.
StatusOr<std::map<std::string, std::vector<std::string>>> ParseInitialCluster(
    std::string_view text);

}  // namespace mainstay::membership

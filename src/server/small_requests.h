// The requests of the log beside puts, deletes and txns (those are mvcc's to read): decoded into
// plain structs.
//
// Errors   Nullopt for bytes that are no such message. Unknown fields are skipped, as in protobuf.
// Threads  Pure functions; any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/types.h"
#include "lease/lessor.h"
#include "server/reply.h"

namespace mainstay::server {

struct LeaseGrantRequest {
  int64_t ttl_s = 0;
  LeaseId id;
};
std::optional<LeaseGrantRequest> DecodeLeaseGrant(std::string_view bytes);
std::optional<LeaseId> DecodeLeaseRevoke(std::string_view bytes);
std::optional<std::vector<lease::Checkpoint>> DecodeLeaseCheckpoint(std::string_view bytes);

struct AlarmRequest {
  enum class Action : uint8_t { kGet = 0, kActivate = 1, kDeactivate = 2 };
  Action action = Action::kGet;
  AlarmMember alarm;
};
std::optional<AlarmRequest> DecodeAlarm(std::string_view bytes);

std::optional<std::string> DecodeClusterVersion(std::string_view bytes);

struct MemberAttributes {
  MemberId member;
  std::string name;
  std::vector<std::string> client_urls;
};
std::optional<MemberAttributes> DecodeMemberAttributes(std::string_view bytes);

struct DowngradeInfoRequest {
  bool enabled = false;
  std::string version;
};
std::optional<DowngradeInfoRequest> DecodeDowngradeInfo(std::string_view bytes);

}  // namespace mainstay::server

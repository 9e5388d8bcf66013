#include "membership/member.h"

#include <algorithm>

#include "fmt/format.h"
#include "openssl/evp.h"

#include "common/check.h"
#include "common/coding.h"
#include "membership/json.h"

namespace mainstay::membership {
namespace {

uint64_t Sha1Head(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  MS_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha1(), nullptr) == 1);
  MS_CHECK_EQ(length, 20U);
  return LoadBE64(reinterpret_cast<const char*>(digest));
}

void AppendMemberFields(std::string* out, const Member& member) {
  out->append(fmt::format("\"id\":{},\"peerURLs\":", member.id.value()));
  AppendGoJsonStrings(out, member.peer_urls);
  if (member.is_learner) {
    out->append(",\"isLearner\":true");
  }
  if (!member.name.empty()) {
    out->append(",\"name\":");
    AppendGoJsonString(out, member.name);
  }
  if (!member.client_urls.empty()) {
    out->append(",\"clientURLs\":");
    AppendGoJsonStrings(out, member.client_urls);
  }
}

}  // namespace

MemberId ComputeMemberId(std::vector<std::string> peer_urls,
                         std::string_view token,
                         std::optional<int64_t> unix_seconds) {
  std::sort(peer_urls.begin(), peer_urls.end());
  std::string input;
  for (const std::string& url : peer_urls) {
    input += url;
  }
  input += token;
  if (unix_seconds.has_value()) {
    input += std::to_string(*unix_seconds);
  }
  return MemberId(Sha1Head(input));
}

ClusterId ComputeClusterId(std::vector<MemberId> ids) {
  std::sort(ids.begin(), ids.end());
  std::string input;
  for (const MemberId id : ids) {
    AppendBE64(&input, id.value());
  }
  return ClusterId(Sha1Head(input));
}

std::string MemberToJson(const Member& member) {
  std::string out = "{";
  AppendMemberFields(&out, member);
  out += "}";
  return out;
}

StatusOr<Member> MemberFromJson(std::string_view json) {
  MS_ASSIGN_OR_RETURN(ChangeContext context, ChangeContextFromJson(json));
  return std::move(context.member);
}

std::string ChangeContextToJson(const ChangeContext& context) {
  if (!context.is_promote) {
    return MemberToJson(context.member);
  }
  std::string out = "{";
  AppendMemberFields(&out, context.member);
  out += ",\"isPromote\":true}";
  return out;
}

StatusOr<ChangeContext> ChangeContextFromJson(std::string_view json) {
  ChangeContext out;
  uint64_t id = 0;
  JsonReader reader(json);
  std::string key;
  reader.BeginObject();
  while (reader.NextKey(&key)) {
    if (key == "id") {
      reader.Unsigned(&id);
    } else if (key == "peerURLs") {
      reader.Strings(&out.member.peer_urls);
    } else if (key == "isLearner") {
      reader.Bool(&out.member.is_learner);
    } else if (key == "name") {
      reader.String(&out.member.name);
    } else if (key == "clientURLs") {
      reader.Strings(&out.member.client_urls);
    } else if (key == "isPromote") {
      reader.Bool(&out.is_promote);
    } else {
      reader.Skip();
    }
  }
  if (!reader.Finish()) {
    return DataLoss(fmt::format("membership: no member JSON: {}", json.substr(0, 200)));
  }
  out.member.id = MemberId(id);
  return out;
}

}  // namespace mainstay::membership

// Printer: answers as text in the format that -w asks for.
//
// Role        Every command hands its response here and prints what comes back.
// Errors      A format that a response has no form in is Printed.code 4 with the text to show.
// Threads     Any; a Printer does not change.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/table.h"
#include "mainstay/watch.h"
#include "proto/etcdserverpb/rpc.pb.h"

namespace mainstay::cli {

namespace pb = ::etcdserverpb;

enum class Format { kSimple, kFields, kJson, kProtobuf, kTable };
std::optional<Format> ParseFormat(std::string_view name);

struct Printed {
  std::string out{};
  std::string err{};  // printed as it is
  int code = 0;
  std::string error{};  // with a code: what follows "Error: "
};

struct EndpointHealth {
  std::string endpoint;
  bool healthy = false;
  std::string took;
  std::string error;
};
struct EndpointStatus {
  std::string endpoint;
  pb::StatusResponse status;
};
struct EndpointHash {
  std::string endpoint;
  pb::HashKVResponse hash;
};

class Printer {
 public:
  Printer(Format format, bool hex, bool values_only = false)
      : format_(format), hex_(hex), values_only_(values_only) {}
  Format format() const { return format_; }

  Printed Get(const pb::RangeResponse& response) const;
  Printed Put(const pb::PutResponse& response) const;
  Printed Delete(const pb::DeleteRangeResponse& response) const;
  Printed Txn(const pb::TxnResponse& response) const;
  Printed Watch(const client::WatchAnswer& answer) const;

  Printed LeaseGrant(const pb::LeaseGrantResponse& response) const;
  Printed LeaseRevoke(int64_t id, const pb::LeaseRevokeResponse& response) const;
  Printed LeaseKeepAlive(const pb::LeaseKeepAliveResponse& response) const;
  Printed LeaseTimeToLive(const pb::LeaseTimeToLiveResponse& response, bool keys) const;
  Printed LeaseList(const pb::LeaseLeasesResponse& response) const;

  Printed MemberList(const pb::MemberListResponse& response) const;
  // `simple` is the line of the simple format; for responses that have no fields form.
  Printed Member(const google::protobuf::Message& response, std::string simple) const;
  Printed Plain(const google::protobuf::Message& response, std::string simple) const;
  // The same where the fields form is the header.
  Printed HeaderOnly(const google::protobuf::Message& response,
                     const pb::ResponseHeader& header,
                     std::string simple) const;
  Printed Alarm(const pb::AlarmResponse& response) const;
  Printed Health(const std::vector<EndpointHealth>& endpoints) const;
  Printed Statuses(const std::vector<EndpointStatus>& endpoints) const;
  Printed Hashes(const std::vector<EndpointHash>& endpoints) const;
  Printed RoleGet(const std::string& role, const pb::AuthRoleGetResponse& response) const;
  Printed RoleList(const pb::AuthRoleListResponse& response) const;

 private:
  using Text = std::function<std::string()>;
  // `fields` null: there is no such form.
  Printed Render(const google::protobuf::Message& message,
                 const Text& simple,
                 const Text& fields) const;
  Printed Unsupported() const;
  std::string Header(const pb::ResponseHeader& header) const;
  std::string KeyValueFields(std::string_view prefix, const mvccpb::KeyValue& kv) const;
  std::string KeyValueLines(const mvccpb::KeyValue& kv) const;
  std::string LeaseId(int64_t id) const;
  std::string MemberId(uint64_t id) const;
  std::string PutText(const pb::PutResponse& response) const;
  std::string DeleteText(const pb::DeleteRangeResponse& response) const;
  std::string GetText(const pb::RangeResponse& response) const;
  std::string TxnText(const pb::TxnResponse& response) const;
  std::string PutFields(const pb::PutResponse& response) const;
  std::string DeleteFields(const pb::DeleteRangeResponse& response) const;
  std::string GetFields(const pb::RangeResponse& response) const;
  std::string TxnFields(const pb::TxnResponse& response) const;
  std::string StatusFields(const EndpointStatus& endpoint) const;
  Printed Tabular(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) const;

  Format format_;
  bool hex_;
  bool values_only_;
};

}  // namespace mainstay::cli

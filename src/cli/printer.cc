#include "cli/printer.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include "cli/go_text.h"
#include "cli/json.h"
#include "mainstay/client.h"

namespace mainstay::cli {
namespace {

constexpr std::string_view kFormatNames[] = {"simple", "fields", "json", "protobuf", "table"};

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

template <class Repeated>
std::string JoinAll(const Repeated& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts.begin(), parts.end(), separator));
}

std::string TypeName(const mvccpb::Event& event) {
  return event.type() == mvccpb::Event::PUT ? "PUT" : "DELETE";
}

std::string Rows(const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    out += Join(row, ", ") + "\n";
  }
  return out;
}

std::string PermissionRange(const authpb::Permission& perm) {
  const std::string& key = perm.key();
  const std::string& end = perm.range_end();
  if (end.empty()) {
    return "\t" + key + "\n";
  }
  const std::string open_end(1, '\0');
  std::string out = end == open_end ? fmt::format("\t[{}, <open ended>", key)
                                    : fmt::format("\t[{}, {})", key, end);
  if (!key.empty() && client::PrefixEnd(key) == end) {
    out += fmt::format(" (prefix {})", key);
  }
  return out + "\n";
}

std::string RoleText(const std::string& role, const pb::AuthRoleGetResponse& response) {
  std::string out = fmt::format("Role {}\n", role);
  for (const auto& [heading, other] : {std::pair("KV Read:\n", authpb::Permission::WRITE),
                                       std::pair("KV Write:\n", authpb::Permission::READ)}) {
    out += heading;
    if (role == "root" && response.perm().empty()) {
      out += "\t[, <open ended>\n";
    }
    for (const authpb::Permission& perm : response.perm()) {
      if (perm.permtype() != other) {
        out += PermissionRange(perm);
      }
    }
  }
  return out;
}

}  // namespace

std::optional<Format> ParseFormat(std::string_view name) {
  for (size_t i = 0; i < std::size(kFormatNames); ++i) {
    if (kFormatNames[i] == name) {
      return static_cast<Format>(i);
    }
  }
  return std::nullopt;
}

Printed Printer::Unsupported() const {
  return {.out = {},
          .err = {},
          .code = 4,
          .error = fmt::format("{} not supported as output format",
                               kFormatNames[static_cast<size_t>(format_)])};
}

Printed Printer::Render(const google::protobuf::Message& message,
                        const Text& simple,
                        const Text& fields) const {
  Printed printed;
  switch (format_) {
    case Format::kSimple:
      printed.out = simple();
      return printed;
    case Format::kJson:
      printed.out = ToJson(message) + "\n";
      return printed;
    case Format::kProtobuf:
      printed.out = message.SerializeAsString();
      return printed;
    case Format::kFields:
      if (fields == nullptr) {
        return Unsupported();
      }
      printed.out = fields();
      return printed;
    case Format::kTable:
      return Unsupported();
  }
  return printed;
}

std::string Printer::MemberId(uint64_t id) const {
  return hex_ ? fmt::format("{:x}", id) : fmt::format("{}", id);
}

std::string Printer::LeaseId(int64_t id) const {
  return hex_ ? fmt::format("{:016x}", static_cast<uint64_t>(id)) : fmt::format("{}", id);
}

std::string Printer::Header(const pb::ResponseHeader& header) const {
  std::string out = fmt::format("\"ClusterID\" : {}\n\"MemberID\" : {}\n",
                                MemberId(header.cluster_id()), MemberId(header.member_id()));
  if (header.revision() > 0) {
    out += fmt::format("\"Revision\" : {}\n", header.revision());
  }
  return out + fmt::format("\"RaftTerm\" : {}\n", header.raft_term());
}

std::string Printer::KeyValueFields(std::string_view prefix, const mvccpb::KeyValue& kv) const {
  std::string out;
  const auto add = [&](std::string_view name, const std::string& value) {
    out += fmt::format("\"{}{}\" : {}\n", prefix, name, value);
  };
  add("Key", GoQuote(kv.key()));
  add("CreateRevision", std::to_string(kv.create_revision()));
  add("ModRevision", std::to_string(kv.mod_revision()));
  add("Version", std::to_string(kv.version()));
  add("Value", GoQuote(kv.value()));
  add("Lease", LeaseId(kv.lease()));
  return out;
}

std::string Printer::KeyValueLines(const mvccpb::KeyValue& kv) const {
  const auto shown = [this](const std::string& s) { return hex_ ? HexEscaped(s) : s; };
  return (values_only_ ? "" : shown(kv.key()) + "\n") + shown(kv.value()) + "\n";
}

std::string Printer::GetText(const pb::RangeResponse& response) const {
  std::string out;
  for (const mvccpb::KeyValue& kv : response.kvs()) {
    out += KeyValueLines(kv);
  }
  return out;
}

std::string Printer::PutText(const pb::PutResponse& response) const {
  return response.has_prev_kv() ? "OK\n" + KeyValueLines(response.prev_kv()) : "OK\n";
}

std::string Printer::DeleteText(const pb::DeleteRangeResponse& response) const {
  std::string out = fmt::format("{}\n", response.deleted());
  for (const mvccpb::KeyValue& kv : response.prev_kvs()) {
    out += KeyValueLines(kv);
  }
  return out;
}

std::string Printer::TxnText(const pb::TxnResponse& response) const {
  std::string out = response.succeeded() ? "SUCCESS\n" : "FAILURE\n";
  for (const pb::ResponseOp& op : response.responses()) {
    out += "\n";
    switch (op.response_case()) {
      case pb::ResponseOp::kResponseRange:
        out += GetText(op.response_range());
        break;
      case pb::ResponseOp::kResponsePut:
        out += PutText(op.response_put());
        break;
      case pb::ResponseOp::kResponseDeleteRange:
        out += DeleteText(op.response_delete_range());
        break;
      case pb::ResponseOp::kResponseTxn:
        out += TxnText(op.response_txn());
        break;
      case pb::ResponseOp::RESPONSE_NOT_SET:
        break;
    }
  }
  return out;
}

std::string Printer::GetFields(const pb::RangeResponse& response) const {
  std::string out = Header(response.header());
  for (const mvccpb::KeyValue& kv : response.kvs()) {
    out += KeyValueFields("", kv);
  }
  return out + fmt::format("\"More\" : {}\n\"Count\" : {}\n", response.more(), response.count());
}

std::string Printer::PutFields(const pb::PutResponse& response) const {
  const std::string header = Header(response.header());
  return response.has_prev_kv() ? header + KeyValueFields("Prev", response.prev_kv()) : header;
}

std::string Printer::DeleteFields(const pb::DeleteRangeResponse& response) const {
  std::string out =
      Header(response.header()) + fmt::format("\"Deleted\" : {}\n", response.deleted());
  for (const mvccpb::KeyValue& kv : response.prev_kvs()) {
    out += KeyValueFields("Prev", kv);
  }
  return out;
}

std::string Printer::TxnFields(const pb::TxnResponse& response) const {
  std::string out =
      Header(response.header()) + fmt::format("\"Succeeded\" : {}\n", response.succeeded());
  for (const pb::ResponseOp& op : response.responses()) {
    switch (op.response_case()) {
      case pb::ResponseOp::kResponseRange:
        out += GetFields(op.response_range());
        break;
      case pb::ResponseOp::kResponsePut:
        out += PutFields(op.response_put());
        break;
      case pb::ResponseOp::kResponseDeleteRange:
        out += DeleteFields(op.response_delete_range());
        break;
      case pb::ResponseOp::kResponseTxn:
        out += TxnFields(op.response_txn());
        break;
      case pb::ResponseOp::RESPONSE_NOT_SET:
        break;
    }
  }
  return out;
}

Printed Printer::Get(const pb::RangeResponse& response) const {
  return Render(
      response, [&] { return GetText(response); }, [&] { return GetFields(response); });
}

Printed Printer::Put(const pb::PutResponse& response) const {
  return Render(
      response, [&] { return PutText(response); }, [&] { return PutFields(response); });
}

Printed Printer::Delete(const pb::DeleteRangeResponse& response) const {
  return Render(
      response, [&] { return DeleteText(response); }, [&] { return DeleteFields(response); });
}

Printed Printer::Txn(const pb::TxnResponse& response) const {
  return Render(
      response, [&] { return TxnText(response); }, [&] { return TxnFields(response); });
}

Printed Printer::Watch(const client::WatchAnswer& answer) const {
  Printed printed;
  if (format_ == Format::kJson) {
    std::string events;
    for (const mvccpb::Event& event : answer.events) {
      events += (events.empty() ? "" : ",") + ToJson(event);
    }
    printed.out = fmt::format(
        "{{\"Header\":{},\"Events\":{},\"CompactRevision\":{},\"Canceled\":{},\"Created\":false,"
        "\"CancelReason\":{}}}\n",
        ToJson(answer.header), answer.events.empty() ? "null" : "[" + events + "]",
        answer.compact_revision, answer.canceled, JsonString(answer.cancel_reason));
    return printed;
  }
  pb::WatchResponse response;
  *response.mutable_header() = answer.header;
  response.set_compact_revision(answer.compact_revision);
  response.set_canceled(answer.canceled);
  for (const mvccpb::Event& event : answer.events) {
    *response.add_events() = event;
  }
  const auto simple = [&] {
    std::string out;
    for (const mvccpb::Event& event : answer.events) {
      out += TypeName(event) + "\n";
      out += event.has_prev_kv() ? KeyValueLines(event.prev_kv()) : "";
      out += KeyValueLines(event.kv());
    }
    return out;
  };
  const auto fields = [&] {
    std::string out = Header(answer.header);
    for (const mvccpb::Event& event : answer.events) {
      out += fmt::format("\"Type\" : {}\n", TypeName(event));
      out += event.has_prev_kv() ? KeyValueFields("Prev", event.prev_kv()) : "";
      out += KeyValueFields("", event.kv());
    }
    return out;
  };
  return Render(response, simple, fields);
}

Printed Printer::Member(const google::protobuf::Message& response, std::string simple) const {
  if (format_ == Format::kJson && hex_) {
    Printed printed;
    printed.out = ToJsonWithHexIds(response) + "\n";
    return printed;
  }
  return Plain(response, std::move(simple));
}

Printed Printer::Plain(const google::protobuf::Message& response, std::string simple) const {
  return Render(
      response, [&] { return simple; }, nullptr);
}

Printed Printer::HeaderOnly(const google::protobuf::Message& response,
                            const pb::ResponseHeader& header,
                            std::string simple) const {
  return Render(
      response, [&] { return simple; }, [&] { return Header(header); });
}

Printed Printer::Tabular(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows) const {
  Printed printed;
  printed.out = RenderTable(head, rows, TableStyleFromEnvironment());
  return printed;
}

Printed Printer::MemberList(const pb::MemberListResponse& response) const {
  std::vector<std::vector<std::string>> rows;
  for (const pb::Member& member : response.members()) {
    rows.push_back({fmt::format("{:x}", member.id()),
                    member.name().empty() ? "unstarted" : "started", member.name(),
                    JoinAll(member.peerurls(), ","), JoinAll(member.clienturls(), ","),
                    member.islearner() ? "true" : "false"});
  }
  if (format_ == Format::kTable) {
    return Tabular({"ID", "Status", "Name", "Peer Addrs", "Client Addrs", "Is Learner"}, rows);
  }
  if (format_ == Format::kJson && hex_) {
    return Member(response, "");
  }
  const auto fields = [&] {
    std::string out = Header(response.header());
    for (const pb::Member& member : response.members()) {
      out += fmt::format("\"ID\" : {}\n\"Name\" : {}\n", MemberId(member.id()),
                         GoQuote(member.name()));
      for (const std::string& url : member.peerurls()) {
        out += fmt::format("\"PeerURL\" : {}\n", GoQuote(url));
      }
      for (const std::string& url : member.clienturls()) {
        out += fmt::format("\"ClientURL\" : {}\n", GoQuote(url));
      }
      out += fmt::format("\"IsLearner\" : {}\n\n", member.islearner());
    }
    return out;
  };
  return Render(
      response, [&] { return Rows(rows); }, fields);
}

Printed Printer::Alarm(const pb::AlarmResponse& response) const {
  const auto simple = [&] {
    std::string out;
    for (const pb::AlarmMember& alarm : response.alarms()) {
      // Protobuf's text form, empty fields left out.
      out += alarm.memberid() != 0 ? fmt::format("memberID:{} ", alarm.memberid()) : "";
      out += alarm.alarm() != pb::NONE ? fmt::format("alarm:{}", pb::AlarmType_Name(alarm.alarm()))
                                       : "";
      out += "\n";
    }
    return out;
  };
  const auto fields = [&] {
    std::string out = Header(response.header());
    for (const pb::AlarmMember& alarm : response.alarms()) {
      out += fmt::format("\"MemberID\" : {}\n\"AlarmType\" : {}\n\n", MemberId(alarm.memberid()),
                         pb::AlarmType_Name(alarm.alarm()));
    }
    return out;
  };
  return Render(response, simple, fields);
}

Printed Printer::RoleGet(const std::string& role, const pb::AuthRoleGetResponse& response) const {
  const auto fields = [&] {
    std::string out = Header(response.header());
    for (const authpb::Permission& perm : response.perm()) {
      out += fmt::format("\"PermType\" :  {}\n\"Key\" : {}\n\"RangeEnd\" : {}\n",
                         authpb::Permission::Type_Name(perm.permtype()), GoQuote(perm.key()),
                         GoQuote(perm.range_end()));
    }
    return out;
  };
  return Render(
      response, [&] { return RoleText(role, response); }, fields);
}

Printed Printer::RoleList(const pb::AuthRoleListResponse& response) const {
  const auto simple = [&] {
    std::string out;
    for (const std::string& role : response.roles()) {
      out += role + "\n";
    }
    return out;
  };
  const auto fields = [&] {
    std::string out = Header(response.header()) + "\"Roles\" :";
    for (const std::string& role : response.roles()) {
      out += " " + GoQuote(role);
    }
    return out + "\n";
  };
  return Render(response, simple, fields);
}

}  // namespace mainstay::cli

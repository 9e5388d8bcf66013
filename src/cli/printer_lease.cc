// The lease answers. The Go client has structs of its own for them that embed the header, which
// shows in their JSON (flat) and protobuf (the header only) forms.
#include <fmt/format.h>

#include "cli/go_text.h"
#include "cli/json.h"
#include "cli/printer.h"

namespace mainstay::cli {
namespace {

uint64_t Bits(int64_t id) {
  return static_cast<uint64_t>(id);
}

// `rest` follows the header's fields in one flat object.
Printed FlatJson(const pb::ResponseHeader& header, const std::string& rest) {
  Printed printed;
  const std::string fields = JsonFields(header);
  printed.out = "{" + fields + (fields.empty() ? "" : ",") + rest + "}\n";
  return printed;
}

}  // namespace

Printed Printer::LeaseGrant(const pb::LeaseGrantResponse& response) const {
  if (format_ == Format::kJson) {
    return FlatJson(response.header(),
                    fmt::format("\"ID\":{},\"TTL\":{},\"Error\":{}", response.id(), response.ttl(),
                                JsonString(response.error())));
  }
  const auto simple = [&] {
    return fmt::format("lease {:016x} granted with TTL({}s)\n", Bits(response.id()),
                       response.ttl());
  };
  const auto fields = [&] {
    return Header(response.header()) +
           fmt::format("\"ID\" : {}\n\"TTL\" : {}\n", LeaseId(response.id()), response.ttl());
  };
  return Render(response.header(), simple, fields);
}

Printed Printer::LeaseRevoke(int64_t id, const pb::LeaseRevokeResponse& response) const {
  if (format_ == Format::kProtobuf) {
    // The one lease answer without an embedded header, which Go then has no protobuf form of.
    return {.code = 4, .error = "marshal unsupported for type *clientv3.LeaseRevokeResponse"};
  }
  return HeaderOnly(response, response.header(), fmt::format("lease {:016x} revoked\n", Bits(id)));
}

Printed Printer::LeaseKeepAlive(const pb::LeaseKeepAliveResponse& response) const {
  if (format_ == Format::kJson) {
    return FlatJson(response.header(),
                    fmt::format("\"ID\":{},\"TTL\":{}", response.id(), response.ttl()));
  }
  const auto simple = [&] {
    return fmt::format("lease {:016x} keepalived with TTL({})\n", Bits(response.id()),
                       response.ttl());
  };
  const auto fields = [&] {
    return Header(response.header()) +
           fmt::format("\"ID\" : {}\n\"TTL\" : {}\n", LeaseId(response.id()), response.ttl());
  };
  return Render(response.header(), simple, fields);
}

Printed Printer::LeaseTimeToLive(const pb::LeaseTimeToLiveResponse& response, bool keys) const {
  if (format_ == Format::kJson) {
    std::string list;
    for (const std::string& key : response.keys()) {
      list += (list.empty() ? "\"" : ",\"") + Base64(key) + "\"";
    }
    return FlatJson(response.header(),
                    fmt::format("\"id\":{},\"ttl\":{},\"granted-ttl\":{},\"keys\":{}",
                                response.id(), response.ttl(), response.grantedttl(),
                                response.keys().empty() ? "null" : "[" + list + "]"));
  }
  const auto simple = [&] {
    if (response.grantedttl() == 0 && response.ttl() == -1) {
      return fmt::format("lease {:016x} already expired\n", Bits(response.id()));
    }
    std::string out = fmt::format("lease {:016x} granted with TTL({}s), remaining({}s)",
                                  Bits(response.id()), response.grantedttl(), response.ttl());
    if (keys) {
      out += fmt::format(", attached keys([{}])",
                         fmt::join(response.keys().begin(), response.keys().end(), " "));
    }
    return out + "\n";
  };
  const auto fields = [&] {
    std::string out = Header(response.header()) +
                      fmt::format("\"ID\" : {}\n\"TTL\" : {}\n\"GrantedTTL\" : {}\n",
                                  LeaseId(response.id()), response.ttl(), response.grantedttl());
    for (const std::string& key : response.keys()) {
      out += fmt::format("\"Key\" : {}\n", GoQuote(key));
    }
    return out;
  };
  return Render(response.header(), simple, fields);
}

Printed Printer::LeaseList(const pb::LeaseLeasesResponse& response) const {
  if (format_ == Format::kJson) {
    std::string list;
    for (const pb::LeaseStatus& lease : response.leases()) {
      list += fmt::format("{}{{\"id\":{}}}", list.empty() ? "" : ",", lease.id());
    }
    return FlatJson(response.header(), "\"leases\":[" + list + "]");
  }
  const auto simple = [&] {
    std::string out = fmt::format("found {} leases\n", response.leases_size());
    for (const pb::LeaseStatus& lease : response.leases()) {
      out += fmt::format("{:016x}\n", Bits(lease.id()));
    }
    return out;
  };
  const auto fields = [&] {
    std::string out = Header(response.header());
    for (const pb::LeaseStatus& lease : response.leases()) {
      out += fmt::format("\"ID\" : {}\n", LeaseId(lease.id()));
    }
    return out;
  };
  return Render(response.header(), simple, fields);
}

}  // namespace mainstay::cli

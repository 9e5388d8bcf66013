// The answers that come one from each endpoint.
#include <fmt/format.h>

#include "cli/go_text.h"
#include "cli/json.h"
#include "cli/printer.h"

namespace mainstay::cli {
namespace {

using Table = std::vector<std::vector<std::string>>;

std::string Lines(const Table& rows) {
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    out += fmt::format("{}\n", fmt::join(row, ", "));
  }
  return out;
}

template <class T>
std::string JsonList(const std::vector<T>& items,
                     const std::function<std::string(const T&)>& item) {
  if (items.empty()) {
    return "null\n";
  }
  std::string out;
  for (const T& each : items) {
    out += (out.empty() ? "" : ",") + item(each);
  }
  return "[" + out + "]\n";
}

std::vector<std::string> StatusRow(const EndpointStatus& endpoint) {
  const pb::StatusResponse& s = endpoint.status;
  const int64_t used = s.dbsize() > 0 ? s.dbsizeinuse() * 100 / s.dbsize() : 100;
  return {endpoint.endpoint,
          fmt::format("{:x}", s.header().member_id()),
          s.version(),
          s.storageversion(),
          HumanBytes(static_cast<uint64_t>(s.dbsize())),
          HumanBytes(static_cast<uint64_t>(s.dbsizeinuse())),
          fmt::format("{}%", 100 - used),
          HumanBytes(static_cast<uint64_t>(s.dbsizequota())),
          fmt::format("{}", s.leader() == s.header().member_id()),
          fmt::format("{}", s.islearner()),
          fmt::format("{}", s.raftterm()),
          fmt::format("{}", s.raftindex()),
          fmt::format("{}", s.raftappliedindex()),
          fmt::format("{}", fmt::join(s.errors().begin(), s.errors().end(), ", ")),
          s.downgradeinfo().targetversion(),
          fmt::format("{}", s.downgradeinfo().enabled())};
}

}  // namespace

Printed Printer::Health(const std::vector<EndpointHealth>& endpoints) const {
  Printed printed;
  Table rows;
  for (const EndpointHealth& e : endpoints) {
    rows.push_back({e.endpoint, e.healthy ? "true" : "false", e.took, e.error});
  }
  switch (format_) {
    case Format::kTable:
      return Tabular({"endpoint", "health", "took", "error"}, rows);
    case Format::kProtobuf:
      return Unsupported();
    case Format::kJson:
      printed.out = JsonList<EndpointHealth>(endpoints, [](const EndpointHealth& e) {
        return fmt::format("{{\"endpoint\":{},\"health\":{},\"took\":{}{}}}",
                           JsonString(e.endpoint), e.healthy, JsonString(e.took),
                           e.error.empty() ? "" : ",\"error\":" + JsonString(e.error));
      });
      return printed;
    case Format::kFields:
      for (const EndpointHealth& e : endpoints) {
        printed.out +=
            fmt::format("\"Endpoint\" : {}\n\"Health\" : {}\n\"Took\" : {}\n\"Error\" : {}\n\n",
                        GoQuote(e.endpoint), e.healthy, e.took, e.error);
      }
      return printed;
    case Format::kSimple:
      break;
  }
  for (const EndpointHealth& e : endpoints) {
    if (e.error.empty()) {
      printed.out += fmt::format("{} is healthy: successfully committed proposal: took = {}\n",
                                 e.endpoint, e.took);
    } else {
      printed.err +=
          fmt::format("{} is unhealthy: failed to commit proposal: {}\n", e.endpoint, e.error);
    }
  }
  return printed;
}

std::string Printer::StatusFields(const EndpointStatus& endpoint) const {
  const pb::StatusResponse& s = endpoint.status;
  std::string out = Header(s.header());
  const auto add = [&](std::string_view name, const std::string& value) {
    out += fmt::format("\"{}\" : {}\n", name, value);
  };
  add("Version", GoQuote(s.version()));
  add("StorageVersion", GoQuote(s.storageversion()));
  add("DBSize", std::to_string(s.dbsize()));
  add("DBSizeInUse", std::to_string(s.dbsizeinuse()));
  add("DBSizeQuota", std::to_string(s.dbsizequota()));
  add("Leader", std::to_string(s.leader()));
  add("IsLearner", fmt::format("{}", s.islearner()));
  add("RaftIndex", std::to_string(s.raftindex()));
  // RaftTerm stands in the header's lines already; etcdctl 3.7.1 prints it twice, 3.7.2 no more.
  add("RaftAppliedIndex", std::to_string(s.raftappliedindex()));
  add("Errors", fmt::format("[{}]", fmt::join(s.errors().begin(), s.errors().end(), " ")));
  add("Endpoint", GoQuote(endpoint.endpoint));
  add("DowngradeTargetVersion", GoQuote(s.downgradeinfo().targetversion()));
  add("DowngradeEnabled", fmt::format("{}", s.downgradeinfo().enabled()));
  return out + "\n";
}

Printed Printer::Statuses(const std::vector<EndpointStatus>& endpoints) const {
  Printed printed;
  Table rows;
  for (const EndpointStatus& endpoint : endpoints) {
    rows.push_back(StatusRow(endpoint));
  }
  switch (format_) {
    case Format::kTable:
      return Tabular(
          {"endpoint", "ID", "version", "storage version", "db size", "in use",
           "percentage not in use", "quota", "is leader", "is learner", "raft term", "raft index",
           "raft applied index", "errors", "downgrade target version", "downgrade enabled"},
          rows);
    case Format::kProtobuf:
      return Unsupported();
    case Format::kJson:
      printed.out = JsonList<EndpointStatus>(endpoints, [](const EndpointStatus& e) {
        return fmt::format("{{\"Endpoint\":{},\"Status\":{}}}", JsonString(e.endpoint),
                           ToJson(e.status));
      });
      return printed;
    case Format::kFields:
      for (const EndpointStatus& endpoint : endpoints) {
        printed.out += StatusFields(endpoint);
      }
      return printed;
    case Format::kSimple:
      break;
  }
  printed.out = Lines(rows);
  return printed;
}

Printed Printer::Hashes(const std::vector<EndpointHash>& endpoints) const {
  Printed printed;
  Table rows;
  for (const EndpointHash& e : endpoints) {
    rows.push_back(
        {e.endpoint, std::to_string(e.hash.hash()), std::to_string(e.hash.hash_revision())});
  }
  switch (format_) {
    case Format::kTable:
      return Tabular({"endpoint", "hash", "hash_revision"}, rows);
    case Format::kProtobuf:
      return Unsupported();
    case Format::kJson:
      printed.out = JsonList<EndpointHash>(endpoints, [](const EndpointHash& e) {
        return fmt::format("{{\"Endpoint\":{},\"HashKV\":{}}}", JsonString(e.endpoint),
                           ToJson(e.hash));
      });
      return printed;
    case Format::kFields:
      for (const EndpointHash& e : endpoints) {
        printed.out += Header(e.hash.header());
        printed.out += fmt::format("\"Endpoint\" : {}\n\"Hash\" : {}\n\"HashRevision\" : {}\n\n",
                                   GoQuote(e.endpoint), e.hash.hash(), e.hash.hash_revision());
      }
      return printed;
    case Format::kSimple:
      break;
  }
  printed.out = Lines(rows);
  return printed;
}

}  // namespace mainstay::cli

// check perf and check datascale.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "cli/commands.h"
#include "cli/fetch.h"
#include "cli/go_text.h"
#include "cli/session.h"
#include "common/mutex.h"
#include "common/status.h"

namespace mainstay::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Load {
  int writes_per_s;
  int clients;
  int keys;  // of datascale
};

std::optional<Load> FindLoad(const std::string& name) {
  static const std::map<std::string, Load> loads{{"s", {150, 50, 10'000}},
                                                 {"m", {1000, 200, 100'000}},
                                                 {"l", {8000, 500, 1'000'000}},
                                                 {"xl", {15'000, 1000, 3'000'000}}};
  static const std::map<std::string, std::string> names{
      {"small", "s"}, {"medium", "m"}, {"large", "l"}, {"xLarge", "xl"}};
  const auto alias = names.find(name);
  const auto it = loads.find(alias == names.end() ? name : alias->second);
  return it == loads.end() ? std::nullopt : std::optional(it->second);
}

// What all writers found.
struct Results {
  Mutex mu;
  std::vector<double> latencies_s ABSL_GUARDED_BY(mu);
  std::map<std::string, int> errors ABSL_GUARDED_BY(mu);
};

// Hands out the numbers of writes, at a pace if there is one, until time or count is used up.
class Pace {
 public:
  Pace(double per_s, SteadyClock::time_point end, int64_t count_max)
      : start_(SteadyClock::now()), per_s_(per_s), end_(end), count_max_(count_max) {}

  // False: no more. Otherwise returns when the write is due.
  bool Next() {
    const int64_t n = next_.fetch_add(1, std::memory_order_relaxed);
    if (n >= count_max_) {
      return false;
    }
    if (per_s_ > 0) {
      const auto due = start_ + std::chrono::duration_cast<SteadyClock::duration>(
                                    std::chrono::duration<double>(static_cast<double>(n) / per_s_));
      if (due >= end_) {
        return false;
      }
      std::this_thread::sleep_until(due);  // a load generator's pace, not a wait for an event
    }
    return SteadyClock::now() < end_;
  }

 private:
  const SteadyClock::time_point start_;
  const double per_s_;
  const SteadyClock::time_point end_;
  const int64_t count_max_;
  std::atomic<int64_t> next_{0};  // one counter for all writers; order does not matter
};

void Write(client::Client& client,
           const std::string& prefix,
           size_t key_bytes,
           size_t value_bytes,
           Pace& pace,
           Results& results) {
  std::random_device seed;
  std::mt19937_64 random(seed());
  pb::PutRequest request;
  request.set_value(std::string(value_bytes, '\0'));
  while (pace.Next()) {
    std::string key(key_bytes, '\0');
    const uint64_t number = random();
    for (size_t i = 0; i < sizeof number; ++i) {
      key[i] = static_cast<char>(number >> (8 * i));
    }
    request.set_key(prefix + key);
    const auto start = SteadyClock::now();
    const auto response = client.Put(request);
    const std::chrono::duration<double> took = SteadyClock::now() - start;
    MutexLock lock(results.mu);
    if (response.ok()) {
      results.latencies_s.push_back(took.count());
    } else {
      ++results.errors[ErrorText(response.status())];
    }
  }
}

// Compacts and defragments after the test, as asked for.
int CleanUp(const Invocation& in,
            Session& session,
            client::Client& client,
            const std::string& prefix) {
  const client::CallOptions timed{.timeout = std::chrono::seconds(30)};
  pb::DeleteRangeRequest request;
  request.set_key(prefix);
  request.set_range_end(client::PrefixEnd(prefix));
  const auto deleted = client.DeleteRange(request, timed);
  if (!deleted.ok()) {
    Out(fmt::format("FAIL: Cleanup failed during key deletion: ERROR({})\n",
                    ErrorText(deleted.status())));
    return kExitOk;
  }
  if (in.flags.Bool("auto-compact")) {
    const int64_t revision = deleted->header().revision();
    Out(fmt::format("Compacting with revision {}\n", revision));
    pb::CompactionRequest compact;
    compact.set_revision(revision);
    compact.set_physical(true);
    if (const auto done = client.Compact(compact, timed); !done.ok()) {
      return Fail(kExitError, ErrorText(done.status()));
    }
    Out(fmt::format("Compacted with revision {}\n", revision));
  }
  if (in.flags.Bool("auto-defrag")) {
    for (const std::string& endpoint : session.endpoints()) {
      Out(fmt::format("Defragmenting {}\n", GoQuote(endpoint)));
      std::unique_ptr<client::Client> one;
      if (const int code = session.Connect(endpoint, one); code != kExitOk) {
        return code;
      }
      if (const auto done = one->Defragment(timed); !done.ok()) {
        return Fail(kExitError, ErrorText(done.status()));
      }
      Out(fmt::format("Defragmented {}\n", GoQuote(endpoint)));
    }
  }
  return kExitOk;
}

int RefuseExistingKeys(client::Client& client, const std::string& prefix) {
  pb::RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(client::PrefixEnd(prefix));
  request.set_limit(1);
  const auto response = client.Range(request);
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  if (!response->kvs().empty()) {
    return Fail(kExitInvalidInput,
                fmt::format("prefix {} has keys. Delete with 'etcdctl del --prefix {}' first",
                            GoQuote(prefix), prefix));
  }
  return kExitOk;
}

bool PrintErrors(const Results& results) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (results.errors.empty()) {
    return true;
  }
  Out("FAIL: too many errors\n");
  for (const auto& [text, count] : results.errors) {
    Out(fmt::format("FAIL: ERROR({}) -> {}\n", text, count));
  }
  return false;
}

// The verdict on a finished run. All writers have ended.
bool Judge(const Results& results,
           const Load& load,
           double seconds) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  bool ok = PrintErrors(results);
  const auto count = static_cast<double>(results.latencies_s.size());
  double sum = 0;
  double slowest = 0;
  for (const double latency : results.latencies_s) {
    sum += latency;
    slowest = std::max(slowest, latency);
  }
  double squares = 0;
  for (const double latency : results.latencies_s) {
    squares += (latency - sum / count) * (latency - sum / count);
  }
  const double rate = count / seconds;
  const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
  const int shown = static_cast<int>(rate) + 1;
  if (rate / load.writes_per_s <= 0.9) {
    Out(fmt::format("FAIL: Throughput too low: {} writes/s\n", shown));
    ok = false;
  } else {
    Out(fmt::format("PASS: Throughput is {} writes/s\n", shown));
  }
  if (slowest > 0.5) {
    Out(fmt::format("Slowest request took too long: {:f}s\n", slowest));
    ok = false;
  } else {
    Out(fmt::format("PASS: Slowest request took {:f}s\n", slowest));
  }
  if (deviation > 0.1) {
    Out(fmt::format("Stddev too high: {:f}s\n", deviation));
    ok = false;
  } else {
    Out(fmt::format("PASS: Stddev is {:f}s\n", deviation));
  }
  return ok;
}

int OpenWriters(const Session& session,
                int count,
                std::vector<std::unique_ptr<client::Client>>& into) {
  into.resize(static_cast<size_t>(count));
  for (auto& client : into) {
    if (const int code = session.Connect(client); code != kExitOk) {
      return code;
    }
  }
  return kExitOk;
}

int RunPerf(Invocation& in) {
  constexpr std::chrono::seconds kDuration(60);
  const std::optional<Load> load = FindLoad(in.flags.String("load"));
  if (!load.has_value()) {
    return Fail(kExitBadFeature, fmt::format("unknown load option {}", in.flags.String("load")));
  }
  Session session;
  std::vector<std::unique_ptr<client::Client>> clients;
  if (const int code = session.Open(in); code != kExitOk) {
    return code;
  }
  if (const int code = OpenWriters(session, load->clients, clients); code != kExitOk) {
    return code;
  }
  const std::string& prefix = in.flags.String("prefix");
  if (const int code = RefuseExistingKeys(*clients[0], prefix); code != kExitOk) {
    return code;
  }
  Results results;
  const auto start = SteadyClock::now();
  Pace pace(load->writes_per_s, start + kDuration, std::numeric_limits<int64_t>::max());
  {
    std::vector<std::jthread> writers;
    for (auto& client : clients) {
      writers.emplace_back([&] { Write(*client, prefix, 256, 1024, pace, results); });
    }
  }
  const std::chrono::duration<double> seconds = SteadyClock::now() - start;
  if (const int code = CleanUp(in, session, *clients[0], prefix); code != kExitOk) {
    return code;
  }
  const bool ok = Judge(results, *load, seconds.count());
  Out(ok ? "PASS\n" : "FAIL\n");
  return ok ? kExitOk : kExitError;
}

// The server's resident memory in bytes, from its /metrics page; 0 after printing why there is
// none.
double ResidentBytes(std::string endpoint) {
  static constexpr std::string_view kName = "process_resident_memory_bytes";
  if (endpoint.starts_with("https://")) {
    Out("fetch error: metrics over TLS are not read; give the server --listen-metrics-urls\n");
    return 0;
  }
  if (endpoint.starts_with("http://")) {
    endpoint.erase(0, 7);
  }
  const absl::StatusOr<std::string> page = FetchPlaintext(endpoint, "/metrics");
  if (!page.ok()) {
    Out(fmt::format("fetch error: {}\n", Message(page.status())));
    return 0;
  }
  const size_t at = page->find(fmt::format("\n{} ", kName));
  if (at == std::string::npos) {
    Out(fmt::format("could not find: {}\n", kName));
    return 0;
  }
  return std::strtod(page->c_str() + at + 1 + kName.size(), nullptr);
}

int RunDatascale(Invocation& in) {
  const std::optional<Load> load = FindLoad(in.flags.String("load"));
  if (!load.has_value()) {
    return Fail(kExitBadFeature, fmt::format("unknown load option {}", in.flags.String("load")));
  }
  Session session;
  std::vector<std::unique_ptr<client::Client>> clients;
  if (const int code = session.Open(in); code != kExitOk) {
    return code;
  }
  if (const int code = OpenWriters(session, load->clients, clients); code != kExitOk) {
    return code;
  }
  const std::string& prefix = in.flags.String("prefix");
  if (const int code = RefuseExistingKeys(*clients[0], prefix); code != kExitOk) {
    return code;
  }
  const auto measure = [&](std::string_view when) {
    const double bytes = ResidentBytes(session.endpoints()[0]);
    if (bytes == 0) {
      Out(fmt::format("FAIL: Could not read process_resident_memory_bytes {} the put operations.\n",
                      when));
    }
    return bytes;
  };
  const double before = measure("before");
  if (before == 0) {
    return kExitError;
  }
  Out(fmt::format(
      "Start data scale check for work load [{} key-value pairs, 1024 bytes per key-value, {} "
      "concurrent clients].\n",
      load->keys, load->clients));
  Results results;
  Pace pace(0, SteadyClock::time_point::max(), load->keys);
  {
    std::vector<std::jthread> writers;
    for (auto& client : clients) {
      writers.emplace_back([&] { Write(*client, prefix, 512, 512, pace, results); });
    }
  }
  const double after = measure("after");
  if (after == 0) {
    return kExitError;
  }
  if (const int code = CleanUp(in, session, *clients[0], prefix); code != kExitOk) {
    return code;
  }
  if (!PrintErrors(results)) {
    return kExitError;
  }
  Out(fmt::format("PASS: Approximate system memory used : {:.2f} MB.\n",
                  (after - before) / (1024 * 1024)));
  return kExitOk;
}

}  // namespace

Command CheckCommand() {
  Command perf{
      .name = "perf",
      .arguments = "[options]",
      .summary = "Writes for a minute at a set rate and judges rate and latency",
      .flags = {{"load", 0, FlagType::kString, "s", "s(mall), m(edium), l(arge) or xl(arge)"},
                {"prefix", 0, FlagType::kString, "/etcdctl-check-perf/",
                 "prefix of the keys that are written, and deleted afterwards"},
                {"auto-compact", 0, FlagType::kBool, "false", "compact afterwards"},
                {"auto-defrag", 0, FlagType::kBool, "false", "defragment afterwards"}},
      .run = RunPerf};
  Command datascale{
      .name = "datascale",
      .arguments = "[options]",
      .summary = "Writes many keys and tells how much memory the first endpoint took for them",
      .flags = {{"load", 0, FlagType::kString, "s", "s(mall), m(edium), l(arge) or xl(arge)"},
                {"prefix", 0, FlagType::kString, "/etcdctl-check-datascale/",
                 "prefix of the keys that are written, and deleted afterwards"},
                {"auto-compact", 0, FlagType::kBool, "false", "compact afterwards"},
                {"auto-defrag", 0, FlagType::kBool, "false", "defragment afterwards"}},
      .run = RunDatascale};
  return {.name = "check",
          .summary = "Checks properties of the cluster",
          .group = "Utility commands",
          .subcommands = {datascale, perf}};
}

}  // namespace mainstay::cli

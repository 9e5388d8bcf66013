// load: a load generator for anything that speaks etcd's API.
//
//   load --port=2379 --work=put --connections=10 --streams=100 --seconds=5 --pid=SERVER
//
// Closed loop: each of connections x streams has one request in flight. With --rate it is open: requests start at
// fixed times, and latency counts from the time they should have started. Prints one JSON object.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>

#include "common/coding.h"
#include "env/random.h"
#include "fmt/format.h"
#include "tests/bench/grpc_client.h"
#include "tests/bench/latency.h"

namespace mainstay::bench {
namespace {

struct Options {
  std::string host = "127.0.0.1";
  int port = 2379;
  std::string work = "put";
  int connections = 10;
  int streams = 100;
  double seconds = 5;
  double rate = 0;
  int64_t value_bytes = 256;
  int64_t keys = 10000;
  int64_t limit = 0;
  int watchers = 100;
  int watch_streams = 10;
  std::string order = "random";  // or "sequential"
  std::string prefix = "/registry/bench/";
  int pid = 0;
  TlsFiles tls;
};

using Clock = std::chrono::steady_clock;
uint64_t NowUs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count());
}

// User plus system time of a process, in microseconds; 0 if there is none.
uint64_t CpuOf(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t close = text.rfind(')');
  if (close == std::string::npos) {
    return 0;
  }
  std::istringstream rest(text.substr(close + 2));
  std::string skip;
  for (int i = 0; i < 11; ++i) {
    rest >> skip;
  }
  uint64_t user = 0;
  uint64_t system = 0;
  rest >> user >> system;
  return (user + system) * 1000000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
}
// A line of /proc/PID/status or /proc/PID/io, as a number.
uint64_t ProcNumber(int pid, const char* file, std::string_view name) {
  std::ifstream in(fmt::format("/proc/{}/{}", pid, file));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name)) {
      return std::strtoull(line.c_str() + name.size(), nullptr, 10);
    }
  }
  return 0;
}

std::string KeyRange(const std::string& prefix) {
  std::string end = prefix;
  ++end.back();
  return end;
}

class Load {
 public:
  explicit Load(Options options)
      : o_(std::move(options)), random_(7), client_(o_.host, o_.port, o_.tls, o_.connections + (IsWatch() ? o_.watch_streams : 0)) {
    value_.resize(static_cast<size_t>(o_.value_bytes));
    for (char& c : value_) {
      c = static_cast<char>('a' + random_.Below(26));
    }
  }

  int Run() {
    if (o_.work != "put" && o_.work != "fill" && o_.work != "lease-grant") {
      Fill();
    } else if (o_.work == "fill") {
      Fill();
      fmt::print("{{\"work\":\"fill\",\"keys\":{},\"rss_kb\":{}}}\n", o_.keys, o_.pid ? ProcNumber(o_.pid, "status", "VmHWM:") : 0);
      return 0;
    }
    if (IsWatch()) {
      OpenWatches();
    }
    if (o_.work == "txn") {
      LearnRevisions();
    }
    Measure();
    return failed_ == 0 ? 0 : 1;
  }

 private:
  bool IsWatch() const { return o_.work == "watch"; }
  std::string Key(int64_t i) const { return fmt::format("{}{:012}", o_.prefix, i); }
  int64_t NextKey() {
    return o_.order == "sequential" ? next_key_++ : static_cast<int64_t>(random_.Below(static_cast<uint64_t>(o_.keys)));
  }
  std::string Put(int64_t key) const {
    std::string out;
    AppendBytesField(&out, 1, Key(key));
    AppendBytesField(&out, 2, value_);
    return out;
  }
  // create or update guarded by mod_revision, as kube-apiserver writes.
  std::string KubernetesTxn(int64_t key) {
    std::string compare;
    AppendVarintField(&compare, 2, 2);
    AppendBytesField(&compare, 3, Key(key));
    AppendVarint(&compare, WireTag(6, WireType::kVarint));
    AppendVarint(&compare, static_cast<uint64_t>(revisions_[key]));
    std::string put;
    AppendBytesField(&put, 2, Put(key));
    std::string get_request;
    AppendBytesField(&get_request, 1, Key(key));
    std::string get;
    AppendBytesField(&get, 1, get_request);
    std::string out;
    AppendBytesField(&out, 1, compare);
    AppendBytesField(&out, 2, put);
    AppendBytesField(&out, 3, get);
    return out;
  }
  std::string RangeAll(bool count_only, bool serializable) const {
    std::string out;
    AppendBytesField(&out, 1, o_.prefix);
    AppendBytesField(&out, 2, KeyRange(o_.prefix));
    AppendVarintField(&out, 3, static_cast<uint64_t>(o_.limit));
    AppendVarintField(&out, 7, serializable ? 1 : 0);
    AppendVarintField(&out, 9, count_only ? 1 : 0);
    return out;
  }
  std::pair<std::string_view, std::string> Next(int64_t* key) {
    *key = NextKey();
    if (o_.work == "put" || o_.work == "watch") {
      return {"/etcdserverpb.KV/Put", Put(*key)};
    }
    if (o_.work == "txn") {
      // One writer a key, as the API server's optimistic writes mostly are.
      *key = next_key_++ % o_.keys;
      return {"/etcdserverpb.KV/Txn", KubernetesTxn(*key)};
    }
    if (o_.work == "get" || o_.work == "get-serializable") {
      std::string out;
      AppendBytesField(&out, 1, Key(*key));
      AppendVarintField(&out, 7, o_.work == "get" ? 0 : 1);
      return {"/etcdserverpb.KV/Range", out};
    }
    if (o_.work == "lease-grant") {
      std::string out;
      AppendVarintField(&out, 1, 3660);
      return {"/etcdserverpb.Lease/LeaseGrant", out};
    }
    return {"/etcdserverpb.KV/Range", RangeAll(o_.work == "count", false)};
  }

  void Drain(const int64_t& in_flight) {
    while (in_flight > 0) {
      client_.RunOnce(1000);
    }
  }

  void Fill() {
    int64_t next = 0;
    int64_t in_flight = 0;
    std::function<void(int)> start = [&](int connection) {
      if (next >= o_.keys) {
        return;
      }
      ++in_flight;
      Call& call = client_.Start(connection, "/etcdserverpb.KV/Put", Put(next++));
      call.on_done = [&, connection](Call& done) {
        --in_flight;
        Check(done);
        start(connection);
      };
    };
    for (int c = 0; c < o_.connections; ++c) {
      for (int s = 0; s < 100; ++s) {
        start(c);
      }
    }
    Drain(in_flight);
  }

  void LearnRevisions() {
    int64_t in_flight = 1;
    std::string request;
    AppendBytesField(&request, 1, o_.prefix);
    AppendBytesField(&request, 2, KeyRange(o_.prefix));
    AppendVarintField(&request, 8, 1);
    Call& call = client_.Start(0, "/etcdserverpb.KV/Range", request);
    call.on_message = [&](std::string_view m) {
      for (WireReader r(m); r.Next();) {
        if (r.field() != 2) {
          continue;
        }
        int64_t key = 0;
        int64_t revision = 0;
        for (WireReader kv(r.bytes()); kv.Next();) {
          if (kv.field() == 1) {
            key = std::atoll(std::string(kv.bytes().substr(o_.prefix.size())).c_str());
          } else if (kv.field() == 3) {
            revision = kv.i64();
          }
        }
        revisions_[key] = revision;
      }
    };
    call.on_done = [&](Call&) { --in_flight; };
    Drain(in_flight);
  }

  void OpenWatches() {
    int64_t waiting = 0;
    for (int w = 0; w < o_.watchers; ++w) {
      const int stream = w % o_.watch_streams;
      std::string create;
      AppendBytesField(&create, 1, o_.prefix);
      AppendBytesField(&create, 2, KeyRange(o_.prefix));
      std::string request;
      AppendBytesField(&request, 1, create);
      ++waiting;
      if (w < o_.watch_streams) {
        Call& call = client_.Start(o_.connections + stream, "/etcdserverpb.Watch/Watch", request);
        call.keep_open = true;
        call.on_message = [this, &waiting](std::string_view m) { OnWatch(m, &waiting); };
        watches_.push_back(&call);
      } else {
        client_.Send(o_.connections + stream, *watches_[static_cast<size_t>(stream)], request);
      }
    }
    const uint64_t deadline = NowUs() + 20000000;
    while (created_ < o_.watchers) {
      client_.RunOnce(100);
      if (NowUs() > deadline) {
        std::fprintf(stderr, "load: only %ld watchers were created\n", static_cast<long>(created_));
        std::exit(1);
      }
    }
    for (Call* call : watches_) {
      call->on_message = [this](std::string_view m) { OnWatch(m, nullptr); };
    }
  }
  void OnWatch(std::string_view m, int64_t*) {
    for (WireReader r(m); r.Next();) {
      if (r.field() == 3 && r.varint() != 0) {
        ++created_;
      } else if (r.field() == 11) {
        ++events_;
      }
    }
  }

  void Check(const Call& call) {
    if (call.grpc_status != 0) {
      if (failed_++ == 0) {
        std::fprintf(stderr, "load: status %d %s\n", call.grpc_status, call.grpc_message.c_str());
      }
    }
  }

  void StartOne(int connection, uint64_t intended) {
    int64_t key = 0;
    auto [path, message] = Next(&key);
    ++in_flight_;
    Call& call = client_.Start(connection, path, message);
    if (o_.work == "txn") {
      call.on_message = [this, key](std::string_view m) {
        for (WireReader r(m); r.Next();) {
          if (r.field() == 1) {
            for (WireReader h(r.bytes()); h.Next();) {
              revisions_[key] = h.field() == 3 ? h.i64() : revisions_[key];
            }
          }
        }
      };
    }
    call.on_done = [this, connection, intended](Call& done) {
      --in_flight_;
      Check(done);
      bytes_ += done.response_bytes;
      const uint64_t now = NowUs();
      latency_.Record(now - intended);
      if (o_.rate == 0 && now < end_us_) {
        StartOne(connection, now);
      }
    };
  }

  void Measure() {
    const uint64_t begin = NowUs();
    end_us_ = begin + static_cast<uint64_t>(o_.seconds * 1e6);
    const uint64_t cpu_before = o_.pid ? CpuOf(o_.pid) : 0;
    const uint64_t disk_before = o_.pid ? ProcNumber(o_.pid, "io", "write_bytes:") : 0;
    rusage own_before{};
    getrusage(RUSAGE_SELF, &own_before);
    if (o_.rate == 0) {
      for (int c = 0; c < o_.connections; ++c) {
        for (int s = 0; s < o_.streams; ++s) {
          StartOne(c, NowUs());
        }
      }
    }
    uint64_t issued = 0;
    while (NowUs() < end_us_) {
      if (o_.rate > 0) {
        const auto due = static_cast<uint64_t>(static_cast<double>(NowUs() - begin) * o_.rate / 1e6);
        for (; issued < due; ++issued) {
          StartOne(static_cast<int>(issued % static_cast<uint64_t>(o_.connections)),
                   begin + static_cast<uint64_t>(static_cast<double>(issued) * 1e6 / o_.rate));
        }
      }
      client_.RunOnce(o_.rate > 0 ? 1 : 50);
    }
    Drain(in_flight_);
    if (IsWatch()) {
      const uint64_t deadline = NowUs() + 10000000;
      const auto wanted = latency_.count() * static_cast<uint64_t>(o_.watchers);
      while (events_ < wanted && NowUs() < deadline) {
        client_.RunOnce(50);
      }
    }
    Report(static_cast<double>(NowUs() - begin) / 1e6, cpu_before, disk_before, own_before);
  }

  void Report(double elapsed, uint64_t cpu_before, uint64_t disk_before, const rusage& own_before) {
    rusage own{};
    getrusage(RUSAGE_SELF, &own);
    const auto micros = [](const timeval& t) { return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec); };
    const double own_cpu = micros(own.ru_utime) + micros(own.ru_stime) - micros(own_before.ru_utime) - micros(own_before.ru_stime);
    const auto n = static_cast<double>(latency_.count());
    const double units = IsWatch() ? static_cast<double>(events_) : n;
    const double cpu = o_.pid ? static_cast<double>(CpuOf(o_.pid) - cpu_before) : 0;
    fmt::print(
        "{{\"work\":\"{}\",\"connections\":{},\"streams\":{},\"requests\":{},\"seconds\":{:.2f},\"per_second\":{:.0f},\"p50_us\":{},"
        "\"p99_us\":{},\"p999_us\":{},\"max_us\":{},\"server_cpu_us\":{:.2f},\"events\":{},\"response_bytes\":{},"
        "\"rss_kb\":{},\"peak_rss_kb\":{},\"disk_bytes_per_request\":{:.0f},\"own_cpu_us\":{:.2f},\"failed\":{}}}\n",
        o_.work, o_.connections, o_.streams, latency_.count(), elapsed, n / elapsed, latency_.Quantile(0.5),
        latency_.Quantile(0.99), latency_.Quantile(0.999), latency_.max(), units > 0 ? cpu / units : 0, events_, bytes_,
        o_.pid ? ProcNumber(o_.pid, "status", "VmRSS:") : 0, o_.pid ? ProcNumber(o_.pid, "status", "VmHWM:") : 0,
        o_.pid && n > 0 ? static_cast<double>(ProcNumber(o_.pid, "io", "write_bytes:") - disk_before) / n : 0,
        units > 0 ? own_cpu / units : 0, failed_);
  }

  const Options o_;
  SeededRandom random_;
  Client client_;
  std::string value_;
  int64_t next_key_ = 0;
  std::map<int64_t, int64_t> revisions_;
  LatencyHistogram latency_;
  int64_t in_flight_ = 0;
  uint64_t bytes_ = 0;
  uint64_t events_ = 0;
  int64_t created_ = 0;
  uint64_t failed_ = 0;
  uint64_t end_us_ = 0;
  std::vector<Call*> watches_;
};

bool Parse(int argc, char** argv, Options* o) {
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const size_t equals = arg.find('=');
    if (!arg.starts_with("--") || equals == std::string::npos) {
      return false;
    }
    const std::string name = arg.substr(2, equals - 2);
    const std::string value = arg.substr(equals + 1);
    const std::map<std::string, std::function<void()>> setters = {
        {"host", [&] { o->host = value; }},
        {"port", [&] { o->port = std::atoi(value.c_str()); }},
        {"work", [&] { o->work = value; }},
        {"connections", [&] { o->connections = std::atoi(value.c_str()); }},
        {"streams", [&] { o->streams = std::atoi(value.c_str()); }},
        {"seconds", [&] { o->seconds = std::atof(value.c_str()); }},
        {"rate", [&] { o->rate = std::atof(value.c_str()); }},
        {"value-bytes", [&] { o->value_bytes = std::atoll(value.c_str()); }},
        {"keys", [&] { o->keys = std::atoll(value.c_str()); }},
        {"limit", [&] { o->limit = std::atoll(value.c_str()); }},
        {"watchers", [&] { o->watchers = std::atoi(value.c_str()); }},
        {"watch-streams", [&] { o->watch_streams = std::atoi(value.c_str()); }},
        {"order", [&] { o->order = value; }},
        {"prefix", [&] { o->prefix = value; }},
        {"pid", [&] { o->pid = std::atoi(value.c_str()); }},
        {"ca", [&] { o->tls.ca = value; }},
        {"cert", [&] { o->tls.cert = value; }},
        {"key", [&] { o->tls.key = value; }}};
    const auto found = setters.find(name);
    if (found == setters.end()) {
      return false;
    }
    found->second();
  }
  return o->connections > 0 && o->streams > 0 && o->keys > 0 && !o->prefix.empty() && o->watch_streams > 0;
}

}  // namespace
}  // namespace mainstay::bench

int main(int argc, char** argv) {
  mainstay::bench::Options options;
  if (!mainstay::bench::Parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: load --name=value ...\n"
                 "  host port connections streams seconds rate (0: closed loop) keys value-bytes order prefix pid ca cert key\n"
                 "  work: put txn get get-serializable list count watch lease-grant fill; list: limit; watch: watchers "
                 "watch-streams\n");
    return 2;
  }
  return mainstay::bench::Load(std::move(options)).Run();
}

#include "rpc/services.h"

#include <string>
#include <utility>

#include "common/check.h"
#include "rpc/errors.h"

namespace mainstay::rpc {
namespace {

constexpr std::string_view kTypeNames[] = {"unary", "server_stream", "bidi_stream"};

bool ValidUtf8(std::string_view s) {
  size_t i = 0;
  while (i < s.size()) {
    const auto c = static_cast<unsigned char>(s[i]);
    const size_t more = c < 0x80                ? 0
                        : c >= 0xC2 && c < 0xE0 ? 1
                        : c >= 0xE0 && c < 0xF0 ? 2
                        : c >= 0xF0 && c < 0xF5 ? 3
                                                : 4;
    if (more == 4 || i + more >= s.size()) {
      return false;
    }
    uint32_t point = more == 0 ? c : c & (0x3F >> more);
    for (size_t k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(s[i + k]);
      if ((next & 0xC0) != 0x80) {
        return false;
      }
      point = point << 6 | (next & 0x3F);
    }
    const bool overlong = (more == 2 && point < 0x800) || (more == 3 && point < 0x10000);
    if (overlong || (point >= 0xD800 && point < 0xE000) || point > 0x10FFFF) {
      return false;
    }
    i += more + 1;
  }
  return true;
}

}  // namespace

Services::Services(Params params) : p_(std::move(params)), methods_(AllMethods()) {
  for (Method& method : methods_) {
    method.path = "/" + std::string(method.service) + "/" + std::string(method.name);
  }
  for (const Method& method : methods_) {
    MS_CHECK(by_path_.emplace(ToAbsl(method.path), &method).second);
    for (std::string_view route : method.routes) {
      MS_CHECK(by_route_.emplace(ToAbsl(route), &method).second);
    }
    if (!method.metrics_on_use) {
      MakeMethodMetrics(method);
    }
  }
  MakeMetrics();
}

Services::~Services() = default;

void Services::MakeMethodMetrics(const Method& method) {
  const MetricLabels labels = {
      {"grpc_method", std::string(method.name)},
      {"grpc_service", std::string(method.service)},
      {"grpc_type", std::string(kTypeNames[static_cast<int>(method.type)])}};
  MetricRegistry& r = p_.metrics;
  MethodMetrics& m = method.metrics;
  m.started = &r.AddCounter("grpc_server_started_total",
                            "Total number of RPCs started on the server.", labels);
  m.received = &r.AddCounter("grpc_server_msg_received_total",
                             "Total number of RPC stream messages received on the server.", labels);
  m.sent = &r.AddCounter("grpc_server_msg_sent_total",
                         "Total number of gRPC stream messages sent by the server.", labels);
  for (int code = 0; code < kCodeCount; ++code) {
    MetricLabels with_code = labels;
    with_code.insert(with_code.begin(), {"grpc_code", std::string(CodeName(Code(code)))});
    m.handled[static_cast<size_t>(code)] = &r.AddCounter(
        "grpc_server_handled_total",
        "Total number of RPCs completed on the server, regardless of success or failure.",
        with_code);
  }
  if (p_.options.extensive_metrics) {
    m.seconds = &r.AddHistogram("grpc_server_handling_seconds",
                                "Histogram of response latency (seconds) of gRPC that had been "
                                "application-level handled by the server.",
                                {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, labels);
  }
}

void Services::MakeMetrics() {
  MetricRegistry& r = p_.metrics;
  metrics_.sent_bytes = &r.AddCounter("etcd_network_client_grpc_sent_bytes_total",
                                      "The total number of bytes sent to grpc clients.");
  metrics_.received_bytes = &r.AddCounter("etcd_network_client_grpc_received_bytes_total",
                                          "The total number of bytes received from grpc clients.");
  const auto failures = [&r](std::string_view type, std::string_view api) {
    return &r.AddCounter("etcd_network_server_stream_failures_total",
                         "The total number of stream failures from the local server.",
                         {{"Type", std::string(type)}, {"API", std::string(api)}});
  };
  metrics_.watch_receive_failures = failures("receive", "watch");
  metrics_.watch_send_failures = failures("send", "watch");
  metrics_.keep_alive_receive_failures = failures("receive", "lease-keepalive");
  metrics_.keep_alive_send_failures = failures("send", "lease-keepalive");
  ranges_ = &r.AddCounter("etcd_mvcc_range_total", "Total number of ranges seen by this member.");
  for (size_t ok = 0; ok < 2; ++ok) {
    range_seconds_[ok] = &r.AddHistogram(
        "etcd_server_range_duration_seconds", "The latency distributions of txn.Range",
        ExponentialBuckets(0.0001, 2, 20), {{"success", ok == 1 ? "true" : "false"}});
  }
  const std::vector<double> send = ExponentialBuckets(0.001, 2, 14);
  metrics_.watch_send_events = &r.AddHistogram(
      "etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds",
      "The total duration in seconds of running through the send loop watch stream response all "
      "events.",
      send);
  metrics_.watch_send_per_event = &r.AddHistogram(
      "etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds",
      "The average duration in seconds of running through the send loop watch stream response per "
      "event.",
      send);
  metrics_.snapshot_seconds = &r.AddHistogram("etcd_disk_backend_snapshot_duration_seconds",
                                              "The latency distribution of backend snapshots.",
                                              ExponentialBuckets(0.01, 2, 17));
  constexpr std::string_view kReads[] = {"Range", "ReadonlyTxn"};
  for (size_t type = 0; type < std::size(kReads); ++type) {
    for (size_t ok = 0; ok < 2; ++ok) {
      read_seconds_[type][ok] = &r.AddHistogram(
          "etcd_server_request_duration_seconds",
          "Response latency distribution in seconds for each type.",
          ExponentialBuckets(0.001, 2, 14),
          {{"type", std::string(kReads[type])}, {"success", ok == 1 ? "true" : "false"}});
    }
  }
}

const Method* Services::Find(std::string_view path) const {
  const auto it = by_path_.find(ToAbsl(path));
  return it == by_path_.end() ? nullptr : it->second;
}

const Method* Services::FindRoute(std::string_view path) const {
  const auto it = by_route_.find(ToAbsl(path));
  return it == by_route_.end() ? nullptr : it->second;
}

GrpcStatus Services::UnknownMethod(std::string_view path) const {
  if (!path.empty() && path[0] == '/') {
    path.remove_prefix(1);
  }
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return {Code::kUnimplemented, "malformed method name: \"/" + std::string(path) + "\""};
  }
  const std::string_view service = path.substr(0, slash);
  const std::string name(path.substr(slash + 1));
  for (const Method& method : methods_) {
    if (method.service == service) {
      return {Code::kUnimplemented,
              "unknown method " + name + " for service " + std::string(service)};
    }
  }
  return {Code::kUnimplemented, "unknown service " + std::string(service)};
}

Error Services::CheckGate(Call& call, bool stream) {
  // Of unary calls a learner serves Status and serializable ranges; Range itself looks at which.
  if (p_.server.is_learner() && !call.method().served_to_learner) {
    return Error::kNotSupportedForLearner;
  }
  const std::string_view version = call.Metadata("client-api-version").value_or("unknown");
  if (!ValidUtf8(version)) {
    return Error::kInvalidClientApiVersion;
  }
  call.loop().ClientRequests(version, stream).Add();
  if (call.Metadata("hasleader") == std::string_view("true") && !p_.server.has_leader()) {
    return Error::kNoLeader;
  }
  return Error::kOk;
}

void Services::Begin(const CallPtr& call) {
  const Method& method = call->method();
  if (method.metrics.started != nullptr) {
    method.metrics.started->Add();
  }
  const bool stream = method.type != MethodType::kUnary;
  if (const Error error = CheckGate(*call, stream); error != Error::kOk) {
    call->Finish(ToStatus(error));
    return;
  }
  if (method.unary == nullptr && method.stream == nullptr) {
    call->Finish({Code::kUnimplemented,
                  "mainstay does not serve " + method.path.substr(1) + " in this version"});
    return;
  }
  if (stream) {
    call->set_handler(method.stream(call));
    if (!call->ended() && call->Metadata("hasleader") == std::string_view("true")) {
      call->loop().WatchLeader(call);
    }
  }
}

void Services::ObserveRead(ReadType type, bool success, MonoTime started) {
  const std::chrono::duration<double> took = p_.clock.Now() - started;
  read_seconds_[static_cast<size_t>(type)][success ? 1 : 0]->Observe(took.count());
  ranges_->Add();
  if (type == ReadType::kRange) {
    range_seconds_[success ? 1 : 0]->Observe(took.count());
  }
}

std::string Services::SpoolPath() {
  return p_.options.spool_dir + "/snapshot-" +
         std::to_string(spooled_.fetch_add(1, std::memory_order_relaxed)) + ".spool";
}

std::shared_ptr<void> Services::TakeSnapshotPlace() {
  if (snapshots_->fetch_add(1) >= p_.options.snapshots_max) {
    snapshots_->fetch_sub(1);
    return nullptr;
  }
  return {snapshots_.get(), [count = snapshots_](void*) { count->fetch_sub(1); }};
}

}  // namespace mainstay::rpc

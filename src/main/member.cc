#include "main/member.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <future>
#include <memory>
#include <thread>

#include "fmt/format.h"

#include "backend/backend.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/metrics.h"
#include "env/executor.h"
#include "env/file_system.h"
#include "env/random.h"
#include "http/front.h"
#include "main/listen.h"
#include "main/process_metrics.h"
#include "main/snapshot_export.h"
#include "net/grpc.h"
#include "net/server.h"
#include "rpc/grpc_handler.h"
#include "rpc/services.h"
#include "server/server.h"

namespace mainstay::main {
namespace {

constexpr int kReservedDescriptors = 150;
constexpr int kPoolThreads = 2;
constexpr size_t kPoolPendingMax = 10000;

std::atomic<int> g_signal{0};
int g_event = -1;

void OnSignal(int signal) {
  g_signal.store(signal);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(g_event, &one, sizeof one);
}

// "name=url,name=url"; a name may come more than once.
std::vector<server::InitialMember> ParseInitialCluster(const std::string& text) {
  std::vector<server::InitialMember> out;
  for (const std::string& item : SplitComma(text)) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) {
      continue;
    }
    const std::string name = item.substr(0, equals);
    auto at = std::find_if(out.begin(), out.end(), [&](const auto& m) { return m.name == name; });
    if (at == out.end()) {
      at = out.insert(out.end(), {name, {}});
    }
    at->peer_urls.push_back(item.substr(equals + 1));
  }
  return out;
}

void SetAutoCompaction(const Config& config, server::Options* out) {
  const std::optional<int64_t> number = ParseGoInt(config.auto_compaction_retention);
  if (config.auto_compaction_mode == "revision") {
    // A duration here is its nanoseconds, as in etcd.
    const int64_t revisions =
        number ? *number : ParseGoDuration(config.auto_compaction_retention)->count();
    if (revisions > 0) {
      out->auto_compaction_mode = server::AutoCompactionMode::kRevision;
      out->auto_compaction_revisions = revisions;
    }
    return;
  }
  const std::chrono::nanoseconds period =
      number ? std::chrono::hours(*number) : *ParseGoDuration(config.auto_compaction_retention);
  if (period.count() > 0) {
    out->auto_compaction_mode = server::AutoCompactionMode::kPeriodic;
    out->auto_compaction_retention = period;
  }
}

server::Options ServerOptions(const Config& config) {
  server::Options out;
  out.name = config.name;
  out.data_dir = config.data_dir;
  out.wal_dir = config.wal_dir;
  out.initial_cluster = ParseInitialCluster(config.initial_cluster);
  out.initial_cluster_token = config.initial_cluster_token;
  out.advertise_client_urls = config.advertise_client_urls;
  out.heartbeat = std::chrono::milliseconds(config.heartbeat_ms);
  out.election_timeout = std::chrono::milliseconds(config.election_ms);
  out.pre_vote = config.pre_vote;
  out.initial_election_tick_advance = config.initial_election_tick_advance;
  out.quota_backend_bytes = config.quota_backend_bytes;
  out.max_request_bytes = config.max_request_bytes;
  out.snapshot_count = config.snapshot_count;
  out.snapshot_catchup_entries = config.snapshot_catchup_entries;
  out.unsafe_no_fsync = config.unsafe_no_fsync;
  SetAutoCompaction(config, &out);
  out.warning_apply_duration = config.warning_apply_duration;
  out.lease_checkpoint = config.gate("LeaseCheckpoint");
  out.watch_progress_interval = config.watch_progress_notify_interval;
  return out;
}

rpc::ServicesOptions RpcOptions(const Config& config) {
  rpc::ServicesOptions out;
  out.txn_ops_max = config.max_txn_ops;
  out.request_bytes_max = config.max_request_bytes;
  out.extensive_metrics = config.metrics == "extensive";
  out.spool_dir = config.data_dir + "/member/spool";
  return out;
}

net::ServerOptions NetOptions(const Config& config, int loops, size_t connections_max) {
  net::ServerOptions out;
  out.loops = loops;
  out.connections_max = connections_max;
  out.max_concurrent_streams = config.max_concurrent_streams;
  out.ping_min_interval = config.grpc_keepalive_min_time;
  out.keepalive_interval = config.grpc_keepalive_interval;
  out.keepalive_timeout = config.grpc_keepalive_timeout;
  out.reuse_port = config.socket_reuse_port;
  return out;
}

// What this build does not do yet is refused by name, not ignored.
std::string Unsupported(const Config& config) {
  if (!config.discovery_endpoints.empty() || !config.discovery_srv.empty()) {
    return "discovery is not supported yet: this version runs clusters of one member";
  }
  if (config.initial_cluster_state == "existing") {
    return "--initial-cluster-state=existing is not supported yet: this version runs clusters of "
           "one member";
  }
  if (config.force_new_cluster) {
    return "--force-new-cluster is not supported yet: this version runs clusters of one member";
  }
  return {};
}

class Member {
 public:
  Member(const Config& config, std::vector<std::string> command_line)
      : config_(config), command_line_(std::move(command_line)) {}
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member() { TakeApart(); }

  Status Build() {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur <= kReservedDescriptors) {
      return FailedPrecondition(
          "file descriptor limit of etcd process is too low; please set higher");
    }
    const auto connections_max = static_cast<size_t>(files.rlim_cur - kReservedDescriptors);
    metrics_ = std::make_unique<MetricRegistry>();
    AddProcessMetrics(*metrics_);
    AddBuildMetrics(*metrics_, config_);
    pool_ = NewThreadPool("bg", kPoolThreads, kPoolPendingMax);
    executor_ = NewThreadExecutor(SystemClock());
    MS_ASSIGN_OR_RETURN(tls_, ClientTls(config_));
    MS_ASSIGN_OR_RETURN(server_, OpenServer());
    MS_RETURN_IF_ERROR(PosixFileSystem().MakeDirs(config_.data_dir + "/member/spool"));
    services_ = std::make_unique<rpc::Services>(
        rpc::Services::Params{RpcOptions(config_), *server_, SystemClock(), PosixFileSystem(),
                              *pool_, *metrics_, ExportSnapshot});
    grpc_front_ = std::make_unique<rpc::GrpcFront>(*services_);
    http::FrontOptions front;
    front.gateway = config_.enable_grpc_gateway;
    front.cors = config_.cors;
    front.host_whitelist = config_.host_whitelist;
    front.command_line = command_line_;
    http_front_ = std::make_unique<http::HttpFront>(*services_, front);
    front.metrics_only = true;
    metrics_front_ = std::make_unique<http::HttpFront>(*services_, front);
    grpc_handler_ = net::NewGrpcHandler(
        *grpc_front_, {.receive_bytes_max = config_.max_request_bytes + kGrpcOverheadBytes});
    const Handlers handlers{grpc_handler_.get(), http_front_.get(), metrics_front_.get()};
    const int loops = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
    net_ =
        std::make_unique<net::Server>(NetOptions(config_, loops, connections_max), SystemClock());
    MS_RETURN_IF_ERROR(ListenClients(config_, handlers, tls_.get(), net_.get()));
    metrics_net_ =
        std::make_unique<net::Server>(NetOptions(config_, 1, connections_max), SystemClock());
    MS_RETURN_IF_ERROR(ListenMetrics(config_, handlers, tls_.get(), metrics_net_.get()));
    for (net::Server* server : {net_.get(), metrics_net_.get()}) {
      for (const std::unique_ptr<net::Loop>& loop : server->loops()) {
        net_loops_.push_back(std::make_unique<rpc::NetLoop>(*services_, *loop));
      }
      MS_RETURN_IF_ERROR(server->Start());
    }
    return absl::OkStatus();
  }

  // Starts the member; the metrics listener answers at once, the others once the member is ready.
  void Start() {
    metrics_net_->Accept();
    for (const std::string& url : config_.listen_metrics_urls) {
      MS_LOG(kInfo, "serving metrics").Str("address", url);
    }
    server_->OnFatal([this](const Status& status) {
      fatal_ = status;
      failed_.store(true);
      OnSignal(0);
    });
    server_->OnReady([this] {
      ready_.store(true);
      OnSignal(0);
    });
    server_->Start();
  }

  bool failed() const { return failed_.load(); }
  const Status& fatal() const { return fatal_; }
  bool ready() const { return ready_.load(); }

  void Serve() {
    net_->Accept();
    const std::string traffic = config_.listen_client_http_urls.empty() ? "grpc+http" : "grpc";
    for (const std::string& url : config_.listen_client_urls) {
      MS_LOG(kInfo, "ready to serve client requests").Str("address", url);
      if (url.starts_with("https") || url.starts_with("unixs")) {
        MS_LOG(kInfo, "serving client traffic securely")
            .Str("traffic", traffic)
            .Str("address", url);
      } else {
        MS_LOG(kWarn, "serving client traffic insecurely; this is strongly discouraged!")
            .Str("traffic", traffic)
            .Str("address", url);
      }
    }
  }

  // From the outside in.
  void TakeApart() {
    if (server_ == nullptr) {
      return;
    }
    const auto patience = server_->options().request_timeout();
    // Streams without an end of their own (watches) are cut after a moment; requests in flight are
    // answered first.
    // A start that failed half-way has no listeners, or only some.
    if (net_ != nullptr) {
      net_->Shutdown(std::min<std::chrono::nanoseconds>(patience, std::chrono::milliseconds(500)));
    }
    server_->Stop();
    if (metrics_net_ != nullptr) {
      metrics_net_->Shutdown(std::chrono::nanoseconds(0));
    }
    pool_.reset();
    net_.reset();
    metrics_net_.reset();
    net_loops_.clear();
    grpc_handler_.reset();
    grpc_front_.reset();
    http_front_.reset();
    metrics_front_.reset();
    services_.reset();
    server_.reset();
    executor_.reset();
  }

 private:
  const Config& config_;
  const std::vector<std::string> command_line_;
  std::unique_ptr<MetricRegistry> metrics_;
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<net::TlsContext> tls_;
  // Waits for the data directory, as etcd does: a restart may begin before the old process is gone.
  StatusOr<std::unique_ptr<server::Server>> OpenServer() {
    constexpr std::chrono::milliseconds kRetry(100);
    constexpr int kRetriesPerLine = 100;
    const auto open = [](const std::string& dir) { return backend::OpenRocks(dir, {}); };
    for (int i = 0;; ++i) {
      StatusOr<std::unique_ptr<server::Server>> server = server::Server::Open(
          ServerOptions(config_),
          {SystemClock(), PosixFileSystem(), SystemRandom(), *executor_, *pool_, *metrics_, open});
      if (!absl::IsUnavailable(server.status())) {
        return server;
      }
      if (i % kRetriesPerLine == 0) {
        MS_LOG(kInfo, "another process holds the data directory; waiting for it to end")
            .Str("data-dir", config_.data_dir)
            .Error(Message(server.status()));
      }
      std::this_thread::sleep_for(kRetry);
    }
  }

  std::unique_ptr<server::Server> server_;
  std::unique_ptr<rpc::Services> services_;
  std::unique_ptr<rpc::GrpcFront> grpc_front_;
  std::unique_ptr<http::HttpFront> http_front_, metrics_front_;
  std::unique_ptr<net::Handler> grpc_handler_;
  std::unique_ptr<net::Server> net_, metrics_net_;
  std::vector<std::unique_ptr<rpc::NetLoop>> net_loops_;
  std::atomic<bool> failed_{false}, ready_{false};
  Status fatal_;
};

int Fatal(std::string_view message, const Status& status) {
  MS_LOG(kFatal, message).Error(Message(status));
  FlushLog();
  return 1;
}

void Wait() {
  pollfd wait{g_event, POLLIN, 0};
  while (::poll(&wait, 1, -1) < 0 && errno == EINTR) {
  }
  uint64_t count;
  [[maybe_unused]] const ssize_t n = ::read(g_event, &count, sizeof count);
}

void NotifyInit() {
  if (::getenv("NOTIFY_SOCKET") == nullptr) {
    return;
  }
  MS_LOG(kInfo, "notifying init daemon");
  if (const int sent = sd_notify(0, "READY=1"); sent <= 0) {
    MS_LOG(kError, "failed to notify systemd for readiness")
        .Error(std::generic_category().message(-sent));
    return;
  }
  MS_LOG(kInfo, "successfully notified init daemon");
}

}  // namespace

int RunMember(const Config& config, const std::vector<std::string>& command_line) {
  if (const std::string reason = Unsupported(config); !reason.empty()) {
    return Fatal("discovery failed", FailedPrecondition(reason));
  }
  g_event = ::eventfd(0, EFD_CLOEXEC);
  MS_LOG(kInfo, "starting an etcd server")
      .Str("etcd-version", "3.7.1")
      .Str("name", config.name)
      .Str("data-dir", config.data_dir)
      .Str("initial-cluster", config.initial_cluster)
      .Num("quota-backend-bytes", config.quota_backend_bytes);
  if (config.memory_mlock && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
    return Fatal("failed to lock memory", ErrnoStatus("mlockall", errno));
  }
  auto member = std::make_unique<Member>(config, command_line);
  if (const Status built = member->Build(); !built.ok()) {
    return Fatal("discovery failed", built);
  }
  member->Start();
  // Until the member is ready a signal ends it at once, by its default action; nothing was promised
  // to anybody.
  while (!member->ready() && !member->failed()) {
    Wait();
  }
  if (!member->failed()) {
    struct sigaction action {};
    action.sa_handler = OnSignal;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    member->Serve();
    NotifyInit();
    while (g_signal.load() == 0 && !member->failed()) {
      Wait();
    }
  }
  if (member->failed()) {
    const Status status = member->fatal();
    const int code = Fatal("the member cannot go on", status);
    // A disk that failed must not be written again: nothing is flushed on the way out.
    std::_Exit(code);
  }
  const int signal = g_signal.load();
  MS_LOG(kInfo, "received signal; shutting down")
      .Str("signal", signal == SIGTERM ? "terminated" : "interrupt");
  MS_LOG(kInfo, "closing etcd server").Str("name", config.name).Str("data-dir", config.data_dir);
  member.reset();
  MS_LOG(kInfo, "closed etcd server").Str("name", config.name).Str("data-dir", config.data_dir);
  FlushLog();
  if (::getpid() == 1) {
    return 0;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  return 0;
}

}  // namespace mainstay::main

// One member in this process: real threads, a real disk (a directory of its own under the system's
// temporary directory), the real front door on 127.0.0.1 and a port that the kernel chooses.
//
// A test makes it, talks to address(), and may Stop() and Start() it again on the same data.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/metrics.h"
#include "env/clock.h"
#include "env/executor.h"
#include "env/file_system.h"
#include "env/random.h"
#include "http/front.h"
#include "net/grpc.h"
#include "net/server.h"
#include "rpc/grpc_handler.h"
#include "rpc/services.h"
#include "server/server.h"

namespace mainstay::testing {

class TestDir {
 public:
  TestDir() {
    std::string pattern = std::filesystem::temp_directory_path() / "mainstay-test-XXXXXX";
    MS_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;
  ~TestDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class TestMember {
 public:
  struct Config {
    server::Options server;
    rpc::ServicesOptions services;
    http::FrontOptions http;
    rpc::SnapshotExporter export_snapshot;
    int loops = 2;
  };
  static Config DefaultConfig() {
    Config config;
    config.server.heartbeat = std::chrono::milliseconds(20);
    config.server.election_timeout = std::chrono::milliseconds(200);
    config.server.initial_cluster = {{"default", {"http://127.0.0.1:2380"}}};
    config.server.advertise_client_urls = {"http://127.0.0.1:2379"};
    // A stand-in with a size of two chunks and a bit; the real exporter has tests of its own.
    config.export_snapshot = [](const server::PinnedState&, FileSystem& files,
                                const std::string& path) -> Status {
      MS_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files.Open(path, OpenMode::kCreate));
      return file->WriteAt(0, std::string(2 * 32768 + 512, 's'));
    };
    return config;
  }

  explicit TestMember(Config config = DefaultConfig()) : config_(std::move(config)) {
    config_.server.data_dir = dir_.path() + "/data";
    config_.services.spool_dir = dir_.path() + "/spool";
    config_.services.request_bytes_max = config_.server.max_request_bytes;
    Start();
  }
  TestMember(const TestMember&) = delete;
  TestMember& operator=(const TestMember&) = delete;
  ~TestMember() { Stop(); }

  void Start() {
    MS_CHECK(server_ == nullptr);
    metrics_ = std::make_unique<MetricRegistry>();
    pool_ = NewThreadPool("bg", 2, 10000);
    executor_ = NewThreadExecutor(SystemClock());
    const auto open_rocks = [](const std::string& dir) { return backend::OpenRocks(dir, {}); };
    StatusOr<std::unique_ptr<server::Server>> opened =
        server::Server::Open(config_.server, {SystemClock(), PosixFileSystem(), SystemRandom(),
                                              *executor_, *pool_, *metrics_, open_rocks});
    MS_CHECK_MSG(opened.ok(), opened.status().ToString());
    server_ = *std::move(opened);
    StartFront();
    std::promise<void> ready;
    server_->OnReady([&ready] { ready.set_value(); });
    server_->Start();
    ready.get_future().wait();
    net_->Accept();
  }

  // Orderly: from the outside in.
  void Stop() {
    if (server_ == nullptr) {
      return;
    }
    net_->Shutdown(std::chrono::seconds(0));
    server_->Stop();
    pool_.reset();
    net_.reset();
    net_loops_.clear();
    grpc_handler_.reset();
    grpc_front_.reset();
    http_front_.reset();
    services_.reset();
    server_.reset();
    executor_.reset();
    metrics_.reset();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(net_->ports().at(0)); }
  int port() const { return net_->ports().at(0); }
  server::Server& server() { return *server_; }
  Config& config() { return config_; }
  std::string MetricsText() const { return metrics_->RenderText(); }

 private:
  void StartFront() {
    services_ = std::make_unique<rpc::Services>(
        rpc::Services::Params{config_.services, *server_, SystemClock(), PosixFileSystem(), *pool_,
                              *metrics_, config_.export_snapshot});
    grpc_front_ = std::make_unique<rpc::GrpcFront>(*services_);
    http_front_ = std::make_unique<http::HttpFront>(*services_, config_.http);
    net::GrpcOptions grpc;
    grpc.receive_bytes_max = config_.services.request_bytes_max + kGrpcOverheadBytes;
    grpc_handler_ = net::NewGrpcHandler(*grpc_front_, grpc);
    net::ServerOptions options;
    options.loops = config_.loops;
    net_ = std::make_unique<net::Server>(options, SystemClock());
    net::ListenerOptions listener;
    listener.address = "127.0.0.1:0";
    listener.grpc = grpc_handler_.get();
    listener.http = http_front_.get();
    const Status listening = net_->Listen(listener);
    MS_CHECK_MSG(listening.ok(), listening.ToString());
    for (const std::unique_ptr<net::Loop>& loop : net_->loops()) {
      net_loops_.push_back(std::make_unique<rpc::NetLoop>(*services_, *loop));
    }
    const Status started = net_->Start();
    MS_CHECK_MSG(started.ok(), started.ToString());
  }

  TestDir dir_;
  Config config_;
  std::unique_ptr<MetricRegistry> metrics_;
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<rpc::Services> services_;
  std::unique_ptr<rpc::GrpcFront> grpc_front_;
  std::unique_ptr<http::HttpFront> http_front_;
  std::unique_ptr<net::Handler> grpc_handler_;
  std::unique_ptr<net::Server> net_;
  std::vector<std::unique_ptr<rpc::NetLoop>> net_loops_;
};

}  // namespace mainstay::testing

// Services: the table of all methods, what they share, and the gate that every call passes.
//
// Role        One per process. main makes it from a started server; the transports (grpc_handler.h,
//             http/gateway.h) look methods up and begin calls.
// Threads     Find(), FindRoute(): any. Begin(): the call's loop.
// Ownership   Borrows what Params names; all of it outlives this.
// Sources     grpc-api 1.1, 7, 8.4.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "common/metrics.h"
#include "common/status.h"
#include "env/clock.h"
#include "env/executor.h"
#include "env/file_system.h"
#include "rpc/call.h"
#include "rpc/loop.h"
#include "rpc/method.h"
#include "server/server.h"

namespace mainstay::rpc {

// Writes the whole state as an etcd snapshot's database image (no checksum trailer) into the new
// file `path`. Runs on the pool.
using SnapshotExporter = std::function<Status(
    const server::PinnedState& state, FileSystem& files, const std::string& path)>;

struct ServicesOptions {
  size_t txn_ops_max = 128;            // --max-txn-ops
  size_t request_bytes_max = 1572864;  // --max-request-bytes
  bool extensive_metrics = false;      // --metrics=extensive
  std::string spool_dir;               // snapshots are written here before they are streamed
  // A message or snapshot is read ahead of what was written by at most so much.
  size_t read_ahead_bytes_max = 512 << 10;
  // A range answer up to this is sent in one piece.
  size_t whole_answer_bytes_max = 256 << 10;
  // etcd's: more, and the call ends with ResourceExhausted. A gRPC message holds 2^32 - 1 at most.
  size_t response_bytes_max = INT32_MAX;
  // How often a range that is being sent is looked at: if a compaction waits for it and its client
  // hardly reads, it ends.
  std::chrono::nanoseconds slow_range_period = std::chrono::seconds(30);
  // The same for snapshots, which hold the disk space of an image each; and how many there may be.
  std::chrono::nanoseconds slow_snapshot_period = std::chrono::minutes(5);
  size_t snapshots_max = 8;
  size_t slow_progress_bytes_min = 8 << 20;  // in a period
};

// Instruments that are no method's own.
struct ServicesMetrics {
  Counter* sent_bytes = nullptr;
  Counter* received_bytes = nullptr;
  Counter* watch_receive_failures = nullptr;
  Counter* watch_send_failures = nullptr;
  Histogram* watch_send_events = nullptr;  // one hand-over of a stream's messages to its connection
  Histogram* watch_send_per_event = nullptr;  // its share of one message
  Histogram* snapshot_seconds = nullptr;      // until the image is written
  Counter* keep_alive_receive_failures = nullptr;
  Counter* keep_alive_send_failures = nullptr;
};

// Labels `type` of etcd_server_request_duration_seconds that reads have; the server observes those
// of writes.
enum class ReadType : uint8_t { kRange, kReadonlyTxn, kCount };

class Services {
 public:
  struct Params {
    ServicesOptions options;
    server::Server& server;
    Clock& clock;
    FileSystem& files;
    WorkPool& pool;
    MetricRegistry& metrics;
    SnapshotExporter export_snapshot;
  };
  explicit Services(Params params);
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;
  ~Services();

  // By path, "/etcdserverpb.KV/Range". Null: no such method; UnknownMethod() says how to answer.
  const Method* Find(std::string_view path) const;
  // By the gateway's HTTP path, "/v3/kv/range".
  const Method* FindRoute(std::string_view path) const;
  GrpcStatus UnknownMethod(std::string_view path) const;
  const std::vector<Method>& methods() const { return methods_; }

  // The gate, in etcd's order: learner, client-api-version, hasleader. A unary call then waits for
  // its message; a stream gets its handler. A refused call is finished at once.
  void Begin(const CallPtr& call);

  server::Server& server() { return p_.server; }
  Clock& clock() { return p_.clock; }
  WorkPool& pool() { return p_.pool; }
  FileSystem& files() { return p_.files; }
  MetricRegistry& metric_registry() { return p_.metrics; }
  const ServicesOptions& options() const { return p_.options; }
  const SnapshotExporter& export_snapshot() const { return p_.export_snapshot; }
  ServicesMetrics& metrics() { return metrics_; }
  void ObserveRead(ReadType type, bool success, MonoTime started);
  // A name for a spool file, unique in this process.
  std::string SpoolPath();
  // The right to make a snapshot, until the last copy goes (any thread); null if all are given
  // away.
  std::shared_ptr<void> TakeSnapshotPlace();

 private:
  Error CheckGate(Call& call, bool stream);
  void MakeMetrics();
  void MakeMethodMetrics(const Method& method);

  Params p_;
  std::vector<Method> methods_;
  absl::flat_hash_map<absl::string_view, const Method*> by_path_;
  absl::flat_hash_map<absl::string_view, const Method*> by_route_;
  ServicesMetrics metrics_;
  Counter* ranges_ = nullptr;
  Histogram* range_seconds_[2] = {};
  Histogram* read_seconds_[static_cast<size_t>(ReadType::kCount)][2] = {};
  std::atomic<uint64_t> spooled_{0};
  // Its own owner: a step on the pool may end after this.
  const std::shared_ptr<std::atomic<size_t>> snapshots_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace mainstay::rpc

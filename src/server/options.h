// What one member is told at start. Flags and their checks are main's; these are the values after
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/metrics.h"
#include "common/status.h"
#include "env/clock.h"
#include "env/executor.h"
#include "env/file_system.h"
#include "env/random.h"

namespace mainstay::backend {
class Backend;
}

namespace mainstay::server {

struct InitialMember {
  std::string name;
  std::vector<std::string> peer_urls;
};

enum class AutoCompactionMode : uint8_t { kOff, kPeriodic, kRevision };

struct Options {
  // mvcc::Store::Options::txn_answer_bytes_max.
  uint64_t txn_answer_bytes_max = INT32_MAX;
  std::string name = "default";
  std::string data_dir;
  std::string wal_dir;  // empty = <data_dir>/member/wal
  // Used only when there is no log yet. Must name `name`; with more than one member Open() refuses
  // (one member so far).
  std::vector<InitialMember> initial_cluster;
  std::string initial_cluster_token = "etcd-cluster";
  std::vector<std::string> advertise_client_urls;

  std::chrono::milliseconds heartbeat{100};
  std::chrono::milliseconds election_timeout{1000};
  bool pre_vote = true;
  bool initial_election_tick_advance = true;

  int64_t quota_backend_bytes = 0;  // 0 = 2 GiB; negative = off
  uint64_t max_request_bytes = 1572864;
  uint64_t snapshot_count = 10000;
  uint64_t snapshot_catchup_entries = 5000;
  uint64_t wal_segment_bytes = 64000000;
  bool unsafe_no_fsync = false;

  AutoCompactionMode auto_compaction_mode = AutoCompactionMode::kOff;
  std::chrono::nanoseconds auto_compaction_retention{0};  // kPeriodic
  int64_t auto_compaction_revisions = 0;                  // kRevision

  std::chrono::nanoseconds warning_apply_duration = std::chrono::milliseconds(100);
  std::chrono::nanoseconds watch_progress_interval{0};  // 0 = 10 minutes
  bool lease_checkpoint = false;                        // feature gate LeaseCheckpoint

  // 5 s + 2 x election timeout: bounds every proposal and every read barrier.
  std::chrono::nanoseconds request_timeout() const {
    return std::chrono::seconds(5) + 2 * election_timeout;
  }
  int64_t quota_bytes() const {
    return quota_backend_bytes == 0 ? int64_t{2} << 30 : quota_backend_bytes;
  }
};

// Opens the store of this member in `dir` (made if absent).
using BackendFactory =
    std::function<StatusOr<std::unique_ptr<backend::Backend>>(const std::string& dir)>;

// The machine, as parameters. All outlive the Server.
struct Environment {
  Clock& clock;
  FileSystem& files;
  Random& random;
  Executor& executor;
  WorkPool& pool;
  MetricRegistry& metrics;
  BackendFactory open_backend;
};

}  // namespace mainstay::server

#include "server/member_metrics.h"

#include <utility>

#include "common/coding.h"

namespace mainstay::server {

MemberMetrics::MemberMetrics(MetricRegistry& r, MemberId self, int64_t quota_bytes, Sources sources)
    : defrag_inflight(r.AddGauge(
          "etcd_disk_defrag_inflight",
          "Whether or not defrag is active on the member. 1 means active, 0 means not.")),
      defrag_seconds(r.AddHistogram("etcd_disk_backend_defrag_duration_seconds",
                                    "The latency distribution of backend defragmentation.",
                                    ExponentialBuckets(0.1, 2, 13))),
      hash_seconds(r.AddHistogram("etcd_mvcc_hash_duration_seconds",
                                  "The latency distribution of storage hash operation.",
                                  ExponentialBuckets(0.01, 2, 15))),
      hash_rev_seconds(
          r.AddHistogram("etcd_mvcc_hash_rev_duration_seconds",
                         "The latency distribution of storage hash by revision operation.",
                         ExponentialBuckets(0.01, 2, 15))),
      registry_(r) {
  r.AddGauge("etcd_server_id",
             "Server or member ID in hexadecimal format. 1 for 'server_id' label with current ID.",
             {{"server_id", HexId(self.value())}})
      .Set(1);
  r.AddGauge("etcd_server_quota_backend_bytes", "Current backend storage quota size in bytes.")
      .Set(static_cast<double>(quota_bytes));
  AddUnmoved();
  AddRead("etcd_mvcc_db_total_size_in_bytes",
          "Total size of the underlying database physically allocated in bytes.",
          std::move(sources.db_size));
  AddRead("etcd_mvcc_db_total_size_in_use_in_bytes",
          "Total size of the underlying database logically in use in bytes.",
          std::move(sources.db_size_in_use));
  AddRead("etcd_debugging_mvcc_current_revision", "The current revision of store.",
          std::move(sources.revision));
  AddRead("etcd_debugging_mvcc_compact_revision", "The revision of the last compaction in store.",
          std::move(sources.compact_revision));
  AddRead("etcd_mvcc_db_open_read_transactions", "The number of currently open read transactions",
          std::move(sources.open_views));
  // etcd counts the member itself among them.
  r.AddGauge("etcd_network_known_peers", "The current number of known peers.",
             {{"Local", HexId(self.value())}, {"Remote", HexId(self.value())}})
      .Set(1);
}

// What etcd shows and a member of one, or one without bbolt files, never moves: dashboards expect
// the series.
void MemberMetrics::AddUnmoved() {
  const std::vector<double> disk = ExponentialBuckets(0.001, 2, 14);
  // The revision of an auth store in which nothing was ever changed.
  registry_.AddGauge("etcd_debugging_auth_revision", "The current revision of auth store.").Set(1);
  // All of a stream's messages go one way here; rpc shows that one under the watch stream's name.
  registry_.AddHistogram(
      "etcd_debugging_server_watch_send_loop_control_stream_duration_seconds",
      "The total duration in seconds of running through the send loop control stream response.",
      disk);
  registry_.AddHistogram(
      "etcd_debugging_server_watch_send_loop_progress_duration_seconds",
      "The total duration in seconds of running through the progress loop control stream response.",
      disk);
  registry_.AddCounter("etcd_debugging_store_expires_total", "Total number of expired keys.");
  registry_.AddCounter("etcd_debugging_store_watch_requests_total",
                       "Total number of incoming watch requests (new or reestablished).");
  registry_.AddGauge("etcd_debugging_store_watchers", "Count of currently active watchers.");
  registry_.AddGauge("etcd_grpc_proxy_cache_hits_total", "Total number of cache hits");
  registry_.AddGauge("etcd_grpc_proxy_cache_keys_total", "Total number of keys/ranges cached");
  registry_.AddGauge("etcd_grpc_proxy_cache_misses_total", "Total number of cache misses");
  registry_.AddCounter("etcd_grpc_proxy_events_coalescing_total",
                       "Total number of events coalescing");
  registry_.AddGauge("etcd_grpc_proxy_watchers_coalescing_total",
                     "Total number of current watchers coalescing");
  registry_.AddGauge("etcd_server_snapshot_apply_in_progress_total",
                     "1 if the server is applying the incoming snapshot. 0 if none.");
  registry_.AddCounter(
      "etcd_server_heartbeat_send_failures_total",
      "The total number of leader heartbeat send failures (likely overloaded from slow disk).");
  registry_.AddCounter(
      "etcd_server_learner_promote_successes",
      "The total number of successful learner promotions while this member is leader.");
  registry_.AddHistogram("etcd_debugging_disk_backend_commit_rebalance_duration_seconds",
                         "The latency distributions of commit.rebalance called by bboltdb backend.",
                         disk);
  registry_.AddHistogram("etcd_debugging_disk_backend_commit_spill_duration_seconds",
                         "The latency distributions of commit.spill called by bboltdb backend.",
                         disk);
  registry_.AddHistogram("etcd_debugging_disk_backend_commit_write_duration_seconds",
                         "The latency distributions of commit.write called by bboltdb backend.",
                         disk);
  registry_.AddHistogram("etcd_debugging_snap_save_marshalling_duration_seconds",
                         "The marshalling cost distributions of save called by snapshot.", disk);
  registry_.AddHistogram("etcd_debugging_snap_save_total_duration_seconds",
                         "The total latency distributions of save called by snapshot.", disk);
  registry_.AddHistogram("etcd_snap_fsync_duration_seconds",
                         "The latency distributions of fsync called by snap.", disk);
  registry_.AddHistogram("etcd_snap_db_fsync_duration_seconds",
                         "The latency distributions of fsyncing .snap.db file", disk);
  registry_.AddHistogram("etcd_snap_db_save_total_duration_seconds",
                         "The total latency distributions of v3 snapshot save",
                         ExponentialBuckets(0.1, 2, 10));
}

void ShowClusterVersion(MetricRegistry& registry, std::string_view before, std::string_view now) {
  const auto show = [&](std::string_view version, double value) {
    if (!version.empty()) {
      const std::string label(version.substr(0, version.rfind('.')));
      registry
          .AddGauge("etcd_cluster_version",
                    "Which version is running. 1 for 'cluster_version' label with current cluster "
                    "version",
                    {{"cluster_version", label}})
          .Set(value);
    }
  };
  show(before, 0);
  show(now, 1);
}

void MemberMetrics::AddRead(const char* name, const char* help, std::function<double()> read) {
  registry_.AddGaugeFn(name, help, std::move(read));
  read_names_.push_back(name);
}

// The registry may be scraped after the member is gone.
MemberMetrics::~MemberMetrics() {
  for (const std::string& name : read_names_) {
    registry_.Remove(name, {});
  }
}

}  // namespace mainstay::server

#include "server/member_metrics.h"

#include <utility>

#include "common/coding.h"

namespace mainstay::server {

MemberMetrics::MemberMetrics(MetricRegistry& r, MemberId self, int64_t quota_bytes, Sources sources)
    : defrag_inflight(r.AddGauge("etcd_disk_defrag_inflight",
                                 "Whether or not defrag is active on the member. 1 means active, 0 means not.")),
      defrag_seconds(r.AddHistogram("etcd_disk_backend_defrag_duration_seconds",
                                    "The latency distribution of backend defragmentation.",
                                    ExponentialBuckets(0.1, 2, 13))),
      hash_seconds(r.AddHistogram("etcd_mvcc_hash_duration_seconds",
                                  "The latency distribution of storage hash operation.",
                                  ExponentialBuckets(0.01, 2, 15))),
      hash_rev_seconds(r.AddHistogram("etcd_mvcc_hash_rev_duration_seconds",
                                      "The latency distribution of storage hash by revision operation.",
                                      ExponentialBuckets(0.01, 2, 15))),
      registry_(r) {
  r.AddGauge("etcd_server_id", "Server or member ID in hexadecimal format. 1 for 'server_id' label with current ID.",
             {{"server_id", HexId(self.value())}})
      .Set(1);
  r.AddGauge("etcd_server_quota_backend_bytes", "Current backend storage quota size in bytes.")
      .Set(static_cast<double>(quota_bytes));
  r.AddGauge("etcd_server_snapshot_apply_in_progress_total",
             "1 if the server is applying the incoming snapshot. 0 if none.");
  r.AddCounter("etcd_server_heartbeat_send_failures_total",
               "The total number of leader heartbeat send failures (likely overloaded from slow disk).");
  AddRead("etcd_mvcc_db_total_size_in_bytes", "Total size of the underlying database physically allocated in bytes.",
          std::move(sources.db_size));
  AddRead("etcd_mvcc_db_total_size_in_use_in_bytes",
          "Total size of the underlying database logically in use in bytes.", std::move(sources.db_size_in_use));
  AddRead("etcd_debugging_mvcc_current_revision", "The current revision of store.", std::move(sources.revision));
  AddRead("etcd_debugging_mvcc_compact_revision", "The revision of the last compaction in store.",
          std::move(sources.compact_revision));
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

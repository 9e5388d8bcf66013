#include "server/apply_metrics.h"

#include <iterator>

namespace mainstay::server {
namespace {

struct KindName {
  uint32_t kind;
  std::string_view name;
};
constexpr KindName kNames[] = {
    {4, "Put"},
    {5, "DeleteRange"},
    {6, "Txn"},
    {7, "Compaction"},
    {8, "LeaseGrant"},
    {9, "LeaseRevoke"},
    {10, "Alarm"},
    {11, "LeaseCheckpoint"},
    {1300, "ClusterVersionSet"},
    {1301, "ClusterMemberAttrSet"},
    {1302, "DowngradeInfoSet"},
    {0, "Unknown"},
};

}  // namespace

std::string_view RequestTypeName(uint32_t kind) {
  for (const KindName& entry : kNames) {
    if (entry.kind == kind) {
      return entry.name;
    }
  }
  return "Unknown";
}

size_t ApplyMetrics::KindSlot(uint32_t kind) {
  static_assert(std::size(kNames) == kKinds);
  for (size_t i = 0; i + 1 < kKinds; ++i) {
    if (kNames[i].kind == kind) {
      return i;
    }
  }
  return kKinds - 1;
}

ApplyMetrics::ApplyMetrics(MetricRegistry& r)
    : applied_total(r.AddGauge("etcd_server_proposals_applied_total",
                               "The total number of consensus proposals applied.")),
      is_learner(r.AddGauge("etcd_server_is_learner",
                            "Whether or not this member is a learner. 1 if is, 0 otherwise.")),
      slow_applies(r.AddCounter(
          "etcd_server_slow_apply_total",
          "The total number of slow apply requests (likely overloaded from slow disk).")),
      backend_commit(r.AddHistogram("etcd_disk_backend_commit_duration_seconds",
                                    "The latency distributions of commit called by backend.",
                                    ExponentialBuckets(0.001, 2, 14))),
      ranges(r.AddCounter("etcd_mvcc_range_total", "Total number of ranges seen by this member.")),
      puts(r.AddCounter("etcd_mvcc_put_total", "Total number of puts seen by this member.")),
      deletes(
          r.AddCounter("etcd_mvcc_delete_total", "Total number of deletes seen by this member.")),
      txns(r.AddCounter("etcd_mvcc_txn_total", "Total number of txns seen by this member.")),
      put_bytes(r.AddGauge("etcd_debugging_mvcc_total_put_size_in_bytes",
                           "The total size of put kv pairs seen by this member.")),
      keys(r.AddGauge("etcd_debugging_mvcc_keys_total", "Total number of keys.")),
      compaction_pause_ms(
          r.AddHistogram("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds",
                         "Bucketed histogram of db compaction pause duration.",
                         ExponentialBuckets(1, 2, 13))),
      compaction_total_ms(
          r.AddHistogram("etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
                         "Bucketed histogram of db compaction total duration.",
                         ExponentialBuckets(100, 2, 14))),
      compaction_last(r.AddGauge("etcd_debugging_mvcc_db_compaction_last",
                                 "The unix time of the last db compaction. Resets to 0 on start.")),
      compaction_keys(r.AddCounter("etcd_debugging_mvcc_db_compaction_keys_total",
                                   "Total number of db keys compacted.")),
      index_compaction_pause_ms(
          r.AddHistogram("etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds",
                         "Bucketed histogram of index compaction pause duration.",
                         ExponentialBuckets(0.5, 2, 14))) {
  for (size_t i = 0; i < kKinds; ++i) {
    const std::string name(kNames[i].name);
    for (size_t ok = 0; ok < 2; ++ok) {
      const std::string success = ok == 1 ? "true" : "false";
      apply_[2 * i + ok] =
          &r.AddHistogram("etcd_server_apply_duration_seconds",
                          "The latency distributions of v2 apply called by backend.",
                          ExponentialBuckets(0.0001, 2, 20),
                          {{"version", "v3"}, {"op", name}, {"success", success}});
      request_[2 * i + ok] =
          &r.AddHistogram("etcd_server_request_duration_seconds",
                          "Response latency distribution in seconds for each type.",
                          ExponentialBuckets(0.001, 2, 14), {{"type", name}, {"success", success}});
    }
  }
}

void ApplyMetrics::Count(const mvcc::Store::Counts& counts) {
  if (counts.total() > 1) {
    txns.Add();
  }
  const auto add = [](Counter& counter, int64_t n) {
    if (n != 0) {
      counter.Add(static_cast<double>(n));
    }
  };
  add(ranges, counts.ranges);
  add(puts, counts.puts);
  add(deletes, counts.deletes);
  if (counts.put_bytes != 0) {
    put_bytes.Add(static_cast<double>(counts.put_bytes));
  }
}

}  // namespace mainstay::server

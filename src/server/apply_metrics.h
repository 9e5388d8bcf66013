// The applier's instruments, made once.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "common/metrics.h"
#include "mvcc/store.h"

namespace mainstay::server {

// Under which names etcd's metrics know a request: "Put" as `type`, and as `op`.
std::string_view RequestTypeName(uint32_t kind);

class ApplyMetrics {
 public:
  explicit ApplyMetrics(MetricRegistry& registry);
  void ObserveApply(uint32_t kind, bool success, double seconds) {
    Slot(apply_, kind, success).Observe(seconds);
  }
  void ObserveRequest(uint32_t kind, bool success, double seconds) {
    Slot(request_, kind, success).Observe(seconds);
  }

  Gauge& applied_total;
  Gauge& is_learner;
  Counter& slow_applies;
  Histogram& backend_commit;
  // Counts one request's operations as etcd does: as a txn where there was more than one.
  void Count(const mvcc::Store::Counts& counts);

  Counter& ranges;
  Counter& puts;
  Counter& deletes;
  Counter& txns;
  Gauge& put_bytes;
  Gauge& keys;
  Histogram& compaction_pause_ms;
  Histogram& compaction_total_ms;
  Gauge& compaction_last;
  Counter& compaction_keys;
  Histogram& index_compaction_pause_ms;

 private:
  static constexpr size_t kKinds = 12;
  using Slots = std::array<Histogram*, 2 * kKinds>;
  static size_t KindSlot(uint32_t kind);
  static Histogram& Slot(Slots& slots, uint32_t kind, bool success) {
    return *slots[2 * KindSlot(kind) + (success ? 1 : 0)];
  }
  Slots apply_;
  Slots request_;
};

}  // namespace mainstay::server

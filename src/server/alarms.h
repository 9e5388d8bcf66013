// Alarms: who raised what, replicated; and what they forbid.
//
// Role        The applier changes them; everybody reads.
// Threads     Load(), Clear(), Activate(), Deactivate(), DropMember(): "apply" (and recovery).
// Reads: any. Sources     Bucket "alarm": key = encoded etcdserverpb.AlarmMember, empty value.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/metrics.h"
#include "common/mutex.h"
#include "common/status.h"
#include "server/reply.h"

namespace mainstay::backend {
class WriteBatch;
}

namespace mainstay::server {

inline constexpr std::string_view kAlarmBucket = "alarm";

class Alarms {
 public:
  explicit Alarms(MetricRegistry& metrics) : metrics_(metrics) {}

  void Clear();
  // One row's key. DataLoss if it is no AlarmMember.
  Status Load(std::string_view key);
  // True if it was not there. kNone is never raised.
  bool Activate(AlarmMember alarm, backend::WriteBatch& batch);
  bool Deactivate(AlarmMember alarm, backend::WriteBatch& batch);
  // A member left: its alarms go with it.
  void DropMember(MemberId member, backend::WriteBatch& batch);

  // Of one type, or all for kNone; by member, then type.
  std::vector<AlarmMember> Get(AlarmType type) const;
  bool Has(AlarmMember alarm) const;
  // Cheap. Puts, grants and txns that cost something are refused.
  bool no_space() const { return no_space_.load(std::memory_order_acquire) > 0; }
  // Cheap. All replicated changes of keys and leases are refused.
  bool corrupt() const { return corrupt_.load(std::memory_order_acquire) > 0; }

 private:
  void Count(AlarmMember alarm, int by);

  MetricRegistry& metrics_;
  std::atomic<int> no_space_{0};
  std::atomic<int> corrupt_{0};
  mutable Mutex mu_;
  std::set<AlarmMember> alarms_ ABSL_GUARDED_BY(mu_);
};

// "NOSPACE", "CORRUPT", "NONE".
std::string_view AlarmName(AlarmType type);

}  // namespace mainstay::server

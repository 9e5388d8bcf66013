// What a Lessor holds. Private to src/lease.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"

#include "common/metrics.h"
#include "common/mutex.h"
#include "lease/deadlines.h"
#include "lease/lessor.h"

namespace mainstay::lease {

inline constexpr Time kForever = Time::max();

// `now` + whole seconds, kept below kForever: rows and entries of others may hold any number.
inline Time After(Time now, int64_t seconds) {
  const Time span = std::chrono::seconds(std::clamp<int64_t>(seconds, 0, kTtlMaxSeconds));
  return std::min(now, kForever - Time(1) - span) + span;
}

struct Lease {
  int64_t ttl_seconds = 0;
  int64_t remaining_seconds = 0;  // of the last checkpoint; 0 = none
  uint64_t serial = 0;
  Time deadline = kForever;       // kForever while not promoted
  Time checkpoint_at = kForever;  // kForever: none is to be made
  bool checkpoint_queued = false;
  absl::btree_set<std::string> keys;
};

using Waiter = absl::AnyInvocable<void()>;

struct Lessor::State {
  State(LessorOptions o, MetricRegistry& metrics);

  Lease* Find(LeaseId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const auto at = leases.find(id.value());
    return at == leases.end() ? nullptr : &at->second;
  }
  // Starts the lease's time on the leader.
  void Arm(LeaseId id, Lease& lease, Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void ScheduleCheckpoint(LeaseId id, Lease& lease, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Looks at one due entry: moves it to its lease's later deadline, drops it, or gives the lease.
  Lease* Expired(const Deadlines::Entry& entry, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  const LessorOptions options;
  Counter& granted_total;
  Counter& revoked_total;
  Counter& renewed_total;
  Histogram& ttl_seconds;

  mutable Mutex mu;
  absl::flat_hash_map<int64_t, Lease> leases ABSL_GUARDED_BY(mu);
  std::optional<Term> term ABSL_GUARDED_BY(mu);
  uint64_t next_serial ABSL_GUARDED_BY(mu) = 1;
  Deadlines expiries ABSL_GUARDED_BY(mu);     // one entry per lease while promoted
  Deadlines checkpoints ABSL_GUARDED_BY(mu);  // at most one entry per lease
  std::map<LeaseId, std::vector<Waiter>> waiters ABSL_GUARDED_BY(mu);
  size_t waiter_count ABSL_GUARDED_BY(mu) = 0;
};

}  // namespace mainstay::lease

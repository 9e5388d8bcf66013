// When to compact by itself, and to where: --auto-compaction-mode and -retention, as etcd does it
// (operations 8.6). A pure clockwork: the caller asks, proposes, and says how it went.
//
// Threads  The caller's one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "env/clock.h"
#include "server/options.h"

namespace mainstay::server {

class AutoCompactor {
 public:
  AutoCompactor(const Options& options, MonoTime now);

  // The next time at which Tick() has something to do; kNever when off.
  MonoTime next_tick() const { return next_tick_; }
  // The revision to compact to now, if any. Samples the revision also while not leading, so that a
  // new leader has a full window. At most one is outstanding: none is given until Done().
  std::optional<int64_t> Tick(MonoTime now, int64_t current_revision, bool leader);
  // The proposal for `revision` ended; `success` also when it was compacted already. After a
  // failure it is due again at the next tick.
  void Done(int64_t revision, bool success, MonoTime now);

 private:
  std::optional<int64_t> TickPeriodic(MonoTime now, int64_t current_revision, bool leader);
  std::optional<int64_t> TickRevision(MonoTime now, int64_t current_revision, bool leader);

  const AutoCompactionMode mode_;
  const std::chrono::nanoseconds period_;    // kPeriodic: how much history stays
  const std::chrono::nanoseconds interval_;  // kPeriodic: between compactions after the first
  const std::chrono::nanoseconds tick_;
  const int64_t revisions_;   // kRevision: how many stay
  const size_t samples_max_;  // kPeriodic: one per tick over the period, and one
  MonoTime next_tick_ = kNever;
  std::chrono::nanoseconds wait_;  // from the last success to the next compaction
  MonoTime last_success_;
  int64_t last_revision_ = 0;
  bool outstanding_ = false;
  std::deque<int64_t> samples_;  // oldest first
};

}  // namespace mainstay::server

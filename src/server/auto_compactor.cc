#include "server/auto_compactor.h"

#include <algorithm>

namespace mainstay::server {
namespace {

using std::chrono::nanoseconds;
constexpr nanoseconds kIntervalMax = std::chrono::hours(1);
constexpr nanoseconds kRevisionTick = std::chrono::minutes(5);
constexpr int64_t kTicksPerInterval = 10;

AutoCompactionMode EffectiveMode(const Options& o) {
  if (o.auto_compaction_mode == AutoCompactionMode::kPeriodic &&
      o.auto_compaction_retention.count() > 0) {
    return AutoCompactionMode::kPeriodic;
  }
  if (o.auto_compaction_mode == AutoCompactionMode::kRevision && o.auto_compaction_revisions > 0) {
    return AutoCompactionMode::kRevision;
  }
  return AutoCompactionMode::kOff;  // a retention of 0 switches it off
}

nanoseconds TickFor(AutoCompactionMode mode, nanoseconds interval) {
  if (mode == AutoCompactionMode::kRevision) {
    return kRevisionTick;
  }
  return std::max<nanoseconds>(interval / kTicksPerInterval, nanoseconds(1));
}

}  // namespace

AutoCompactor::AutoCompactor(const Options& options, MonoTime now)
    : mode_(EffectiveMode(options)),
      period_(options.auto_compaction_retention),
      interval_(std::min(period_, kIntervalMax)),
      tick_(TickFor(mode_, interval_)),
      revisions_(options.auto_compaction_revisions),
      samples_max_(static_cast<size_t>(period_ / tick_) + 1),
      wait_(period_),
      last_success_(now) {
  if (mode_ == AutoCompactionMode::kPeriodic) {
    next_tick_ = now;  // the first tick takes the first sample
  } else if (mode_ == AutoCompactionMode::kRevision) {
    next_tick_ = now + tick_;
  }
}

std::optional<int64_t> AutoCompactor::Tick(MonoTime now, int64_t current_revision, bool leader) {
  if (now < next_tick_) {
    return std::nullopt;
  }
  next_tick_ = now + tick_;
  return mode_ == AutoCompactionMode::kPeriodic ? TickPeriodic(now, current_revision, leader)
                                                : TickRevision(now, current_revision, leader);
}

std::optional<int64_t> AutoCompactor::TickPeriodic(MonoTime now,
                                                   int64_t current_revision,
                                                   bool leader) {
  std::optional<int64_t> due;
  // The wait since the last sample ends here; what is due is judged on the window as it stood
  // during that wait.
  if (!samples_.empty() && leader && !outstanding_ && now - last_success_ >= wait_ &&
      samples_.front() != last_revision_) {
    due = samples_.front();
    wait_ = interval_;
    outstanding_ = true;
  }
  samples_.push_back(current_revision);
  if (samples_.size() > samples_max_) {
    samples_.pop_front();
  }
  return due;
}

std::optional<int64_t> AutoCompactor::TickRevision(MonoTime,
                                                   int64_t current_revision,
                                                   bool leader) {
  const int64_t target = current_revision - revisions_;
  if (!leader || outstanding_ || target <= 0 || target == last_revision_) {
    return std::nullopt;
  }
  outstanding_ = true;
  return target;
}

void AutoCompactor::Done(int64_t revision, bool success, MonoTime now) {
  outstanding_ = false;
  if (success) {
    last_revision_ = revision;
    last_success_ = now;
  }
}

}  // namespace mainstay::server

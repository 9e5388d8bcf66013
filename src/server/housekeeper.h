// server::Housekeeper: what a member does unasked, by proposing it: publish itself, decide the
// cluster version, end leases, compact by itself, take back its own NOSPACE alarm, checkpoint
// leases.
//
// Role        Decides by clock and proposes; nothing here changes state but through the log.
// Threads     RunOnce(), NextWake(): "timer". Deliver(), Flush(): the tasks that answer. ready(),
// OnReady(): any. Limits      One proposal of a kind outstanding; lease revocations as many as a
// round may take
//             (lease::Lessor::expired_batch_max()).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "common/mutex.h"
#include "common/queue.h"
#include "env/executor.h"
#include "lease/lessor.h"
#include "membership/cluster.h"
#include "server/alarms.h"
#include "server/auto_compactor.h"
#include "server/proposer.h"

namespace mainstay::server {

class Housekeeper : public Task, public ReplySink {
 public:
  struct Params {
    const Options& options;
    Clock& clock;
    MetricRegistry& metrics;
    SharedState& shared;
    Proposer& proposer;
    RaftDriver& driver;
    lease::Lessor& lessor;
    membership::Cluster& cluster;
    Alarms& alarms;
    MemberId self;
    std::function<int64_t()> revision;  // the store's, now
    std::function<void()> maintain;     // flush and log release; called about once a second
  };
  explicit Housekeeper(Params params);

  bool RunOnce() override;
  MonoTime NextWake() const override;
  void Deliver(uint64_t a, uint64_t b, Reply&& reply) override;
  void Flush() override { p_.shared.timer.Wake(); }

  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // Calls `then` once: when the member has published itself, or at once if it has.
  void OnReady(absl::AnyInvocable<void()> then);

 private:
  // Which proposal an answer belongs to: ReplyTo::a.
  enum class Errand : uint64_t { kPublish, kVersion, kCompact, kRevoke, kClearAlarm, kCheckpoint };
  static constexpr size_t kErrandCount = 6;
  struct Answer {
    Errand errand;
    uint64_t b;
    Error error;
  };

  bool TakeAnswers(MonoTime now);
  void Settle(const Answer& answer, MonoTime now);
  bool Due(MonoTime* at, std::chrono::nanoseconds every, MonoTime now);
  void Publish(MonoTime now);
  void DecideVersion(MonoTime now);
  void EndLeases(MonoTime now);
  void CheckpointLeases(MonoTime now);
  void Compact(MonoTime now);
  void WatchSpace(MonoTime now);
  // True if taken; then Settle() follows. A kind that is outstanding is not proposed again.
  bool Go(Errand errand,
          RequestKind kind,
          const std::string& request,
          uint64_t b,
          MonoTime now,
          Term only_term);
  bool Outstanding(Errand errand) const { return outstanding_[static_cast<size_t>(errand)]; }
  bool LeadsFor(MonoTime now) const;

  Params p_;
  BoundedQueue<Answer> answers_;
  std::atomic<bool> ready_{false};
  Mutex mu_;
  std::vector<absl::AnyInvocable<void()>> on_ready_ ABSL_GUARDED_BY(mu_);

  // ---- "timer"
  bool outstanding_[kErrandCount] = {};
  MonoTime retry_at_[kErrandCount] = {};
  AutoCompactor compactor_;
  MonoTime next_lease_round_{0};
  MonoTime next_checkpoint_{0};
  MonoTime next_space_check_{0};
  MonoTime next_maintenance_{0};
  MonoTime low_since_ = kNever;  // usage is well below the quota since then
  std::vector<Answer> popped_;
  Counter& leases_expired_;
};

}  // namespace mainstay::server

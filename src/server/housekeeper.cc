#include "server/housekeeper.h"

#include <algorithm>
#include <utility>

#include "common/coding.h"
#include "common/log.h"

namespace mainstay::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::chrono::nanoseconds kLeaseRound = milliseconds(500);
constexpr std::chrono::nanoseconds kCheckpointRound = seconds(1);
constexpr size_t kCheckpointsMax = 1000;
constexpr std::chrono::nanoseconds kSpaceCheck = seconds(1);
constexpr std::chrono::nanoseconds kMaintenance = seconds(1);
constexpr std::chrono::nanoseconds kRetry = milliseconds(500);
// Usage must stay this far below the quota, for this long, before a member takes its own alarm
// back: long enough for an operator's compact, defragment, disarm to find the alarm that it is
// about.
constexpr int64_t kLowPercent = 90;
constexpr std::chrono::nanoseconds kLowFor = seconds(60);
// The raft thread is late by more ticks than this: its view of who leads may be old
// (operations 4.2).
constexpr int kTicksLateMax = 3;
constexpr size_t kAnswersMax = 65536;

constexpr char kClusterVersion[] = "3.7.0";

std::string AttributesRequest(MemberId self, const Options& options) {
  std::string attributes;
  if (!options.name.empty()) {
    AppendBytesField(&attributes, 1, options.name);
  }
  for (const std::string& url : options.advertise_client_urls) {
    AppendBytesField(&attributes, 2, url);
  }
  std::string request;
  AppendVarintField(&request, 1, self.value());
  AppendBytesField(&request, 2, attributes);
  return request;
}

}  // namespace

Housekeeper::Housekeeper(Params params)
    : p_(std::move(params)),
      answers_(kAnswersMax),
      compactor_(p_.options, p_.clock.Now()),
      leases_expired_(p_.metrics.AddCounter("etcd_debugging_server_lease_expired_total",
                                            "The total number of expired leases.")) {}

// ---- answers

void Housekeeper::Deliver(uint64_t a, uint64_t b, Reply&& reply) {
  // Bounded by what is outstanding, which this task bounds itself.
  answers_.Push({static_cast<Errand>(a), b, reply.error});
}

bool Housekeeper::TakeAnswers(MonoTime now) {
  if (!answers_.PopAll(&popped_)) {
    return false;
  }
  for (const Answer& answer : popped_) {
    Settle(answer, now);
  }
  return true;
}

void Housekeeper::Settle(const Answer& answer, MonoTime now) {
  const auto slot = static_cast<size_t>(answer.errand);
  if (answer.errand == Errand::kRevoke) {
    // The lessor gives a lease again after a while if it is still there.
    return;
  }
  outstanding_[slot] = false;
  retry_at_[slot] = answer.error == Error::kOk ? MonoTime{0} : now + kRetry;
  if (answer.errand == Errand::kCompact) {
    compactor_.Done(static_cast<int64_t>(answer.b),
                    answer.error == Error::kOk || answer.error == Error::kCompacted, now);
    MS_LOG(kInfo, "completed auto compaction")
        .Unsigned("revision", answer.b)
        .Bool("success", answer.error == Error::kOk);
  }
  if (answer.errand == Errand::kPublish && answer.error == Error::kOk && !ready()) {
    MS_LOG(kInfo, "published local member to cluster through raft")
        .Hex("local-member-id", p_.self.value())
        .Hex("cluster-id", p_.cluster.view()->cluster_id.value())
        .Duration("publish-timeout", p_.options.request_timeout());
    // What was replayed is flushed at once: a member that is killed within the second must not
    // replay it again.
    p_.maintain();
    std::vector<absl::AnyInvocable<void()>> then;
    {
      MutexLock lock(mu_);
      ready_.store(true, std::memory_order_release);
      then.swap(on_ready_);
    }
    for (auto& call : then) {
      call();
    }
  }
}

void Housekeeper::OnReady(absl::AnyInvocable<void()> then) {
  {
    MutexLock lock(mu_);
    if (!ready()) {
      on_ready_.push_back(std::move(then));
      return;
    }
  }
  then();
}

bool Housekeeper::Go(Errand errand,
                     RequestKind kind,
                     const std::string& request,
                     uint64_t b,
                     MonoTime now,
                     Term only_term) {
  const auto slot = static_cast<size_t>(errand);
  if (errand != Errand::kRevoke) {
    if (outstanding_[slot] || now < retry_at_[slot]) {
      return false;
    }
    outstanding_[slot] = true;
  }
  Proposal proposal;
  proposal.kind = kind;
  proposal.request = Buffer::Copy(request);
  proposal.reply_to = {this, static_cast<uint64_t>(errand), b};
  if (p_.proposer.ProposeOwn(std::move(proposal), only_term) != Error::kOk) {
    outstanding_[slot] = false;
    retry_at_[slot] = now + kRetry;
    return false;
  }
  return true;
}

// ---- the round

bool Housekeeper::Due(MonoTime* at, std::chrono::nanoseconds every, MonoTime now) {
  if (now < *at) {
    return false;
  }
  *at = now + every;
  return true;
}

bool Housekeeper::LeadsFor(MonoTime now) const {
  const MonoTime last_tick{p_.shared.last_tick_ns.load()};
  return p_.shared.is_leader.load() && now - last_tick <= kTicksLateMax * p_.options.heartbeat;
}

bool Housekeeper::RunOnce() {
  if (p_.shared.fatal.raised()) {
    return false;
  }
  const MonoTime now = p_.clock.Now();
  bool any = TakeAnswers(now);
  if (p_.shared.leader.load() != 0) {
    Publish(now);
    DecideVersion(now);
  }
  if (Due(&next_lease_round_, kLeaseRound, now)) {
    EndLeases(now);
    any = true;
  }
  if (p_.options.lease_checkpoint && Due(&next_checkpoint_, kCheckpointRound, now)) {
    CheckpointLeases(now);
    any = true;
  }
  if (now >= compactor_.next_tick()) {
    Compact(now);
    any = true;
  }
  if (Due(&next_space_check_, kSpaceCheck, now)) {
    WatchSpace(now);
    any = true;
  }
  if (Due(&next_maintenance_, kMaintenance, now)) {
    p_.maintain();
    any = true;
  }
  return any;
}

MonoTime Housekeeper::NextWake() const {
  if (p_.shared.fatal.raised()) {
    return kNever;
  }
  MonoTime next =
      std::min({next_lease_round_, next_space_check_, next_maintenance_, compactor_.next_tick()});
  if (p_.options.lease_checkpoint) {
    next = std::min(next, next_checkpoint_);
  }
  return next;
}

void Housekeeper::Publish(MonoTime now) {
  if (!ready()) {
    Go(Errand::kPublish, RequestKind::kClusterMemberAttrSet, AttributesRequest(p_.self, p_.options),
       0, now, Term(0));
  }
}

void Housekeeper::DecideVersion(MonoTime now) {
  if (!p_.shared.is_leader.load() || Outstanding(Errand::kVersion) ||
      !p_.cluster.view()->cluster_version.empty() || p_.cluster.view()->Find(p_.self) == nullptr) {
    return;
  }
  // Every member that there is runs this version: a cluster of one.
  if (p_.cluster.view()->members.size() != 1) {
    return;
  }
  std::string request;
  AppendBytesField(&request, 1, kClusterVersion);
  if (Go(Errand::kVersion, RequestKind::kClusterVersionSet, request, 0, now,
         Term(p_.shared.term.load()))) {
    MS_LOG(kInfo, "setting up initial cluster version using v3 API").Str("cluster-version", "3.7");
  }
}

void Housekeeper::EndLeases(MonoTime now) {
  const std::optional<Term> term = p_.lessor.primary_term();
  if (!term || !LeadsFor(now)) {
    return;
  }
  const std::vector<LeaseId> expired = p_.lessor.ExpiredLeases(now, p_.lessor.expired_batch_max());
  for (const LeaseId id : expired) {
    std::string request;
    AppendVarintField(&request, 1, static_cast<uint64_t>(id.value()));
    if (Go(Errand::kRevoke, RequestKind::kLeaseRevoke, request, 0, now, *term)) {
      leases_expired_.Add();
    }
  }
}

void Housekeeper::CheckpointLeases(MonoTime now) {
  const std::optional<Term> term = p_.lessor.primary_term();
  if (!term || !LeadsFor(now) || Outstanding(Errand::kCheckpoint)) {
    return;
  }
  const std::vector<lease::Checkpoint> due = p_.lessor.DueCheckpoints(now, kCheckpointsMax);
  if (due.empty()) {
    return;
  }
  std::string request;
  for (const lease::Checkpoint& checkpoint : due) {
    std::string one;
    AppendVarintField(&one, 1, static_cast<uint64_t>(checkpoint.id.value()));
    AppendVarintField(&one, 2, static_cast<uint64_t>(checkpoint.remaining_ttl_seconds));
    AppendBytesField(&request, 1, one);
  }
  Go(Errand::kCheckpoint, RequestKind::kLeaseCheckpoint, request, 0, now, *term);
}

void Housekeeper::Compact(MonoTime now) {
  const std::optional<int64_t> target =
      compactor_.Tick(now, p_.revision(), p_.shared.is_leader.load());
  if (!target) {
    return;
  }
  MS_LOG(kInfo, "starting auto compaction").Num("revision", *target);
  std::string request;
  AppendVarintField(&request, 1, static_cast<uint64_t>(*target));
  if (!Go(Errand::kCompact, RequestKind::kCompaction, request, static_cast<uint64_t>(*target), now,
          Term(0))) {
    compactor_.Done(*target, false, now);
  }
}

// Mainstay gives space back by itself, so it also takes its alarm back by itself (case C53).
void Housekeeper::WatchSpace(MonoTime now) {
  const int64_t quota = p_.options.quota_bytes();
  const AlarmMember own{p_.self, AlarmType::kNoSpace};
  const int64_t used = p_.shared.store_used_bytes.load();
  const bool low = quota < 0 || used < quota / 100 * kLowPercent;
  if (!p_.alarms.Has(own) || !low) {
    low_since_ = kNever;
    return;
  }
  if (low_since_ == kNever) {
    low_since_ = now;
  }
  if (now - low_since_ < kLowFor) {
    return;
  }
  std::string request;
  AppendVarintField(&request, 1, 2);  // DEACTIVATE
  AppendVarintField(&request, 2, p_.self.value());
  AppendVarintField(&request, 3, static_cast<uint64_t>(AlarmType::kNoSpace));
  if (Go(Errand::kClearAlarm, RequestKind::kAlarm, request, 0, now, Term(0))) {
    MS_LOG(kInfo, "alarm taken back: the store is well below its quota")
        .Num("quota-size-bytes", quota)
        .Num("store-used-bytes", used);
  }
}

}  // namespace mainstay::server

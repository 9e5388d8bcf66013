#include "server/applier.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/check.h"
#include "common/log.h"
#include "server/conf_state_json.h"
#include "server/proposal.h"
#include "server/quota.h"

namespace mainstay::server {
namespace {

// A compaction step is followed by this many times its own length without one.
constexpr int kCompactionRest = 4;
constexpr std::chrono::nanoseconds kCompactionRestMin = std::chrono::milliseconds(1);
// The removal cannot go on while an old view lives: look again after this.
constexpr std::chrono::nanoseconds kCompactionRetry = std::chrono::milliseconds(20);

}  // namespace

Applier::Applier(Params params)
    : p_(std::move(params)),
      lease_lookup_(p_.lessor),
      metrics_(p_.metrics),
      last_(p_.applied),
      written_(p_.applied),
      conf_state_(p_.conf_state),
      compacting_(p_.store.compacting()),
      pinned_applied_(p_.applied),
      pinned_conf_(std::make_shared<raft::ConfState>(p_.conf_state)) {
  p_.shared.applied_index.store(last_.index.value());
  p_.shared.applied_term.store(last_.term.value());
  p_.shared.store_used_bytes.store(p_.store.published_logical_bytes());
  p_.shared.revision.store(p_.store.revision());
  NoteOwnRole();
  term_starts_[last_.index.value()] = last_.term;
  conf_history_[last_.index.value()] = pinned_conf_;
}

MonoTime Applier::NextWake() const {
  return compacting_ ? next_compaction_step_ : kNever;
}

bool Applier::RunOnce() {
  if (p_.shared.fatal.raised()) {
    return false;
  }
  bool any = conf_wait_ && FinishConf();
  if (p_.inbox.PopAll(&popped_)) {
    std::move(popped_.begin(), popped_.end(), std::back_inserter(pending_));
    popped_.clear();
    any = true;
  }
  while (!pending_.empty() && !conf_wait_ && !p_.shared.fatal.raised()) {
    ApplyItem item = std::move(pending_.front());
    pending_.pop_front();
    Take(std::move(item));
    if (Full()) {
      Commit();
    }
  }
  Commit();
  const MonoTime now = compacting_ ? p_.clock.Now() : MonoTime{0};
  if (compacting_ && now >= next_compaction_step_) {
    CompactStep(now);
  }
  return any;
}

bool Applier::Full() const {
  return batch_.bytes() >= kBatchBytesMax || batch_entries_ >= kBatchEntriesMax;
}

void Applier::Take(ApplyItem&& item) {
  switch (item.kind) {
    case ApplyItem::Kind::kEntry:
      TakeEntry(std::move(item));
      break;
    case ApplyItem::Kind::kReads:
      TakeReads(std::move(item.reads));
      break;
    case ApplyItem::Kind::kLeadership:
      TakeLeadership(item.leads, item.term);
      break;
  }
}

void Applier::TakeReads(std::unique_ptr<ReadBatch> reads) {
  if (reads->index <= last_.index) {
    std::move(reads->reads.begin(), reads->reads.end(), std::back_inserter(reads_ready_));
  } else {
    reads_waiting_.emplace(reads->index.value(), std::move(reads->reads));
  }
}

void Applier::TakeLeadership(bool leads, Term term) {
  leads_term_ = leads ? term : Term(0);
  if (!leads) {
    p_.lessor.Demote();
  }
}

// The leader's empty entry of its term: everything that earlier terms decided is applied now, so
// deadlines may start.
void Applier::StartOfTerm(Term term) {
  if (term == leads_term_ && p_.lessor.primary_term() != std::optional(term)) {
    p_.lessor.Promote(term, p_.options.election_timeout, p_.clock.Now());
  }
}

void Applier::TakeEntry(ApplyItem&& item) {
  MS_CHECK_EQ(item.entry.index, last_.index.Next());
  if (item.entry.is_conf_change()) {
    Commit();
    BeginConf(std::move(item));
    return;
  }
  if (item.entry.data.empty()) {
    StartOfTerm(item.entry.term);
  } else {
    ApplyRequest(item);
  }
  if (p_.shared.fatal.raised()) {
    return;  // not applied: whoever can read it goes on from here
  }
  last_ = item.entry.id();
  ++batch_entries_;
}

void Applier::ApplyRequest(ApplyItem& item) {
  const MonoTime start = p_.clock.Now();
  DecodedEntry entry;
  if (!DecodeEntry(item.entry.data.view(), &entry)) {
    p_.shared.fatal.Raise(DataLoss("log entry " + std::to_string(item.entry.index.value()) +
                                   " is committed but holds no request"));
    return;
  }
  bool later = false;
  Reply reply = Dispatch(entry, &later, item);
  if (p_.shared.fatal.raised()) {
    return;
  }
  const auto took = p_.clock.Now() - start;
  metrics_.ObserveApply(entry.kind, reply.error == Error::kOk, Seconds(took));
  metrics_.Count(p_.store.TakeCounts());
  if (took > p_.options.warning_apply_duration) {
    metrics_.slow_applies.Add();
    MS_LOG(kWarn, "apply request took too long")
        .Duration("took", took)
        .Duration("expected-duration", p_.options.warning_apply_duration)
        .Str("request", RequestTypeName(entry.kind))
        .Unsigned("index", item.entry.index.value())
        .Unsigned("size", item.entry.data.size());
  }
  if (!item.waiter || later) {
    return;
  }
  reply.raft_term = item.entry.term.value();
  answers_.push_back({*item.waiter, std::move(reply)});
}

// What alarms forbid, decided from replicated state only (grpc-api 5.3, 5.4).
Error Applier::Forbidden(uint32_t kind, std::string_view request) const {
  const auto k = static_cast<RequestKind>(kind);
  const bool changes_keys = k == RequestKind::kPut || k == RequestKind::kDeleteRange ||
                            k == RequestKind::kTxn || k == RequestKind::kCompaction ||
                            k == RequestKind::kLeaseGrant || k == RequestKind::kLeaseRevoke;
  if (changes_keys && p_.alarms.corrupt()) {
    return Error::kCorrupt;
  }
  if (changes_keys && p_.alarms.no_space() && RequestCost(kind, request) > 0) {
    return Error::kNoSpace;
  }
  return Error::kOk;
}

Reply Applier::Dispatch(const DecodedEntry& entry, bool* later, const ApplyItem& item) {
  if (const Error forbidden = Forbidden(entry.kind, entry.request); forbidden != Error::kOk) {
    Reply reply;
    reply.error = forbidden;
    reply.revision = p_.store.revision();
    return reply;
  }
  switch (static_cast<RequestKind>(entry.kind)) {
    case RequestKind::kPut:
    case RequestKind::kDeleteRange:
    case RequestKind::kTxn:
    case RequestKind::kLeaseGrant:
      return ApplyKeys(entry);
    case RequestKind::kCompaction:
      return ApplyCompaction(entry, later, item);
    case RequestKind::kLeaseRevoke:
      return ApplyLeaseRevoke(entry);
    case RequestKind::kAlarm:
      return ApplyAlarm(entry);
    case RequestKind::kLeaseCheckpoint:
      return ApplyLeaseCheckpoint(entry);
    case RequestKind::kClusterVersionSet:
      return ApplyClusterVersion(entry);
    case RequestKind::kClusterMemberAttrSet:
      return ApplyMemberAttributes(entry);
    case RequestKind::kDowngradeInfoSet:
      return ApplyDowngradeInfo(entry);
  }
  // Going on would leave this member with another state than those that know the request.
  p_.shared.fatal.Raise(
      FailedPrecondition("log entry " + std::to_string(item.entry.index.value()) +
                         " carries request field " + std::to_string(entry.kind) +
                         ", which this version does not know; start a version that does"));
  return {};
}

// ---- the end of a batch

void Applier::Commit() {
  if (last_.index != written_.index || !batch_.empty()) {
    const MonoTime start = p_.clock.Now();
    if (const Status status = p_.backend.Write(batch_, {last_.index, last_.term}); !status.ok()) {
      p_.shared.fatal.Raise(status);
      return;
    }
    metrics_.backend_commit.Observe(Seconds(p_.clock.Now() - start));
    batch_.Clear();
    batch_entries_ = 0;
    written_ = last_;
    Publish();
  }
  AnswerBatch();
}

void Applier::Publish() {
  {
    MutexLock lock(pin_mu_);
    p_.store.Publish([this](std::vector<mvcc::EventBatch>&& events) {
      if (!events.empty()) {
        const int64_t revision = events.back().revision;
        p_.hub.Publish(std::move(events), revision);
      }
    });
    pinned_applied_ = last_;
    if (term_starts_.rbegin()->second != last_.term) {
      term_starts_[last_.index.value()] = last_.term;
    }
    if (conf_state_changed_) {
      pinned_conf_ = std::make_shared<raft::ConfState>(conf_state_);
      conf_history_[last_.index.value()] = pinned_conf_;
      conf_state_changed_ = false;
    }
  }
  for (CompactionBegun& begun : compactions_begun_) {
    begun.after = p_.store.View();
    p_.compaction_begun(std::move(begun));
  }
  compactions_begun_.clear();
  p_.shared.store_used_bytes.store(p_.store.published_logical_bytes());
  p_.shared.revision.store(p_.store.revision(), std::memory_order_release);
  p_.shared.applied_term.store(last_.term.value(), std::memory_order_release);
  p_.shared.applied_index.store(last_.index.value(), std::memory_order_release);
  p_.shared.raft.Wake();
  metrics_.applied_total.Set(static_cast<double>(last_.index.value()));
  metrics_.keys.Set(static_cast<double>(p_.store.key_count()));
}

void Applier::AnswerBatch() {
  if (answers_.empty() && reads_ready_.empty() && reads_waiting_.empty() &&
      physical_waiting_.empty()) {
    return;
  }
  if (!physical_waiting_.empty() && !p_.store.compacting()) {
    std::move(physical_waiting_.begin(), physical_waiting_.end(), std::back_inserter(answers_));
    physical_waiting_.clear();
  }
  const MonoTime now = p_.clock.Now();
  for (Answer& answer : answers_) {
    metrics_.ObserveRequest(answer.waiter.kind, answer.reply.error == Error::kOk,
                            Seconds(now - answer.waiter.started));
    replier_.Deliver(answer.waiter.reply_to, std::move(answer.reply));
  }
  answers_.clear();
  AnswerReads(reads_ready_);
  while (!reads_waiting_.empty() && reads_waiting_.begin()->first <= last_.index.value()) {
    AnswerReads(reads_waiting_.begin()->second);
    reads_waiting_.erase(reads_waiting_.begin());
  }
  replier_.Flush();
}

void Applier::AnswerReads(std::vector<PendingRead>& reads) {
  if (reads.empty()) {
    return;
  }
  p_.shared.reads_pending.fetch_sub(reads.size());
  for (const PendingRead& read : reads) {
    Reply reply;
    reply.revision = p_.store.revision();
    reply.raft_term = last_.term.value();
    replier_.Deliver(read.reply_to, std::move(reply));
  }
  reads.clear();
}

// ---- compaction

void Applier::CompactStep(MonoTime now) {
  const int64_t removed_before = p_.store.rows_removed();
  const bool done_something = p_.store.CompactSome(batch_);
  metrics_.compaction_keys.Add(static_cast<double>(p_.store.rows_removed() - removed_before));
  if (done_something) {
    if (const Status status = p_.backend.Write(batch_, {written_.index, written_.term});
        !status.ok()) {
      p_.shared.fatal.Raise(status);
      return;
    }
    batch_.Clear();
    Publish();
  }
  const MonoTime end = p_.clock.Now();
  if (done_something) {
    metrics_.compaction_pause_ms.Observe(Seconds(end - now) * 1000);
    next_compaction_step_ =
        end + std::max<std::chrono::nanoseconds>((end - now) * kCompactionRest, kCompactionRestMin);
  } else {
    next_compaction_step_ = end + kCompactionRetry;
  }
  compacting_ = p_.store.compacting();
  if (!compacting_) {
    metrics_.compaction_total_ms.Observe(Seconds(end - compaction_began_) * 1000);
    metrics_.compaction_last.Set(static_cast<double>(
        std::chrono::duration_cast<std::chrono::seconds>(p_.clock.WallNow()).count()));
    AnswerBatch();
  }
}

// ---- other threads

Applier::Pinned Applier::Pin() const {
  while (true) {
    {
      MutexLock lock(pin_mu_);
      Pinned out{p_.store.View(), pinned_applied_, pinned_conf_, p_.cluster.view(),
                 p_.backend.NewSnapshot()};
      // A batch that is in the engine but not published yet would show in the rows alone.
      if (p_.backend.applied().index == pinned_applied_.index) {
        return out;
      }
    }
    std::this_thread::yield();
  }
}

raft::SnapshotMeta Applier::MetaAt(Index index) {
  MutexLock lock(pin_mu_);
  const auto term = std::prev(term_starts_.upper_bound(index.value()));
  const auto conf = std::prev(conf_history_.upper_bound(index.value()));
  raft::SnapshotMeta meta{*conf->second, index, term->second};
  term_starts_.erase(term_starts_.begin(), term);
  conf_history_.erase(conf_history_.begin(), conf);
  return meta;
}

void Applier::NoteOwnRole() {
  const membership::Member* self = p_.cluster.view()->Find(p_.self);
  p_.shared.is_learner.store(self != nullptr && self->is_learner);
  metrics_.is_learner.Set(self != nullptr && self->is_learner ? 1 : 0);
}

void Applier::FailAll(Error error) {
  p_.inbox.PopAll(&popped_);
  std::move(popped_.begin(), popped_.end(), std::back_inserter(pending_));
  for (const ApplyItem& item : pending_) {
    if (item.waiter) {
      replier_.Fail(item.waiter->reply_to, error);
    }
    if (item.reads) {
      reads_waiting_.emplace(0, item.reads->reads);
    }
  }
  pending_.clear();
  if (conf_wait_ && conf_wait_->item.waiter) {
    replier_.Fail(conf_wait_->item.waiter->reply_to, error);
  }
  conf_wait_.reset();
  for (const std::vector<Answer>* answers : {&answers_, &physical_waiting_}) {
    for (const Answer& answer : *answers) {
      replier_.Fail(answer.waiter.reply_to, error);
    }
  }
  answers_.clear();
  physical_waiting_.clear();
  reads_waiting_.emplace(0, std::move(reads_ready_));
  for (auto& [index, reads] : reads_waiting_) {
    for (const PendingRead& read : reads) {
      replier_.Fail(read.reply_to, error);
    }
    p_.shared.reads_pending.fetch_sub(reads.size());
  }
  reads_waiting_.clear();
  replier_.Flush();
}

}  // namespace mainstay::server

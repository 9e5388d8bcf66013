#include "server/raft_driver.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/coding.h"
#include "common/log.h"
#include "raft/codec.h"
#include "server/entry_codec.h"

namespace mainstay::server {
namespace {

// Proposals given to the core at once: enough to fill a sync, not so many that one round takes
// long.
constexpr size_t kProposeBatchMax = 8192;
// Late by more ticks than this, the driver does not make up for them: after a pause of the whole
// process a burst of ticks would end leases of leadership that nobody had a chance to renew.
constexpr int kTicksLateMax = 1;

}  // namespace

RaftDriver::RaftDriver(Params params)
    : options_(params.options),
      clock_(params.clock),
      shared_(params.shared),
      wal_(params.wal),
      apply_(params.apply),
      peers_(params.peers),
      log_(params.log),
      pool_(params.pool),
      self_(params.core.id),
      tick_(params.options.heartbeat),
      core_(params.core, params.initial),
      conf_state_(params.initial.conf_state),
      next_tick_(params.clock.Now()),
      last_applied_(params.initial.applied.value()),
      compacted_to_(params.initial.compacted.index.value()),
      has_leader_(params.metrics.AddGauge(
          "etcd_server_has_leader", "Whether or not a leader exists. 1 is existence, 0 is not.")),
      is_leader_(
          params.metrics.AddGauge("etcd_server_is_leader",
                                  "Whether or not this member is a leader. 1 if is, 0 otherwise.")),
      leader_changes_(params.metrics.AddCounter("etcd_server_leader_changes_seen_total",
                                                "The number of leader changes seen.")),
      committed_total_(
          params.metrics.AddGauge("etcd_server_proposals_committed_total",
                                  "The total number of consensus proposals committed.")),
      pending_total_(params.metrics.AddGauge("etcd_server_proposals_pending",
                                             "The current number of pending proposals to commit.")),
      failed_total_(params.metrics.AddCounter("etcd_server_proposals_failed_total",
                                              "The total number of failed proposals seen.")),
      slow_reads_(params.metrics.AddCounter(
          "etcd_server_slow_read_indexes_total",
          "The total number of pending read indexes not in sync with leader's or "
          "timed out read index requests.")),
      failed_reads_(params.metrics.AddCounter("etcd_server_read_indexes_failed_total",
                                              "The total number of failed read indexes seen.")) {
  soft_.term = params.initial.hard_state.term;
  shared_.term.store(soft_.term.value());
  shared_.commit_index.store(core_.commit_index().value());
}

// ---- other threads

size_t RaftDriver::Propose(std::span<PendingProposal> proposals) {
  bool first = false;
  const size_t taken = proposals_.TryPushSome(proposals, &first);
  if (taken > 0 && first) {
    shared_.raft.Wake();
  }
  return taken;
}

bool RaftDriver::Read(PendingRead read) {
  using enum ReadQueue::PushResult;
  switch (reads_.TryPush(std::move(read))) {
    case kFull:
      return false;
    case kPushedFirst:
      shared_.raft.Wake();
      return true;
    case kPushed:
      return true;
  }
  return true;
}

void RaftDriver::Configure(ConfRequest request) {
  MS_CHECK(conf_requests_.TryPush(std::move(request)) ==
           BoundedQueue<ConfRequest>::PushResult::kPushedFirst);
  shared_.raft.Wake();
}

std::optional<StatusOr<raft::ConfState>> RaftDriver::TakeConfAnswer() {
  std::vector<StatusOr<raft::ConfState>> answers;
  if (!conf_answers_.PopAll(&answers)) {
    return std::nullopt;
  }
  return std::move(answers.front());
}

void RaftDriver::CompactLog(Index index) {
  compact_to_.store(index.value());
  shared_.raft.Wake();
}

bool RaftDriver::Step(raft::Message message) {
  using enum BoundedQueue<raft::Message>::PushResult;
  const auto result = messages_.TryPush(std::move(message));
  if (result == kPushedFirst) {
    shared_.raft.Wake();
  }
  return result != kFull;
}

// ---- the loop

MonoTime RaftDriver::NextWake() const {
  return next_tick_;
}

bool RaftDriver::RunOnce() {
  if (shared_.fatal.raised()) {
    return false;
  }
  bool any = Tick(clock_.Now());
  any = TakeFromDisk() || any;
  any = TakeFromApply() || any;
  any = TakeMessages() || any;
  any = TakeLogReads() || any;
  any = TakeProposals() || any;
  any = TakeReads() || any;
  while (core_.HasOutput()) {
    Carry(core_.TakeOutput());
    any = true;
  }
  if (any) {
    replies_.Flush();
    UpdateGauges();
  }
  return any;
}

bool RaftDriver::Tick(MonoTime now) {
  if (now < next_tick_) {
    return false;
  }
  const auto late = (now - next_tick_) / tick_;
  if (late > kTicksLateMax) {
    next_tick_ = now;
  }
  next_tick_ += tick_;
  shared_.last_tick_ns.store(now.count());
  core_.Tick();
  CampaignIfAlone();
  for (const raft::LogRequest& request : std::exchange(log_reads_refused_, {})) {
    ReadLog(request);
  }
  Expire(now);
  return true;
}

bool RaftDriver::SoleVoter() const {
  return conf_state_.voters.size() == 1 && conf_state_.voters.front() == self_ &&
         conf_state_.voters_outgoing.empty();
}

// A sole voter waits for nobody: no reason to let an election timeout pass (etcd forwards its ticks
// instead).
void RaftDriver::CampaignIfAlone() {
  if (options_.initial_election_tick_advance && SoleVoter() &&
      core_.role() == raft::Role::kFollower) {
    core_.Campaign();
  }
}

bool RaftDriver::TakeFromDisk() {
  const uint64_t seq = shared_.persisted_seq.load(std::memory_order_acquire);
  if (seq == last_persisted_seq_) {
    return false;
  }
  last_persisted_seq_ = seq;
  core_.Persisted(seq);
  return true;
}

bool RaftDriver::TakeFromApply() {
  bool any = false;
  std::vector<ConfRequest> requests;
  if (conf_requests_.PopAll(&requests)) {
    // A second voter may soon decide without us: from here on reads ask again.
    shared_.inline_reads_from.store(0);
    StatusOr<raft::ConfState> state =
        core_.ApplyConfChange(requests.front().index, requests.front().change);
    if (state.ok()) {
      conf_state_ = *state;
    }
    conf_answers_.Push(std::move(state));
    shared_.apply.Wake();
    any = true;
  }
  const uint64_t applied = shared_.applied_index.load(std::memory_order_acquire);
  if (applied > last_applied_) {
    last_applied_ = applied;
    core_.AppliedTo(Index(applied));
    // Possible now, if a configuration change was all that stood in the way (the first start of a
    // member).
    CampaignIfAlone();
    any = true;
  }
  const uint64_t compact = compact_to_.load(std::memory_order_acquire);
  if (compact > compacted_to_ && compact <= last_applied_) {
    compacted_to_ = compact;
    core_.CompactLog(Index(compact));
    any = true;
  }
  return any;
}

bool RaftDriver::TakeMessages() {
  std::vector<raft::Message> messages;
  if (!messages_.PopAll(&messages)) {
    return false;
  }
  for (raft::Message& message : messages) {
    core_.Step(std::move(message));
  }
  return true;
}

// ---- old log

void RaftDriver::ReadLog(const raft::LogRequest& request) {
  const bool taken = pool_.TrySubmit([this, request] {
    log_reads_.Push({request, log_.Read(request.first, request.end, request.bytes_max)});
    shared_.raft.Wake();
  });
  if (!taken) {
    log_reads_refused_.push_back(request);
  }
}

bool RaftDriver::TakeLogReads() {
  std::vector<LogRead> reads;
  if (!log_reads_.PopAll(&reads)) {
    return false;
  }
  for (LogRead& read : reads) {
    if (read.entries.ok()) {
      core_.LogRead(read.request, *std::move(read.entries));
    } else if (read.request.reader == self_) {
      // Committed, persisted and not there: this member cannot go on.
      shared_.fatal.Raise(read.entries.status());
    } else {
      core_.LogRead(read.request, {});  // the follower gets a snapshot instead
    }
  }
  return true;
}

// ---- proposals

bool RaftDriver::TakeProposals() {
  bool any = false;
  // While the core takes nothing, proposals stay in the inbox: it is what bounds them.
  if (held_.empty()) {
    any = proposals_.PopAll(&popped_proposals_);
    held_.swap(popped_proposals_);
    retry_held_ = any;
  }
  if (retry_held_ && !held_.empty()) {
    TryPropose();
    any = true;
  }
  return any;
}

void RaftDriver::RefuseFenced() {
  std::erase_if(held_, [&](const PendingProposal& p) {
    const bool fits = p.only_term == Term(0) ||
                      (core_.role() == raft::Role::kLeader && core_.term() == p.only_term);
    if (!fits) {
      replies_.Fail(p.waiter.reply_to, Error::kNotLeader);
    }
    return !fits;
  });
}

void RaftDriver::TryPropose() {
  retry_held_ = false;
  RefuseFenced();
  size_t done = 0;
  while (done < held_.size()) {
    const size_t count = std::min(held_.size() - done, kProposeBatchMax);
    std::vector<raft::Proposal> batch;
    batch.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      batch.push_back({held_[done + i].type, held_[done + i].data});
    }
    const raft::ProposeResult result = core_.Propose(std::move(batch));
    if (result.outcome == raft::ProposeOutcome::kNoLeader ||
        result.outcome == raft::ProposeOutcome::kTooMuchUncommitted) {
      break;  // tried again when the leader is known, or when something was committed; else the
              // deadline ends it
    }
    const bool accepted = result.outcome == raft::ProposeOutcome::kAccepted ||
                          result.outcome == raft::ProposeOutcome::kForwarded;
    for (size_t i = 0; i < count; ++i) {
      const Waiter& waiter = held_[done + i].waiter;
      if (accepted) {
        waiters_.Add(waiter);
      } else {
        failed_total_.Add();
        replies_.Fail(waiter.reply_to, Error::kProposalDropped);
      }
    }
    done += count;
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(done));
}

void RaftDriver::Expire(MonoTime now) {
  std::vector<Waiter> expired;
  waiters_.TakeExpired(now, &expired);
  for (const Waiter& waiter : expired) {
    failed_total_.Add();
    replies_.Fail(waiter.reply_to, TimeoutError(waiter));
  }
  if (held_.empty()) {
    ExpireReads(now);
    return;
  }
  std::erase_if(held_, [&](const PendingProposal& p) {
    if (p.waiter.deadline > now) {
      return false;
    }
    failed_total_.Add();
    replies_.Fail(p.waiter.reply_to, Error::kContextDeadlineExceeded);
    return true;
  });
  ExpireReads(now);
}

// etcd's order of questions (grpc-api 7.2).
Error RaftDriver::TimeoutError(const Waiter& waiter) const {
  const MonoTime lost_from = led_since_ - 2 * options_.election_timeout;
  if (led_since_ != MonoTime{0} && waiter.started > lost_from && waiter.started < led_since_) {
    return Error::kTimeoutDueToLeaderFail;
  }
  if (peers_ != nullptr) {
    const bool connected = soft_.role == raft::Role::kLeader
                               ? peers_->ConnectedToQuorumSince(waiter.started)
                               : peers_->ConnectedSince(soft_.leader, waiter.started);
    if (!connected) {
      return Error::kTimeoutDueToConnectionLost;
    }
  }
  return Error::kTimeout;
}

// ---- reads

bool RaftDriver::TakeReads() {
  if (!reads_.PopAll(&popped_reads_)) {
    return false;
  }
  ReadGroup& group = read_groups_[next_token_++];
  group.reads.swap(popped_reads_);
  AskReads();
  return true;
}

// Groups that the core does not have yet, once there is a leader to ask.
void RaftDriver::AskReads() {
  if (core_.leader() == raft::kNobody) {
    return;
  }
  for (auto& [token, group] : read_groups_) {
    if (!group.asked) {
      group.asked = true;
      core_.ReadIndex(token);
    }
  }
}

void RaftDriver::FailReads(ReadGroup& group, Error error) {
  for (const PendingRead& read : group.reads) {
    failed_reads_.Add();
    replies_.Fail(read.reply_to, error);
  }
  shared_.reads_pending.fetch_sub(group.reads.size());
  group.reads.clear();
}

void RaftDriver::ExpireReads(MonoTime now) {
  for (auto it = read_groups_.begin(); it != read_groups_.end();) {
    ReadGroup& group = it->second;
    const size_t expired = std::erase_if(group.reads, [&](const PendingRead& read) {
      if (read.deadline > now) {
        return false;
      }
      slow_reads_.Add();
      replies_.Fail(read.reply_to, Error::kTimeout);
      return true;
    });
    shared_.reads_pending.fetch_sub(expired);
    it = group.reads.empty() ? read_groups_.erase(it) : std::next(it);
  }
}

// ---- carrying out

void RaftDriver::Carry(raft::Output output) {
  if (output.soft_state) {
    CarrySoftState(*output.soft_state);
  }
  if (!output.messages.empty() && peers_ != nullptr) {
    peers_->Send(std::move(output.messages));
  }
  if (output.persist_seq != 0) {
    CarryPersist(output);
  }
  if (!output.committed.empty()) {
    CarryCommitted(output.committed);
  }
  CarryReads(output.reads);
  for (const raft::LogRequest& request : output.log_requests) {
    ReadLog(request);
  }
  for (const MemberId peer : output.snapshot_requests) {
    core_.ReportSnapshot(peer, false);
  }
  if (!to_apply_.empty()) {
    apply_.PushAll(&to_apply_);
    shared_.apply.Wake();
  }
}

void RaftDriver::CarryPersist(raft::Output& output) {
  if (output.hard_state) {
    committed_total_.Set(static_cast<double>(output.hard_state->commit.value()));
  }
  WalItem item;
  item.seq = output.persist_seq;
  item.entries = std::move(output.entries);
  item.hard_state = output.hard_state;
  item.must_sync = output.must_sync;
  wal_.Push(std::move(item));
  shared_.wal.Wake();
}

void RaftDriver::CarryCommitted(std::vector<raft::Entry>& committed) {
  const bool inline_reads = soft_.role == raft::Role::kLeader && SoleVoter();
  for (raft::Entry& entry : committed) {
    if (inline_reads && entry.term == soft_.term && shared_.inline_reads_from.load() == 0) {
      shared_.inline_reads_from.store(entry.index.value());
    }
    ApplyItem item;
    item.kind = ApplyItem::Kind::kEntry;
    if (waiters_.size() > 0 && !entry.data.empty()) {
      uint64_t id = 0;
      if (entry.type == raft::EntryType::kNormal) {
        id = PeekRequestId(entry.data.view());
      } else if (StatusOr<raft::ConfChange> change = raft::DecodeConfChange(entry.data);
                 entry.type == raft::EntryType::kConfChange && change.ok()) {
        id = change->id;
      }
      item.waiter = waiters_.Take(id);
    }
    item.entry = std::move(entry);
    to_apply_.push_back(std::move(item));
  }
  shared_.commit_index.store(core_.commit_index().value(), std::memory_order_release);
  retry_held_ = !held_.empty();
}

void RaftDriver::CarryReads(const std::vector<raft::ReadResult>& reads) {
  for (const raft::ReadResult& result : reads) {
    const auto it = read_groups_.find(result.token);
    if (it == read_groups_.end()) {
      continue;  // all of its reads have timed out
    }
    if (result.outcome == raft::ReadOutcome::kNoLeader) {
      it->second.asked = false;
      continue;
    }
    if (result.outcome == raft::ReadOutcome::kLeaderChanged) {
      FailReads(it->second, Error::kLeaderChanged);
    } else {
      ApplyItem item;
      item.kind = ApplyItem::Kind::kReads;
      item.reads = std::make_unique<ReadBatch>();
      item.reads->index = result.index;
      item.reads->reads = std::move(it->second.reads);
      to_apply_.push_back(std::move(item));
    }
    read_groups_.erase(it);
  }
}

void RaftDriver::CarrySoftState(const raft::SoftState& state) {
  const bool leads = state.role == raft::Role::kLeader;
  const bool new_leader = state.leader != raft::kNobody && state.leader != soft_.leader;
  if (leads && (soft_.role != raft::Role::kLeader || state.term != soft_.term)) {
    led_since_ = clock_.Now();
  }
  if (state.leader != soft_.leader) {
    MS_LOG(kInfo,
           state.leader == raft::kNobody ? "raft.node: lost leader" : "raft.node: elected leader")
        .Hex("local-member-id", self_.value())
        .Hex("leader", state.leader.value())
        .Unsigned("term", state.term.value());
  }
  const bool retold = leads && state.term != soft_.term;
  soft_ = state;
  if (new_leader) {
    leader_changes_.Add();
  }
  shared_.inline_reads_from.store(0);
  shared_.term.store(state.term.value());
  shared_.leader.store(state.leader.value());
  shared_.is_leader.store(leads);
  if (leads != announced_leading_ || retold) {
    announced_leading_ = leads;
    ApplyItem item;
    item.kind = ApplyItem::Kind::kLeadership;
    item.leads = leads;
    item.term = state.term;
    to_apply_.push_back(std::move(item));
  }
  shared_.timer.Wake();
  retry_held_ = !held_.empty();
  AskReads();
}

void RaftDriver::UpdateGauges() {
  has_leader_.Set(soft_.leader == raft::kNobody ? 0 : 1);
  is_leader_.Set(soft_.role == raft::Role::kLeader ? 1 : 0);
  pending_total_.Set(static_cast<double>(waiters_.size() + held_.size()));
}

void RaftDriver::FailAll(Error error) {
  std::vector<Waiter> waiting;
  waiters_.TakeAll(&waiting);
  for (const Waiter& waiter : waiting) {
    replies_.Fail(waiter.reply_to, error);
  }
  proposals_.PopAll(&popped_proposals_);
  std::move(popped_proposals_.begin(), popped_proposals_.end(), std::back_inserter(held_));
  popped_proposals_.clear();
  for (const PendingProposal& proposal : held_) {
    replies_.Fail(proposal.waiter.reply_to, error);
  }
  held_.clear();
  TakeReads();
  for (auto& [token, group] : read_groups_) {
    FailReads(group, error);
  }
  read_groups_.clear();
  replies_.Flush();
}

}  // namespace mainstay::server

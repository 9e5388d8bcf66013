#include "raft/core.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace mainstay::raft {
namespace {

bool ComesFromLeader(MessageType type) {
  return type == MessageType::kApp || type == MessageType::kHeartbeat || type == MessageType::kSnap;
}

bool IsVoteRequest(MessageType type) {
  return type == MessageType::kVote || type == MessageType::kPreVote;
}

// Requests to the leader travel without a term: they are good at any.
bool HasNoTerm(MessageType type) {
  return type == MessageType::kProp || type == MessageType::kReadIndex;
}

}  // namespace

Core::Core(const Options& options, InitialState initial)
    : options_(options),
      jitter_(options.seed),
      log_(options, &initial),
      config_index_(initial.applied),
      term_(initial.hard_state.term),
      vote_(initial.hard_state.vote),
      reads_(jitter_.Next64()),
      saved_(initial.hard_state) {
  MS_CHECK(options_.id != kNobody);
  MS_CHECK(options_.heartbeat_ticks > 0 && options_.heartbeat_ticks < options_.election_ticks);
  MS_CHECK(options_.inflight_count_max > 0 && options_.message_bytes_max > 0);
  StatusOr<Config> config = FromConfState(initial.conf_state);
  MS_CHECK_MSG(config.ok(), std::string(::mainstay::Message(config.status())));
  config_ = *std::move(config);
  // A store ahead of the log counts as a snapshot, so its term is known
  // (Options::apply_before_persisted).
  term_ = std::max(term_, log_.last_id().term);
  if (term_ != initial.hard_state.term) {
    vote_ = kNobody;
  }
  told_ = {.role = role_, .leader = leader_, .term = term_};
  ResetTimers();
}

// ---- terms ------------------------------------------------------------------------------------

void Core::EnterTerm(Term term) {
  MS_CHECK_GE(term, term_);
  if (term > term_) {
    term_ = term;
    vote_ = kNobody;
  }
}

void Core::ResetTimers() {
  election_elapsed_ = 0;
  heartbeat_elapsed_ = 0;
  leader_lost_ = false;
  const auto base = static_cast<uint64_t>(options_.election_ticks);
  election_timeout_ = static_cast<int>(base + jitter_.Below(base));
}

void Core::SetLeader(MemberId leader) {
  if (leader_ == leader) {
    return;
  }
  if (leader_ != kNobody) {
    FailReads(ReadOutcome::kLeaderChanged);
  }
  leader_ = leader;
}

void Core::BecomeFollower(Term term, MemberId leader) {
  EnterTerm(term);
  role_ = Role::kFollower;
  SetLeader(leader);
  ResetTimers();
  votes_.clear();
  progress_.clear();
  transferee_ = kNobody;
  pending_conf_index_ = Index(0);
}

bool Core::InLease() const {
  return options_.check_quorum && leader_ != kNobody && !leader_lost_ &&
         election_elapsed_ < options_.election_ticks;
}

bool Core::DiskStalled() const {
  return options_.disk_stall_ticks > 0 && !syncs_.empty() &&
         ticks_ - syncs_.front().since_tick >= static_cast<uint64_t>(options_.disk_stall_ticks);
}

void Core::Tick() {
  ++ticks_;
  if (role_ == Role::kLeader) {
    TickLeader();
  } else {
    TickFollower();
  }
  TickReads();
}

void Core::StepDown() {
  if (role_ == Role::kLeader) {
    BecomeFollower(term_, kNobody);
  }
}

// ---- messages ---------------------------------------------------------------------------------

void Core::Step(Message message) {
  if (message.from == options_.id || message.from == kNobody) {
    return;
  }
  if (!HasNoTerm(message.type)) {
    if (message.term < term_ || message.term == Term(0)) {
      StepOlderTerm(message);
      return;
    }
    if (message.term > term_ && !StepNewerTerm(message)) {
      return;
    }
  }
  StepByRole(std::move(message));
}

bool Core::StepNewerTerm(const Message& message) {
  // A member that hears its leader ignores candidates, so that one that was cut off or removed
  // cannot disrupt the others (thesis 4.2.3), unless the leader itself sent them.
  if (IsVoteRequest(message.type) && InLease() && message.context.view() != kCampaignTransfer) {
    return false;
  }
  // A pre-vote asks about a term that nobody has entered; only its refusal can carry a real one
  // (thesis 9.6).
  const bool pre_vote_grant = message.type == MessageType::kPreVoteResp && !message.reject;
  if (message.type == MessageType::kPreVote || pre_vote_grant) {
    return true;
  }
  BecomeFollower(message.term, ComesFromLeader(message.type) ? message.from : kNobody);
  return true;
}

void Core::StepOlderTerm(const Message& message) {
  // The sender is behind. With pre-vote or check-quorum on, this member's higher term may reach a
  // leader in no other way: nobody answers its vote requests, and it would ignore the leader's
  // messages for ever. So it tells.
  const bool tells = options_.check_quorum || options_.pre_vote;
  if (tells && (message.type == MessageType::kHeartbeat || message.type == MessageType::kApp)) {
    Send(Make(MessageType::kAppResp, message.from));
  } else if (message.type == MessageType::kPreVote) {
    Message refusal = Make(MessageType::kPreVoteResp, message.from);
    refusal.reject = true;
    Send(std::move(refusal));
  }
}

void Core::StepByRole(Message&& message) {
  if (IsVoteRequest(message.type)) {
    HandleVoteRequest(message);
    return;
  }
  switch (role_) {
    case Role::kFollower:
      StepAsFollower(std::move(message));
      break;
    case Role::kPreCandidate:
    case Role::kCandidate:
      StepAsCandidate(std::move(message));
      break;
    case Role::kLeader:
      StepAsLeader(std::move(message));
      break;
  }
}

void Core::StepAsCandidate(Message&& message) {
  if (ComesFromLeader(message.type)) {
    BecomeFollower(message.term, message.from);
    StepAsFollower(std::move(message));
  } else {
    HandleVoteResponse(message);
  }
}

void Core::StepAsFollower(Message&& message) {
  if (ComesFromLeader(message.type)) {
    election_elapsed_ = 0;
    if (leader_lost_) {
      ResetTimers();
    }
    SetLeader(message.from);
  }
  switch (message.type) {
    case MessageType::kApp:
      HandleAppend(std::move(message));
      break;
    case MessageType::kHeartbeat:
      HandleHeartbeat(message);
      break;
    case MessageType::kSnap:
      HandleSnapshot(std::move(message));
      break;
    case MessageType::kTimeoutNow:
      StartCampaign(/*transfer=*/true);
      break;
    case MessageType::kReadIndexResp:
      HandleReadIndexResponse(message);
      break;
    case MessageType::kProp:
    case MessageType::kReadIndex:
    case MessageType::kTransferLeader:
      // Passed on, but not back to where it came from.
      if (leader_ != kNobody && message.from != leader_) {
        message.to = leader_;
        Send(std::move(message));
      }
      break;
    default:
      break;
  }
}

void Core::StepAsLeader(Message&& message) {
  MS_CHECK_MSG(!ComesFromLeader(message.type), "two leaders in one term");
  switch (message.type) {
    case MessageType::kProp: {
      std::vector<Proposal> proposals;
      for (Entry& entry : message.entries) {
        proposals.push_back({entry.type, std::move(entry.data)});
      }
      AppendProposals(std::move(proposals));
      break;
    }
    case MessageType::kAppResp:
      HandleAppendResponse(message);
      break;
    case MessageType::kHeartbeatResp:
      HandleHeartbeatResponse(message);
      break;
    case MessageType::kTransferLeader:
      HandleTransfer(message.from);
      break;
    case MessageType::kReadIndex:
      HandleReadIndex(std::move(message));
      break;
    default:
      break;
  }
}

Message Core::Make(MessageType type, MemberId to) const {
  Message message;
  message.type = type;
  message.to = to;
  message.from = options_.id;
  if (!HasNoTerm(type)) {
    message.term = term_;
  }
  return message;
}

void Core::SendAfterPersist(Message message) {
  // Acknowledgements of one leader add up: the later one says it all.
  if (message.type == MessageType::kAppResp && !after_persist_.empty()) {
    Message& before = after_persist_.back();
    if (before.type == message.type && before.to == message.to && before.term == message.term) {
      before.index = std::max(before.index, message.index);
      return;
    }
  }
  after_persist_.push_back(std::move(message));
}

// ---- the disk and the store -------------------------------------------------------------------

void Core::Persisted(uint64_t seq) {
  MS_CHECK_LT(seq, next_seq_);
  MS_CHECK_GE(seq, persisted_seq_);
  persisted_seq_ = seq;
  while (!syncs_.empty() && syncs_.front().seq <= seq) {
    syncs_.pop_front();
  }
  log_.Persisted(seq);
  if (snapshot_seq_ <= seq) {
    snapshot_seq_ = 0;
  }
  ReleaseHeld(seq);
  // The leader's own disk is one vote among others (thesis 10.2.1).
  if (role_ == Role::kLeader && FindProgress(options_.id)->MaybeUpdate(log_.persisted())) {
    MaybeCommit();
  }
}

void Core::ReleaseHeld(uint64_t seq) {
  while (!held_.empty() && held_.front().seq <= seq) {
    Message message = std::move(held_.front().message);
    held_.pop_front();
    if (message.to != options_.id) {
      Send(std::move(message));
    } else if (message.term == term_ && role_ == Role::kCandidate) {
      HandleVoteResponse(message);
    }
  }
}

void Core::AppliedTo(Index index) {
  log_.AppliedTo(index);
  MaybeLeaveJoint();
}

void Core::CompactLog(Index index) {
  log_.Compact(index);
}

void Core::LogRead(const LogRequest& request, std::vector<Entry> entries) {
  if (request.reader != options_.id) {
    LoadedForPeer(request, std::move(entries));
    return;
  }
  if (!std::exchange(apply_log_requested_, false) || request.first != log_.handed().Next()) {
    return;
  }
  MS_CHECK_MSG(!entries.empty(), "committed entries cannot be read back");
  log_.HandLoaded(entries);
  std::move(entries.begin(), entries.end(), std::back_inserter(loaded_));
}

// ---- outputs ----------------------------------------------------------------------------------

Output Core::TakeOutput() {
  FlushReads();
  FlushAppends();
  Output out;
  CollectPersist(&out);
  out.committed = std::exchange(loaded_, {});
  std::vector<Entry> committed = log_.TakeCommitted();
  std::move(committed.begin(), committed.end(), std::back_inserter(out.committed));
  if (!apply_log_requested_) {
    if (std::optional<LogRequest> request = log_.NeededForApply(options_.id)) {
      apply_log_requested_ = true;
      log_requests_.push_back(*request);
    }
  }
  out.messages = std::exchange(messages_, {});
  out.reads = std::exchange(read_results_, {});
  out.log_requests = std::exchange(log_requests_, {});
  out.snapshot_requests = std::exchange(snapshot_requests_, {});
  const SoftState now{.role = role_, .leader = leader_, .term = term_};
  if (now != told_) {
    out.soft_state = told_ = now;
  }
  return out;
}

void Core::CollectPersist(Output* out) {
  const HardState now{.term = term_, .vote = vote_, .commit = log_.committed()};
  out->entries = log_.TakeUnstaged();
  out->snapshot = std::exchange(snapshot_, std::nullopt);
  out->must_sync =
      !out->entries.empty() || out->snapshot || now.term != saved_.term || now.vote != saved_.vote;
  if (now != saved_) {
    out->hard_state = saved_ = now;
  }
  if (out->must_sync || out->hard_state) {
    out->persist_seq = next_seq_++;
    log_.RecordWrite(out->persist_seq);
  }
  if (out->must_sync) {
    last_sync_seq_ = out->persist_seq;
    syncs_.push_back({out->persist_seq, ticks_});
  }
  if (out->snapshot) {
    snapshot_seq_ = out->persist_seq;
  }
  for (Message& message : std::exchange(after_persist_, {})) {
    if (last_sync_seq_ > persisted_seq_) {
      held_.push_back({last_sync_seq_, std::move(message)});
    } else {
      MS_CHECK(message.to != options_.id);
      Send(std::move(message));
    }
  }
}

bool Core::HasOutput() const {
  const HardState now{.term = term_, .vote = vote_, .commit = log_.committed()};
  const bool reads_to_start =
      reads_.waiting() && !reads_.round() && (role_ != Role::kLeader || CommittedInOwnTerm());
  const bool wishes = std::any_of(progress_.begin(), progress_.end(), [](const auto& peer) {
    return peer.second.wish != SendWish::kNone;
  });
  return !messages_.empty() || !after_persist_.empty() || log_.has_unstaged() || snapshot_ ||
         now != saved_ || !loaded_.empty() || log_.has_committed() ||
         (!apply_log_requested_ && log_.NeededForApply(options_.id)) || !read_results_.empty() ||
         reads_to_start || wishes || !log_requests_.empty() || !snapshot_requests_.empty() ||
         SoftState{.role = role_, .leader = leader_, .term = term_} != told_;
}

CoreStatus Core::GetStatus() const {
  CoreStatus status{.id = options_.id,
                    .role = role_,
                    .leader = leader_,
                    .vote = vote_,
                    .term = term_,
                    .commit = log_.committed(),
                    .applied = log_.applied(),
                    .persisted = log_.persisted(),
                    .last = log_.last_id(),
                    .compacted = log_.compacted(),
                    .transferee = transferee_,
                    .uncommitted_bytes = log_.uncommitted_bytes(),
                    .tail_bytes = log_.tail_bytes(),
                    .reads_pending = reads_.pending(),
                    .disk_stalled = DiskStalled(),
                    .conf_state = ToConfState(config_)};
  for (const auto& [id, progress] : progress_) {
    status.peers.push_back({.id = id,
                            .is_learner = HasMember(config_.learners, id),
                            .recent_active = id == options_.id || progress.recent_active,
                            .state = ProgressStateName(progress.state()),
                            .match = progress.match(),
                            .next = progress.next(),
                            .inflight_count = progress.window().count(),
                            .inflight_bytes = progress.window().bytes()});
  }
  return status;
}

void Core::CheckInvariants() const {
  log_.CheckInvariants();
  MS_CHECK(CheckConfig(config_).ok());
  // A leader points at itself, and nobody else does.
  MS_CHECK((role_ == Role::kLeader) == (leader_ == options_.id));
  MS_CHECK(role_ != Role::kCandidate || vote_ == options_.id);
  MS_CHECK(role_ == Role::kFollower || role_ == Role::kLeader || leader_ == kNobody);
  // No entry is from a term that this member has not entered.
  MS_CHECK_LE(log_.last_id().term, term_);
  MS_CHECK(saved_.term <= term_ && saved_.commit <= log_.committed());
  MS_CHECK(persisted_seq_ < next_seq_ && last_sync_seq_ < next_seq_);
  MS_CHECK(syncs_.empty() == (last_sync_seq_ <= persisted_seq_));
  MS_CHECK(held_.empty() || held_.front().seq > persisted_seq_);
  MS_CHECK(role_ == Role::kLeader || (progress_.empty() && transferee_ == kNobody));
  for (const auto& [id, progress] : progress_) {
    progress.CheckInvariants();
    MS_CHECK(config_.Contains(id));
    MS_CHECK_LE(progress.match(), log_.last_index());
  }
  if (role_ == Role::kLeader) {
    MS_CHECK(config_.IsVoter(options_.id));
    MS_CHECK_EQ(FindMatch(options_.id), log_.persisted());
    MS_CHECK(transferee_ == kNobody || config_.IsVoter(transferee_));
    // What the acknowledgements commit in this term is committed.
    const Index quorum =
        config_.voters.CommittedIndex([this](MemberId id) { return FindMatch(id); });
    MS_CHECK(quorum <= log_.committed() || log_.TermAt(quorum) != term_);
  }
}

}  // namespace mainstay::raft

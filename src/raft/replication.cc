// Replication: the leader's sending and counting, the follower's taking in (Raft paper 5.3, 5.4.2,
// 7; thesis 10.2.1).
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "raft/codec.h"
#include "raft/core.h"

namespace mainstay::raft {
namespace {

size_t PayloadBytes(const std::vector<Entry>& entries) {
  size_t bytes = 0;
  for (const Entry& entry : entries) {
    bytes += entry.data.size();
  }
  return bytes;
}

// Entries that follow the one before them, in index and in term, up to the sender's term.
bool AreInOrder(const Message& append) {
  EntryId before{append.log_term, append.index};
  for (const Entry& entry : append.entries) {
    if (entry.index != before.index.Next() || entry.term < before.term) {
      return false;
    }
    before = entry.id();
  }
  return before.term <= append.term;
}

void Raise(SendWish* wish, SendWish to) {
  *wish = std::max(*wish, to);
}

}  // namespace

// ---- the leader's clock -----------------------------------------------------------------------

void Core::TickLeader() {
  ++heartbeat_elapsed_;
  if (++election_elapsed_ >= options_.election_ticks) {
    election_elapsed_ = 0;
    // A leader that a majority no longer answers may have a successor (thesis 6.2).
    if (options_.check_quorum && !QuorumActive()) {
      BecomeFollower(term_, kNobody);
      return;
    }
    for (auto& [id, progress] : progress_) {
      progress.recent_active = false;
    }
    transferee_ = kNobody;
  }
  if (DiskStalled() && !config_.voters.IsSole(options_.id)) {
    BecomeFollower(term_, kNobody);
    return;
  }
  if (heartbeat_elapsed_ >= options_.heartbeat_ticks) {
    heartbeat_elapsed_ = 0;
    BroadcastHeartbeat();
  }
}

bool Core::QuorumActive() const {
  std::map<MemberId, bool> active;
  for (const auto& [id, progress] : progress_) {
    active[id] = id == options_.id || progress.recent_active;
  }
  return config_.voters.Vote(active) == VoteResult::kWon;
}

void Core::BroadcastHeartbeat() {
  for (const auto& [id, progress] : progress_) {
    if (id == options_.id) {
      continue;
    }
    Message heartbeat = Make(MessageType::kHeartbeat, id);
    // No further than the follower's log is known to agree.
    heartbeat.commit = std::min(progress.match(), log_.committed());
    if (reads_.round()) {
      heartbeat.context = ReadRounds::ContextOf(reads_.round()->id);
    }
    Send(std::move(heartbeat));
  }
}

// ---- appending --------------------------------------------------------------------------------

ProposeResult Core::Propose(std::vector<Proposal> proposals) {
  MS_CHECK(!proposals.empty());
  if (role_ == Role::kLeader) {
    return AppendProposals(std::move(proposals));
  }
  if (leader_ == kNobody) {
    return {.outcome = ProposeOutcome::kNoLeader};
  }
  Message forward = Make(MessageType::kProp, leader_);
  for (Proposal& proposal : proposals) {
    forward.entries.push_back({.type = proposal.type, .data = std::move(proposal.data)});
  }
  Send(std::move(forward));
  return {.outcome = ProposeOutcome::kForwarded};
}

ProposeResult Core::AppendProposals(std::vector<Proposal>&& proposals) {
  if (transferee_ != kNobody) {
    return {.outcome = ProposeOutcome::kTransferring};
  }
  std::vector<Entry> entries;
  entries.reserve(proposals.size());
  for (Proposal& proposal : proposals) {
    entries.push_back({.type = proposal.type, .data = std::move(proposal.data)});
  }
  // One batch is always let in, however big, and so is one without payload.
  const size_t bytes = PayloadBytes(entries);
  const size_t before = log_.uncommitted_bytes();
  if (bytes > 0 && before > 0 && before + bytes > options_.uncommitted_bytes_max) {
    return {.outcome = ProposeOutcome::kTooMuchUncommitted};
  }
  const Index first = log_.last_index().Next();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].is_conf_change()) {
      continue;
    }
    if (ConfChangeFits(entries[i])) {
      pending_conf_index_ = first + i;
    } else {
      entries[i] = Entry{};
    }
  }
  AppendOwn(std::move(entries));
  return {.outcome = ProposeOutcome::kAccepted,
          .first = first,
          .last = log_.last_index(),
          .term = term_};
}

bool Core::ConfChangeFits(const Entry& entry) const {
  const StatusOr<ConfChangeV2> change = DecodeChangeOf(entry);
  if (!change.ok() || pending_conf_index_ > log_.applied()) {
    return false;
  }
  return config_.voters.is_joint() == change->changes.empty();
}

void Core::AppendOwn(std::vector<Entry>&& entries) {
  for (Entry& entry : entries) {
    entry.term = term_;
  }
  log_.Append(std::move(entries));
  WishAll(SendWish::kIfNews);
}

// ---- sending ----------------------------------------------------------------------------------

void Core::WishAll(SendWish wish) {
  for (auto& [id, progress] : progress_) {
    if (id != options_.id) {
      Raise(&progress.wish, wish);
    }
  }
}

void Core::FlushAppends() {
  for (auto& [id, progress] : progress_) {
    FlushPeer(id, &progress);
  }
}

void Core::FlushPeer(MemberId id, Progress* progress) {
  const SendWish wish = std::exchange(progress->wish, SendWish::kNone);
  if (wish == SendWish::kNone) {
    return;
  }
  bool even_empty = wish == SendWish::kAlways;
  while (SendAppend(id, progress, even_empty)) {
    even_empty = false;
  }
}

bool Core::SendAppend(MemberId id, Progress* progress, bool even_empty) {
  if (progress->paused() || progress->log_requested || progress->snapshot_requested) {
    return false;
  }
  const Index previous = progress->next().Prev();
  if (!log_.TermAt(previous)) {
    AskForSnapshot(id, progress);
    return false;
  }
  const bool replicating = progress->state() == ProgressState::kReplicate;
  bool entries_ready = progress->next() <= log_.last_index() && !progress->window().full();
  if (entries_ready && progress->next() < log_.memory_begin()) {
    if (replicating) {
      AskForLog(id, progress);
      return false;
    }
    // While probing an empty append finds out as much, without reading the disk.
    entries_ready = false;
  }
  if (entries_ready) {
    SendEntries(id, progress, log_.Read(progress->next(), options_.message_bytes_max));
    return true;
  }
  const bool commit_news =
      replicating && progress->commit_sent() < std::min(log_.committed(), previous);
  if (even_empty || commit_news) {
    SendEntries(id, progress, {});
  }
  return false;
}

void Core::SendEntries(MemberId id, Progress* progress, std::vector<Entry>&& entries) {
  Message append = Make(MessageType::kApp, id);
  append.index = progress->next().Prev();
  append.log_term = *log_.TermAt(append.index);
  append.commit = log_.committed();
  append.entries = std::move(entries);
  progress->Sent(append.entries.size(), PayloadBytes(append.entries), append.commit);
  Send(std::move(append));
}

void Core::AskForLog(MemberId id, Progress* progress) {
  progress->log_requested = true;
  log_requests_.push_back(
      {.reader = id,
       .first = progress->next(),
       .end = log_.memory_begin(),
       .bytes_max = std::min(4 * options_.message_bytes_max, progress->window().bytes_free())});
}

void Core::AskForSnapshot(MemberId id, Progress* progress) {
  // Made for a member that is there; one that is not asks for it by its next answer.
  if (progress->recent_active) {
    progress->snapshot_requested = true;
    snapshot_requests_.push_back(id);
  }
}

void Core::LoadedForPeer(const LogRequest& request, std::vector<Entry>&& entries) {
  Progress* progress = FindProgress(request.reader);
  if (progress == nullptr || !std::exchange(progress->log_requested, false)) {
    return;
  }
  Raise(&progress->wish, SendWish::kIfNews);
  const bool wanted = progress->state() == ProgressState::kReplicate &&
                      progress->next() == request.first && !progress->paused();
  if (!wanted) {
    return;
  }
  if (entries.empty()) {
    AskForSnapshot(request.reader, progress);
    return;
  }
  std::vector<Entry> chunk;
  size_t bytes = 0;
  for (Entry& entry : entries) {
    // An answer to an older question may hold entries that have been replaced since.
    if (entry.index != progress->next() + chunk.size() || !log_.Matches(entry.id())) {
      break;
    }
    if (!chunk.empty() && bytes + entry.data.size() > options_.message_bytes_max) {
      SendEntries(request.reader, progress, std::exchange(chunk, {}));
      bytes = 0;
      if (progress->paused()) {
        return;
      }
    }
    bytes += entry.data.size();
    chunk.push_back(std::move(entry));
  }
  if (!chunk.empty()) {
    SendEntries(request.reader, progress, std::move(chunk));
  }
}

// ---- counting ---------------------------------------------------------------------------------

Progress* Core::FindProgress(MemberId id) {
  const auto at = progress_.find(id);
  return at == progress_.end() ? nullptr : &at->second;
}

Index Core::FindMatch(MemberId id) const {
  const auto at = progress_.find(id);
  return at == progress_.end() ? Index(0) : at->second.match();
}

void Core::HandleAppendResponse(const Message& message) {
  Progress* progress = FindProgress(message.from);
  if (progress == nullptr) {
    return;
  }
  progress->recent_active = true;
  if (message.reject) {
    HandleRefusal(message, progress);
    return;
  }
  const bool probe_answered =
      progress->state() == ProgressState::kProbe && progress->match() == message.index;
  if (message.index > log_.last_index() ||
      (!progress->MaybeUpdate(message.index) && !probe_answered)) {
    return;
  }
  if (progress->state() == ProgressState::kProbe) {
    progress->BecomeReplicate();
  } else if (progress->state() == ProgressState::kSnapshot &&
             progress->match().Next() >= log_.first_index()) {
    // Caught up with the log, by this snapshot or otherwise.
    progress->BecomeReplicate();
  }
  Raise(&progress->wish, SendWish::kIfNews);
  MaybeCommit();
  MaybeFinishTransfer(message.from, *progress);
}

void Core::HandleRefusal(const Message& message, Progress* progress) {
  // The follower names its last entry that may match; this leader's own terms may rule out more
  // (Raft paper 5.3, "the protocol can be optimized").
  Index hint = message.reject_hint;
  if (message.log_term > Term(0)) {
    hint = log_.LastNotAbove(hint, message.log_term).index;
  }
  if (!progress->MaybeDecrease(message.index, hint)) {
    return;
  }
  if (progress->state() == ProgressState::kReplicate) {
    progress->BecomeProbe();
  }
  Raise(&progress->wish, SendWish::kAlways);
}

void Core::HandleHeartbeatResponse(const Message& message) {
  Progress* progress = FindProgress(message.from);
  if (progress == nullptr) {
    return;
  }
  progress->recent_active = true;
  progress->Resume();
  if (progress->match() < log_.last_index() || progress->state() == ProgressState::kProbe) {
    // Appends may have been lost; the answer to one more will tell.
    Raise(&progress->wish, SendWish::kAlways);
  }
  if (reads_.Ack(message.from, message.context)) {
    MaybeFinishRound();
  }
}

void Core::MaybeCommit() {
  const Index quorum = config_.voters.CommittedIndex([this](MemberId id) { return FindMatch(id); });
  // Counting copies commits only entries of our own term; older ones ride along (Raft paper 5.4.2,
  // figure 8).
  if (quorum > log_.committed() && log_.TermAt(quorum) == term_) {
    log_.CommitTo(quorum);
    WishAll(SendWish::kIfNews);
  }
}

// ---- transfer and reports ---------------------------------------------------------------------

void Core::TransferLeader(MemberId to) {
  if (role_ == Role::kLeader) {
    HandleTransfer(to);
  } else if (leader_ != kNobody) {
    Message wish = Make(MessageType::kTransferLeader, leader_);
    wish.from = to;  // as etcd's: the sender field names the successor
    Send(std::move(wish));
  }
}

void Core::HandleTransfer(MemberId to) {
  Progress* progress = FindProgress(to);
  if (progress == nullptr || !config_.IsVoter(to) || to == transferee_) {
    return;
  }
  transferee_ = kNobody;
  if (to == options_.id) {
    return;
  }
  election_elapsed_ = 0;  // it has one election timeout
  transferee_ = to;
  Raise(&progress->wish, SendWish::kIfNews);
  MaybeFinishTransfer(to, *progress);
}

void Core::MaybeFinishTransfer(MemberId id, const Progress& progress) {
  if (id == transferee_ && progress.match() == log_.last_index()) {
    Send(Make(MessageType::kTimeoutNow, id));
  }
}

void Core::SendSnapshot(MemberId to, Snapshot snapshot) {
  Progress* progress = FindProgress(to);
  if (progress == nullptr || !std::exchange(progress->snapshot_requested, false)) {
    return;
  }
  MS_CHECK(snapshot.meta.index > Index(0) && snapshot.meta.index <= log_.applied());
  progress->BecomeSnapshot(snapshot.meta.index);
  Message message = Make(MessageType::kSnap, to);
  message.snapshot = std::move(snapshot);
  Send(std::move(message));
}

void Core::ReportSnapshot(MemberId peer, bool ok) {
  Progress* progress = FindProgress(peer);
  if (progress == nullptr) {
    return;
  }
  if (progress->snapshot_requested) {
    // It could not be made; the next heartbeat's answer asks again.
    progress->snapshot_requested = ok;
    progress->Pause();
  } else if (progress->state() == ProgressState::kSnapshot) {
    // Delivered: probing starts behind it once the follower speaks. Lost: from where it was.
    ok ? progress->BecomeProbe() : progress->SnapshotFailed();
    progress->Pause();
  }
}

void Core::ReportUnreachable(MemberId peer) {
  Progress* progress = FindProgress(peer);
  // What was sent optimistically may be lost.
  if (progress != nullptr && progress->state() == ProgressState::kReplicate &&
      peer != options_.id) {
    progress->BecomeProbe();
  }
}

void Core::ReportConnected(MemberId peer) {
  Progress* progress = FindProgress(peer);
  if (progress != nullptr && progress->state() == ProgressState::kProbe) {
    progress->Resume();
    Raise(&progress->wish, SendWish::kAlways);
  }
}

// ---- the follower -----------------------------------------------------------------------------

void Core::HandleAppend(Message&& message) {
  if (!AreInOrder(message)) {
    return;
  }
  Message answer = Make(MessageType::kAppResp, message.from);
  if (message.index < log_.committed()) {
    // What is committed agrees with any leader; it may go on from there.
    answer.index = log_.committed();
    SendAfterPersist(std::move(answer));
    return;
  }
  const Index last_new = message.index + message.entries.size();
  if (log_.MaybeAppend({message.log_term, message.index}, std::move(message.entries))) {
    log_.CommitTo(std::min(message.commit, last_new));
    answer.index = last_new;
    SendAfterPersist(std::move(answer));
    return;
  }
  const EntryId hint = log_.LastNotAbove(message.index, message.log_term);
  answer.index = message.index;
  answer.reject = true;
  answer.reject_hint = hint.index;
  answer.log_term = hint.term;
  Send(std::move(answer));
}

void Core::HandleHeartbeat(const Message& message) {
  log_.CommitTo(message.commit);
  Message answer = Make(MessageType::kHeartbeatResp, message.from);
  answer.context = message.context;
  Send(std::move(answer));
}

void Core::HandleSnapshot(Message&& message) {
  if (!message.snapshot) {
    return;
  }
  const bool restored = Restore(*std::move(message.snapshot));
  Message answer = Make(MessageType::kAppResp, message.from);
  answer.index = restored ? log_.last_index() : log_.committed();
  SendAfterPersist(std::move(answer));
}

bool Core::Restore(Snapshot&& snapshot) {
  const SnapshotMeta& meta = snapshot.meta;
  if (meta.index <= log_.committed()) {
    return false;
  }
  StatusOr<Config> config = FromConfState(meta.conf_state);
  if (!config.ok() || !config->Contains(options_.id)) {
    return false;
  }
  // The log holds all that the snapshot does: no need to throw it away.
  if (log_.Matches(meta.id())) {
    log_.CommitTo(meta.index);
    return false;
  }
  log_.Restore(meta);
  loaded_.clear();
  apply_log_requested_ = false;
  config_index_ = meta.index;
  SetConfig(*std::move(config));
  snapshot_ = std::move(snapshot);
  return true;
}

}  // namespace mainstay::raft

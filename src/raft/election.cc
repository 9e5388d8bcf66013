// Elections: campaigns, votes, timeouts (Raft paper 5.2, 5.4.1; thesis 3.10, 4.2.3, 9.6).
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "raft/core.h"

namespace mainstay::raft {

void Core::TickFollower() {
  // Grows no further than it is compared with.
  election_elapsed_ = std::min(election_elapsed_ + 1, 2 * options_.election_ticks);
  if (election_elapsed_ >= election_timeout_ && Promotable()) {
    election_elapsed_ = 0;
    Campaign();
  }
}

bool Core::Promotable() const {
  const bool snapshot_on_its_way = snapshot_ || snapshot_seq_ != 0;
  return config_.IsVoter(options_.id) && !snapshot_on_its_way && !DiskStalled();
}

void Core::Campaign() {
  StartCampaign(/*transfer=*/false);
}

void Core::StartCampaign(bool transfer) {
  // With a committed configuration change still unapplied it would campaign in an outdated
  // configuration, and could lead two majorities that do not overlap.
  if (role_ == Role::kLeader || !Promotable() || log_.HasUnappliedConfChange()) {
    return;
  }
  // A transfer comes from a live leader, so there is nothing for a pre-vote to protect.
  StartElection(options_.pre_vote && !transfer, transfer);
}

void Core::StartElection(bool pre_vote, bool transfer) {
  if (pre_vote) {
    role_ = Role::kPreCandidate;
  } else {
    EnterTerm(term_.Next());
    role_ = Role::kCandidate;
    vote_ = options_.id;
  }
  const bool early = pre_vote && leader_lost_;
  SetLeader(kNobody);
  ResetTimers();
  if (early) {
    // Others may hear of the leader's loss a little later, and refuse until then.
    const auto soon = static_cast<int>(2 * config_.voters.All().size());
    election_timeout_ = std::min(election_timeout_, soon);
  }
  votes_.clear();
  const EntryId last = log_.last_id();
  for (MemberId id : config_.voters.All()) {
    if (id == options_.id) {
      continue;
    }
    Message request = Make(pre_vote ? MessageType::kPreVote : MessageType::kVote, id);
    request.term = pre_vote ? term_.Next() : term_;
    request.index = last.index;
    request.log_term = last.term;
    if (transfer) {
      request.context = Buffer::Static(kCampaignTransfer);
    }
    // Nobody is asked for a vote before this term and the vote for itself are on disk: otherwise a
    // crash could make this member forget that it led this term, and lead it again with other
    // entries.
    pre_vote ? Send(std::move(request)) : SendAfterPersist(std::move(request));
  }
  if (pre_vote) {
    votes_[options_.id] = true;
    TallyVotes();
  } else {
    SendAfterPersist(Make(MessageType::kVoteResp, options_.id));
  }
}

void Core::HandleVoteRequest(const Message& message) {
  const bool pre_vote = message.type == MessageType::kPreVote;
  const bool free_to_vote = vote_ == message.from || (vote_ == kNobody && leader_ == kNobody) ||
                            (pre_vote && message.term > term_);
  Message answer =
      Make(pre_vote ? MessageType::kPreVoteResp : MessageType::kVoteResp, message.from);
  if (!free_to_vote || !log_.IsUpToDate({message.log_term, message.index})) {
    answer.reject = true;
    Send(std::move(answer));
    return;
  }
  // A grant carries the term that was asked for, which after a pre-vote is not this member's own.
  answer.term = message.term;
  if (pre_vote) {
    Send(std::move(answer));
    return;
  }
  election_elapsed_ = 0;
  vote_ = message.from;
  SendAfterPersist(std::move(answer));
}

void Core::HandleVoteResponse(const Message& message) {
  const bool pre_vote = message.type == MessageType::kPreVoteResp;
  if (!pre_vote && message.type != MessageType::kVoteResp) {
    return;
  }
  if (role_ != (pre_vote ? Role::kPreCandidate : Role::kCandidate)) {
    return;
  }
  // A grant of an earlier pre-vote names an earlier term.
  if (pre_vote && !message.reject && message.term != term_.Next()) {
    return;
  }
  votes_.emplace(message.from, !message.reject);
  TallyVotes();
}

void Core::TallyVotes() {
  switch (config_.voters.Vote(votes_)) {
    case VoteResult::kPending:
      break;
    case VoteResult::kLost:
      BecomeFollower(term_, kNobody);
      break;
    case VoteResult::kWon:
      if (role_ == Role::kPreCandidate) {
        StartElection(/*pre_vote=*/false, /*transfer=*/false);
      } else {
        BecomeLeader();
      }
      break;
  }
}

void Core::BecomeLeader() {
  MS_CHECK(role_ == Role::kCandidate && vote_ == options_.id);
  role_ = Role::kLeader;
  votes_.clear();
  SetLeader(options_.id);
  ResetTimers();
  MS_CHECK(progress_.empty());
  SetConfig(config_);
  for (auto& [id, progress] : progress_) {
    progress.recent_active = false;
  }
  // There may be a configuration change among the entries that it does not know to be applied.
  pending_conf_index_ = log_.last_index();
  // An entry of its own term, without which it can commit nothing of earlier terms (Raft
  // paper 5.4.2, 8).
  AppendOwn(std::vector<Entry>(1));
  WishAll(SendWish::kAlways);
}

void Core::ReportDisconnected(MemberId peer) {
  ReportUnreachable(peer);
  if (role_ != Role::kFollower || peer != leader_) {
    return;
  }
  leader_lost_ = true;
  Voters others = config_.voters.All();
  EraseMember(&others, peer);
  const auto rank = std::lower_bound(others.begin(), others.end(), options_.id) - others.begin();
  const int soon = election_elapsed_ + 1 + 2 * static_cast<int>(rank);
  election_timeout_ = std::min(election_timeout_, soon);
}

}  // namespace mainstay::raft

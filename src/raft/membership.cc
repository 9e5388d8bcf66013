// Configuration changes as the core sees them (thesis 4): applied when their entry is.
#include <utility>

#include "raft/core.h"

namespace mainstay::raft {

StatusOr<ConfState> Core::ApplyConfChange(Index index, const ConfChangeV2& change) {
  if (index > config_index_) {
    MS_ASSIGN_OR_RETURN(Config config, ChangeConfig(config_, change));
    SetConfig(std::move(config));
  }
  return ToConfState(config_);
}

void Core::SetConfig(Config config) {
  config_ = std::move(config);
  if (role_ != Role::kLeader) {
    return;
  }
  if (!config_.IsVoter(options_.id)) {
    // Removed or demoted by a change that is committed: its work is done (Raft paper 6).
    BecomeFollower(term_, kNobody);
    return;
  }
  std::erase_if(progress_, [this](const auto& peer) { return !config_.Contains(peer.first); });
  Voters members = config_.voters.All();
  members.insert(members.end(), config_.learners.begin(), config_.learners.end());
  for (MemberId id : members) {
    const auto [at, is_new] = progress_.try_emplace(
        id, log_.last_index().Next(), options_.inflight_count_max, options_.inflight_bytes_max);
    if (is_new) {
      // Counts as active until it had its chance, lest check-quorum ends this leadership because of
      // it.
      at->second.recent_active = true;
      at->second.wish = SendWish::kAlways;
    }
    if (is_new && id == options_.id) {
      at->second.BecomeReplicate();
      at->second.MaybeUpdate(log_.persisted());
      at->second.wish = SendWish::kNone;
    }
  }
  if (transferee_ != kNobody && !config_.IsVoter(transferee_)) {
    transferee_ = kNobody;
  }
  // A smaller quorum may be complete already.
  MaybeCommit();
  MaybeFinishRound();
}

void Core::MaybeLeaveJoint() {
  if (role_ != Role::kLeader || !config_.auto_leave || log_.applied() < pending_conf_index_) {
    return;
  }
  std::vector<Entry> leave(1);
  leave[0].type = EntryType::kConfChangeV2;
  pending_conf_index_ = log_.last_index().Next();
  AppendOwn(std::move(leave));
}

}  // namespace mainstay::raft

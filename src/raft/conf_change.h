// Configurations and how a change turns one into the next. Pure functions.
//
// Invariants  CheckConfig(): learners are no voters of either half; learners_next are voters of the
//             outgoing half and only there; a plain configuration has no learners_next and no
//             auto_leave.
// Errors      FailedPrecondition, with the reason, for a change that does not fit. Every member
//             computes the same.
// Sources     Thesis 4.1 (one voter at a time), 4.3 (joint consensus); etcd's raft/confchange for
//             the rules on learners.
#pragma once

#include <optional>

#include "common/status.h"
#include "raft/quorum.h"
#include "raft/types.h"

namespace mainstay::raft {

struct Config {
  JointVoters voters;
  Voters learners;
  Voters learners_next;
  bool auto_leave = false;

  bool IsVoter(MemberId id) const { return voters.Contains(id); }
  bool Contains(MemberId id) const { return IsVoter(id) || HasMember(learners, id); }
  friend bool operator==(const Config&, const Config&) = default;
};

ConfState ToConfState(const Config& config);
// Sorts what a foreign sender may not have sorted. FailedPrecondition if the result breaks an
// invariant.
StatusOr<Config> FromConfState(const ConfState& state);
Status CheckConfig(const Config& config);

// The configuration after `change`.
StatusOr<Config> ChangeConfig(const Config& config, const ConfChangeV2& change);

// The same on ConfStates. The store keeps its own by this: the configuration at its applied index,
// which the core's may have left behind when a snapshot arrives.
StatusOr<ConfState> ChangeConfState(const ConfState& state, const ConfChangeV2& change);

// Whether `change` goes through a joint configuration; then whether that is left by itself.
std::optional<bool> EntersJoint(const ConfChangeV2& change);

}  // namespace mainstay::raft

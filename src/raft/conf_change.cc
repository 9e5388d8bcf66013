#include "raft/conf_change.h"

#include <algorithm>
#include <iterator>

namespace mainstay::raft {
namespace {

void MakeVoter(Config* config, MemberId id) {
  InsertMember(&config->voters.incoming, id);
  EraseMember(&config->learners, id);
  EraseMember(&config->learners_next, id);
}

void Remove(Config* config, MemberId id) {
  EraseMember(&config->voters.incoming, id);
  EraseMember(&config->learners, id);
  EraseMember(&config->learners_next, id);
}

void MakeLearner(Config* config, MemberId id) {
  Remove(config, id);
  // A voter of the outgoing half goes on voting there; it becomes a learner when the joint
  // configuration is left.
  if (HasMember(config->voters.outgoing, id)) {
    InsertMember(&config->learners_next, id);
  } else {
    InsertMember(&config->learners, id);
  }
}

Status ApplyChanges(Config* config, const std::vector<ConfChangeSingle>& changes) {
  for (const ConfChangeSingle& change : changes) {
    if (change.node_id == kNobody) {
      continue;
    }
    switch (change.type) {
      case ConfChangeType::kAddNode:
        MakeVoter(config, change.node_id);
        break;
      case ConfChangeType::kAddLearnerNode:
        MakeLearner(config, change.node_id);
        break;
      case ConfChangeType::kRemoveNode:
        Remove(config, change.node_id);
        break;
      case ConfChangeType::kUpdateNode:
        break;
    }
  }
  if (config->voters.incoming.empty()) {
    return FailedPrecondition("removed all voters");
  }
  return absl::OkStatus();
}

StatusOr<Config> LeaveJoint(Config config) {
  if (!config.voters.is_joint()) {
    return FailedPrecondition("can't leave a non-joint config");
  }
  for (MemberId id : config.learners_next) {
    InsertMember(&config.learners, id);
  }
  config.learners_next.clear();
  config.voters.outgoing.clear();
  config.auto_leave = false;
  return config;
}

StatusOr<Config> EnterJoint(Config config, const ConfChangeV2& change, bool auto_leave) {
  if (config.voters.is_joint()) {
    return FailedPrecondition("config is already joint");
  }
  if (config.voters.incoming.empty()) {
    return FailedPrecondition("can't make a zero-voter config joint");
  }
  config.voters.outgoing = config.voters.incoming;
  MS_RETURN_IF_ERROR(ApplyChanges(&config, change.changes));
  config.auto_leave = auto_leave;
  return config;
}

StatusOr<Config> Simple(Config config, const ConfChangeV2& change) {
  if (config.voters.is_joint()) {
    return FailedPrecondition("can't apply simple config change in joint config");
  }
  const Voters before = config.voters.incoming;
  MS_RETURN_IF_ERROR(ApplyChanges(&config, change.changes));
  Voters differ;
  std::set_symmetric_difference(before.begin(), before.end(), config.voters.incoming.begin(),
                                config.voters.incoming.end(), std::back_inserter(differ));
  if (differ.size() > 1) {
    return FailedPrecondition("more than one voter changed without entering joint config");
  }
  return config;
}

Voters Sorted(Voters list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

bool Overlaps(const Voters& a, const Voters& b) {
  return std::any_of(a.begin(), a.end(), [&b](MemberId id) { return HasMember(b, id); });
}

}  // namespace

ConfState ToConfState(const Config& config) {
  return {.voters = config.voters.incoming,
          .learners = config.learners,
          .voters_outgoing = config.voters.outgoing,
          .learners_next = config.learners_next,
          .auto_leave = config.auto_leave};
}

StatusOr<Config> FromConfState(const ConfState& state) {
  Config config{.voters = {Sorted(state.voters), Sorted(state.voters_outgoing)},
                .learners = Sorted(state.learners),
                .learners_next = Sorted(state.learners_next),
                .auto_leave = state.auto_leave};
  MS_RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

Status CheckConfig(const Config& config) {
  if (Overlaps(config.learners, config.voters.incoming) ||
      Overlaps(config.learners, config.voters.outgoing)) {
    return FailedPrecondition("a learner is also a voter");
  }
  for (MemberId id : config.learners_next) {
    if (!HasMember(config.voters.outgoing, id) || HasMember(config.voters.incoming, id)) {
      return FailedPrecondition("a next learner is not only in the outgoing half");
    }
  }
  if (!config.voters.is_joint() && (config.auto_leave || !config.learners_next.empty())) {
    return FailedPrecondition("a plain config carries joint state");
  }
  for (const Voters* list : {&config.voters.incoming, &config.voters.outgoing, &config.learners}) {
    if (HasMember(*list, kNobody)) {
      return FailedPrecondition("member id 0 in a config");
    }
  }
  return absl::OkStatus();
}

std::optional<bool> EntersJoint(const ConfChangeV2& change) {
  if (change.transition == ConfChangeTransition::kAuto && change.changes.size() <= 1) {
    return std::nullopt;
  }
  return change.transition != ConfChangeTransition::kJointExplicit;
}

StatusOr<ConfState> ChangeConfState(const ConfState& state, const ConfChangeV2& change) {
  MS_ASSIGN_OR_RETURN(const Config before, FromConfState(state));
  MS_ASSIGN_OR_RETURN(const Config after, ChangeConfig(before, change));
  return ToConfState(after);
}

StatusOr<Config> ChangeConfig(const Config& config, const ConfChangeV2& change) {
  if (change.leaves_joint()) {
    return LeaveJoint(config);
  }
  if (const std::optional<bool> auto_leave = EntersJoint(change)) {
    return EnterJoint(config, change, *auto_leave);
  }
  return Simple(config, change);
}

}  // namespace mainstay::raft

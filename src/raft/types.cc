#include "raft/types.h"

namespace mainstay::raft {

ConfChangeV2 ToV2(const ConfChange& change) {
  return {.transition = ConfChangeTransition::kAuto,
          .changes = {{change.type, change.node_id}},
          .context = change.context};
}

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kFollower:
      return "follower";
    case Role::kPreCandidate:
      return "pre-candidate";
    case Role::kCandidate:
      return "candidate";
    case Role::kLeader:
      return "leader";
  }
  return "?";
}

std::string_view MessageTypeName(MessageType type) {
  switch (type) {
    case MessageType::kHup:
      return "Hup";
    case MessageType::kBeat:
      return "Beat";
    case MessageType::kProp:
      return "Prop";
    case MessageType::kApp:
      return "App";
    case MessageType::kAppResp:
      return "AppResp";
    case MessageType::kVote:
      return "Vote";
    case MessageType::kVoteResp:
      return "VoteResp";
    case MessageType::kSnap:
      return "Snap";
    case MessageType::kHeartbeat:
      return "Heartbeat";
    case MessageType::kHeartbeatResp:
      return "HeartbeatResp";
    case MessageType::kUnreachable:
      return "Unreachable";
    case MessageType::kSnapStatus:
      return "SnapStatus";
    case MessageType::kCheckQuorum:
      return "CheckQuorum";
    case MessageType::kTransferLeader:
      return "TransferLeader";
    case MessageType::kTimeoutNow:
      return "TimeoutNow";
    case MessageType::kReadIndex:
      return "ReadIndex";
    case MessageType::kReadIndexResp:
      return "ReadIndexResp";
    case MessageType::kPreVote:
      return "PreVote";
    case MessageType::kPreVoteResp:
      return "PreVoteResp";
    case MessageType::kForgetLeader:
      return "ForgetLeader";
  }
  return "?";
}

}  // namespace mainstay::raft

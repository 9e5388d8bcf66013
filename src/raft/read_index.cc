// Linearizable reads without writing to the log (Raft paper 8; thesis 6.4).
#include <algorithm>
#include <utility>

#include "raft/core.h"

namespace mainstay::raft {

void Core::ReadIndex(uint64_t token) {
  reads_.Add(token);
}

void Core::FlushReads() {
  if (!reads_.waiting() || reads_.round()) {
    return;
  }
  if (role_ == Role::kLeader) {
    StartLeaderRound();
  } else if (leader_ != kNobody) {
    AskLeader();
  } else {
    FailReads(ReadOutcome::kNoLeader);
  }
}

void Core::StartLeaderRound() {
  // Until an entry of its own term is committed, its commit index may be behind what an earlier
  // leader acknowledged.
  if (!CommittedInOwnTerm()) {
    return;
  }
  reads_.Start(log_.committed());
  if (config_.voters.IsSole(options_.id)) {
    FinishRound();
  } else {
    BroadcastHeartbeat();
  }
}

void Core::MaybeFinishRound() {
  if (!reads_.round()) {
    return;
  }
  std::map<MemberId, bool> acks = reads_.round()->acks;
  acks[options_.id] = true;
  if (config_.voters.Vote(acks) == VoteResult::kWon) {
    FinishRound();
  }
}

void Core::FinishRound() {
  ReadRound round = reads_.Finish();
  for (uint64_t token : round.tokens) {
    read_results_.push_back({.token = token, .outcome = ReadOutcome::kOk, .index = round.index});
  }
  for (RemoteRead& remote : round.remotes) {
    Message answer = Make(MessageType::kReadIndexResp, remote.from);
    answer.index = round.index;
    answer.entries.resize(1);
    answer.entries[0].data = std::move(remote.context);
    Send(std::move(answer));
  }
  // What came meanwhile starts the next round.
  FlushReads();
}

void Core::AskLeader() {
  const uint64_t id = (reads_.round() ? reads_.Restart() : reads_.Start(Index(0))).id;
  Message question = Make(MessageType::kReadIndex, leader_);
  question.entries.resize(1);
  question.entries[0].data = ReadRounds::ContextOf(id);
  Send(std::move(question));
}

void Core::TickReads() {
  reads_.Tick();
  // The question or its answer may be lost.
  const int patience = std::max(options_.heartbeat_ticks, options_.election_ticks / 2);
  const bool asked = role_ == Role::kFollower && leader_ != kNobody && reads_.round();
  if (asked && reads_.round()->age_ticks >= patience) {
    AskLeader();
  }
}

void Core::FailReads(ReadOutcome outcome) {
  for (uint64_t token : reads_.Abandon()) {
    read_results_.push_back({.token = token, .outcome = outcome});
  }
}

void Core::HandleReadIndex(Message&& message) {
  if (!message.entries.empty()) {
    reads_.AddRemote({message.from, std::move(message.entries[0].data)}, kRemoteReadsMax);
  }
}

void Core::HandleReadIndexResponse(const Message& message) {
  if (message.entries.empty() || !reads_.IsOpen(message.entries[0].data)) {
    return;
  }
  for (uint64_t token : reads_.Finish().tokens) {
    read_results_.push_back({.token = token, .outcome = ReadOutcome::kOk, .index = message.index});
  }
}

}  // namespace mainstay::raft

// Rounds of linearizable reads: who waits, for which round, and who has confirmed it.
//
// A leader runs one round at a time: the commit index at its start, and a heartbeat under a fresh
// id that a quorum has to echo. Everything that asks meanwhile goes into the next round. A follower
// likewise has one question out to its leader.
//
// Invariants  A round id is used once in the life of this object, and starts from a random number,
//             so that an answer from before a restart is not taken for one of now. A token is
//             answered exactly once.
// Threads     The core's.
// Sources     Raft paper 8; thesis 6.4.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "raft/types.h"

namespace mainstay::raft {

// A kReadIndex of another member: its own id of its round goes back with the answer.
struct RemoteRead {
  MemberId from;
  Buffer context;
};

struct ReadRound {
  uint64_t id = 0;
  Index index;
  std::vector<uint64_t> tokens;
  std::vector<RemoteRead> remotes;
  std::map<MemberId, bool> acks;
  int age_ticks = 0;
};

class ReadRounds {
 public:
  explicit ReadRounds(uint64_t first_id) : next_id_(first_id) {}

  void Add(uint64_t token) { tokens_.push_back(token); }
  // False if too many wait.
  bool AddRemote(RemoteRead read, size_t count_max);

  bool waiting() const { return !tokens_.empty() || !remotes_.empty(); }
  bool tokens_waiting() const { return !tokens_.empty(); }
  const std::optional<ReadRound>& round() const { return round_; }
  size_t pending() const {
    return tokens_.size() + remotes_.size() +
           (round_ ? round_->tokens.size() + round_->remotes.size() : 0);
  }

  // Moves all that waits into a new round. REQUIRES: no round is open.
  const ReadRound& Start(Index index);
  // The open round asks again, under a new id. REQUIRES: a round is open.
  const ReadRound& Restart();
  void Tick() {
    if (round_) {
      ++round_->age_ticks;
    }
  }
  // Notes `from`'s echo. Whether `context` is that of the open round.
  bool Ack(MemberId from, const Buffer& context);
  bool IsOpen(const Buffer& context) const;
  // The open round, which is over. REQUIRES: a round is open.
  ReadRound Finish();
  // Everything open and waiting; remote reads are forgotten (their sender asks again).
  std::vector<uint64_t> Abandon();

  // A round id as heartbeats and kReadIndex carry it.
  static Buffer ContextOf(uint64_t id);

 private:
  uint64_t next_id_;
  std::vector<uint64_t> tokens_;
  std::vector<RemoteRead> remotes_;
  std::optional<ReadRound> round_;
};

}  // namespace mainstay::raft

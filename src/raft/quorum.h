// Majorities, plain and joint: what a set of acknowledgements commits and what a set of votes
// decides.
//
// Invariants  Voter lists are sorted and hold no member twice. An empty list agrees to everything,
//             so that a joint configuration with an empty outgoing half is a plain one.
// Threads     Any; no state.
// Sources     Raft paper 5.2, 5.3; thesis 4.3 (joint consensus: a majority of each half).
#pragma once

#include <map>
#include <vector>

#include "absl/functional/function_ref.h"

#include "raft/types.h"

namespace mainstay::raft {

enum class VoteResult : uint8_t { kPending, kLost, kWon };

using Voters = std::vector<MemberId>;
using MatchOf = absl::FunctionRef<Index(MemberId)>;

// Larger than any index: what an empty list commits.
inline constexpr Index kAllIndexes{~uint64_t{0}};

// The largest index that a majority of `voters` has.
Index MajorityIndex(const Voters& voters, MatchOf match);
// kWon when a majority said yes, kLost when it no longer can, else kPending. Voters not in `votes`
// have not voted.
VoteResult MajorityVote(const Voters& voters, const std::map<MemberId, bool>& votes);

// Voters of a configuration: `outgoing` is not empty only while it is joint.
struct JointVoters {
  Voters incoming;
  Voters outgoing;

  bool is_joint() const { return !outgoing.empty(); }
  bool Contains(MemberId id) const;
  // Members of either half, sorted, each once.
  Voters All() const;
  // Whether `id` decides alone.
  bool IsSole(MemberId id) const { return outgoing.empty() && incoming == Voters{id}; }
  Index CommittedIndex(MatchOf match) const;
  VoteResult Vote(const std::map<MemberId, bool>& votes) const;
  friend bool operator==(const JointVoters&, const JointVoters&) = default;
};

// Sorted-list set operations, shared with conf_change.cc.
bool HasMember(const Voters& list, MemberId id);
void InsertMember(Voters* list, MemberId id);
void EraseMember(Voters* list, MemberId id);

}  // namespace mainstay::raft

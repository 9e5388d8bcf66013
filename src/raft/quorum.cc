#include "raft/quorum.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"

namespace mainstay::raft {

Index MajorityIndex(const Voters& voters, MatchOf match) {
  if (voters.empty()) {
    return kAllIndexes;
  }
  absl::InlinedVector<Index, 8> matches;
  for (MemberId id : voters) {
    matches.push_back(match(id));
  }
  // Of n sorted indexes the one at n - (n/2 + 1) is held by n/2 + 1 members.
  const auto place = static_cast<ptrdiff_t>(voters.size() - (voters.size() / 2 + 1));
  std::nth_element(matches.begin(), matches.begin() + place, matches.end());
  return matches[static_cast<size_t>(place)];
}

VoteResult MajorityVote(const Voters& voters, const std::map<MemberId, bool>& votes) {
  size_t yes = 0;
  size_t open = 0;
  for (MemberId id : voters) {
    const auto vote = votes.find(id);
    if (vote == votes.end()) {
      ++open;
    } else if (vote->second) {
      ++yes;
    }
  }
  const size_t needed = voters.empty() ? 0 : voters.size() / 2 + 1;
  if (yes >= needed) {
    return VoteResult::kWon;
  }
  return yes + open >= needed ? VoteResult::kPending : VoteResult::kLost;
}

bool JointVoters::Contains(MemberId id) const {
  return HasMember(incoming, id) || HasMember(outgoing, id);
}

Voters JointVoters::All() const {
  Voters all;
  std::set_union(incoming.begin(), incoming.end(), outgoing.begin(), outgoing.end(),
                 std::back_inserter(all));
  return all;
}

Index JointVoters::CommittedIndex(MatchOf match) const {
  return std::min(MajorityIndex(incoming, match), MajorityIndex(outgoing, match));
}

VoteResult JointVoters::Vote(const std::map<MemberId, bool>& votes) const {
  const VoteResult a = MajorityVote(incoming, votes);
  const VoteResult b = MajorityVote(outgoing, votes);
  if (a == b) {
    return a;
  }
  return a == VoteResult::kLost || b == VoteResult::kLost ? VoteResult::kLost
                                                          : VoteResult::kPending;
}

bool HasMember(const Voters& list, MemberId id) {
  return std::binary_search(list.begin(), list.end(), id);
}

void InsertMember(Voters* list, MemberId id) {
  const auto at = std::lower_bound(list->begin(), list->end(), id);
  if (at == list->end() || *at != id) {
    list->insert(at, id);
  }
}

void EraseMember(Voters* list, MemberId id) {
  const auto at = std::lower_bound(list->begin(), list->end(), id);
  if (at != list->end() && *at == id) {
    list->erase(at);
  }
}

}  // namespace mainstay::raft

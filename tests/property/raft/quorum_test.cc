// Goal: quorum maths is right for every configuration, plain and joint (Raft paper 5.2, 5.3;
// thesis 4.3). Method: 50,000 seeded configurations against naive twins that try every index and
// count; a failure prints its seed.
#include "raft/quorum.h"

#include <gtest/gtest.h>

#include "raft/random.h"

namespace mainstay::raft {
namespace {

using Matches = std::map<MemberId, Index>;
using Votes = std::map<MemberId, bool>;

bool NaiveHas(const Voters& voters, const Matches& matches, Index index) {
  size_t count = 0;
  for (MemberId id : voters) {
    const auto at = matches.find(id);
    count += (at == matches.end() ? Index(0) : at->second) >= index ? 1 : 0;
  }
  return voters.empty() || 2 * count > voters.size();
}

// The largest index that majorities of both halves have, found by trying them from above.
Index NaiveCommitted(const JointVoters& voters, const Matches& matches) {
  Index index{20};
  while (
      !(NaiveHas(voters.incoming, matches, index) && NaiveHas(voters.outgoing, matches, index))) {
    index = index.Prev();
  }
  return index;
}

bool NaiveWins(const Voters& voters, const Votes& votes, bool open_votes_are) {
  size_t yes = 0;
  for (MemberId id : voters) {
    const auto at = votes.find(id);
    yes += (at == votes.end() ? open_votes_are : at->second) ? 1 : 0;
  }
  return voters.empty() || 2 * yes > voters.size();
}

VoteResult NaiveVote(const JointVoters& voters, const Votes& votes) {
  const auto wins = [&](bool open) {
    return NaiveWins(voters.incoming, votes, open) && NaiveWins(voters.outgoing, votes, open);
  };
  if (wins(false)) {
    return VoteResult::kWon;
  }
  return wins(true) ? VoteResult::kPending : VoteResult::kLost;
}

Voters RandomVoters(SeededJitter* random, size_t count_max) {
  Voters voters;
  for (uint64_t id = 1; id <= 9 && voters.size() < count_max; ++id) {
    if (random->Below(2) == 0) {
      voters.emplace_back(id);
    }
  }
  return voters;
}

TEST(QuorumTest, AgreesWithNaiveTwinsInManyConfigurations) {
  for (uint64_t seed = 1; seed <= 50'000; ++seed) {
    SeededJitter random(seed);
    const JointVoters voters{RandomVoters(&random, random.Below(8)),
                             random.Below(2) == 0 ? Voters{} : RandomVoters(&random, 7)};
    Matches matches;
    Votes votes;
    for (uint64_t id = 1; id <= 9; ++id) {
      if (random.Below(4) != 0) {
        matches[MemberId(id)] = Index(random.Below(20));
      }
      if (random.Below(3) != 0) {
        votes[MemberId(id)] = random.Below(2) == 0;
      }
    }
    const auto match = [&matches](MemberId id) {
      const auto at = matches.find(id);
      return at == matches.end() ? Index(0) : at->second;
    };
    const bool nobody = voters.incoming.empty() && voters.outgoing.empty();
    ASSERT_EQ(voters.CommittedIndex(match), nobody ? kAllIndexes : NaiveCommitted(voters, matches))
        << "seed " << seed;
    ASSERT_EQ(voters.Vote(votes), NaiveVote(voters, votes)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mainstay::raft

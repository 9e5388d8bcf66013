// Goal: the in-flight window and a follower's progress keep their bounds and never forget or invent
// an append. Method: 50,000 seeded sequences against naive twins that keep every append in a list;
// a failure prints its seed.
#include "raft/progress.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "raft/random.h"

namespace mainstay::raft {
namespace {

struct NaiveAppend {
  uint64_t last;
  size_t bytes;
};

// What a leader would know if it remembered everything.
struct NaiveWindow {
  std::vector<NaiveAppend> out;
  size_t bytes() const {
    return std::accumulate(out.begin(), out.end(), size_t{0},
                           [](size_t sum, const NaiveAppend& a) { return sum + a.bytes; });
  }
  void Free(uint64_t upto) {
    std::erase_if(out, [upto](const NaiveAppend& a) { return a.last <= upto; });
  }
};

void RunWindow(uint64_t seed) {
  SeededJitter random(seed);
  const size_t count_max = 1 + random.Below(5);
  const size_t bytes_max = random.Below(3) == 0 ? 0 : 1 + random.Below(100);
  InflightWindow window(count_max, bytes_max);
  NaiveWindow naive;
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    if (random.Below(3) != 0 && !window.full()) {
      last += 1 + random.Below(3);
      const size_t bytes = random.Below(60);
      window.Add(Index(last), bytes);
      naive.out.push_back({last, bytes});
    } else {
      const uint64_t upto = random.Below(last + 2);
      window.FreeUpTo(Index(upto));
      naive.Free(upto);
    }
    ASSERT_EQ(window.count(), naive.out.size()) << "seed " << seed;
    ASSERT_EQ(window.bytes(), naive.bytes()) << "seed " << seed;
    const bool full =
        naive.out.size() >= count_max || (bytes_max != 0 && naive.bytes() >= bytes_max);
    ASSERT_EQ(window.full(), full) << "seed " << seed;
    ASSERT_EQ(window.bytes_free() > 0, !full) << "seed " << seed;
  }
}

// A follower whose log agrees with the leader's up to `true_match`, at the other end of a lossless
// link; whatever happens, the leader's match never exceeds it and comes to it in the end.
void RunProgress(uint64_t seed) {
  SeededJitter random(seed);
  const uint64_t log_last = 1 + random.Below(40);
  const uint64_t true_match = random.Below(log_last + 1);
  uint64_t follower_last = true_match;
  Progress progress(Index(log_last + 1), 1 + random.Below(4), 0);
  for (int step = 0; step < 200 && progress.match() < Index(log_last); ++step) {
    if (random.Below(20) == 0 && progress.state() == ProgressState::kReplicate) {
      progress.BecomeProbe();
    }
    progress.Resume();
    const uint64_t previous = progress.next().value() - 1;
    const uint64_t count =
        progress.window().full() ? 0 : std::min<uint64_t>(random.Below(4), log_last - previous);
    progress.Sent(count, count, Index(0));
    progress.CheckInvariants();
    if (previous > follower_last) {
      ASSERT_TRUE(progress.MaybeDecrease(Index(previous), Index(follower_last))) << "seed " << seed;
      ASSERT_FALSE(progress.MaybeDecrease(Index(previous + 1000), Index(0)) &&
                   progress.state() == ProgressState::kProbe)
          << "seed " << seed;
      if (progress.state() == ProgressState::kReplicate) {
        progress.BecomeProbe();
      }
    } else {
      follower_last = std::max(follower_last, previous + count);
      const bool news = progress.MaybeUpdate(Index(previous + count));
      if (progress.state() == ProgressState::kProbe &&
          (news || progress.match() == Index(previous))) {
        progress.BecomeReplicate();
      }
    }
    progress.CheckInvariants();
    ASSERT_LE(progress.match(), Index(follower_last)) << "seed " << seed;
  }
  ASSERT_EQ(progress.match(), Index(log_last)) << "seed " << seed;
}

TEST(InflightWindowTest, AgreesWithANaiveTwin) {
  for (uint64_t seed = 1; seed <= 50'000 && !testing::Test::HasFatalFailure(); ++seed) {
    RunWindow(seed);
  }
}

TEST(ProgressTest, FindsTheFollowersLogAndNeverOverstatesIt) {
  for (uint64_t seed = 1; seed <= 50'000 && !testing::Test::HasFatalFailure(); ++seed) {
    RunProgress(seed);
  }
}

}  // namespace
}  // namespace mainstay::raft

// Goal: whatever write or sync the power goes at, the log that is found again is what was
// acknowledged, followed by
//       nothing or by a part of what was on its way; damage of what was acknowledged is refused,
//       never overlooked.
// Method: one seeded history of appends, overwrites, cuts and releases runs on the simulated disk
// once without a
//       fault, which counts its steps; then once for every step with the power going there, under
//       each way in which unsynced sectors can survive; recovery itself is cut at each of its steps
//       as well.
#include <gtest/gtest.h>

#include "env/random.h"
#include "tests/sim/disk.h"
#include "wal/wal.h"

namespace mainstay::wal {
namespace {

using sim::Disk;
using sim::Survival;

constexpr char kDir[] = "/wal";
constexpr Options kOptions{.segment_bytes = 6 << 10};

// What a log says: its entries and the hard state.
struct State {
  Index first{1};
  std::vector<raft::Entry> entries;
  raft::HardState hard_state;

  Index last() const { return Index(first.value() + entries.size() - 1); }
  void Add(const raft::Entry& entry) {
    entries.resize(entry.index.value() - first.value());
    entries.push_back(entry);
  }
};

bool Same(const State& model, const Recovered& found) {
  if (found.hard_state != model.hard_state) {
    return false;
  }
  // The log may begin later than the model: segments were released.
  const uint64_t skip = found.before.index.Next().value() - model.first.value();
  if (found.entries.empty()) {
    return model.entries.empty() || found.before.index >= model.last();
  }
  if (skip > model.entries.size() || model.entries.size() - skip != found.entries.size()) {
    return false;
  }
  for (size_t i = 0; i < found.entries.size(); ++i) {
    const raft::Entry& a = model.entries[skip + i];
    const raft::Entry& b = found.entries[i];
    if (a.index != b.index || a.term != b.term || a.data.view() != b.data.view()) {
      return false;
    }
  }
  return true;
}

// Runs a history and remembers every state the log went through, record by record.
class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {}

  // Until an error or the end. Returns the first error.
  Status Run(Disk& disk, int operations) {
    MS_RETURN_IF_ERROR(disk.MakeDirs(kDir));
    states_ = {State()};
    MS_ASSIGN_OR_RETURN(std::unique_ptr<Writer> writer,
                        Writer::Create(disk, kDir, {MemberId(1), ClusterId(2)}, kOptions));
    created_ = true;
    return GoOn(*writer, operations);
  }

  Status GoOn(Writer& writer, int operations) {
    for (int i = 0; i < operations; ++i) {
      MS_RETURN_IF_ERROR(Operation(writer));
    }
    return absl::OkStatus();
  }

  // The state that `found` shows, or nothing if it shows none that it may.
  std::optional<size_t> Find(const Recovered& found) const {
    for (size_t i = states_.size(); i-- > acknowledged_;) {
      if (Same(states_[i], found)) {
        return i;
      }
    }
    return std::nullopt;
  }
  // The state that recovery found is the truth from now on.
  void Settle(size_t state) {
    states_ = {states_[state]};
    acknowledged_ = 0;
    term_ = term_ + 1;
  }
  bool created() const { return created_; }
  Index released() const { return released_; }

 private:
  Status Operation(Writer& writer) {
    switch (random_.Below(8)) {
      case 0:
        writer.PrepareNext();
        return absl::OkStatus();
      case 1:
        if (const State& state = states_[acknowledged_]; state.entries.size() > 12) {
          const Index below(state.last().value() - 6);
          released_ = std::max(released_, below);
          return writer.Release(below);
        }
        return absl::OkStatus();
      case 2:
        ++term_;
        return Append(writer, true);
      default:
        return Append(writer, false);
    }
  }

  Status Append(Writer& writer, bool overwrite) {
    State state = states_.back();
    Index next = state.last().Next();
    if (overwrite && state.hard_state.commit < state.last()) {
      next = Index(state.hard_state.commit.value() + 1 +
                   random_.Below(state.last().value() - state.hard_state.commit.value()));
    }
    std::vector<raft::Entry> entries;
    for (uint64_t n = 1 + random_.Below(4); n > 0; --n) {
      std::string data(random_.Below(3) == 0 ? random_.Below(1500) : random_.Below(100), 'x');
      for (char& c : data) {
        c = static_cast<char>('a' + random_.Below(26));
      }
      entries.push_back({Term(term_), next, raft::EntryType::kNormal, Buffer::Copy(data)});
      next = next.Next();
    }
    for (const raft::Entry& entry : entries) {
      state.Add(entry);
      states_.push_back(state);
    }
    std::optional<raft::HardState> hard_state;
    if (random_.Below(2) == 0) {
      hard_state = raft::HardState{
          Term(term_), MemberId(1),
          std::max(state.hard_state.commit, Index(state.last().value() - random_.Below(2)))};
      state.hard_state = *hard_state;
      states_.push_back(state);
    }
    MS_RETURN_IF_ERROR(writer.Append(entries, hard_state));
    MS_RETURN_IF_ERROR(writer.Sync());
    acknowledged_ = states_.size() - 1;
    return absl::OkStatus();
  }

  SeededRandom random_;
  std::vector<State> states_;
  size_t acknowledged_ = 0;
  uint64_t term_ = 1;
  Index released_{0};
  bool created_ = false;
};

constexpr int kOperations = 30;

uint64_t StepsOf(uint64_t seed) {
  Disk disk;
  EXPECT_TRUE(History(seed).Run(disk, kOperations).ok());
  return disk.steps();
}

// Recovers, with the power going again and again while it does; then compares.
void RecoverAndCompare(Disk& disk, History& history, Random& random, Survival survival) {
  // Each attempt gets one step further than the one before.
  for (uint64_t step = 1; random.Below(3) != 0 && step < 12; ++step) {
    disk.PowerOffAt(disk.steps() + step);
    const bool done = Recover(disk, kDir, Index(0), kOptions).ok();
    disk.PowerOff();
    disk.PowerOn(survival, random);
    if (done) {
      break;
    }
  }
  StatusOr<Recovered> found = Recover(disk, kDir, Index(0), kOptions);
  if (!history.created() && absl::IsNotFound(found.status())) {
    return;
  }
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  const std::optional<size_t> state = history.Find(*found);
  ASSERT_TRUE(state.has_value()) << "found " << found->entries.size() << " entries after "
                                 << found->before.index.value() << ", commit "
                                 << found->hard_state.commit.value();
  EXPECT_LT(found->before.index, std::max(history.released(), Index(1)));
  // It can be written on, and that is found too.
  history.Settle(*state);
  ASSERT_TRUE(history.GoOn(*found->writer, 5).ok());
  found->writer = nullptr;
  disk.PowerOff();
  disk.PowerOn(survival, random);
  found = Recover(disk, kDir, Index(0), kOptions);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE(history.Find(*found).has_value());
}

TEST(WalCrashTeeth, WithoutSyncsAcknowledgedEntriesAreMissed) {
  Disk disk;
  SeededRandom random(1);
  ASSERT_TRUE(disk.MakeDirs(kDir).ok());
  Options options = kOptions;
  options.unsafe_no_fsync = true;
  auto writer = Writer::Create(disk, kDir, {MemberId(1), ClusterId(2)}, options).value();
  const raft::Entry entry{Term(1), Index(1), raft::EntryType::kNormal, Buffer::Copy("x")};
  ASSERT_TRUE(writer->Append({&entry, 1}, std::nullopt).ok());
  ASSERT_TRUE(writer->Sync().ok());
  disk.PowerOff();
  disk.PowerOn(Survival::kNothing, random);
  EXPECT_TRUE(Recover(disk, kDir, Index(0), kOptions)->entries.empty());
}

class WalCrashTest : public testing::TestWithParam<Survival> {};

TEST_P(WalCrashTest, PowerLossAtEveryStepLosesNothingAcknowledged) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const uint64_t steps = StepsOf(seed);
    ASSERT_GT(steps, 60u);
    for (uint64_t step = 1; step <= steps; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      Disk disk;
      SeededRandom random(seed * 1000 + step);
      History history(seed);
      disk.PowerOffAt(step);
      (void)history.Run(disk, kOperations);  // fails, unless only a preparation was cut
      disk.PowerOff();
      disk.PowerOn(GetParam(), random);
      RecoverAndCompare(disk, history, random, GetParam());
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachWay,
                         WalCrashTest,
                         testing::Values(Survival::kNothing,
                                         Survival::kEverything,
                                         Survival::kRandom));

TEST(WalFaultTest, AFailedCallIsNotRetriedAndNothingAcknowledgedIsLost) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const uint64_t steps = StepsOf(seed);
    for (uint64_t step = 1; step <= steps; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      Disk disk;
      SeededRandom random(seed * 1000 + step);
      History history(seed);
      disk.FailAt(step, DataLoss("input/output error"));
      const Status status = history.Run(disk, kOperations);
      if (!status.ok()) {
        // But for the preparation of a segment, which is done again, an error ends the member.
        EXPECT_TRUE(absl::IsDataLoss(status)) << status.ToString();
      }
      disk.PowerOff();
      disk.PowerOn(Survival::kRandom, random);
      RecoverAndCompare(disk, history, random, Survival::kRandom);
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

TEST(WalFaultTest, AfterAFailedSyncEachCallReturnsThatError) {
  Disk disk;
  ASSERT_TRUE(disk.MakeDirs(kDir).ok());
  auto writer = Writer::Create(disk, kDir, {MemberId(1), ClusterId(2)}, kOptions).value();
  const raft::Entry entry{Term(1), Index(1), raft::EntryType::kNormal, Buffer::Copy("x")};
  ASSERT_TRUE(writer->Append({&entry, 1}, std::nullopt).ok());
  disk.FailAt(disk.steps() + 2, DataLoss("input/output error"));
  EXPECT_TRUE(absl::IsDataLoss(writer->Sync()));
  EXPECT_TRUE(absl::IsDataLoss(writer->Sync()));
  EXPECT_TRUE(absl::IsDataLoss(writer->Append({&entry, 1}, std::nullopt)));
  EXPECT_TRUE(absl::IsDataLoss(writer->Release(Index(1))));
}

TEST(WalFaultTest, AFullDiskIsNamed) {
  Disk disk;
  disk.SetCapacity(40 << 10);
  History history(3);
  const Status status = history.Run(disk, 10'000);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status.ToString();
  EXPECT_NE(status.ToString().find("no space left on device"), std::string::npos);
  disk.SetCapacity(~uint64_t{0});
  auto found = Recover(disk, kDir, Index(0), kOptions);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(history.Find(*found).has_value());
}

TEST(WalRotTest, AFlippedBitIsRefusedOrHarmlessNeverBelieved) {
  Disk disk;
  History history(5);
  ASSERT_TRUE(history.Run(disk, kOperations).ok());
  const std::vector<std::string> names = disk.List(kDir).value();
  int refused = 0;
  SeededRandom random(5);
  for (const std::string& name : names) {
    if (!name.ends_with(".wal")) {
      continue;
    }
    const std::string path = std::string(kDir) + "/" + name;
    const std::string before = disk.Content(path);
    for (uint64_t bit = random.Below(5); bit < before.size() * 8; bit += 1 + random.Below(5)) {
      disk.FlipBit(path, bit / 8, static_cast<int>(bit % 8));
      auto found = Recover(disk, kDir, Index(0), kOptions);
      if (found.ok()) {
        ASSERT_TRUE(history.Find(*found).has_value()) << name << " bit " << bit;
      } else {
        ASSERT_TRUE(absl::IsDataLoss(found.status())) << found.status().ToString();
        ++refused;
      }
      disk.SetContent(path, before);
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace mainstay::wal

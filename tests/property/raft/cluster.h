// A whole cluster under random faults, from one seed: messages are lost, doubled, reordered and cut
// off; members crash and lose what they had not synced; configurations change; disks lag, and so do
// stores. After every step it checks what Raft promises (Raft paper, figure 3):
//
//   election safety       One leader a term.
//   log matching          Entries with the same term and index are equal, and so are all before.
//   leader completeness   A new leader has everything committed in earlier terms.
//   state machine safety  Every store goes through the same states.
//   kept promises         Votes and acknowledgements leave when the disk has what they say.
//   durable commit        What is applied is on a majority's disks (configuration at rest).
//   linearizable reads    A read index is never below what was applied anywhere when it was asked.
//
// and in the end, with the faults gone, that the cluster comes to one state (liveness).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "raft/random.h"
#include "tests/property/raft/member.h"

namespace mainstay::raft {

struct ClusterPlan {
  size_t voter_count = 3;
  size_t member_count = 3;  // the others join later, if at all
  size_t steps = 1500;
  bool change_configs = false;
  Options options;
};

class RandomCluster {
 public:
  RandomCluster(uint64_t seed, const ClusterPlan& plan);
  // Runs faults, then heals. Returns what was broken, empty if nothing.
  std::string Run();
  Index committed() const { return Index(states_.size() - 1); }
  size_t leader_count() const { return leaders_.size(); }
  size_t reads_done() const { return reads_done_; }
  size_t restarts() const { return restarts_; }
  size_t snapshots() const { return snapshots_; }

 private:
  bool Chance(uint64_t percent) { return random_.Below(100) < percent; }
  TestMember& Any() { return *members_[random_.Below(members_.size())]; }
  TestMember& At(MemberId id) { return *members_[id.value() - 1]; }
  void Fail(const std::string& what);

  void Step();
  void StepFaults(TestMember& member);
  void StepClient(TestMember& member);
  void Start(TestMember& member);
  void Crash(TestMember& member);
  void Pump(TestMember& member);
  void Deliver();
  void DeliverNow(const Message& message);
  void Lose(const Message& message);
  void ProposeChange(TestMember& member);
  void Heal();
  bool Converged();

  void Check(TestMember& member);
  void CheckWritten(TestMember& member);
  void CheckApplied(TestMember& member);
  void CheckLeaders(TestMember& member);
  void CheckReads(TestMember& member);
  void CheckDurable(EntryId id);
  void CheckPromise(const TestMember& member, const Message& message);

  const uint64_t seed_;
  const ClusterPlan plan_;
  SeededJitter random_;
  std::vector<std::unique_ptr<TestMember>> members_;
  std::vector<Message> network_;
  std::vector<bool> cut_;  // members that the partition separates from the others
  bool healing_ = false;
  std::string broken_;

  struct KnownEntry {
    uint64_t content;
    Term before;
  };
  struct KnownState {
    uint64_t hash;
    EntryId id;
    Term seen_in;  // not below the term it was committed in
  };
  std::map<std::pair<uint64_t, uint64_t>, KnownEntry> entries_;
  std::vector<KnownState> states_;  // by applied index
  std::map<Term, MemberId> leaders_;
  std::map<uint64_t, Index> reads_;  // by token: what was applied somewhere when it was asked
  uint64_t next_token_ = 1;
  size_t reads_done_ = 0;
  size_t restarts_ = 0;
  size_t snapshots_ = 0;
};

}  // namespace mainstay::raft

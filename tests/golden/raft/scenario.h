// Runs golden scenarios: a few members, a queue of messages, and commands that say what happens
// next. Everything that happens is a line of output.
//
//   cluster voters=1,2,3 [learners=4] [spare=5] [pre-vote=no] [seed=1] [<limit>=n] ...
//   disk 1 log=1,1,4 [term=5] [vote=2]   Terms of the entries on its disk; before start.
//   start
//   tick 1 [count=n], campaign 1, stepdown 1, transfer 1 to=2
//   propose 1 a b c, propose 1 bytes=100
//   change 1 add=4 remove=3 learner=5 joint=explicit, change 1 leave
//   read 1 7 8, status 1, log 1
//   run                                  Deliver until nothing is left (at most `max` rounds).
//   deliver [from=1] [to=2] [type=App] [count=n]   Those of the messages queued now that match.
//   lose [from=1] ...                    Likewise, but they are gone.
//   double [from=1] ...                  Likewise, but they stay as well.
//   queue                                Show what is queued.
//   cut 3, join 3                        Its messages are lost, or no longer.
//   slow-disk 1, persist 1 [count=n], fast-disk 1    Its writes wait for `persist`.
//   slow-apply 1, apply 1, fast-apply 1
//   crash 1 [kept=n], restart 1, flush 1, compact 1 to=5
//   connected 1 peer=2, disconnected 1 peer=2, unreachable 1 peer=2, snapshot-lost 1 peer=2
//   quiet, loud                          No output between them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/property/raft/member.h"

namespace mainstay::raft {

struct Command {
  std::string name;
  std::vector<std::string> words;  // without '='
  std::multimap<std::string, std::string> named;
  uint64_t Number(const std::string& key, uint64_t otherwise) const;
  std::string Text(const std::string& key, const std::string& otherwise) const;
};

// Splits one line. Words may be separated by spaces only.
Command ParseCommand(const std::string& line);

// Read round ids are random; they are shown as round#1, round#2, ... in order of first sight.
class RoundNames {
 public:
  std::string Of(const Buffer& context);

 private:
  std::map<std::string, size_t> seen_;
};

class Scenario {
 public:
  // The output of one command, lines ended by '\n'.
  std::string Run(const std::string& line);

 private:
  struct Seat {
    std::unique_ptr<TestMember> member;
    bool slow_disk = false;
    bool slow_apply = false;
    SoftState told;
  };
  using Seats = std::map<uint64_t, Seat>;

  void Say(const std::string& text);
  Seat& At(const Command& command);
  void MakeCluster(const Command& command);
  void FillDisk(const Command& command);
  void Change(const Command& command);
  void Propose(const Command& command);
  bool RunMemberCommand(const Command& command);
  bool RunNetworkCommand(const Command& command);
  bool RunDiskCommand(const Command& command);
  void Move(const Command& command);
  void Deliver(const Message& message, const char* how);
  void RunToEnd(uint64_t rounds_max);
  void Settle();
  void Settle(uint64_t id, Seat* seat);
  void Report(uint64_t id, Seat* seat);
  void ApplyOne(uint64_t id, Seat* seat);
  void ShowStatus(TestMember* member);

  Seats seats_;
  std::vector<Message> queue_;
  std::set<uint64_t> cut_;
  RoundNames rounds_;
  uint64_t seed_ = 1;
  bool loud_ = true;
  std::string out_;
};

// "1>2 App t2 after 1/3: 4/2 "x" commit=3"
std::string Describe(const Message& message, RoundNames* rounds);
std::string Describe(const ConfState& conf);

}  // namespace mainstay::raft

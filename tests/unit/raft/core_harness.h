// One core with hand-made messages, for tests of single claims. The disk and the store are at once
// unless a test says otherwise.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "raft/core.h"

namespace mainstay::raft {

struct CoreSetup {
  uint64_t id = 1;
  std::vector<uint64_t> voters = {1, 2, 3};
  std::vector<uint64_t> learners = {};
  std::vector<uint64_t> log = {};  // terms
  uint64_t term = 0;
  uint64_t vote = 0;
  uint64_t commit = 0;
  uint64_t applied = 0;
  Options options = {};
};

class CoreHarness {
 public:
  explicit CoreHarness(const CoreSetup& setup) : core_(MakeOptions(setup), MakeState(setup)) {}

  Core& core() { return core_; }

  // Takes outputs until there are none; persists and applies all.
  void Settle() {
    while (core_.HasOutput()) {
      TakeOne();
      while (disk_at_once && persisted_ < handed_out_) {
        core_.Persisted(++persisted_);
      }
      core_.CheckInvariants();
    }
  }
  // The disk finishes its oldest write.
  void PersistOne() {
    core_.Persisted(++persisted_);
    Settle();
  }

  void Step(Message message) {
    message.to = core_.GetStatus().id;
    core_.Step(std::move(message));
    core_.CheckInvariants();
    Settle();
  }
  void Tick(int count = 1) {
    for (int i = 0; i < count; ++i) {
      core_.Tick();
      core_.CheckInvariants();
      Settle();
    }
  }
  ProposeResult Propose(const std::string& data) {
    const ProposeResult result = core_.Propose({{.data = Buffer::Copy(data)}});
    Settle();
    return result;
  }

  // Becomes leader of the next term by the vote of member 2.
  void Lead() {
    core_.Campaign();
    Settle();
    if (core_.role() == Role::kPreCandidate) {
      Step(Reply(MessageType::kPreVoteResp, 2, core_.term().Next()));
    }
    if (core_.role() == Role::kCandidate) {
      Step(Reply(MessageType::kVoteResp, 2, core_.term()));
    }
    ASSERT_EQ(core_.role(), Role::kLeader);
  }

  static Message Reply(MessageType type, uint64_t from, Term term, bool reject = false) {
    Message message;
    message.type = type;
    message.from = MemberId(from);
    message.term = term;
    message.reject = reject;
    return message;
  }
  static Message Append(uint64_t from,
                        uint64_t term,
                        EntryId previous,
                        const std::vector<uint64_t>& terms,
                        uint64_t commit) {
    Message message = Reply(MessageType::kApp, from, Term(term));
    message.index = previous.index;
    message.log_term = previous.term;
    message.commit = Index(commit);
    for (uint64_t entry_term : terms) {
      message.entries.push_back({.term = Term(entry_term),
                                 .index = previous.index + message.entries.size() + 1,
                                 .data = Buffer::Static("d")});
    }
    return message;
  }
  static Message Acknowledge(uint64_t from, Term term, uint64_t index) {
    Message message = Reply(MessageType::kAppResp, from, term);
    message.index = Index(index);
    return message;
  }
  static Message AskVote(uint64_t from, uint64_t term, EntryId last, bool pre_vote = false) {
    Message message =
        Reply(pre_vote ? MessageType::kPreVote : MessageType::kVote, from, Term(term));
    message.index = last.index;
    message.log_term = last.term;
    return message;
  }

  // Messages of one type since the last call; all others are dropped.
  std::vector<Message> Sent(MessageType type) {
    std::vector<Message> out;
    for (Message& message : std::exchange(messages, {})) {
      if (message.type == type) {
        out.push_back(std::move(message));
      }
    }
    return out;
  }

  bool disk_at_once = true;
  bool apply_at_once = true;
  std::vector<Message> messages;
  std::vector<Entry> committed;
  std::vector<ReadResult> reads;
  std::vector<LogRequest> log_requests;
  std::vector<MemberId> snapshot_requests;
  std::vector<Snapshot> snapshots;

 private:
  static Options MakeOptions(const CoreSetup& setup) {
    Options options = setup.options;
    options.id = MemberId(setup.id);
    return options;
  }
  static InitialState MakeState(const CoreSetup& setup) {
    InitialState state;
    state.hard_state = {Term(setup.term), MemberId(setup.vote), Index(setup.commit)};
    for (uint64_t id : setup.voters) {
      state.conf_state.voters.emplace_back(id);
    }
    for (uint64_t id : setup.learners) {
      state.conf_state.learners.emplace_back(id);
    }
    for (uint64_t term : setup.log) {
      state.entries.push_back({.term = Term(term), .index = Index(state.entries.size() + 1)});
    }
    state.applied = Index(setup.applied);
    return state;
  }
  template <class T>
  static void MoveTo(std::vector<T>* to, std::vector<T>&& from) {
    std::move(from.begin(), from.end(), std::back_inserter(*to));
  }
  void TakeOne() {
    Output out = core_.TakeOutput();
    if (out.persist_seq != 0) {
      EXPECT_EQ(out.persist_seq, handed_out_ + 1);
      handed_out_ = out.persist_seq;
    }
    if (out.snapshot) {
      snapshots.push_back(*out.snapshot);
    }
    const Index last = out.committed.empty() ? Index(0) : out.committed.back().index;
    MoveTo(&messages, std::move(out.messages));
    MoveTo(&committed, std::move(out.committed));
    MoveTo(&reads, std::move(out.reads));
    MoveTo(&log_requests, std::move(out.log_requests));
    MoveTo(&snapshot_requests, std::move(out.snapshot_requests));
    if (apply_at_once) {
      core_.AppliedTo(last);
    }
  }

  Core core_;
  uint64_t handed_out_ = 0;
  uint64_t persisted_ = 0;
};

inline EntryId Id(uint64_t term, uint64_t index) {
  return {Term(term), Index(index)};
}

}  // namespace mainstay::raft

#include "tests/property/raft/cluster.h"

#include <algorithm>

#include "common/check.h"
#include "common/coding.h"
#include "raft/codec.h"

namespace mainstay::raft {

RandomCluster::RandomCluster(uint64_t seed, const ClusterPlan& plan)
    : seed_(seed), plan_(plan), random_(seed), cut_(plan.member_count, false) {
  ConfState first;
  for (size_t i = 1; i <= plan.voter_count; ++i) {
    first.voters.emplace_back(i);
  }
  for (size_t i = 1; i <= plan.member_count; ++i) {
    Options options = plan.options;
    options.id = MemberId(i);
    // The first configuration stands at index 0 of everybody's log, as bootstrap entries would.
    members_.push_back(std::make_unique<TestMember>(options, first));
    Start(*members_.back());
  }
  states_.push_back({.hash = 0, .id = {}, .seen_in = Term(0)});
}

void RandomCluster::Fail(const std::string& what) {
  if (broken_.empty()) {
    broken_ = "seed " + std::to_string(seed_) + ": " + what;
  }
}

std::string RandomCluster::Run() {
  for (size_t i = 0; i < plan_.steps && broken_.empty(); ++i) {
    Step();
  }
  if (broken_.empty()) {
    Heal();
  }
  return broken_;
}

// ---- steps ------------------------------------------------------------------------------------

void RandomCluster::Step() {
  TestMember& member = Any();
  const uint64_t dice = random_.Below(1000);
  if (dice < 350) {
    Deliver();
    return;
  }
  if (!member.up()) {
    if (dice < 400) {
      Start(member);
    }
    return;
  }
  if (dice < 500) {
    member.core().Tick();
  } else if (dice < 650) {
    Pump(member);
  } else if (dice < 750) {
    member.PersistOne();
  } else if (dice < 850) {
    member.ApplyOne();
  } else if (dice < 880) {
    member.AnswerLogRequest();
  } else if (dice < 890) {
    member.AnswerSnapshotRequest(Chance(80));
  } else if (dice < 975) {
    StepClient(member);
  } else {
    StepFaults(member);
  }
  if (member.up()) {
    member.core().CheckInvariants();
    Check(member);
  }
}

void RandomCluster::StepClient(TestMember& member) {
  const uint64_t dice = random_.Below(100);
  Core& core = member.core();
  if (dice < 60) {
    std::vector<Proposal> batch(1 + random_.Below(3));
    for (Proposal& proposal : batch) {
      proposal.data =
          Buffer::Copy(std::string(random_.Below(60), static_cast<char>(random_.Below(256))));
    }
    core.Propose(std::move(batch));
  } else if (dice < 85) {
    const uint64_t token = next_token_++;
    reads_[token] = Index(states_.size() - 1);
    core.ReadIndex(token);
  } else if (plan_.change_configs) {
    ProposeChange(member);
  }
}

void RandomCluster::ProposeChange(TestMember& member) {
  const auto random_change = [this] {
    return ConfChangeSingle{.type = static_cast<ConfChangeType>(random_.Below(4)),
                            .node_id = MemberId(1 + random_.Below(members_.size()))};
  };
  Proposal proposal;
  if (Chance(50)) {
    const ConfChangeSingle one = random_change();
    proposal.type = EntryType::kConfChange;
    proposal.data =
        EncodeConfChange({.id = random_.Next64(), .type = one.type, .node_id = one.node_id});
  } else {
    ConfChangeV2 change;
    change.transition = static_cast<ConfChangeTransition>(random_.Below(3));
    for (uint64_t i = random_.Below(4); i > 0; --i) {
      change.changes.push_back(random_change());
    }
    proposal.type = EntryType::kConfChangeV2;
    proposal.data = EncodeConfChangeV2(change);
  }
  member.core().Propose({proposal});
}

void RandomCluster::StepFaults(TestMember& member) {
  const uint64_t dice = random_.Below(100);
  Core& core = member.core();
  const MemberId other = Any().id();
  if (dice < 20) {
    Crash(member);
  } else if (dice < 45) {
    member.FlushStore();
    if (Chance(50)) {
      member.Compact(Index(random_.Below(member.store().applied.index.value() + 1)));
    }
  } else if (dice < 55) {
    std::fill(cut_.begin(), cut_.end(), false);
  } else if (dice < 62) {
    for (size_t i = 0; i < cut_.size(); ++i) {
      cut_[i] = Chance(40);
    }
  } else if (dice < 70) {
    core.TransferLeader(other);
  } else if (dice < 76) {
    core.ReportDisconnected(other);
  } else if (dice < 82) {
    core.ReportConnected(other);
  } else if (dice < 90) {
    core.ReportUnreachable(other);
  } else if (dice < 95) {
    core.Campaign();
  } else if (dice < 97) {
    core.StepDown();
  }
}

void RandomCluster::Start(TestMember& member) {
  member.Start(random_.Next64(), Chance(50));
  ++restarts_;
}

void RandomCluster::Crash(TestMember& member) {
  member.Crash(random_.Below(member.writes_in_flight() + 1));
}

void RandomCluster::Pump(TestMember& member) {
  for (Message& message : member.Pump()) {
    CheckPromise(member, message);
    network_.push_back(std::move(message));
  }
  while (network_.size() > 400) {
    Lose(network_.front());
    network_.erase(network_.begin());
  }
}

void RandomCluster::Deliver() {
  if (network_.empty()) {
    return;
  }
  // Mostly in order, so that something gets done.
  const size_t place = Chance(70) ? 0 : random_.Below(network_.size());
  const Message message = network_[place];
  if (!Chance(5)) {
    network_.erase(network_.begin() + static_cast<ptrdiff_t>(place));
  }
  const auto side = [this](MemberId id) { return cut_[id.value() - 1]; };
  if (Chance(7) || !At(message.to).up() || side(message.from) != side(message.to)) {
    Lose(message);
    return;
  }
  DeliverNow(message);
}

void RandomCluster::DeliverNow(const Message& message) {
  TestMember& to = At(message.to);
  if (!to.up()) {
    Lose(message);
    return;
  }
  // Through the wire format.
  const StatusOr<Message> decoded = DecodeMessage(EncodeMessage(message).Flatten());
  MS_CHECK(decoded.ok() && *decoded == message);
  if (message.type == MessageType::kSnap) {
    ++snapshots_;
    if (At(message.from).up()) {
      At(message.from).core().ReportSnapshot(message.to, true);
    }
  }
  to.core().Step(*decoded);
  to.core().CheckInvariants();
  Check(to);
}

void RandomCluster::Lose(const Message& message) {
  if (message.type == MessageType::kSnap && At(message.from).up()) {
    At(message.from).core().ReportSnapshot(message.to, false);
  }
}

// ---- the end ----------------------------------------------------------------------------------

void RandomCluster::Heal() {
  healing_ = true;
  std::fill(cut_.begin(), cut_.end(), false);
  for (auto& member : members_) {
    if (!member->up()) {
      Start(*member);
    }
  }
  // A proposal must get through, and everybody see it.
  size_t before = states_.size();
  bool proposed = false;
  for (int round = 0; round < 400 && broken_.empty(); ++round) {
    for (auto& member : members_) {
      member->core().Tick();
      if (!proposed && member->core().role() == Role::kLeader && round > 20) {
        proposed = member->core().Propose({{.data = Buffer::Static("last")}}).outcome ==
                   ProposeOutcome::kAccepted;
      }
    }
    for (int i = 0; i < 6; ++i) {
      for (auto& member : members_) {
        Pump(*member);
        while (member->PersistOne() || member->AnswerLogRequest() ||
               member->AnswerSnapshotRequest(true) || member->ApplyOne()) {
          Check(*member);
        }
        Check(*member);
      }
      for (const Message& message : std::exchange(network_, {})) {
        DeliverNow(message);
      }
    }
    if (proposed && states_.size() > before && Converged()) {
      return;
    }
  }
  Fail("no agreement after the faults ended");
}

bool RandomCluster::Converged() {
  const auto ahead =
      std::max_element(members_.begin(), members_.end(), [](const auto& a, const auto& b) {
        return a->store().applied.index < b->store().applied.index;
      });
  const StoreState& best = (*ahead)->store();
  for (const auto* list : {&best.conf.voters, &best.conf.learners, &best.conf.voters_outgoing}) {
    for (MemberId id : *list) {
      if (At(id).store().applied != best.applied || At(id).store().hash != best.hash) {
        return false;
      }
    }
  }
  return true;
}

// ---- checks -----------------------------------------------------------------------------------

void RandomCluster::Check(TestMember& member) {
  CheckWritten(member);
  CheckApplied(member);
  CheckLeaders(member);
  CheckReads(member);
}

void RandomCluster::CheckWritten(TestMember& member) {
  for (const Entry& entry : std::exchange(member.written, {})) {
    // The view may have gone on since; what is no longer in it was replaced before it was looked
    // at.
    if (member.ViewTermAt(entry.index) != entry.term) {
      continue;
    }
    const std::optional<Term> before = member.ViewTermAt(entry.index.Prev());
    if (!before) {
      continue;
    }
    const KnownEntry now{.content = HashOf(0, entry), .before = *before};
    const auto [at, is_new] =
        entries_.emplace(std::pair(entry.term.value(), entry.index.value()), now);
    if (!is_new && (at->second.content != now.content || at->second.before != now.before)) {
      Fail("two entries with one id (log matching)");
    }
  }
}

void RandomCluster::CheckApplied(TestMember& member) {
  const Term term = member.core().term();
  member.applied.clear();
  const StoreState& store = member.store();
  const uint64_t index = store.applied.index.value();
  if (index < states_.size()) {
    if (states_[index].hash != store.hash || states_[index].id != store.applied) {
      Fail("two states at index " + std::to_string(index) + ", terms " +
           std::to_string(states_[index].id.term.value()) + " and " +
           std::to_string(store.applied.term.value()) + " (state machine safety)");
    }
    return;
  }
  if (index != states_.size()) {
    Fail("a store jumped ahead of everybody");
    return;
  }
  states_.push_back({.hash = store.hash, .id = store.applied, .seen_in = term});
  CheckDurable(store.applied);
}

void RandomCluster::CheckDurable(EntryId id) {
  if (plan_.change_configs) {
    return;
  }
  size_t holders = 0;
  for (const auto& member : members_) {
    holders += member->HasDurably(id) ? 1 : 0;
  }
  if (holders <= plan_.voter_count / 2) {
    Fail("applied although no majority has it on disk");
  }
}

void RandomCluster::CheckPromise(const TestMember& member, const Message& message) {
  const HardState& disk = member.disk_hard_state();
  const bool term_is_old = disk.term > message.term;
  const auto voted_for = [&](MemberId id) { return disk.term == message.term && disk.vote == id; };
  if (message.type == MessageType::kVote && !term_is_old && !voted_for(member.id())) {
    Fail("asked for votes before its own was on disk");
  }
  if (message.reject || term_is_old) {
    return;
  }
  if (message.type == MessageType::kVoteResp && !voted_for(message.to)) {
    Fail("voted before the vote was on disk");
  }
  if (message.type == MessageType::kAppResp && member.disk_last() < message.index) {
    Fail("acknowledged what is not on disk");
  }
}

void RandomCluster::CheckLeaders(TestMember& member) {
  for (const SoftState& soft : std::exchange(member.soft_states, {})) {
    if (soft.role != Role::kLeader) {
      continue;
    }
    const auto [at, is_new] = leaders_.emplace(soft.term, member.id());
    if (at->second != member.id()) {
      Fail("two leaders in one term (election safety)");
    }
    if (!is_new) {
      continue;
    }
    for (size_t i = 1; i < states_.size(); ++i) {
      const KnownState& state = states_[i];
      const bool held = state.id.index <= member.view_compacted() ||
                        member.ViewTermAt(state.id.index) == state.id.term;
      if (state.seen_in < soft.term && !held) {
        Fail("a leader lacks a committed entry (leader completeness)");
      }
    }
  }
}

void RandomCluster::CheckReads(TestMember& member) {
  for (const ReadResult& read : std::exchange(member.reads, {})) {
    const auto asked = reads_.find(read.token);
    if (asked == reads_.end()) {
      Fail("a read answered twice");
      continue;
    }
    if (read.outcome == ReadOutcome::kOk) {
      ++reads_done_;
      if (read.index < asked->second) {
        Fail("a stale read index (linearizability)");
      }
    }
    reads_.erase(asked);
  }
}

}  // namespace mainstay::raft

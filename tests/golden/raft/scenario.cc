#include "tests/golden/raft/scenario.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "fmt/format.h"

#include "common/check.h"
#include "raft/codec.h"

namespace mainstay::raft {
namespace {

std::vector<uint64_t> Numbers(const std::string& list) {
  std::vector<uint64_t> out;
  std::stringstream in(list);
  for (std::string item; std::getline(in, item, ',');) {
    out.push_back(std::stoull(item));
  }
  return out;
}

std::vector<MemberId> Ids(const std::string& list) {
  std::vector<MemberId> out;
  for (uint64_t id : Numbers(list)) {
    out.emplace_back(id);
  }
  return out;
}

std::string Joined(const std::vector<MemberId>& ids) {
  std::string out;
  for (MemberId id : ids) {
    out += (out.empty() ? "" : ",") + std::to_string(id.value());
  }
  return out;
}

// Index before term, as one reads a log: 4/2 is entry 4 of term 2.
std::string Describe(EntryId id) {
  return fmt::format("{}/{}", id.index.value(), id.term.value());
}

std::string Describe(const Entry& entry) {
  std::string out = entry.index == Index(0) ? "" : Describe(entry.id()) + " ";
  if (entry.is_conf_change()) {
    return out + "conf-change";
  }
  if (entry.data.size() > 20) {
    return out + fmt::format("({} bytes)", entry.data.size());
  }
  return out + fmt::format("\"{}\"", entry.data.view());
}

std::string Describe(const std::vector<Entry>& entries) {
  std::string out;
  for (const Entry& entry : entries) {
    out += (out.empty() ? "" : ", ") + Describe(entry);
  }
  return out;
}

std::string Details(const Message& m, RoundNames* rounds) {
  switch (m.type) {
    case MessageType::kApp:
      return fmt::format(" after {}: {} commit={}", Describe(EntryId{m.log_term, m.index}),
                         m.entries.empty() ? "nothing" : Describe(m.entries), m.commit.value());
    case MessageType::kAppResp:
      return m.reject ? fmt::format(" refuses {} hint={}", m.index.value(),
                                    Describe(EntryId{m.log_term, m.reject_hint}))
                      : fmt::format(" has {}", m.index.value());
    case MessageType::kVote:
    case MessageType::kPreVote:
      return fmt::format(" last={}{}", Describe(EntryId{m.log_term, m.index}),
                         m.context.empty() ? "" : " transfer");
    case MessageType::kVoteResp:
    case MessageType::kPreVoteResp:
      return m.reject ? " no" : " yes";
    case MessageType::kHeartbeat:
      return fmt::format(" commit={}", m.commit.value());
    case MessageType::kSnap:
      return fmt::format(" at {} {}", Describe(m.snapshot->meta.id()),
                         Describe(m.snapshot->meta.conf_state));
    case MessageType::kProp:
      return " " + Describe(m.entries);
    case MessageType::kReadIndex:
      return " " + rounds->Of(m.entries[0].data);
    case MessageType::kReadIndexResp:
      return fmt::format(" index={} {}", m.index.value(), rounds->Of(m.entries[0].data));
    default:
      return "";
  }
}

}  // namespace

std::string Describe(const ConfState& conf) {
  std::string out = "voters=" + Joined(conf.voters);
  if (!conf.voters_outgoing.empty()) {
    out += " outgoing=" + Joined(conf.voters_outgoing);
  }
  if (!conf.learners.empty()) {
    out += " learners=" + Joined(conf.learners);
  }
  if (!conf.learners_next.empty()) {
    out += " learners-next=" + Joined(conf.learners_next);
  }
  return out + (conf.auto_leave ? " auto-leave" : "");
}

std::string RoundNames::Of(const Buffer& context) {
  const auto at = seen_.emplace(std::string(context.view()), seen_.size() + 1).first;
  return fmt::format("round#{}", at->second);
}

std::string Describe(const Message& m, RoundNames* rounds) {
  std::string out = fmt::format("{}>{} {}", m.from.value(), m.to.value(), MessageTypeName(m.type));
  if (m.term != Term(0)) {
    out += fmt::format(" t{}", m.term.value());
  }
  out += Details(m, rounds);
  const bool beat = m.type == MessageType::kHeartbeat || m.type == MessageType::kHeartbeatResp;
  if (beat && !m.context.empty()) {
    out += " " + rounds->Of(m.context);
  }
  return out;
}

// ---- commands ---------------------------------------------------------------------------------

uint64_t Command::Number(const std::string& key, uint64_t otherwise) const {
  const auto at = named.find(key);
  return at == named.end() ? otherwise : std::stoull(at->second);
}

std::string Command::Text(const std::string& key, const std::string& otherwise) const {
  const auto at = named.find(key);
  return at == named.end() ? otherwise : at->second;
}

Command ParseCommand(const std::string& line) {
  Command command;
  std::stringstream in(line);
  in >> command.name;
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      command.words.push_back(word);
    } else {
      command.named.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  return command;
}

void Scenario::Say(const std::string& text) {
  if (loud_) {
    out_ += text + "\n";
  }
}

Scenario::Seat& Scenario::At(const Command& command) {
  MS_CHECK_MSG(!command.words.empty(), command.name + " needs a member");
  const auto at = seats_.find(std::stoull(command.words[0]));
  MS_CHECK_MSG(at != seats_.end(), "no member " + command.words[0]);
  return at->second;
}

std::string Scenario::Run(const std::string& line) {
  const Command command = ParseCommand(line);
  out_.clear();
  if (command.name == "cluster") {
    MakeCluster(command);
  } else if (command.name == "quiet" || command.name == "loud") {
    loud_ = command.name == "loud";
  } else {
    const bool known =
        RunDiskCommand(command) || RunNetworkCommand(command) || RunMemberCommand(command);
    MS_CHECK_MSG(known, "unknown command: " + line);
    Settle();
  }
  return std::exchange(out_, {});
}

void Scenario::MakeCluster(const Command& command) {
  seats_.clear();
  queue_.clear();
  cut_.clear();
  seed_ = command.Number("seed", 1);
  const ConfState conf{.voters = Ids(command.Text("voters", "")),
                       .learners = Ids(command.Text("learners", ""))};
  Options options;
  options.election_ticks = static_cast<int>(command.Number("election", 10));
  options.heartbeat_ticks = static_cast<int>(command.Number("heartbeat", 1));
  options.pre_vote = command.Text("pre-vote", "yes") == "yes";
  options.check_quorum = command.Text("check-quorum", "yes") == "yes";
  options.apply_before_persisted = command.Text("apply-before-persisted", "no") == "yes";
  options.message_bytes_max = command.Number("message-bytes", options.message_bytes_max);
  options.inflight_count_max = command.Number("inflight", options.inflight_count_max);
  options.inflight_bytes_max = command.Number("inflight-bytes", options.inflight_bytes_max);
  options.uncommitted_bytes_max = command.Number("uncommitted", options.uncommitted_bytes_max);
  options.tail_bytes_max = command.Number("tail", options.tail_bytes_max);
  options.disk_stall_ticks = static_cast<int>(command.Number("disk-stall", 0));
  std::vector<MemberId> all = conf.voters;
  for (const char* list : {"learners", "spare"}) {
    const std::vector<MemberId> more = Ids(command.Text(list, ""));
    all.insert(all.end(), more.begin(), more.end());
  }
  for (MemberId id : all) {
    options.id = id;
    seats_[id.value()].member = std::make_unique<TestMember>(options, conf);
  }
}

void Scenario::FillDisk(const Command& command) {
  std::vector<Entry> entries;
  for (uint64_t term : Numbers(command.Text("log", ""))) {
    entries.push_back({.term = Term(term),
                       .index = Index(entries.size() + 1),
                       .data = Buffer::Copy("t" + std::to_string(term))});
  }
  const uint64_t last_term = entries.empty() ? 0 : entries.back().term.value();
  At(command).member->SetDisk({.term = Term(command.Number("term", last_term)),
                               .vote = MemberId(command.Number("vote", 0)),
                               .commit = Index(command.Number("commit", 0))},
                              std::move(entries));
}

bool Scenario::RunDiskCommand(const Command& command) {
  const std::string& name = command.name;
  if (name == "start") {
    for (auto& [id, seat] : seats_) {
      seat.member->Start(seed_ * 1000 + id);
      seat.told = {.role = Role::kFollower, .leader = kNobody, .term = seat.member->core().term()};
    }
    return true;
  }
  if (name == "disk") {
    FillDisk(command);
  } else if (name == "slow-disk" || name == "fast-disk") {
    At(command).slow_disk = name == "slow-disk";
  } else if (name == "slow-apply" || name == "fast-apply") {
    At(command).slow_apply = name == "slow-apply";
  } else if (name == "persist") {
    for (uint64_t i = command.Number("count", 1); i > 0; --i) {
      At(command).member->PersistOne();
    }
  } else if (name == "apply") {
    ApplyOne(std::stoull(command.words[0]), &At(command));
  } else if (name == "crash") {
    At(command).member->Crash(command.Number("kept", 0));
  } else if (name == "restart") {
    At(command).member->Start(++seed_ * 1000);
    At(command).told = {.term = At(command).member->core().term()};
  } else if (name == "flush") {
    At(command).member->FlushStore();
  } else if (name == "compact") {
    At(command).member->FlushStore();
    At(command).member->Compact(Index(command.Number("to", 0)));
  } else {
    return false;
  }
  return true;
}

bool Scenario::RunNetworkCommand(const Command& command) {
  const std::string& name = command.name;
  if (name == "run") {
    Settle();
    RunToEnd(command.Number("max", 60));
  } else if (name == "deliver" || name == "lose" || name == "double") {
    Settle();
    Move(command);
  } else if (name == "queue") {
    Settle();
    for (const Message& message : queue_) {
      Say("queued " + Describe(message, &rounds_));
    }
  } else if (name == "cut") {
    cut_.insert(std::stoull(command.words[0]));
  } else if (name == "join") {
    cut_.erase(std::stoull(command.words[0]));
  } else {
    return false;
  }
  return true;
}

bool Scenario::RunMemberCommand(const Command& command) {
  const std::string& name = command.name;
  TestMember& member = *At(command).member;
  Core& core = member.core();
  const MemberId peer{command.Number("peer", 0)};
  if (name == "tick") {
    for (uint64_t i = command.Number("count", 1); i > 0; --i) {
      core.Tick();
      Settle();
    }
  } else if (name == "campaign") {
    core.Campaign();
  } else if (name == "stepdown") {
    core.StepDown();
  } else if (name == "transfer") {
    core.TransferLeader(MemberId(command.Number("to", 0)));
  } else if (name == "propose") {
    Propose(command);
  } else if (name == "change") {
    Change(command);
  } else if (name == "read") {
    for (size_t i = 1; i < command.words.size(); ++i) {
      core.ReadIndex(std::stoull(command.words[i]));
    }
  } else if (name == "connected") {
    core.ReportConnected(peer);
  } else if (name == "disconnected") {
    core.ReportDisconnected(peer);
  } else if (name == "unreachable") {
    core.ReportUnreachable(peer);
  } else if (name == "snapshot-lost") {
    core.ReportSnapshot(peer, false);
  } else if (name == "status") {
    Settle();
    ShowStatus(&member);
  } else if (name == "log") {
    Settle();
    Say(fmt::format("{} log: {}", member.id().value(), Describe(member.view())));
  } else {
    return false;
  }
  return true;
}

void Scenario::Propose(const Command& command) {
  static constexpr std::string_view kOutcomes[] = {"accepted", "forwarded", "no leader",
                                                   "transferring", "too much uncommitted"};
  std::vector<Proposal> proposals;
  for (size_t i = 1; i < command.words.size(); ++i) {
    proposals.push_back({.data = Buffer::Copy(command.words[i])});
  }
  if (const uint64_t bytes = command.Number("bytes", 0); bytes > 0) {
    proposals.push_back({.data = Buffer::Copy(std::string(bytes, 'x'))});
  }
  const ProposeResult result = At(command).member->core().Propose(std::move(proposals));
  if (result.outcome != ProposeOutcome::kAccepted) {
    Say(fmt::format("{} proposal: {}", command.words[0],
                    kOutcomes[static_cast<size_t>(result.outcome)]));
  }
}

void Scenario::Change(const Command& command) {
  ConfChangeV2 change;
  const std::string joint = command.Text("joint", "auto");
  change.transition = joint == "explicit"   ? ConfChangeTransition::kJointExplicit
                      : joint == "implicit" ? ConfChangeTransition::kJointImplicit
                                            : ConfChangeTransition::kAuto;
  for (const auto& [key, value] : command.named) {
    if (key != "joint") {
      const ConfChangeType type = key == "add"       ? ConfChangeType::kAddNode
                                  : key == "learner" ? ConfChangeType::kAddLearnerNode
                                                     : ConfChangeType::kRemoveNode;
      change.changes.push_back({.type = type, .node_id = MemberId(std::stoull(value))});
    }
  }
  At(command).member->core().Propose({{EntryType::kConfChangeV2, EncodeConfChangeV2(change)}});
}

// ---- what happens -----------------------------------------------------------------------------

void Scenario::Move(const Command& command) {
  const auto matches = [&command](const Message& m) {
    return command.Number("from", m.from.value()) == m.from.value() &&
           command.Number("to", m.to.value()) == m.to.value() &&
           command.Text("type", std::string(MessageTypeName(m.type))) == MessageTypeName(m.type);
  };
  uint64_t left = command.Number("count", ~uint64_t{0});
  std::vector<Message> taken;
  for (auto at = queue_.begin(); at != queue_.end();) {
    if (left == 0 || !matches(*at)) {
      ++at;
      continue;
    }
    --left;
    taken.push_back(*at);
    at = command.name == "double" ? at + 1 : queue_.erase(at);
  }
  for (const Message& message : taken) {
    Deliver(message, command.name == "lose" ? " (lost)" : "");
  }
}

void Scenario::Deliver(const Message& message, const char* how) {
  const auto to = seats_.find(message.to.value());
  const auto from = seats_.find(message.from.value());
  const bool cut = cut_.count(message.to.value()) + cut_.count(message.from.value()) > 0;
  const bool lost = *how != '\0' || cut || to == seats_.end() || !to->second.member->up();
  Say(Describe(message, &rounds_) + (lost ? " (lost)" : ""));
  const bool reports = message.type == MessageType::kSnap && from->second.member->up();
  if (reports) {
    from->second.member->core().ReportSnapshot(message.to, !lost);
  }
  if (!lost) {
    to->second.member->core().Step(message);
    to->second.member->core().CheckInvariants();
  }
}

void Scenario::RunToEnd(uint64_t rounds_max) {
  for (uint64_t round = 0; round < rounds_max && !queue_.empty(); ++round) {
    for (const Message& message : std::exchange(queue_, {})) {
      Deliver(message, "");
    }
    Settle();
  }
}

void Scenario::Settle() {
  for (auto& [id, seat] : seats_) {
    if (seat.member->up()) {
      Settle(id, &seat);
    }
  }
}

void Scenario::Settle(uint64_t id, Seat* seat) {
  TestMember& member = *seat->member;
  do {
    for (Message& message : member.Pump()) {
      queue_.push_back(std::move(message));
    }
    Report(id, seat);
    while (!seat->slow_disk && member.PersistOne()) {
    }
    while (!seat->slow_apply && member.applies_pending()) {
      const Index before = member.store().applied.index;
      ApplyOne(id, seat);
      if (member.store().applied.index == before) {
        break;
      }
    }
    while (member.AnswerLogRequest()) {
      Say(fmt::format("{} reads its log back from disk", id));
    }
    while (member.AnswerSnapshotRequest(true)) {
      Say(fmt::format("{} makes a snapshot", id));
    }
  } while (member.core().HasOutput());
}

void Scenario::Report(uint64_t id, Seat* seat) {
  TestMember& member = *seat->member;
  for (const SoftState& soft : std::exchange(member.soft_states, {})) {
    const std::string leader =
        soft.role == Role::kFollower
            ? (soft.leader == kNobody ? " of nobody" : fmt::format(" of {}", soft.leader.value()))
            : "";
    Say(fmt::format("{} is {}{}, term {}", id, RoleName(soft.role), leader, soft.term.value()));
  }
  for (const ReadResult& read : std::exchange(member.reads, {})) {
    static constexpr std::string_view kOutcomes[] = {"at index", "no leader", "leader changed"};
    Say(fmt::format(
        "{} read {}: {}{}", id, read.token, kOutcomes[static_cast<size_t>(read.outcome)],
        read.outcome == ReadOutcome::kOk ? fmt::format(" {}", read.index.value()) : ""));
  }
  const std::vector<Entry> written = std::exchange(member.written, {});
  if (seat->slow_disk && !written.empty()) {
    Say(fmt::format("{} has to write {}", id, Describe(written)));
  }
}

void Scenario::ApplyOne(uint64_t id, Seat* seat) {
  seat->member->ApplyOne();
  for (const Entry& entry : std::exchange(seat->member->applied, {})) {
    Say(fmt::format("{} applies {}{}", id, Describe(entry),
                    entry.is_conf_change() ? ": " + Describe(seat->member->store().conf) : ""));
  }
}

void Scenario::ShowStatus(TestMember* member) {
  const CoreStatus s = member->core().GetStatus();
  Say(fmt::format("{} {} term={} leader={} last={} commit={} applied={} persisted={} {}",
                  s.id.value(), RoleName(s.role), s.term.value(), s.leader.value(),
                  Describe(s.last), s.commit.value(), s.applied.value(), s.persisted.value(),
                  Describe(s.conf_state)));
  for (const PeerStatus& peer : s.peers) {
    Say(fmt::format("  {} {} match={} next={} inflight={}", peer.id.value(), peer.state,
                    peer.match.value(), peer.next.value(), peer.inflight_count));
  }
}

}  // namespace mainstay::raft

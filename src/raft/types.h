// The plain structs of the Raft core: log entries, durable state, configurations, messages. They
// follow etcd's raftpb in fields and numbers, so that a stock etcd can be a peer, but know no
// protobuf (codec.h writes and reads its bytes).
//
// Ownership   Entry payloads are Buffers: log, disk, network and apply share the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/buffer.h"
#include "common/types.h"

namespace mainstay::raft {

inline constexpr MemberId kNobody{0};

// Names one entry of the log: no two different entries ever share it (Raft paper 5.3, Log
// Matching).
struct EntryId {
  Term term{};
  Index index{};
  friend constexpr bool operator==(const EntryId&, const EntryId&) = default;
};

enum class EntryType : uint8_t { kNormal = 0, kConfChange = 1, kConfChangeV2 = 2 };

struct Entry {
  Term term{};
  Index index{};
  EntryType type = EntryType::kNormal;
  Buffer data{};
  EntryId id() const { return {term, index}; }
  bool is_conf_change() const { return type != EntryType::kNormal; }
  // What the entry costs in the byte limits: its payload and a fixed overhead.
  size_t cost_bytes() const { return data.size() + kOverheadBytes; }
  friend bool operator==(const Entry&, const Entry&) = default;
  static constexpr size_t kOverheadBytes = 24;
};

// What must be on disk before a promise made in it leaves this member.
struct HardState {
  Term term{};
  MemberId vote{};
  Index commit{};
  friend bool operator==(const HardState&, const HardState&) = default;
};

// A configuration as snapshots carry it. Lists are sorted by id. voters_outgoing is not empty only
// in a joint configuration; learners_next are voters of the outgoing half that become learners when
// it is left.
struct ConfState {
  std::vector<MemberId> voters{};
  std::vector<MemberId> learners{};
  std::vector<MemberId> voters_outgoing{};
  std::vector<MemberId> learners_next{};
  bool auto_leave = false;
  friend bool operator==(const ConfState&, const ConfState&) = default;
};

struct SnapshotMeta {
  ConfState conf_state{};
  Index index{};
  Term term{};
  EntryId id() const { return {term, index}; }
  friend bool operator==(const SnapshotMeta&, const SnapshotMeta&) = default;
};

struct Snapshot {
  SnapshotMeta meta{};
  Buffer data{};
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

enum class ConfChangeType : uint8_t {
  kAddNode = 0,
  kRemoveNode = 1,
  kUpdateNode = 2,
  kAddLearnerNode = 3
};

// One change of one member, as etcd proposes it.
struct ConfChange {
  uint64_t id = 0;
  ConfChangeType type = ConfChangeType::kAddNode;
  MemberId node_id{};
  Buffer context{};
  friend bool operator==(const ConfChange&, const ConfChange&) = default;
};

struct ConfChangeSingle {
  ConfChangeType type = ConfChangeType::kAddNode;
  MemberId node_id{};
  friend bool operator==(const ConfChangeSingle&, const ConfChangeSingle&) = default;
};

// kAuto: one change goes the simple way, several go through a joint configuration that is left by
// itself. kJointImplicit: joint, left by itself. kJointExplicit: joint, left by a later change
// without `changes`.
enum class ConfChangeTransition : uint8_t { kAuto = 0, kJointImplicit = 1, kJointExplicit = 2 };

struct ConfChangeV2 {
  ConfChangeTransition transition = ConfChangeTransition::kAuto;
  std::vector<ConfChangeSingle> changes{};
  Buffer context{};
  // A change that leaves a joint configuration.
  bool leaves_joint() const { return transition == ConfChangeTransition::kAuto && changes.empty(); }
  friend bool operator==(const ConfChangeV2&, const ConfChangeV2&) = default;
};

ConfChangeV2 ToV2(const ConfChange& change);

// Numbers are etcd's. kHup, kBeat, kUnreachable, kSnapStatus and kCheckQuorum never travel between
// members: they are methods of Core, and ignored when received.
enum class MessageType : uint8_t {
  kHup = 0,
  kBeat = 1,
  kProp = 2,
  kApp = 3,
  kAppResp = 4,
  kVote = 5,
  kVoteResp = 6,
  kSnap = 7,
  kHeartbeat = 8,
  kHeartbeatResp = 9,
  kUnreachable = 10,
  kSnapStatus = 11,
  kCheckQuorum = 12,
  kTransferLeader = 13,
  kTimeoutNow = 14,
  kReadIndex = 15,
  kReadIndexResp = 16,
  kPreVote = 17,
  kPreVoteResp = 18,
  kForgetLeader = 23,
};

// What one member tells another. Which fields count depends on the type:
//   kApp           index, log_term = the entry before `entries`; commit
//   kAppResp       index = last entry held; or reject with index = the refused kApp's index,
//   reject_hint and log_term =
//                  where the sender's log may agree
//   kVote/kPreVote index, log_term = the candidate's last entry; context "CampaignTransfer" beats a
//   leader's lease kHeartbeat     commit; context comes back in kHeartbeatResp kSnap snapshot kProp
//   entries without term and index kReadIndex     entries[0].data = the asker's id of the round,
//   echoed in kReadIndexResp with index
struct Message {
  MessageType type = MessageType::kHup;
  MemberId to{};
  MemberId from{};
  Term term{};
  Term log_term{};
  Index index{};
  std::vector<Entry> entries{};
  Index commit{};
  std::optional<Snapshot> snapshot{};
  bool reject = false;
  Index reject_hint{};
  Buffer context{};
  friend bool operator==(const Message&, const Message&) = default;
};

// kVote and kPreVote carry this where a leader handed over on purpose: it overrules the lease
// (thesis 4.2.3).
inline constexpr std::string_view kCampaignTransfer = "CampaignTransfer";

enum class Role : uint8_t { kFollower, kPreCandidate, kCandidate, kLeader };

// Names for logs, metrics and golden files: "follower", "MsgApp" without the Msg: "App".
std::string_view RoleName(Role role);
std::string_view MessageTypeName(MessageType type);

}  // namespace mainstay::raft

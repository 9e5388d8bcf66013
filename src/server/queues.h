// What travels between the tasks of a member. The queue of each consumer is declared here with its
// bound.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/limits.h"
#include "common/queue.h"
#include "common/types.h"
#include "env/clock.h"
#include "raft/output.h"
#include "raft/types.h"
#include "server/reply_to.h"
#include "server/wait_table.h"

namespace mainstay::server {

// ---- any thread -> "raft"
// --------------------------------------------------------------------------------------- When
// full: Error::kTooManyRequests to the client.
struct PendingProposal {
  raft::EntryType type = raft::EntryType::kNormal;
  Buffer data;
  Waiter waiter;
  // Not 0: only as the leader of this term; else refused with kNotLeader. Fences what a leader
  // decides on its own, as the end of a lease: a deposed one's decision must not reach the log by
  // way of its successor.
  Term only_term;
};
using ProposalQueue = BoundedQueue<PendingProposal>;

// When full: Error::kTooManyRequests to the client.
struct PendingRead {
  ReplyTo reply_to;
  MonoTime started{0};
  MonoTime deadline{0};
};
using ReadQueue = BoundedQueue<PendingRead>;

// ---- "apply" -> "raft"
// Apply reached a conf-change entry and stands still until the answer is there: one at a time.
struct ConfRequest {
  raft::ConfChangeV2 change;
  Index index;
};

// ---- "raft" -> "wal"
// Bounded by the core: uncommitted_bytes_max, and followers' in-flight windows.
struct WalItem {
  uint64_t seq = 0;  // 0 = nothing to acknowledge
  std::vector<raft::Entry> entries;
  std::optional<raft::HardState> hard_state;
  bool must_sync = false;
  // Mark this index as a snapshot (the store has it, synced), then release the log below
  // `release_below`.
  std::optional<raft::SnapshotMeta> snapshot_mark;
  Index release_below;
};
using WalQueue = BoundedQueue<WalItem>;

// ---- "raft" -> "apply"
struct ReadBatch {
  Index index;  // answer once applied >= index
  std::vector<PendingRead> reads;
};
struct ApplyItem {
  enum class Kind : uint8_t { kEntry, kReads, kLeadership };
  Kind kind = Kind::kEntry;
  raft::Entry entry;             // kEntry
  std::optional<Waiter> waiter;  // kEntry: who waits here, if anyone
  std::unique_ptr<ReadBatch> reads;
  bool leads = false;  // kLeadership
  Term term;           // kLeadership
};
// Entries are bounded by the core (apply_bytes_max), reads by kReadsPendingMax.
using ApplyQueue = BoundedQueue<ApplyItem>;

}  // namespace mainstay::server

// What goes into and comes out of the Raft core. Core calls nobody: it returns effects, and the
// driver carries them out.
//
// How a driver carries out one Output (core.h has the loop):
//   1. messages         Hand to the transport at once. All of them: what must wait for the disk
//                       (votes, vote requests, acknowledgements) the core holds back itself until
//                       Persisted() says so. A leader's appends are among them before its own disk
//                       has the entries (thesis 10.2.1).
//   2. persist_seq > 0  Hand snapshot, entries and hard_state to the log writer, in this order and
//                       in order of Outputs; sync if must_sync; then Core::Persisted(persist_seq).
//                       Several may be in flight.
//   3. snapshot         Install it into the store before any entry of `committed` of this or a
//                       later Output, then Core::AppliedTo(snapshot index). The store must have it
//                       on disk before the log does: the log then starts behind it.
//   4. committed        Hand to apply, in order. Core::ApplyConfChange for conf-change entries when
//                       apply has come to them; then Core::AppliedTo, as often as convenient.
//   5. the rest         Answer reads, log_requests and snapshot_requests.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "raft/types.h"

namespace mainstay::raft {

// One thing to append. The core gives it term and index.
struct Proposal {
  EntryType type = EntryType::kNormal;
  Buffer data{};
};

enum class ProposeOutcome : uint8_t {
  kAccepted,      // appended here as [first, last]; committed or overwritten later
  kForwarded,     // sent to the leader, which may still drop it
  kNoLeader,      // dropped, as all below: the caller may try again
  kTransferring,  // leadership is being handed over
  kTooMuchUncommitted,
};

struct ProposeResult {
  ProposeOutcome outcome = ProposeOutcome::kNoLeader;
  Index first{};  // set when kAccepted
  Index last{};
  Term term{};
};

enum class ReadOutcome : uint8_t {
  kOk,             // serve the read once applied >= index
  kNoLeader,       // there is none to ask
  kLeaderChanged,  // leadership moved before the round was confirmed
};

struct ReadResult {
  uint64_t token = 0;  // as given to Core::ReadIndex
  ReadOutcome outcome = ReadOutcome::kNoLeader;
  Index index{};
};

// "Read [first, end) back from the log on disk": answer with Core::LogRead. Asked where a slow
// follower or apply needs entries older than the tail kept in memory. At most one is open per
// reader.
struct LogRequest {
  MemberId reader{};  // a peer; or this member itself, for apply
  Index first{};
  Index end{};           // exclusive; all of it is persisted
  size_t bytes_max = 0;  // stop before the entry that would pass it, but return at least one
};

struct SoftState {
  Role role = Role::kFollower;
  MemberId leader{};  // kNobody when unknown
  Term term{};
  friend bool operator==(const SoftState&, const SoftState&) = default;
};

struct Output {
  // 0 when nothing has to be persisted; else the number to give to Core::Persisted. Grows by one
  // each time.
  uint64_t persist_seq = 0;
  // Replaces the whole log up to its index.
  std::optional<Snapshot> snapshot{};
  // Contiguous. An entry whose index is already in the log replaces it and everything after it.
  std::vector<Entry> entries{};
  // The newest state, when it changed.
  std::optional<HardState> hard_state{};
  // Entries, a snapshot, or a new term or vote: the write must be durable before Persisted(). False
  // for a mere move of the commit index, which needs no sync (Raft paper, figure 2: commitIndex is
  // volatile).
  bool must_sync = false;

  std::vector<Message> messages{};
  std::vector<Entry> committed{};
  std::vector<ReadResult> reads{};
  std::vector<LogRequest> log_requests{};
  // Peers that need a whole snapshot: answer with Core::SendSnapshot, or Core::ReportSnapshot(peer,
  // false).
  std::vector<MemberId> snapshot_requests{};
  // Set when role, leader or term changed.
  std::optional<SoftState> soft_state{};
};

// What recovery found on disk.
struct InitialState {
  HardState hard_state{};
  // The configuration at `applied`.
  ConfState conf_state{};
  // The entry just below the first one retained; {0, 0} for a log from the start. After a snapshot:
  // the snapshot's.
  EntryId compacted{};
  // The first entry of every run of equal terms among those retained entries that `entries` leaves
  // out; empty if `entries` begins at compacted.index + 1.
  std::vector<EntryId> term_starts{};
  // The end of the log, contiguous, all persisted: at least everything after `applied`, and never
  // empty unless the log is empty.
  std::vector<Entry> entries{};
  // The store's applied index. >= compacted.index, <= the last entry's index.
  Index applied{};
};

struct Options {
  MemberId id{};
  int election_ticks = 10;
  int heartbeat_ticks = 1;
  // Of all randomness: timeouts and the first read round id. Must differ at every start of a
  // member, since read round ids must not repeat over a restart.
  uint64_t seed = 0;
  bool pre_vote = true;      // thesis 9.6
  bool check_quorum = true;  // thesis 6.2, and the lease of 4.2.3
  // Payload bytes of one kApp (at least one entry goes).
  size_t message_bytes_max = 1 << 20;
  // kApp messages and payload bytes on their way to one follower.
  size_t inflight_count_max = 512;
  size_t inflight_bytes_max = 64 << 20;
  // Payload bytes a leader takes on beyond the committed ones.
  size_t uncommitted_bytes_max = 256 << 20;
  // Bytes of entries kept in memory although disk has them.
  size_t tail_bytes_max = 2 << 20;
  // Bytes of committed entries handed out and not yet reported by AppliedTo.
  size_t apply_bytes_max = 64 << 20;
  // False: apply sees an entry when it is committed and on this member's own disk, so after a crash
  // the log always reaches the store's applied index. True: committed is enough; then recovery may
  // find the store ahead of the log. That is safe, since what was applied is committed for ever and
  // the store stands for it as a snapshot does: recovery gives compacted = the store's applied
  // entry and no entries. The log writer must then restart behind that entry.
  bool apply_before_persisted = false;
  // A leader (of more than itself) steps down, and nobody campaigns, while a sync handed out has
  // not come back for this many ticks (docs/architecture.md, Raft). 0 = never.
  int disk_stall_ticks = 0;
};

struct PeerStatus {
  MemberId id{};
  bool is_learner = false;
  bool recent_active = false;
  const char* state = "probe";  // "probe", "replicate", "snapshot"
  Index match{};
  Index next{};
  size_t inflight_count = 0;
  size_t inflight_bytes = 0;
};

struct CoreStatus {
  MemberId id{};
  Role role = Role::kFollower;
  MemberId leader{};
  MemberId vote{};
  Term term{};
  Index commit{};
  Index applied{};
  Index persisted{};
  EntryId last{};
  EntryId compacted{};
  MemberId transferee{};
  size_t uncommitted_bytes = 0;
  size_t tail_bytes = 0;
  size_t reads_pending = 0;
  bool disk_stalled = false;
  ConfState conf_state{};
  std::vector<PeerStatus> peers{};  // of a leader; sorted by id, itself included
};

}  // namespace mainstay::raft

// raft::Core: one member's half of the Raft protocol, as a pure machine: no clock, thread, socket,
// disk or hidden chance.
//
// Role        The driver feeds it messages, ticks, proposals and the disk's acknowledgements, and
// after each batch takes
//             one Output and carries it out (output.h says in which order):
//
//                 drain inbox { Step / Propose / ReadIndex / Tick / Persisted / AppliedTo / ... }
//                 Output out = core.TakeOutput();      // then carry it out; repeat
//
//             Work is joined per TakeOutput: one append message to each peer for all proposals
//             since the last, one read round for all reads.
// Invariants  CheckInvariants() lists them in code; tests run it after every step.
// Threads     One caller at a time: thread "raft", or a test.
// Ownership   Owns everything it holds; entry payloads are shared Buffers.
// Errors      Foreign messages can never CHECK-fail it where they break only the sender's promises
// to itself; messages
//             that prove a broken cluster (a committed entry overwritten) do. Wrong calls by the
//             driver CHECK-fail.
// Limits      Options: message, in-flight, uncommitted, apply and tail bytes. Reads waiting are
// bounded by the driver
//             (kReadsPendingMax); those forwarded by peers by kRemoteReadsMax.
// Sources     Ongaro & Ousterhout, "In Search of an Understandable Consensus Algorithm" ("Raft
// paper"); Ongaro's
//             dissertation ("thesis"); etcd's raft for messages and reactions that its members
//             expect.
#pragma once

#include <cstdint>
#include <vector>

#include "common/status.h"
#include "raft/output.h"
#include "raft/types.h"

namespace mainstay::raft {

class Core {
 public:
  // REQUIRES: options.id is not kNobody, 0 < heartbeat_ticks < election_ticks, `initial` is
  // consistent. The core starts as a follower. A member with an empty configuration waits to be
  // contacted.
  Core(const Options& options, InitialState initial);

  // One heartbeat-interval fraction has passed (election_ticks and heartbeat_ticks are counted in
  // these).
  void Tick();
  // A message from another member. Unknown or stale senders are handled as the protocol says, never
  // an error.
  void Step(Message message);

  // Appends to the log when leader, forwards when follower. A batch is taken whole or not at all. A
  // conf change that comes too early (one is unapplied, or the joint state does not fit) is
  // replaced by an empty normal entry, which the proposer recognises by its empty data.
  ProposeResult Propose(std::vector<Proposal> proposals);
  // Asks for an index up to which everything acknowledged before this call is contained. The answer
  // comes in Output::reads under `token`, exactly once. Any role may ask; followers ask the leader.
  void ReadIndex(uint64_t token);
  // Starts an election now (with a pre-vote first where that is on), if this member may lead.
  void Campaign();
  // Hands leadership to `to` once it has the whole log (thesis 3.10); given up after an election
  // timeout. Followers forward the wish. Status().transferee shows it.
  void TransferLeader(MemberId to);
  // Gives up leadership without a successor: the driver knows a reason (its disk, a fence).
  void StepDown();

  // ---- the disk and the store
  // ----------------------------------------------------------------------------------- Everything
  // in Outputs with persist_seq <= seq is durable. REQUIRES: seq was handed out; never smaller than
  // before.
  void Persisted(uint64_t seq);
  // The store has applied everything up to `index`. REQUIRES: handed out by TakeOutput. Smaller
  // than before: ignored.
  void AppliedTo(Index index);
  // To be called when apply reaches a conf-change entry, before AppliedTo of it. Changes of kNobody
  // are skipped, so a refused change is passed as ConfChangeV2 with one of those. Returns the new
  // configuration (for the snapshot metadata). FailedPrecondition, with nothing changed, if it does
  // not fit the present one: every member then sees the same.
  StatusOr<ConfState> ApplyConfChange(const ConfChangeV2& change);
  // The log on disk may no longer be asked for entries up to `index`. REQUIRES: index <= applied.
  // Smaller than before: ignored.
  void CompactLog(Index index);
  // The answer to a LogRequest: entries from request.first on, in order, as many as were allowed;
  // empty if they are gone or unreadable. For a follower an empty answer means: send it a snapshot.
  void LogRead(const LogRequest& request, std::vector<Entry> entries);

  // ---- peers and the network
  // ------------------------------------------------------------------------------------ The answer
  // to a snapshot request: `snapshot` becomes a kSnap message. meta.index must be applied here, and
  // its conf_state the one at that index.
  void SendSnapshot(MemberId to, Snapshot snapshot);
  // A snapshot's fate: delivered, or failed (also: could not be made).
  void ReportSnapshot(MemberId peer, bool ok);
  // The transport could not deliver the last message to `peer`.
  void ReportUnreachable(MemberId peer);
  // A connection to `peer` is up: a paused probe goes out at once.
  void ReportConnected(MemberId peer);
  // The network itself said that `peer` is gone (reset, refused). If it was the leader, this member
  // no longer honours its lease and campaigns early: the n-th voter by id after 1 + 2n ticks, so
  // that two seldom collide.
  void ReportDisconnected(MemberId peer);

  // Everything to be done since the last call.
  Output TakeOutput();
  // True if TakeOutput would return something to do.
  bool HasOutput() const;

  CoreStatus GetStatus() const;
  Role role() const;
  MemberId leader() const;
  Term term() const;
  Index commit_index() const;

  // CHECK-fails if one of the invariants does not hold.
  void CheckInvariants() const;

  // kReadIndex requests of other members that wait here; more are dropped, and asked again by their
  // sender.
  static constexpr size_t kRemoteReadsMax = 4096;
};

}  // namespace mainstay::raft

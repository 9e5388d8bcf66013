// raft::Core: one member's half of the Raft protocol, as a pure machine: no clock, thread, socket,
// disk or hidden chance.
//
// Role        The driver feeds it messages, ticks, proposals and the disk's acknowledgements, and
//             after each batch takes one Output and carries it out (output.h says in which order):
//
//                 drain inbox { Step / Propose / ReadIndex / Tick / Persisted / AppliedTo / ... }
//                 Output out = core.TakeOutput();      // then carry it out; repeat
//
//             Work is joined per TakeOutput: one append message to each peer for all proposals
//             since the last, one read round for all reads.
// Invariants  CheckInvariants() lists them in code; tests run it after every step.
// Threads     One caller at a time: thread "raft", or a test.
// Ownership   Owns everything it holds; entry payloads are shared Buffers.
// Errors      Malformed, stale and foreign messages are dropped. A message that proves a broken
//             cluster (a committed entry overwritten, two leaders in one term, a commit index
//             beyond what this member acknowledged and lost) CHECK-fails, and so does a wrong call
//             by the driver.
// Limits      Options: message, in-flight, uncommitted, apply and tail bytes. Reads waiting are
//             bounded by the driver (kReadsPendingMax); those of peers by kRemoteReadsMax. Messages
//             held back for the disk are bounded by the writes in flight, so by the driver.
// Sources     Ongaro & Ousterhout, "In Search of an Understandable Consensus Algorithm" ("Raft
//             paper"); Ongaro's dissertation ("thesis"); etcd's raft for messages and reactions
//             that its members expect.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "common/status.h"
#include "raft/conf_change.h"
#include "raft/log.h"
#include "raft/output.h"
#include "raft/progress.h"
#include "raft/random.h"
#include "raft/reads.h"
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
  // timeout. Followers forward the wish. GetStatus().transferee shows it.
  void TransferLeader(MemberId to);
  // Gives up leadership without a successor: the driver knows a reason (its disk, a fence).
  void StepDown();

  // ---- the disk and the store -----------------------------------------------------------------

  // Everything in Outputs with persist_seq <= seq is durable. REQUIRES: seq was handed out; never
  // smaller than before.
  void Persisted(uint64_t seq);
  // The store has applied everything up to `index`. REQUIRES: handed out by TakeOutput. Smaller
  // than before: ignored.
  void AppliedTo(Index index);
  // To be called when apply has come to the conf-change entry at `index`, before AppliedTo of it.
  // Changes of kNobody are skipped, so a refused change is passed as ConfChangeV2 with one of
  // those. Returns the new configuration. FailedPrecondition, with nothing changed, if it does not
  // fit the present one: every member then sees the same. A change below a snapshot that arrived
  // meanwhile is skipped, since the snapshot holds it: the store, which is not there yet, keeps its
  // own ConfState by ChangeConfState (conf_change.h).
  StatusOr<ConfState> ApplyConfChange(Index index, const ConfChangeV2& change);
  // The log on disk may no longer be asked for entries up to `index`. REQUIRES: index <= applied.
  // Smaller than before: ignored.
  void CompactLog(Index index);
  // The answer to a LogRequest: entries from request.first on, in order, as many as were allowed;
  // empty if they are gone or unreadable. For a follower an empty answer means: send it a snapshot.
  void LogRead(const LogRequest& request, std::vector<Entry> entries);

  // ---- peers and the network ------------------------------------------------------------------

  // The answer to a snapshot request: `snapshot` becomes a kSnap message. meta.index must be
  // applied here, and its conf_state the one at that index. The transport must report its fate by
  // ReportSnapshot: until then, or until the peer acknowledges it, the peer gets no appends.
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

  // ---- results --------------------------------------------------------------------------------

  // Everything to be done since the last call.
  Output TakeOutput();
  // True if TakeOutput would return something to do.
  bool HasOutput() const;

  CoreStatus GetStatus() const;
  Role role() const { return role_; }
  MemberId leader() const { return leader_; }
  Term term() const { return term_; }
  Index commit_index() const { return log_.committed(); }

  // CHECK-fails if one of the invariants does not hold.
  void CheckInvariants() const;

  // kReadIndex requests of other members that wait here; more are dropped, and asked again by their
  // sender.
  static constexpr size_t kRemoteReadsMax = 4096;

 private:
  struct HeldMessage {
    uint64_t seq;
    Message message;
  };
  struct SyncInFlight {
    uint64_t seq;
    uint64_t since_tick;
  };

  // ---- core.cc: terms, routing, outputs
  void BecomeFollower(Term term, MemberId leader);
  void EnterTerm(Term term);
  void ResetTimers();
  void SetLeader(MemberId leader);
  // The lease: a live leader was heard of within an election timeout.
  bool InLease() const;
  bool StepNewerTerm(const Message& message);  // false if the message ends here
  void StepOlderTerm(const Message& message);
  void StepByRole(Message&& message);
  void StepAsCandidate(Message&& message);
  void StepAsFollower(Message&& message);
  void StepAsLeader(Message&& message);
  Message Make(MessageType type, MemberId to) const;
  void Send(Message message) { messages_.push_back(std::move(message)); }
  // Leaves when all that is in memory now is on disk.
  void SendAfterPersist(Message message);
  void CollectPersist(Output* out);
  void ReleaseHeld(uint64_t seq);
  bool DiskStalled() const;

  // ---- election.cc
  bool Promotable() const;
  void StartCampaign(bool transfer);
  void StartElection(bool pre_vote, bool transfer);
  void BecomeLeader();
  void HandleVoteRequest(const Message& message);
  void HandleVoteResponse(const Message& message);
  void TallyVotes();
  void TickFollower();

  // ---- replication.cc: the leader
  void TickLeader();
  void BroadcastHeartbeat();
  bool QuorumActive() const;
  void AppendOwn(std::vector<Entry>&& entries);
  ProposeResult AppendProposals(std::vector<Proposal>&& proposals);
  bool ConfChangeFits(const Entry& entry) const;
  void HandleAppendResponse(const Message& message);
  void HandleRefusal(const Message& message, Progress* progress);
  void HandleHeartbeatResponse(const Message& message);
  void MaybeCommit();
  void WishAll(SendWish wish);
  void FlushAppends();
  void FlushPeer(MemberId id, Progress* progress);
  bool SendAppend(MemberId id, Progress* progress, bool even_empty);
  void SendEntries(MemberId id, Progress* progress, std::vector<Entry>&& entries);
  void AskForLog(MemberId id, Progress* progress);
  void AskForSnapshot(MemberId id, Progress* progress);
  void LoadedForPeer(const LogRequest& request, std::vector<Entry>&& entries);
  void MaybeFinishTransfer(MemberId id, const Progress& progress);
  void HandleTransfer(MemberId to);
  Progress* FindProgress(MemberId id);  // null for strangers
  Index FindMatch(MemberId id) const;

  // ---- replication.cc: the follower
  void HandleAppend(Message&& message);
  void HandleHeartbeat(const Message& message);
  void HandleSnapshot(Message&& message);
  bool Restore(Snapshot&& snapshot);

  // ---- membership.cc
  void SetConfig(Config config);
  void MaybeLeaveJoint();

  // ---- read_index.cc
  void FlushReads();
  bool CommittedInOwnTerm() const { return log_.TermAt(log_.committed()) == term_; }
  void StartLeaderRound();
  void AskLeader();
  void MaybeFinishRound();
  void FinishRound();
  void FailReads(ReadOutcome outcome);
  void TickReads();
  void HandleReadIndex(Message&& message);
  void HandleReadIndexResponse(const Message& message);

  // Constant after construction.
  const Options options_;

  // The protocol's state.
  SeededJitter jitter_;
  Log log_;
  Config config_;
  Index config_index_;  // where config_ came from at start or by snapshot; changes up to it are
                        // part of it
  Role role_ = Role::kFollower;
  Term term_;
  MemberId vote_;
  MemberId leader_;
  bool leader_lost_ = false;  // the network said that the leader is gone; it has not spoken since
  int election_elapsed_ = 0;
  int heartbeat_elapsed_ = 0;
  int election_timeout_ = 0;  // this time's random one, in [election_ticks, 2 * election_ticks)
  uint64_t ticks_ = 0;

  // Of candidates.
  std::map<MemberId, bool> votes_;

  // Of leaders.
  std::map<MemberId, Progress> progress_;
  MemberId transferee_;
  Index pending_conf_index_;  // no configuration change may be appended before this one is applied

  ReadRounds reads_;

  // Towards the disk.
  uint64_t next_seq_ = 1;
  uint64_t persisted_seq_ = 0;
  uint64_t last_sync_seq_ = 0;      // the last write that has to be durable
  std::deque<SyncInFlight> syncs_;  // those of them that are not yet
  uint64_t snapshot_seq_ = 0;       // the write that holds a received snapshot; 0 = none in flight
  std::optional<Snapshot> snapshot_;    // received, not yet handed out
  HardState saved_;                     // as last handed out
  std::vector<Message> after_persist_;  // since the last Output
  std::deque<HeldMessage> held_;

  // Towards the next Output.
  std::vector<Message> messages_;
  std::vector<Entry> loaded_;  // committed entries that came back from disk
  bool apply_log_requested_ = false;
  std::vector<ReadResult> read_results_;
  std::vector<LogRequest> log_requests_;
  std::vector<MemberId> snapshot_requests_;
  SoftState told_;
};

}  // namespace mainstay::raft

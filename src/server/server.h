// server::Server: one member. Joins the Raft core, the log, the store, leases, membership and
// watches, and is all that rpc and http see of them.
//
// Role        Above it rpc, http and main; below it every folder of levels 0-3. A write goes
//             Propose() -> RaftDriver ("raft") -> WalTask ("wal") -> Applier ("apply") ->
//             ReplySink.
// Invariants  I1 an acknowledged write is in the synced log of a majority and in the published
// view.
//             I2 views only move forward; View() taken after a Deliver() shows what that answer
//             reports. I3 every request that was taken is answered exactly once, at the latest
//             after request_timeout()
//                (but for those that ask for no deadline), or by Stop() with kStopped.
//             I4 what apply does depends on the entry and the state before it only: times, ids and
//             random numbers
//                were chosen by the proposer.
// Threads     Open(), Start(), Stop(): the owner's. Everything else: any, without blocking and
// without touching the
//             disk. Tasks: "raft", "wal", "apply", "timer", on Environment::executor.
// Ownership   Owns the store, the log, the hub, the lessor and the cluster record. Borrows the
// Environment. Errors      Error values for what a client is told. Fatal conditions of the machine
// (failed sync, broken file) end
//             in fatal(): the member has stopped acknowledging; main prints the status and exits.
// Limits      kProposalsPendingMax, kReadsPendingMax, kApplyLagMax (common/limits.h),
// Options::max_request_bytes,
//             Options::quota_backend_bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "backend/backend.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/status.h"
#include "common/types.h"
#include "env/clock.h"
#include "membership/cluster.h"
#include "mvcc/store.h"
#include "raft/types.h"
#include "server/authorize.h"
#include "server/options.h"
#include "server/proposal.h"
#include "server/reply.h"
#include "watch/hub.h"

namespace mainstay::server {

// What every response header needs beside the revision.
struct HeaderInfo {
  ClusterId cluster_id;
  MemberId member_id;
  uint64_t raft_term = 0;  // of the last applied entry
};

// All that Maintenance.Status and the metrics page tell.
struct MemberStatus {
  std::string version;  // "3.7.1"
  int64_t db_size_bytes = 0;
  int64_t db_size_in_use_bytes = 0;
  int64_t db_size_quota_bytes = 0;
  MemberId leader;          // 0 = none known
  uint64_t raft_index = 0;  // committed
  uint64_t raft_term = 0;
  uint64_t raft_applied_index = 0;
  bool is_learner = false;
  std::string storage_version;      // "3.7.0"; empty if not decided yet
  std::string cluster_version;      // "3.7.0"; empty if not decided yet
  std::string downgrade_target;     // "3.6.0"; empty = no job
  std::vector<AlarmMember> alarms;  // of all members, by member and type
  int64_t revision = 0;
};

// For /health, /livez, /readyz and grpc.health.v1.
struct HealthInfo {
  bool ready = false;  // published, see ready()
  bool has_leader = false;
  bool is_leader = false;
  bool is_learner = false;
  bool defragmenting = false;
  bool fatal = false;
  std::vector<AlarmMember> alarms;
};

// Everything at one applied index: what a snapshot writes out. Holds engine resources: release
// soon.
struct PinnedState {
  mvcc::ReadView view;
  Index applied_index;
  Term applied_term;
  raft::ConfState conf_state;
  std::shared_ptr<const membership::View> members;
  // The engine's content at the same moment: the buckets beside `key`.
  const backend::Backend* backend = nullptr;
  std::shared_ptr<const backend::Snapshot> rows;
};

class Server {
 public:
  // Recovers (or makes, on first boot) the member in `options.data_dir`: opens the store, reads the
  // log, replays nothing yet. Touches the disk; may take seconds. Errors  FailedPrecondition with a
  // clear text for a foreign or half-made data directory, a wrong member id, a
  //         newer format; Unavailable if another process holds it; DataLoss for a damaged log or
  //         store.
  static StatusOr<std::unique_ptr<Server>> Open(Options options, Environment env);
  virtual ~Server() = default;

  // Starts the four tasks. Replay of the log's tail, election and publishing go on from there.
  virtual void Start() = 0;
  // Orderly stop: refuses new work with kStopped, answers what waits, flushes the store, closes the
  // log. Idempotent.
  virtual void Stop() = 0;

  // ---- state of the member
  // -------------------------------------------------------------------------------------- True
  // once this member has published its name and client URLs through the log: clients may be served.
  virtual bool ready() const = 0;
  // Called once, on thread "apply" (or at once if ready already). Must not block.
  virtual void OnReady(absl::AnyInvocable<void()> then) = 0;
  // Called once, on any task's thread, when the member must not go on. Must not call back into the
  // Server.
  virtual void OnFatal(absl::AnyInvocable<void(const Status&)> then) = 0;
  virtual HeaderInfo Header() const = 0;  // cheap: atomics
  virtual MemberStatus GetStatus() const = 0;
  virtual HealthInfo GetHealth() const = 0;
  virtual bool has_leader() const = 0;  // cheap; for `hasleader` metadata
  virtual bool is_learner() const = 0;  // cheap; for the learner gate
  virtual const Options& options() const = 0;

  // ---- writes
  // ---------------------------------------------------------------------------------------------------
  // outcomes[i] == kOk: taken, exactly one reply follows. Otherwise proposal i was refused and no
  // reply follows: kTooManyRequests (apply lags, or the inbox is full), kRequestTooLarge, kNoSpace
  // (the alarm is being raised), kStopped. Without a leader proposals are taken and wait:
  // kContextDeadlineExceeded in the end. Takes proposals that arrived together in one go: one lock,
  // one wake-up. REQUIRES: outcomes.size() == batch.size().
  virtual void Propose(std::span<Proposal> batch, std::span<Error> outcomes) = 0;
  Error Propose(Proposal proposal) {
    Error outcome = Error::kOk;
    Propose({&proposal, 1}, {&outcome, 1});
    return outcome;
  }
  // Costs kNoSpace-relevant bytes only for put, txn and lease grant. rpc calls it before its own
  // checks, since etcd tests the quota first. Raises the alarm when it refuses.
  virtual Error CheckQuota(RequestKind kind, std::string_view request) = 0;

  // ---- reads
  // ----------------------------------------------------------------------------------------------------
  // The newest published view. Serializable reads use it at once.
  virtual mvcc::ReadView View() const = 0;
  // True if a View() taken after this call shows every write acknowledged before this call: a
  // linearizable read needs no barrier. Holds while this member is the sole voter and has applied
  // an entry of its own term.
  virtual bool ReadBarrierInline() const = 0;
  // A Reply without body when a View() taken then is linearizable. kOk: taken. Refused:
  // kTooManyRequests, kStopped. Replies: kOk, kTimeout, kLeaderChanged, kStopped. deadline{0} = now
  // + request_timeout().
  virtual Error ReadBarrier(ReplyTo reply_to, MonoTime deadline) = 0;
  Error ReadBarrier(ReplyTo reply_to) { return ReadBarrier(reply_to, MonoTime{0}); }

  // ---- authorisation
  // --------------------------------------------------------------------------------------------
  // The one decision about who may do what; asked before proposing and again at apply. Allows all
  // while auth is off.
  virtual const Authorizer& authorizer() const = 0;
  Error Authorize(const RequestInfo& who, std::span<const Operation> operations) const {
    return authorizer().Check({who.username, who.auth_revision}, operations);
  }

  // ---- leases (grant and revoke are proposals)
  // -------------------------------------------------------------------- The answer, if it can be
  // given at once (the usual case on the leader); otherwise one reply follows. Body
  // LeaseRenewResult. Errors: kNoLeader, kTimeout, kNotPrimaryLessor.
  virtual std::optional<Reply> LeaseRenew(LeaseId id, ReplyTo reply_to) = 0;
  // Body LeaseTimeToLiveResult. Errors: kNoLeader, kTimeout, kLeaderChanged.
  virtual std::optional<Reply> LeaseTimeToLive(LeaseId id, bool keys, ReplyTo reply_to) = 0;
  // Local and not linearizable. On the leader by remaining time.
  virtual std::vector<LeaseId> Leases() const = 0;
  // Keys attached to a lease, for permission checks.
  virtual std::vector<std::string> LeaseKeys(LeaseId id) const = 0;

  // ---- watch
  // ------------------------------------------------------------------------------------------------------
  virtual watch::Hub& hub() = 0;

  // ---- cluster
  // ----------------------------------------------------------------------------------------------------
  virtual std::shared_ptr<const membership::View> Members() const = 0;

  // ---- maintenance (long work runs on Environment::pool)
  // ------------------------------------------------------------ Taken (kOk) or refused with
  // kTooManyRequests, kStopped; then one reply.
  virtual Error Defragment(ReplyTo reply_to) = 0;
  virtual Error Hash(ReplyTo reply_to) = 0;  // body HashResult
  virtual Error HashKv(int64_t revision,
                       ReplyTo reply_to) = 0;  // body HashKvResult; kCompacted, kFutureRev
  virtual PinnedState PinState() const = 0;    // for Maintenance.Snapshot
  // kOk at once if `target` is this member and it leads; otherwise as grpc-api 5.2 says.
  virtual std::optional<Reply> MoveLeader(MemberId target, ReplyTo reply_to) = 0;
  enum class DowngradeAction : uint8_t { kValidate = 0, kEnable = 1, kCancel = 2 };
  virtual std::optional<Reply> Downgrade(DowngradeAction action,
                                         std::string_view version,
                                         ReplyTo reply_to) = 0;
};

}  // namespace mainstay::server

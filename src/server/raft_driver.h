// server::RaftDriver: runs raft::Core. Owns time, proposals that wait for a leader or for their
// entry, and read rounds.
//
// Role        Fed by Server (proposals, reads), WalTask (persisted), Applier (applied, conf
// changes) and, once there
//             are peers, the transport. Feeds WalTask and Applier.
// Invariants  I1 nothing here waits for a disk, a lock held over a disk call, or another thread.
//             I2 a waiter is answered once: here when it fails or times out, else by the Applier,
//             which gets it with
//                its entry.
// Threads     RunOnce(), NextWake(): "raft". Propose(), Read(), Configure(): any.
// Errors      kContextDeadlineExceeded: never proposed for want of a leader. kTimeout and its kin:
// proposed, not
//             applied in time; it may still be. kProposalDropped: refused by the core.
// Limits      kProposalsPendingMax proposals not yet taken by the core, kReadsPendingMax reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/metrics.h"
#include "env/clock.h"
#include "env/executor.h"
#include "raft/core.h"
#include "server/durable_log.h"
#include "server/options.h"
#include "server/queues.h"
#include "server/replier.h"
#include "server/shared_state.h"

namespace mainstay::server {

// The links to other members, as the driver needs them. Threads: "raft"; must not block.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual void Send(std::vector<raft::Message> messages) = 0;
  // This member has been connected to a quorum, or to `id`, without a break since `since`.
  virtual bool ConnectedToQuorumSince(MonoTime since) = 0;
  virtual bool ConnectedSince(MemberId id, MonoTime since) = 0;
};

class RaftDriver : public Task {
 public:
  struct Params {
    const Options& options;
    Clock& clock;
    MetricRegistry& metrics;
    SharedState& shared;
    WalQueue& wal;
    ApplyQueue& apply;
    const DurableLog& log;   // read back where memory has let go
    WorkPool& pool;          // must drop its jobs before the driver goes
    Peers* peers = nullptr;  // null: this member is alone
    raft::Options core;
    raft::InitialState initial;
  };
  explicit RaftDriver(Params params);

  bool RunOnce() override;
  MonoTime NextWake() const override;

  // How many of `proposals`, from the front, were taken.
  size_t Propose(std::span<PendingProposal> proposals);
  bool Read(PendingRead read);
  // The applier asks for a configuration change; the answer comes through TakeConfAnswer(), after a
  // wake-up.
  void Configure(ConfRequest request);
  std::optional<StatusOr<raft::ConfState>> TakeConfAnswer();
  // The log on disk no longer holds entries up to `index`.
  void CompactLog(Index index);
  // A message from another member, already authenticated by the transport. False: the inbox is
  // full, drop it.
  bool Step(raft::Message message);
  // Answers everything that still waits. REQUIRES: no thread runs this task any more.
  void FailAll(Error error);

  static constexpr size_t kMessagesPendingMax = 4096;

 private:
  struct ReadGroup {
    std::vector<PendingRead> reads;
    bool asked = false;  // the core has it; else it waits for a leader
  };

  bool Tick(MonoTime now);
  bool TakeFromDisk();
  bool TakeFromApply();
  bool TakeMessages();
  bool TakeLogReads();
  void ReadLog(const raft::LogRequest& request);
  bool TakeProposals();
  bool TakeReads();
  void CampaignIfAlone();
  void TryPropose();
  void RefuseFenced();
  void Expire(MonoTime now);
  void ExpireReads(MonoTime now);
  Error TimeoutError(const Waiter& waiter) const;
  void AskReads();

  void Carry(raft::Output output);
  void CarryPersist(raft::Output& output);
  void CarryCommitted(std::vector<raft::Entry>& committed);
  void CarryReads(const std::vector<raft::ReadResult>& reads);
  void CarrySoftState(const raft::SoftState& state);
  void FailReads(ReadGroup& group, Error error);
  bool SoleVoter() const;
  void UpdateGauges();

  // ---- constant
  const Options& options_;
  Clock& clock_;
  SharedState& shared_;
  WalQueue& wal_;
  ApplyQueue& apply_;
  Peers* const peers_;
  const DurableLog& log_;
  WorkPool& pool_;
  const MemberId self_;
  const std::chrono::nanoseconds tick_;

  // ---- inboxes
  ProposalQueue proposals_{kProposalsPendingMax};
  ReadQueue reads_{kReadsPendingMax};
  BoundedQueue<ConfRequest> conf_requests_{1};
  BoundedQueue<StatusOr<raft::ConfState>> conf_answers_{1};
  BoundedQueue<raft::Message> messages_{kMessagesPendingMax};
  struct LogRead {
    raft::LogRequest request;
    StatusOr<std::vector<raft::Entry>> entries;
  };
  // One per reader at most.
  BoundedQueue<LogRead> log_reads_{kMessagesPendingMax};
  std::atomic<uint64_t> compact_to_{0};

  // ---- "raft"
  raft::Core core_;
  raft::ConfState conf_state_;
  raft::SoftState soft_;
  MonoTime next_tick_;
  MonoTime led_since_{0};  // when this member last became leader
  uint64_t last_persisted_seq_ = 0;
  uint64_t last_applied_ = 0;
  uint64_t compacted_to_ = 0;
  bool announced_leading_ = false;     // what the applier was told last
  std::vector<PendingProposal> held_;  // not taken by the core yet, in order of arrival
  bool retry_held_ = false;
  WaitTable waiters_;
  std::vector<raft::LogRequest>
      log_reads_refused_;  // the pool was full: asked again at the next tick
  uint64_t next_token_ = 1;
  std::map<uint64_t, ReadGroup> read_groups_;  // by token, oldest first
  Replier replies_;
  std::vector<PendingProposal> popped_proposals_;
  std::vector<PendingRead> popped_reads_;
  std::vector<ApplyItem> to_apply_;

  // ---- metrics
  Gauge& has_leader_;
  Gauge& is_leader_;
  Counter& leader_changes_;
  Gauge& committed_total_;
  Gauge& pending_total_;
  Counter& failed_total_;
  Counter& slow_reads_;
  Counter& failed_reads_;
};

}  // namespace mainstay::server

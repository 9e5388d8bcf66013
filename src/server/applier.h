// server::Applier: the one writer of the store. Takes committed entries in order, does what each
// says, writes whole batches, shows them, and answers who waits.
//
// Role        Fed by RaftDriver. Writes mvcc, lease, membership and alarms; feeds the watch hub;
// answers. Invariants  I1 entries are applied once each, in order, without a gap.
//             I2 what an entry does depends on it and on the state before it only.
//             I3 per batch, in this order: backend, watch hub, published view, applied index,
//             answers. I4 every kind of entry moves the applied index in the store, with or without
//             a change (case C48).
// Threads     RunOnce(), NextWake(): "apply". Pin(): any. FailAll(): the owner, when no thread runs
// this task. Errors      An entry that this version cannot read, or a failing backend, is fatal:
// nothing after it is applied. Limits      One batch: kBatchBytesMax and kBatchEntriesMax.
// Compaction works in steps that take at most a fifth of
//             the time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "common/metrics.h"
#include "env/clock.h"
#include "env/executor.h"
#include "lease/lessor.h"
#include "membership/cluster.h"
#include "mvcc/store.h"
#include "server/alarms.h"
#include "server/apply_metrics.h"
#include "server/authorize.h"
#include "server/compaction_hashes.h"
#include "server/entry_codec.h"
#include "server/queues.h"
#include "server/raft_driver.h"
#include "server/replier.h"
#include "server/shared_state.h"
#include "watch/hub.h"

namespace mainstay::server {

class Applier : public Task {
 public:
  struct Params {
    const Options& options;
    Clock& clock;
    MetricRegistry& metrics;
    SharedState& shared;
    ApplyQueue& inbox;
    RaftDriver& driver;
    backend::Backend& backend;
    mvcc::Store& store;
    lease::Lessor& lessor;
    membership::Cluster& cluster;
    Alarms& alarms;
    watch::Hub& hub;
    const Authorizer& authorizer;
    MemberId self;
    raft::EntryId applied;       // found in the store
    raft::ConfState conf_state;  // at `applied`
    std::function<void()> raise_no_space;
    std::function<void(CompactionBegun)> compaction_begun;
  };
  explicit Applier(Params params);

  bool RunOnce() override;
  MonoTime NextWake() const override;

  // The state at one applied index, everything in it fitting together.
  struct Pinned {
    mvcc::ReadView view;
    raft::EntryId applied;
    std::shared_ptr<const raft::ConfState> conf_state;
    std::shared_ptr<const membership::View> members;
    std::shared_ptr<const backend::Snapshot> rows;
  };
  Pinned Pin() const;
  // Term and configuration at an index between the one given last and the applied one. Any thread,
  // but one at a time.
  raft::SnapshotMeta MetaAt(Index index);
  // Answers everything that still waits here.
  void FailAll(Error error);

  static constexpr size_t kBatchBytesMax = 1 << 20;
  static constexpr size_t kBatchEntriesMax = 4096;

 private:
  struct Answer {
    Waiter waiter;
    Reply reply;
  };
  // A conf-change entry whose effect on Raft the driver is working out.
  struct ConfWait {
    ApplyItem item;
    membership::Change change;
    bool has_change = false;
    Error refusal = Error::kOk;
  };

  void Take(ApplyItem&& item);
  void TakeReads(std::unique_ptr<ReadBatch> reads);
  void TakeLeadership(bool leads, Term term);
  void TakeEntry(ApplyItem&& item);
  void StartOfTerm(Term term);
  void ApplyRequest(ApplyItem& item);
  Reply Dispatch(const DecodedEntry& entry, bool* later, const ApplyItem& item);
  Error Forbidden(uint32_t kind, std::string_view request) const;

  // applier_requests.cc: one per kind.
  Reply ApplyKeys(const DecodedEntry& entry);
  Reply ApplyPut(const DecodedEntry& entry);
  Reply ApplyDeleteRange(const DecodedEntry& entry);
  Reply ApplyTxn(const DecodedEntry& entry);
  Reply ApplyCompaction(const DecodedEntry& entry, bool* later, const ApplyItem& item);
  Reply ApplyLeaseGrant(const DecodedEntry& entry);
  Reply ApplyLeaseRevoke(const DecodedEntry& entry);
  Reply ApplyLeaseCheckpoint(const DecodedEntry& entry);
  Reply ApplyAlarm(const DecodedEntry& entry);
  Reply ApplyClusterVersion(const DecodedEntry& entry);
  Reply ApplyMemberAttributes(const DecodedEntry& entry);
  Reply ApplyDowngradeInfo(const DecodedEntry& entry);
  Error MayApply(const DecodedEntry& entry, std::span<const Operation> operations) const;
  void TellLessor();
  Reply Malformed(const DecodedEntry& entry);
  mvcc::WriteContext Context() { return {batch_, lease_lookup_, lease_changes_}; }

  // applier_conf.cc
  void BeginConf(ApplyItem&& item);
  bool FinishConf();
  void ApplyMembership(const ConfWait& wait, const raft::ConfState& state);

  void Commit();
  void Publish();
  void AnswerBatch();
  void AnswerReads(std::vector<PendingRead>& reads);
  void CompactStep(MonoTime now);
  bool Full() const;
  void NoteOwnRole();

  class LeaseAdapter : public mvcc::LeaseLookup {
   public:
    explicit LeaseAdapter(const lease::Lessor& lessor) : lessor_(lessor) {}
    bool Exists(LeaseId id) const override { return lessor_.Exists(id); }

   private:
    const lease::Lessor& lessor_;
  };

  // ---- constant, or self-locking
  Params p_;
  const LeaseAdapter lease_lookup_;
  ApplyMetrics metrics_;

  // ---- "apply"
  std::vector<ApplyItem> popped_;
  std::deque<ApplyItem> pending_;
  std::optional<ConfWait> conf_wait_;
  raft::EntryId last_;     // the last entry processed, committed to the backend or not
  raft::EntryId written_;  // the last one in the backend
  Term leads_term_;        // 0 = this member does not lead
  backend::WriteBatch batch_;
  size_t batch_entries_ = 0;
  std::vector<mvcc::LeaseChange> lease_changes_;
  std::vector<Answer> answers_;
  std::vector<PendingRead> reads_ready_;
  std::multimap<uint64_t, std::vector<PendingRead>> reads_waiting_;  // by index
  std::vector<Answer> physical_waiting_;  // compactions that wait for the removal
  raft::ConfState conf_state_;
  bool conf_state_changed_ = false;
  MonoTime next_compaction_step_{0};
  MonoTime compaction_began_{0};
  std::vector<CompactionBegun> compactions_begun_;  // in the running batch
  bool compacting_ = false;
  Replier replier_;

  // ---- guarded
  mutable Mutex pin_mu_;
  raft::EntryId pinned_applied_ ABSL_GUARDED_BY(pin_mu_);
  std::shared_ptr<const raft::ConfState> pinned_conf_ ABSL_GUARDED_BY(pin_mu_);
  // From which batch's last index on which term, and which configuration, holds. Never empty.
  std::map<uint64_t, Term> term_starts_ ABSL_GUARDED_BY(pin_mu_);
  std::map<uint64_t, std::shared_ptr<const raft::ConfState>> conf_history_ ABSL_GUARDED_BY(pin_mu_);
};

}  // namespace mainstay::server

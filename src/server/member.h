// server::Member: the Server of production and of the simulator: the parts, put together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/applier.h"
#include "server/authorize.h"
#include "server/boot.h"
#include "server/housekeeper.h"
#include "server/jobs.h"
#include "server/member_metrics.h"
#include "server/proposer.h"
#include "server/raft_driver.h"
#include "server/request_ids.h"
#include "server/server.h"
#include "server/tracked_pool.h"
#include "server/wal_task.h"
#include "watch/store_history.h"

namespace mainstay::server {

class Member : public Server, private watch::HeaderSource {
 public:
  Member(Options options, Environment env, BootResult boot);
  ~Member() override;

  void Start() override;
  void Stop() override;

  bool ready() const override { return housekeeper_.ready(); }
  void OnReady(absl::AnyInvocable<void()> then) override { housekeeper_.OnReady(std::move(then)); }
  void OnFatal(absl::AnyInvocable<void(const Status&)> then) override {
    shared_.fatal.OnRaise(std::move(then));
  }
  HeaderInfo Header() const override;
  MemberStatus GetStatus() const override;
  HealthInfo GetHealth() const override;
  bool has_leader() const override { return shared_.leader.load(std::memory_order_relaxed) != 0; }
  bool is_learner() const override { return shared_.is_learner.load(std::memory_order_relaxed); }
  const Options& options() const override { return options_; }

  void Propose(std::span<Proposal> batch, std::span<Error> outcomes) override {
    proposer_.Propose(batch, outcomes);
  }
  Error CheckQuota(RequestKind kind, std::string_view request) override {
    return proposer_.CheckQuota(static_cast<uint32_t>(kind), request);
  }

  mvcc::ReadView View() const override { return boot_.store->View(); }
  bool ReadBarrierInline() const override;
  Error ReadBarrier(ReplyTo reply_to, MonoTime deadline) override;
  const Authorizer& authorizer() const override { return authorizer_; }

  std::optional<Reply> LeaseRenew(LeaseId id, ReplyTo reply_to) override;
  std::optional<Reply> LeaseTimeToLive(LeaseId id, bool keys, ReplyTo reply_to) override;
  std::vector<LeaseId> Leases() const override { return boot_.lessor->Leases(); }
  std::vector<std::string> LeaseKeys(LeaseId id) const override { return boot_.lessor->Keys(id); }

  watch::Hub& hub() override { return hub_; }
  std::shared_ptr<const membership::View> Members() const override { return boot_.cluster->view(); }

  Error Defragment(ReplyTo reply_to) override;
  Error Hash(ReplyTo reply_to) override;
  Error HashKv(int64_t revision, ReplyTo reply_to) override;
  PinnedState PinState() const override;
  std::optional<Reply> MoveLeader(MemberId target, ReplyTo reply_to) override;
  std::optional<Reply> Downgrade(DowngradeAction action,
                                 std::string_view version,
                                 ReplyTo reply_to) override;

 private:
  // watch::HeaderSource
  uint64_t cluster_id() const override { return cluster_id_.value(); }
  uint64_t member_id() const override { return boot_.self.value(); }
  uint64_t raft_term() const override {
    return shared_.applied_term.load(std::memory_order_acquire);
  }

  raft::Options CoreOptions() const;
  Applier::Params ApplierParams();
  MemberMetrics::Sources MetricSources();
  int64_t DbSize() const;
  Reply NewReply(Error error = Error::kOk) const;
  // Flush and log release; "timer", once a second.
  void Maintain();
  void MaybeFlush(MonoTime now);
  void MaybeReleaseLog();
  // member_leases.cc
  std::optional<Reply> TryRenew(LeaseId id, bool waited, ReplyTo reply_to);
  std::optional<Reply> TryTimeToLive(LeaseId id, bool keys, bool waited, ReplyTo reply_to);
  bool ApplyLags() const;
  std::optional<Reply> AfterBarrier(ReplyTo reply_to,
                                    absl::AnyInvocable<std::optional<Reply>()> then);
  // member_maintenance.cc
  void HashCompaction(CompactionBegun begun);
  std::optional<Reply> DowngradeTo(DowngradeAction action, std::string target, ReplyTo reply_to);
  std::optional<Reply> ProposeDowngrade(bool enabled, std::string target, ReplyTo reply_to);

  // ---- constant after construction
  const Options options_;
  Environment env_;
  BootResult boot_;
  const ClusterId cluster_id_;

  // ---- the parts, in order of construction
  SharedState shared_;
  WalQueue wal_queue_;
  ApplyQueue apply_queue_;
  RequestIds ids_;
  Authorizer authorizer_;
  watch::StoreHistory history_;
  TrackedPool pool_;  // of those parts whose jobs borrow them; closed before they go
  watch::Hub hub_;
  RaftDriver driver_;
  Proposer proposer_;
  WalTask wal_task_;
  Applier applier_;
  Housekeeper housekeeper_;
  Jobs jobs_;
  Deferred deferred_;

  // ---- the owner's
  bool started_ = false;
  bool stopped_ = false;
  std::unique_ptr<TaskHandle> raft_handle_;
  std::unique_ptr<TaskHandle> wal_handle_;
  std::unique_ptr<TaskHandle> apply_handle_;
  std::unique_ptr<TaskHandle> timer_handle_;

  // ---- "timer"
  Index marked_;                 // up to where the log has a snapshot mark
  const Index replay_end_;       // where the log found at boot ended
  Index flush_asked_;            // applied when the last flush was asked for
  bool replay_flushed_ = false;  // the log's tail found at boot was looked at
  MonoTime flush_at_{0};

  // ---- any thread
  CompactionHashes compaction_hashes_;
  std::atomic<int> defragmenting_{0};
  MemberMetrics metrics_;
};

// Server::Open() with a log of the caller's.
StatusOr<std::unique_ptr<Server>> OpenWithLog(Options options,
                                              Environment env,
                                              const LogOpener& open_log);

}  // namespace mainstay::server

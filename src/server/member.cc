#include "server/member.h"

#include <algorithm>
#include <utility>

#include "common/coding.h"
#include "common/limits.h"
#include "common/log.h"

namespace mainstay::server {
namespace {

// Both are bounded by what the core hands out; these are nets below it.
constexpr size_t kWalItemsMax = 1 << 20;
constexpr size_t kApplyItemsMax = 1 << 22;
// A flush is asked for when this much would have to be replayed, or after this time at the latest.
constexpr uint64_t kUnflushedBytesMax = 64 << 20;
// A start that replayed more than so many entries is followed by a flush: a member that is killed
// again and again must not replay a log that grows with each start.
constexpr uint64_t kReplayedUnflushedMax = 1000;
constexpr std::chrono::nanoseconds kUnflushedTimeMax = std::chrono::seconds(60);
// Rounds that Stop() gives the tasks to finish what is under way.
constexpr int kDrainRoundsMax = 10000;
constexpr char kServerVersion[] = "3.7.1";

watch::HubOptions HubOptionsOf(const Options& options) {
  watch::HubOptions out;
  out.progress_interval = options.watch_progress_interval;
  return out;
}

}  // namespace

Member::Member(Options options, Environment env, BootResult boot)
    : options_(std::move(options)),
      env_(std::move(env)),
      boot_(std::move(boot)),
      cluster_id_(boot_.cluster->view()->cluster_id),
      wal_queue_(kWalItemsMax),
      apply_queue_(kApplyItemsMax),
      ids_(boot_.self, env_.clock.WallNow()),
      history_([this] { return boot_.store->View(); }),
      pool_(env_.pool),
      hub_({.options = HubOptionsOf(options_),
            .header = *this,
            .history = history_,
            .clock = env_.clock,
            .random = env_.random,
            .metrics = env_.metrics,
            .pool = &pool_,
            .revision = boot_.store->revision()}),
      driver_({.options = options_,
               .clock = env_.clock,
               .metrics = env_.metrics,
               .shared = shared_,
               .wal = wal_queue_,
               .apply = apply_queue_,
               .log = *boot_.log,
               .pool = pool_,
               .peers = nullptr,
               .core = CoreOptions(),
               .initial = boot_.initial}),
      proposer_({.options = options_,
                 .clock = env_.clock,
                 .shared = shared_,
                 .driver = driver_,
                 .ids = ids_,
                 .self = boot_.self}),
      wal_task_({.shared = shared_, .inbox = wal_queue_, .log = *boot_.log}),
      applier_(ApplierParams()),
      housekeeper_({.options = options_,
                    .clock = env_.clock,
                    .metrics = env_.metrics,
                    .shared = shared_,
                    .proposer = proposer_,
                    .driver = driver_,
                    .lessor = *boot_.lessor,
                    .cluster = *boot_.cluster,
                    .alarms = *boot_.alarms,
                    .self = boot_.self,
                    .revision = [this] { return shared_.revision.load(); },
                    .maintain = [this] { Maintain(); }}),
      jobs_(env_.pool),
      marked_(boot_.initial.compacted.index),
      replay_end_(boot_.initial.entries.empty() ? boot_.applied.index
                                                : boot_.initial.entries.back().index),
      flush_asked_(boot_.applied.index),
      flush_at_(env_.clock.Now()),
      metrics_(env_.metrics, boot_.self, options_.quota_bytes(), MetricSources()) {
  // What the log may still hold is what it was told at open; a new mark is due once the store has
  // moved on.
  boot_.initial.entries.clear();
  ShowClusterVersion(env_.metrics, "", boot_.cluster->view()->cluster_version);
}

Member::~Member() {
  Stop();
}

// Called while members are made: what these name by reference is declared before its user.
Applier::Params Member::ApplierParams() {
  return {.options = options_,
          .clock = env_.clock,
          .metrics = env_.metrics,
          .shared = shared_,
          .inbox = apply_queue_,
          .driver = driver_,
          .backend = *boot_.backend,
          .store = *boot_.store,
          .lessor = *boot_.lessor,
          .cluster = *boot_.cluster,
          .alarms = *boot_.alarms,
          .hub = hub_,
          .authorizer = authorizer_,
          .self = boot_.self,
          .applied = boot_.applied,
          .conf_state = boot_.initial.conf_state,
          .raise_no_space = [this] { proposer_.RaiseNoSpace(); },
          .compaction_begun = [this](CompactionBegun begun) { HashCompaction(std::move(begun)); }};
}

MemberMetrics::Sources Member::MetricSources() {
  return {.db_size = [this] { return static_cast<double>(DbSize()); },
          .db_size_in_use = [this] { return static_cast<double>(shared_.store_used_bytes.load()); },
          .revision = [this] { return static_cast<double>(shared_.revision.load()); },
          .compact_revision = [this] { return static_cast<double>(View().compact_revision()); },
          .open_views = [this] { return static_cast<double>(boot_.store->open_views()); }};
}

raft::Options Member::CoreOptions() const {
  raft::Options core;
  core.id = boot_.self;
  core.election_ticks =
      std::max(2, static_cast<int>(options_.election_timeout /
                                   std::max(options_.heartbeat, std::chrono::milliseconds(1))));
  core.heartbeat_ticks = 1;
  core.seed = env_.random.Next64();
  core.pre_vote = options_.pre_vote;
  core.disk_stall_ticks = core.election_ticks;
  return core;
}

// ---- life

void Member::Start() {
  MS_CHECK(!started_);
  started_ = true;
  MS_LOG(kInfo, "starting etcd server")
      .Hex("local-member-id", boot_.self.value())
      .Str("local-server-version", kServerVersion)
      .Hex("cluster-id", cluster_id_.value());
  shared_.accepting.store(true, std::memory_order_release);
  hub_.Start(env_.executor);
  apply_handle_ = env_.executor.Start("apply", applier_);
  shared_.apply.Open(*apply_handle_);
  wal_handle_ = env_.executor.Start("wal", wal_task_);
  shared_.wal.Open(*wal_handle_);
  raft_handle_ = env_.executor.Start("raft", driver_);
  shared_.raft.Open(*raft_handle_);
  timer_handle_ = env_.executor.Start("timer", housekeeper_);
  shared_.timer.Open(*timer_handle_);
  // Whoever wanted to wake another before its handle was there did so in vain.
  shared_.apply.Wake();
  shared_.wal.Wake();
  shared_.raft.Wake();
  shared_.timer.Wake();
}

void Member::Stop() {
  if (stopped_) {
    return;
  }
  stopped_ = true;
  shared_.accepting.store(false, std::memory_order_release);
  for (Waker* waker : {&shared_.timer, &shared_.raft, &shared_.wal, &shared_.apply}) {
    waker->Close();
  }
  timer_handle_.reset();
  raft_handle_.reset();
  wal_handle_.reset();
  apply_handle_.reset();
  // No thread runs the tasks now: this one finishes what was under way, in their place.
  bool busy = started_;
  for (int round = 0; busy && round < kDrainRoundsMax; ++round) {
    busy = driver_.RunOnce();
    busy = wal_task_.RunOnce() || busy;
    busy = applier_.RunOnce() || busy;
  }
  jobs_.Stop();
  driver_.FailAll(Error::kStopped);
  applier_.FailAll(Error::kStopped);
  if (shared_.fatal.raised()) {
    return;  // what is in memory is no better than what replay will give
  }
  if (const Status status = boot_.backend->Flush(); !status.ok()) {
    MS_LOG(kError, "the store could not be flushed; the next start replays the log")
        .Error(Message(status));
  }
  if (const Status status = boot_.log->Close(); !status.ok()) {
    MS_LOG(kError, "the log could not be closed").Error(Message(status));
  }
}

// ---- maintenance of the disk ("timer")

void Member::Maintain() {
  MaybeFlush(env_.clock.Now());
  MaybeReleaseLog();
}

void Member::MaybeFlush(MonoTime now) {
  const Index applied(shared_.applied_index.load());
  const Index flushed = boot_.backend->flushed_applied_index();
  if (applied <= flushed) {
    flush_at_ = now;
    return;
  }
  bool replayed = false;
  if (!replay_flushed_ && applied >= replay_end_) {
    replay_flushed_ = true;
    replayed = replay_end_ > boot_.applied.index + kReplayedUnflushedMax;
  }
  const bool much =
      boot_.backend->unflushed_bytes() >= kUnflushedBytesMax && flush_asked_ <= flushed;
  if (much || replayed || now - flush_at_ >= kUnflushedTimeMax) {
    flush_at_ = now;
    flush_asked_ = applied;
    boot_.backend->RequestFlush();
  }
}

// The store holds the log up to the flushed index: mark it, then let go of what no follower would
// ask for.
void Member::MaybeReleaseLog() {
  const Index flushed = boot_.backend->flushed_applied_index();
  if (flushed < marked_ + options_.snapshot_count) {
    return;
  }
  WalItem item;
  item.snapshot_mark = applier_.MetaAt(flushed);
  item.must_sync = true;
  if (flushed.value() > options_.snapshot_catchup_entries) {
    item.release_below = flushed - options_.snapshot_catchup_entries;
    driver_.CompactLog(item.release_below);
  }
  marked_ = flushed;
  wal_queue_.Push(std::move(item));
  shared_.wal.Wake();
}

// ---- what others see

Reply Member::NewReply(Error error) const {
  Reply reply;
  reply.error = error;
  reply.revision = shared_.revision.load(std::memory_order_acquire);
  reply.raft_term = shared_.applied_term.load(std::memory_order_acquire);
  return reply;
}

HeaderInfo Member::Header() const {
  return {cluster_id_, boot_.self, shared_.applied_term.load(std::memory_order_acquire)};
}

// Never less than what is in use: the engine keeps part of it in memory, compressed on disk.
int64_t Member::DbSize() const {
  return std::max(static_cast<int64_t>(boot_.backend->FilesBytes()),
                  shared_.store_used_bytes.load());
}

MemberStatus Member::GetStatus() const {
  const std::shared_ptr<const membership::View> cluster = boot_.cluster->view();
  MemberStatus status;
  status.version = kServerVersion;
  status.db_size_in_use_bytes = shared_.store_used_bytes.load();
  status.db_size_bytes = DbSize();
  status.db_size_quota_bytes = options_.quota_bytes();
  status.leader = MemberId(shared_.leader.load());
  status.raft_index = shared_.commit_index.load();
  status.raft_applied_index = shared_.applied_index.load();
  status.raft_term = shared_.applied_term.load();
  status.is_learner = is_learner();
  status.cluster_version = cluster->cluster_version;
  // Both are set by the same entry, so that they never differ for long (applier_requests.cc).
  status.storage_version = cluster->cluster_version;
  status.downgrade_target = cluster->downgrade.enabled ? cluster->downgrade.target_version : "";
  status.alarms = boot_.alarms->Get(AlarmType::kNone);
  status.revision = shared_.revision.load();
  return status;
}

HealthInfo Member::GetHealth() const {
  HealthInfo health;
  health.ready = ready();
  health.has_leader = has_leader();
  health.is_leader = shared_.is_leader.load();
  health.is_learner = is_learner();
  health.defragmenting = defragmenting_.load() > 0;
  health.fatal = shared_.fatal.raised();
  health.alarms = boot_.alarms->Get(AlarmType::kNone);
  return health;
}

bool Member::ReadBarrierInline() const {
  const uint64_t from = shared_.inline_reads_from.load(std::memory_order_acquire);
  return from != 0 && shared_.applied_index.load(std::memory_order_acquire) >= from;
}

Error Member::ReadBarrier(ReplyTo reply_to, MonoTime deadline) {
  if (!shared_.accepting.load(std::memory_order_acquire)) {
    return Error::kStopped;
  }
  if (shared_.reads_pending.fetch_add(1) >= kReadsPendingMax) {
    shared_.reads_pending.fetch_sub(1);
    return Error::kTooManyRequests;
  }
  const MonoTime now = env_.clock.Now();
  if (deadline == MonoTime{0}) {
    deadline = now + options_.request_timeout();
  }
  if (!driver_.Read({reply_to, now, deadline})) {
    shared_.reads_pending.fetch_sub(1);
    return Error::kTooManyRequests;
  }
  return Error::kOk;
}

PinnedState Member::PinState() const {
  Applier::Pinned pinned = applier_.Pin();
  return {std::move(pinned.view), pinned.applied.index,      pinned.applied.term,
          *pinned.conf_state,     std::move(pinned.members), boot_.backend.get(),
          std::move(pinned.rows)};
}

// ---- opening

StatusOr<std::unique_ptr<Server>> OpenWithLog(Options options,
                                              Environment env,
                                              const LogOpener& open_log) {
  MS_ASSIGN_OR_RETURN(BootResult boot, Boot(options, env, open_log));
  return std::make_unique<Member>(std::move(options), std::move(env), std::move(boot));
}

StatusOr<std::unique_ptr<Server>> Server::Open(Options options, Environment env) {
  const LogOpener opener = WalOpener(options, env);
  return OpenWithLog(std::move(options), std::move(env), opener);
}

}  // namespace mainstay::server

// A member for tests: a Core with a disk, a store and queues between them, carrying out Outputs as
// raft/output.h says, each duty as a step that the test takes when it likes. Shared by the golden
// scenarios and the random cluster.
//
// The disk loses what was not persisted when the member crashes; the store falls back to its last
// flush.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "raft/core.h"

namespace mainstay::raft {

// The replicated state: a hash chain over everything applied.
struct StoreState {
  EntryId applied;
  ConfState conf;
  uint64_t hash = 0;
};

uint64_t HashOf(uint64_t before, const Entry& entry);

class TestMember {
 public:
  // An empty disk and a store that knows the first configuration.
  TestMember(const Options& options, const ConfState& conf);

  // Puts a log on the disk of a member that is down.
  void SetDisk(const HardState& hard, std::vector<Entry> entries);

  bool up() const { return core_ != nullptr; }
  Core& core() { return *core_; }
  MemberId id() const { return options_.id; }
  Options& options() { return options_; }

  // Starts from disk and store. `omit_applied` leaves applied entries out of what recovery hands
  // over.
  void Start(uint64_t seed, bool omit_applied = false);
  // Loses everything volatile; of the writes in flight, the oldest `writes_kept` reached the disk
  // after all.
  void Crash(size_t writes_kept = 0);

  // Takes one Output and queues its effects; messages are returned.
  std::vector<Message> Pump();
  // Each does the oldest queued thing of its kind; false if there is none.
  bool PersistOne();
  bool ApplyOne();
  bool AnswerLogRequest();
  bool AnswerSnapshotRequest(bool ok);

  // The store's state survives a crash from here on.
  void FlushStore() { flushed_ = store_; }
  // Drops the log up to `index`, or as far as the store has flushed.
  void Compact(Index index);

  const StoreState& store() const { return store_; }
  const HardState& disk_hard_state() const { return disk_hard_; }
  Index disk_last() const { return disk_compacted_.index + disk_log_.size(); }
  // Whether the entry is durable here, itself or within a snapshot.
  bool HasDurably(EntryId id) const;
  // Term of the entry in the log as the core was last told to write it; nothing outside it.
  std::optional<Term> ViewTermAt(Index index) const;
  Index view_compacted() const { return view_compacted_.index; }
  const std::vector<Entry>& view() const { return view_; }

  // What happened since the test last looked; the test clears them.
  std::vector<ReadResult> reads;
  std::vector<Entry> written;  // entries in the order they were handed out to be persisted
  std::vector<Entry> applied;
  std::vector<SoftState> soft_states;
  bool writes_pending() const { return !writes_.empty(); }
  bool applies_pending() const { return !apply_queue_.empty(); }
  size_t writes_in_flight() const { return writes_.size(); }

 private:
  struct Write {
    uint64_t seq;
    std::optional<Snapshot> snapshot;
    std::vector<Entry> entries;
    std::optional<HardState> hard_state;
  };
  void WriteToDisk(const Write& write);
  void InstallSnapshot(const Snapshot& snapshot);

  Options options_;
  std::unique_ptr<Core> core_;
  std::deque<Write> writes_;
  std::deque<Entry> apply_queue_;
  std::deque<LogRequest> log_requests_;
  std::deque<MemberId> snapshot_requests_;
  StoreState store_;

  // Survives a crash.
  StoreState flushed_;
  HardState disk_hard_;
  EntryId disk_compacted_;
  std::vector<Entry> disk_log_;

  // Disk and writes in flight together.
  EntryId view_compacted_;
  std::vector<Entry> view_;
};

}  // namespace mainstay::raft

// Progress: what a leader knows of one follower's log and how it sends to it.
//
//   probe      Where the logs agree is not known: one append at a time, the next after an answer or
//              a heartbeat's answer.
//   replicate  It is known: appends stream, bounded by the window.
//   snapshot   A snapshot is on its way: no appends.
//
// Invariants  match < next. The window holds something only in replicate; its items' indexes grow
//             and lie in (match, next).
// Threads     The core's.
// Sources     etcd's raft/tracker; Raft paper 5.3 (nextIndex, matchIndex); thesis 10.2.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "raft/types.h"

namespace mainstay::raft {

// Appends on their way to a follower, bounded by count and bytes.
class InflightWindow {
 public:
  // bytes_max 0 = no byte bound.
  InflightWindow(size_t count_max, size_t bytes_max)
      : count_max_(count_max), bytes_max_(bytes_max) {}
  // An append ending in `last`. One more is allowed while the window is not full, however big it
  // is. REQUIRES: !full(); last > that of the append before.
  void Add(Index last, size_t bytes);
  // Everything up to `last` has been acknowledged.
  void FreeUpTo(Index last);
  void Clear();
  bool full() const {
    return items_.size() >= count_max_ || (bytes_max_ != 0 && bytes_ >= bytes_max_);
  }
  size_t count() const { return items_.size(); }
  size_t bytes() const { return bytes_; }
  bool empty() const { return items_.empty(); }
  Index first() const { return items_.front().last; }
  Index last() const { return items_.back().last; }
  // Bytes that may be added before it is full; at least 1 unless full.
  size_t bytes_free() const;

 private:
  struct Item {
    Index last;
    size_t bytes;
  };
  size_t count_max_;
  size_t bytes_max_;
  std::deque<Item> items_;
  size_t bytes_ = 0;
};

enum class ProgressState : uint8_t { kProbe, kReplicate, kSnapshot };
const char* ProgressStateName(ProgressState state);

// What the next flush owes a follower.
enum class SendWish : uint8_t { kNone, kIfNews, kAlways };

class Progress {
 public:
  Progress(Index next, size_t inflight_count_max, size_t inflight_bytes_max)
      : next_(next), window_(inflight_count_max, inflight_bytes_max) {}

  ProgressState state() const { return state_; }
  Index match() const { return match_; }
  Index next() const { return next_; }
  Index pending_snapshot() const { return pending_snapshot_; }
  // The highest commit index that the follower will know once what was sent arrives.
  Index commit_sent() const { return commit_sent_; }
  const InflightWindow& window() const { return window_; }
  bool paused() const { return state_ == ProgressState::kSnapshot || paused_; }

  // Back to one append at a time, from where the follower is known to be (or will be after its
  // snapshot).
  void BecomeProbe();
  void BecomeReplicate();
  void BecomeSnapshot(Index snapshot_index);
  // The follower acknowledged `index`: frees the window up to it and resumes. False if that is no
  // news.
  bool MaybeUpdate(Index index);
  // The follower refused an append after `rejected`, and its log may match at `hint`. False if this
  // answer is stale.
  bool MaybeDecrease(Index rejected, Index hint);
  // An append of `count` entries with `bytes` of payload left, carrying `commit`. REQUIRES:
  // !paused(), and an empty one if the window is full.
  void Sent(size_t count, size_t bytes, Index commit);
  void Pause() { paused_ = true; }
  void Resume() { paused_ = false; }
  // The snapshot on its way is lost.
  void SnapshotFailed();

  void CheckInvariants() const;

  // Plain facts that the core keeps here.
  bool recent_active = false;       // heard of since the last check-quorum round
  bool log_requested = false;       // a LogRequest for it is open
  bool snapshot_requested = false;  // a snapshot for it was asked of the driver
  SendWish wish = SendWish::kNone;

 private:
  void Enter(ProgressState state);

  ProgressState state_ = ProgressState::kProbe;
  Index match_;
  Index next_;
  Index commit_sent_;
  Index pending_snapshot_;
  bool paused_ = false;
  InflightWindow window_;
};

}  // namespace mainstay::raft

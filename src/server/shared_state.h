// What the tasks of one member tell each other beside their queues: single numbers that one of them
// writes and all may read, wake-ups, and the one way to say "this member must not go on".
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "absl/functional/any_invocable.h"

#include "common/log.h"
#include "common/mutex.h"
#include "common/status.h"
#include "env/clock.h"
#include "env/executor.h"

namespace mainstay::server {

// Wakes a task that may not be started yet, or be gone already.
// Threads  Wake(): any. Open(), Close(): the owner. After Close() no call into the handle is
// running or will come.
class Waker {
 public:
  void Open(TaskHandle& handle) { handle_.store(&handle); }
  void Close() {
    handle_.store(nullptr);
    while (callers_.load() != 0) {
      std::this_thread::yield();  // a Wake() that has seen the handle: it takes a few instructions
                                  // more
    }
  }
  void Wake() {
    callers_.fetch_add(1);
    if (TaskHandle* handle = handle_.load()) {
      handle->Wake();
    }
    callers_.fetch_sub(1);
  }

 private:
  std::atomic<TaskHandle*> handle_{nullptr};
  std::atomic<int> callers_{0};
};

// The first fatal condition of a member. Whoever raises it stops acknowledging; others see it at
// their next step. Threads  Any.
class Fatal {
 public:
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  void Raise(Status status) {
    absl::AnyInvocable<void(const Status&)> then;
    {
      MutexLock lock(mu_);
      if (!status_.ok()) {
        return;
      }
      status_ = status;
      raised_.store(true, std::memory_order_release);
      then = std::move(then_);
    }
    MS_LOG(kError, "this member must not go on").Error(Message(status));
    if (then) {
      then(status);
    }
  }
  void OnRaise(absl::AnyInvocable<void(const Status&)> then) {
    Status status;
    {
      MutexLock lock(mu_);
      if (status_.ok()) {
        then_ = std::move(then);
        return;
      }
      status = status_;
    }
    then(status);
  }

 private:
  std::atomic<bool> raised_{false};
  Mutex mu_;
  Status status_ ABSL_GUARDED_BY(mu_);
  absl::AnyInvocable<void(const Status&)> then_ ABSL_GUARDED_BY(mu_);
};

struct SharedState {
  // ---- written by "raft"
  std::atomic<uint64_t> commit_index{0};
  std::atomic<uint64_t> leader{0};  // 0 = none known
  std::atomic<uint64_t> term{0};
  std::atomic<bool> is_leader{false};
  // 0, or: this member is the sole voter and leads, and a view at or behind this index shows every
  // acknowledged write.
  std::atomic<uint64_t> inline_reads_from{0};
  std::atomic<int64_t> last_tick_ns{0};
  // ---- written by "wal"
  std::atomic<uint64_t> persisted_seq{0};
  // ---- written by "apply"
  std::atomic<uint64_t> applied_index{0};
  std::atomic<uint64_t> applied_term{0};
  std::atomic<int64_t> revision{1};          // of the published view
  std::atomic<int64_t> store_used_bytes{0};  // what the quota measures
  std::atomic<bool> is_learner{false};
  // ---- written by whoever admits or answers a read barrier
  std::atomic<uint64_t> reads_pending{0};
  // ---- written by the owner
  std::atomic<bool> accepting{false};

  Waker raft;
  Waker wal;
  Waker apply;
  Waker timer;
  Fatal fatal;
};

}  // namespace mainstay::server

// Threads as a parameter. Every thread of a member is a Task whose RunOnce() does what is ready and
// returns; blocking waits exist only in the production Executor. The simulator calls RunOnce() in
// its own order on virtual time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "common/mutex.h"
#include "env/clock.h"

namespace mainstay {

// Work of one thread. RunOnce() and NextWake() are called by that thread only.
class Task {
 public:
  virtual ~Task() = default;
  // Does what is ready now, without waiting. True if it did anything (it is called again at once).
  virtual bool RunOnce() = 0;
  // The latest time at which RunOnce() must be called even if nobody calls Wake(); kNever for none.
  virtual MonoTime NextWake() const { return kNever; }
};

// A started task. Destruction stops the thread after its current RunOnce() and joins it.
class TaskHandle {
 public:
  virtual ~TaskHandle() = default;
  // RunOnce() will run after this call. Any thread; cheap when the task is awake already.
  virtual void Wake() = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `task`, which must outlive the handle, on a thread of its own called `name` (at most 15
  // bytes).
  virtual std::unique_ptr<TaskHandle> Start(std::string name, Task& task) = 0;
};

// Short-lived work off the hot threads: reads from disk, snapshots, hashes ("bg-N").
class WorkPool {
 public:
  virtual ~WorkPool() = default;
  // False if the pool's queue is full; the work was not taken. Work runs in any order, on any pool
  // thread.
  [[nodiscard]] virtual bool TrySubmit(absl::AnyInvocable<void()> work) = 0;
};

std::unique_ptr<Executor> NewThreadExecutor(Clock& clock);
// `threads` threads called name-0...; at most `pending_max` items wait. Destruction finishes what
// was taken.
std::unique_ptr<WorkPool> NewThreadPool(std::string name, int threads, size_t pending_max);

}  // namespace mainstay

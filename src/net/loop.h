// Loop: one thread, one epoll, all the connections that live on it.
//
// Invariants  I1 per wake-up: first everything ready is read and handled, then posted work, then
// the batch-end hook, then
//             all output of all streams goes out, one write a connection.
// Threads     Post(): any. All else: the loop's thread.
// Limits      Posted work is bounded by whoever posts: answers to admitted requests, and few other
// things.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "common/mutex.h"
#include "common/status.h"
#include "env/clock.h"

namespace mainstay::net {

// Something with a file descriptor in the loop.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual int fd() const = 0;
  virtual void OnReadable() = 0;
  virtual void OnWritable() = 0;
  // End of a wake-up, if MarkDirty() was called in it.
  virtual void OnFlush() {}
  // Once a second.
  virtual void OnTick(MonoTime now) { (void)now; }
};

class Loop {
 public:
  Loop(std::string name, Clock& clock);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  Status Start();
  // Stops the thread and destroys what lives on the loop. Not from the loop itself.
  void Stop();

  void Post(absl::AnyInvocable<void()> work);
  using Timers = std::multimap<MonoTime, absl::AnyInvocable<void()>>;
  using Timer = Timers::iterator;
  Timer After(std::chrono::nanoseconds delay, absl::AnyInvocable<void()> work);
  // REQUIRES: the timer has not run.
  void Cancel(Timer timer) { timers_.erase(timer); }
  MonoTime now() const { return now_; }
  Clock& clock() const { return clock_; }
  bool IsCurrent() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Called once a wake-up, after all input was handled.
  void set_batch_end(absl::AnyInvocable<void()> hook) { batch_end_ = std::move(hook); }
  // Whatever a user of the loop wants to find again from a Stream.
  void set_context(void* context) { context_ = context; }
  void* context() const { return context_; }

  // False, and `item` is destroyed, if the kernel does not take it (out of memory or of watches).
  bool Add(std::unique_ptr<Pollable> item);
  // Destroyed at the end of the wake-up.
  void Remove(Pollable* item);
  void MarkDirty(Pollable* item);
  void ForEach(const std::function<void(Pollable&)>& visit) {
    for (const auto& [item, owned] : items_) {
      visit(*item);
    }
  }
  size_t item_count() const { return items_.size(); }

 private:
  void Run();
  void RunPosted();
  void RunTimers();
  int WaitMs() const;

  const std::string name_;
  Clock& clock_;
  int epoll_ = -1;
  int event_ = -1;
  std::atomic<bool> stop_{false};
  MonoTime now_{};
  MonoTime next_tick_{};
  std::unordered_map<Pollable*, std::unique_ptr<Pollable>> items_;
  std::vector<Pollable*> dirty_;
  std::vector<std::unique_ptr<Pollable>> removed_;
  Timers timers_;
  absl::AnyInvocable<void()> batch_end_;
  void* context_ = nullptr;
  std::vector<absl::AnyInvocable<void()>> running_;

  Mutex mu_;
  std::vector<absl::AnyInvocable<void()>> posted_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace mainstay::net

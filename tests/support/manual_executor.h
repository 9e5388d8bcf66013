// An Executor without threads and a Clock that stands still: a test steps the tasks in its own
// order.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "env/clock.h"
#include "env/executor.h"

namespace mainstay::testing {

class FakeClock : public Clock {
 public:
  MonoTime Now() const override { return now_; }
  WallTime WallNow() const override { return wall_; }
  void Advance(std::chrono::nanoseconds by) {
    now_ += by;
    wall_ += by;
  }

 private:
  MonoTime now_ = std::chrono::seconds(1000);
  WallTime wall_ = std::chrono::seconds(1700000000);
};

class ManualExecutor : public Executor {
 public:
  std::unique_ptr<TaskHandle> Start(std::string name, Task& task) override {
    auto handle = std::make_unique<Handle>(*this, name);
    tasks_.push_back({std::move(name), &task, handle.get()});
    return handle;
  }

  // One RunOnce() of the task called `name`; true if it did anything. REQUIRES: it is started.
  bool Step(const std::string& name) { return Find(name).task->RunOnce(); }
  bool Has(const std::string& name) const {
    return std::any_of(tasks_.begin(), tasks_.end(),
                       [&](const Entry& e) { return e.name == name; });
  }
  // Every task in turn until none has anything to do at this time. Stops the test after `steps_max`
  // rounds.
  void RunUntilIdle(int steps_max = 100000) {
    for (int i = 0; i < steps_max; ++i) {
      bool any = false;
      // By index: a step may start or stop tasks.
      for (size_t t = 0; t < tasks_.size(); ++t) {
        any = tasks_[t].task->RunOnce() || any;
      }
      if (!any) {
        return;
      }
    }
    MS_CHECK_MSG(false, "tasks never came to rest");
  }
  // The earliest time at which a task wants to run by itself.
  MonoTime NextWake() const {
    MonoTime next = kNever;
    for (const Entry& e : tasks_) {
      next = std::min(next, e.task->NextWake());
    }
    return next;
  }
  // Lets `span` pass: runs what is ready, jumps to the next wake-up, and so on.
  void RunFor(FakeClock& clock, std::chrono::nanoseconds span) {
    const MonoTime end = clock.Now() + span;
    RunUntilIdle();
    while (true) {
      const MonoTime next = NextWake();
      if (next > end) {
        break;
      }
      if (next > clock.Now()) {
        clock.Advance(next - clock.Now());
      }
      RunUntilIdle();
      if (NextWake() <= clock.Now()) {
        clock.Advance(std::chrono::milliseconds(1));  // a task that asks for "now" but does nothing
      }
    }
    if (end > clock.Now()) {
      clock.Advance(end - clock.Now());
    }
    RunUntilIdle();
  }

 private:
  class Handle : public TaskHandle {
   public:
    Handle(ManualExecutor& owner, std::string name) : owner_(owner), name_(std::move(name)) {}
    ~Handle() override {
      std::erase_if(owner_.tasks_, [&](const Entry& e) { return e.handle == this; });
    }
    void Wake() override {}

   private:
    ManualExecutor& owner_;
    const std::string name_;
  };
  struct Entry {
    std::string name;
    Task* task;
    Handle* handle;
  };
  Entry& Find(const std::string& name) {
    const auto it =
        std::find_if(tasks_.begin(), tasks_.end(), [&](const Entry& e) { return e.name == name; });
    MS_CHECK_MSG(it != tasks_.end(), name);
    return *it;
  }

  std::vector<Entry> tasks_;
};

// Work is done at once, on the caller's stack, or kept until Run().
class ManualPool : public WorkPool {
 public:
  bool TrySubmit(absl::AnyInvocable<void()> work) override {
    work_.push_back(std::move(work));
    return true;
  }
  bool Run() {
    const bool any = !work_.empty();
    while (!work_.empty()) {
      absl::AnyInvocable<void()> work = std::move(work_.front());
      work_.pop_front();
      work();
    }
    return any;
  }

 private:
  std::deque<absl::AnyInvocable<void()>> work_;
};

}  // namespace mainstay::testing

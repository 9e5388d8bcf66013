// A WorkPool whose jobs end with their owner, although the pool behind it lives on.
//
// Threads  TrySubmit(): any. Close(): the owner; waits for jobs that run, drops those that have not begun.
#pragma once

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "common/mutex.h"
#include "env/executor.h"

namespace mainstay::server {

class TrackedPool : public WorkPool {
 public:
  explicit TrackedPool(WorkPool& pool) : pool_(pool), state_(std::make_shared<State>()) {}
  ~TrackedPool() override { Close(); }
  bool TrySubmit(absl::AnyInvocable<void()> work) override {
    return pool_.TrySubmit([state = state_, work = std::move(work)]() mutable {
      {
        MutexLock lock(state->mu);
        if (state->closed) {
          return;
        }
        ++state->running;
      }
      work();
      work = nullptr;  // what it holds goes before the owner is told that it is done
      MutexLock lock(state->mu);
      if (--state->running == 0) {
        state->idle.notify_all();
      }
    });
  }
  void Close() {
    MutexLock lock(state_->mu);
    state_->closed = true;
    while (state_->running > 0) {
      state_->idle.wait(state_->mu);
    }
  }

 private:
  struct State {
    Mutex mu;
    CondVar idle;
    bool closed ABSL_GUARDED_BY(mu) = false;
    int running ABSL_GUARDED_BY(mu) = 0;
  };
  WorkPool& pool_;
  const std::shared_ptr<State> state_;
};

}  // namespace mainstay::server

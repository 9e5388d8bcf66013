#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <thread>

#include "common/check.h"
#include "env/executor.h"

namespace mainstay {
namespace {

class ThreadTask : public TaskHandle {
 public:
  ThreadTask(std::string name, Task& task, Clock& clock) : task_(task), clock_(clock) {
    thread_ = std::thread([this, name = std::move(name)] {
      pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
      Run();
    });
  }
  ~ThreadTask() override {
    stop_.store(true);
    Wake();
    thread_.join();
  }
  void Wake() override {
    // The flag is set before the state is looked at, and the sleeper looks at the flag after it has
    // said that it sleeps: one of the two always sees the other.
    if (signaled_.exchange(true)) {
      return;
    }
    if (sleeping_.load()) {
      {
        std::lock_guard lock(mu_);
      }
      wake_.notify_one();
    }
  }

 private:
  void Run() {
    while (!stop_.load()) {
      signaled_.store(false);
      if (task_.RunOnce()) {
        continue;
      }
      const MonoTime deadline = task_.NextWake();
      std::unique_lock lock(mu_);
      sleeping_.store(true);
      const auto ready = [this] { return signaled_.load() || stop_.load(); };
      if (deadline == kNever) {
        wake_.wait(lock, ready);
      } else if (const auto left = deadline - clock_.Now(); left > MonoTime::zero()) {
        wake_.wait_for(lock, left, ready);
      }
      sleeping_.store(false);
    }
  }

  Task& task_;
  Clock& clock_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> signaled_{false};
  std::atomic<bool> sleeping_{false};
  std::mutex mu_;
  std::condition_variable wake_;
  std::thread thread_;
};

class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(Clock& clock) : clock_(clock) {}
  std::unique_ptr<TaskHandle> Start(std::string name, Task& task) override {
    return std::make_unique<ThreadTask>(std::move(name), task, clock_);
  }

 private:
  Clock& clock_;
};

class ThreadPool : public WorkPool {
 public:
  ThreadPool(const std::string& name, int threads, size_t pending_max) : pending_max_(pending_max) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, name = name + "-" + std::to_string(i)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        Run();
      });
    }
  }
  ~ThreadPool() override {
    {
      std::lock_guard lock(mu_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  bool TrySubmit(absl::AnyInvocable<void()> work) override {
    {
      std::lock_guard lock(mu_);
      if (stop_ || pending_.size() >= pending_max_) {
        return false;
      }
      pending_.push_back(std::move(work));
    }
    wake_.notify_one();
    return true;
  }

 private:
  void Run() {
    std::unique_lock lock(mu_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || !pending_.empty(); });
      if (pending_.empty()) {
        return;
      }
      absl::AnyInvocable<void()> work = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  const size_t pending_max_;
  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<absl::AnyInvocable<void()>> pending_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Executor> NewThreadExecutor(Clock& clock) {
  return std::make_unique<ThreadExecutor>(clock);
}

std::unique_ptr<WorkPool> NewThreadPool(std::string name, int threads, size_t pending_max) {
  return std::make_unique<ThreadPool>(name, threads, pending_max);
}

}  // namespace mainstay

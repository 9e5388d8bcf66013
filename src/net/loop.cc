#include "net/loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/log.h"

namespace mainstay::net {

namespace {
constexpr std::chrono::nanoseconds kTick = std::chrono::seconds(1);
}

Loop::Loop(std::string name, Clock& clock) : name_(std::move(name)), clock_(clock) {}

Loop::~Loop() {
  Stop();
  if (event_ >= 0) {
    ::close(event_);
  }
  if (epoll_ >= 0) {
    ::close(epoll_);
  }
}

Status Loop::Start() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || event_ < 0) {
    return ErrnoStatus("event loop", errno);
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event) != 0) {
    return ErrnoStatus("event loop", errno);
  }
  now_ = clock_.Now();
  next_tick_ = now_ + kTick;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    Run();
  });
  return absl::OkStatus();
}

void Loop::Stop() {
  if (!thread_.joinable()) {
    return;
  }
  stop_.store(true);
  Post([] {});
  thread_.join();
}

void Loop::Post(absl::AnyInvocable<void()> work) {
  bool first;
  {
    MutexLock lock(mu_);
    first = posted_.empty();
    posted_.push_back(std::move(work));
  }
  if (first) {
    const uint64_t one = 1;
    // The counter cannot overflow: it is read at each wake-up.
    [[maybe_unused]] const ssize_t n = ::write(event_, &one, sizeof one);
  }
}

Loop::Timer Loop::After(std::chrono::nanoseconds delay, absl::AnyInvocable<void()> work) {
  const MonoTime now = clock_.Now();
  return timers_.emplace(delay > kNever - now ? kNever : now + delay, std::move(work));
}

bool Loop::Add(std::unique_ptr<Pollable> item) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = item.get();
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, item->fd(), &event) != 0) {
    MS_LOG(kWarn, "cannot watch a descriptor").Error(ErrnoStatus("epoll_ctl", errno).ToString());
    return false;
  }
  Pollable* key = item.get();
  items_.emplace(key, std::move(item));
  return true;
}

void Loop::Remove(Pollable* item) {
  const auto found = items_.find(item);
  if (found == items_.end()) {
    return;
  }
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, item->fd(), nullptr);
  removed_.push_back(std::move(found->second));
  items_.erase(found);
}

void Loop::MarkDirty(Pollable* item) {
  dirty_.push_back(item);
}

int Loop::WaitMs() const {
  MonoTime until = next_tick_;
  if (!timers_.empty()) {
    until = std::min(until, timers_.begin()->first);
  }
  if (!dirty_.empty()) {
    return 0;  // two flush passes were not enough: pipelined requests, or a long response
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock_.Now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1000));
}

void Loop::RunPosted() {
  {
    MutexLock lock(mu_);
    running_.swap(posted_);
  }
  for (absl::AnyInvocable<void()>& work : running_) {
    work();
  }
  running_.clear();
}

void Loop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    absl::AnyInvocable<void()> work = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    work();
  }
  if (now_ >= next_tick_) {
    next_tick_ = now_ + kTick;
    std::vector<Pollable*> all;
    all.reserve(items_.size());
    for (const auto& [item, owned] : items_) {
      all.push_back(item);
    }
    for (Pollable* item : all) {
      if (items_.contains(item)) {
        item->OnTick(now_);
      }
    }
  }
}

void Loop::Run() {
  std::array<epoll_event, 256> events;
  while (!stop_.load()) {
    const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), WaitMs());
    now_ = clock_.Now();
    for (int i = 0; i < n; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.ptr == nullptr) {
        uint64_t count;
        [[maybe_unused]] const ssize_t got = ::read(event_, &count, sizeof count);
        continue;
      }
      auto* item = static_cast<Pollable*>(event.data.ptr);
      if (items_.contains(item) && (event.events & EPOLLOUT) != 0) {
        item->OnWritable();
      }
      if (items_.contains(item) &&
          (event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        item->OnReadable();
      }
    }
    RunPosted();
    RunTimers();
    if (batch_end_) {
      batch_end_();
    }
    // Handlers may post to their own loop while they answer; that is the next wake-up's. Flushing
    // may make items dirty again (a stream that was waiting for room): a second pass takes those.
    for (int pass = 0; pass < 2 && !dirty_.empty(); ++pass) {
      std::vector<Pollable*> dirty;
      dirty.swap(dirty_);
      for (Pollable* item : dirty) {
        if (items_.contains(item)) {
          item->OnFlush();
        }
      }
    }
    removed_.clear();
  }
  batch_end_ = nullptr;
  items_.clear();
  removed_.clear();
  timers_.clear();
  // Work that holds references to what is going away is dropped here, on the loop's own thread.
  std::vector<absl::AnyInvocable<void()>> dropped;
  MutexLock lock(mu_);
  dropped.swap(posted_);
}

}  // namespace mainstay::net

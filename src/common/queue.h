// BoundedQueue: many threads push, one drains all at once. Every border between threads is one of
// these.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/mutex.h"

namespace mainstay {

// Threads  TryPush(): any. PopAll(): the one consumer.
// Limits   `count_max` items. What a producer does when the queue is full is said where the queue
// is declared.
template <class T>
class BoundedQueue {
 public:
  enum class PushResult {
    kFull,         // the item was not taken and is unchanged
    kPushed,       // taken; the consumer has been told of earlier items that it has not drained yet
    kPushedFirst,  // taken, and the queue was empty: wake the consumer
  };
  explicit BoundedQueue(size_t count_max) : count_max_(count_max) {}

  [[nodiscard]] PushResult TryPush(T&& item) {
    MutexLock lock(mu_);
    if (items_.size() >= count_max_) {
      return PushResult::kFull;
    }
    items_.push_back(std::move(item));
    return items_.size() == 1 ? PushResult::kPushedFirst : PushResult::kPushed;
  }
  // For items whose number is bounded elsewhere (a reply to a request that was admitted): never
  // refuses.
  PushResult Push(T&& item) {
    MutexLock lock(mu_);
    items_.push_back(std::move(item));
    return items_.size() == 1 ? PushResult::kPushedFirst : PushResult::kPushed;
  }
  // Takes items from the front of `items` as long as they fit: one lock for what came together.
  // Those not taken stay unchanged. `*first` says whether the queue was empty: wake the consumer.
  [[nodiscard]] size_t TryPushSome(std::span<T> items, bool* first) {
    MutexLock lock(mu_);
    *first = items_.empty();
    const size_t room = count_max_ - std::min(count_max_, items_.size());
    const size_t taken = std::min(room, items.size());
    for (size_t i = 0; i < taken; ++i) {
      items_.push_back(std::move(items[i]));
    }
    return taken;
  }
  // Push() of all of them in one go; `items` is empty afterwards.
  PushResult PushAll(std::vector<T>* items) {
    MutexLock lock(mu_);
    const bool first = items_.empty();
    if (first) {
      items_.swap(*items);
    } else {
      for (T& item : *items) {
        items_.push_back(std::move(item));
      }
    }
    items->clear();
    return first ? PushResult::kPushedFirst : PushResult::kPushed;
  }
  // Moves everything into `out`, whose old content is cleared and whose capacity is reused. True if
  // any.
  bool PopAll(std::vector<T>* out) {
    out->clear();
    MutexLock lock(mu_);
    items_.swap(*out);
    return !out->empty();
  }
  size_t size() const {
    MutexLock lock(mu_);
    return items_.size();
  }

 private:
  const size_t count_max_;
  mutable Mutex mu_;
  std::vector<T> items_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mainstay

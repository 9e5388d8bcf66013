// Work of a request off the hot threads, and answers that come by another way than the log: each is
// answered once, also when the member stops first.
//
// Threads  Any. Stop() waits for jobs that run, not for those that have not begun.
// Limits   Jobs: the pool's queue, then kTooManyRequests. Deferred calls: one per request that
// waits, bounded by
//          kDeferredMax, then kTooManyRequests.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "common/mutex.h"
#include "env/executor.h"
#include "server/replier.h"

namespace mainstay::server {

inline void Answer(const ReplyTo& to, Reply&& reply) {
  Replier replier;
  replier.Deliver(to, std::move(reply));
  replier.Flush();
}
inline void AnswerError(const ReplyTo& to, Error error) {
  Reply reply;
  reply.error = error;
  Answer(to, std::move(reply));
}

class Jobs {
 public:
  explicit Jobs(WorkPool& pool) : pool_(pool), state_(std::make_shared<State>()) {}
  // `work` runs on the pool; its result goes to `to`. What it borrows must live until Stop()
  // returned.
  Error Run(absl::AnyInvocable<Reply()> work, ReplyTo to);
  // No job runs when this returns; those that had not begun are answered with kStopped.
  void Stop();

 private:
  struct State {
    Mutex mu;
    CondVar idle;
    bool stopped ABSL_GUARDED_BY(mu) = false;
    int running ABSL_GUARDED_BY(mu) = 0;
    uint64_t next_id ABSL_GUARDED_BY(mu) = 0;
    std::map<uint64_t, ReplyTo> waiting ABSL_GUARDED_BY(mu);
  };
  static bool Begin(State& state, uint64_t id);
  static void End(State& state);

  WorkPool& pool_;
  const std::shared_ptr<State> state_;
};

// Answers to requests of the member's own, each handed to the closure that waits for it.
class Deferred : public ReplySink {
 public:
  using Then = absl::AnyInvocable<void(const Reply&)>;
  static constexpr size_t kDeferredMax = 100'000;

  // Where to have the answer sent. Null sink: too many wait; `then` was not kept.
  ReplyTo Add(Then then);
  void Forget(const ReplyTo& to) { Take(to.a); }
  void Deliver(uint64_t a, uint64_t b, Reply&& reply) override;
  void Flush() override {}

 private:
  Then Take(uint64_t id);

  Mutex mu_;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, Then> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mainstay::server

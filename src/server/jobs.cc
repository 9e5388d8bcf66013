#include "server/jobs.h"

namespace mainstay::server {

bool Jobs::Begin(State& state, uint64_t id) {
  MutexLock lock(state.mu);
  if (state.stopped || state.waiting.erase(id) == 0) {
    return false;
  }
  ++state.running;
  return true;
}

void Jobs::End(State& state) {
  MutexLock lock(state.mu);
  if (--state.running == 0) {
    state.idle.notify_all();
  }
}

Error Jobs::Run(absl::AnyInvocable<Reply()> work, ReplyTo to) {
  uint64_t id = 0;
  {
    MutexLock lock(state_->mu);
    if (state_->stopped) {
      return Error::kStopped;
    }
    id = state_->next_id++;
    state_->waiting.emplace(id, to);
  }
  // The pool may outlive the member, so the item shares the state and looks whether it is still
  // wanted.
  const bool taken = pool_.TrySubmit([state = state_, id, to, work = std::move(work)]() mutable {
    if (Begin(*state, id)) {
      Answer(to, work());
      End(*state);
    }
  });
  if (taken) {
    return Error::kOk;
  }
  MutexLock lock(state_->mu);
  // Stop() may have answered it meanwhile.
  return state_->waiting.erase(id) == 1 ? Error::kTooManyRequests : Error::kOk;
}

void Jobs::Stop() {
  std::map<uint64_t, ReplyTo> dropped;
  {
    MutexLock lock(state_->mu);
    state_->stopped = true;
    dropped.swap(state_->waiting);
    while (state_->running > 0) {
      state_->idle.wait(state_->mu);
    }
  }
  for (const auto& [id, to] : dropped) {
    AnswerError(to, Error::kStopped);
  }
}

ReplyTo Deferred::Add(Then then) {
  MutexLock lock(mu_);
  if (waiting_.size() >= kDeferredMax) {
    return {};
  }
  const uint64_t id = next_id_++;
  waiting_.emplace(id, std::move(then));
  return {this, id, 0};
}

Deferred::Then Deferred::Take(uint64_t id) {
  MutexLock lock(mu_);
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) {
    return nullptr;
  }
  Then then = std::move(it->second);
  waiting_.erase(it);
  return then;
}

void Deferred::Deliver(uint64_t a, uint64_t, Reply&& reply) {
  if (Then then = Take(a)) {
    then(reply);
  }
}

}  // namespace mainstay::server

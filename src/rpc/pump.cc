#include "rpc/pump.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "rpc/answer.h"

namespace mainstay::rpc {

Pump::Pump(Call& call, Mode mode, Produce produce)
    : call_(call),
      mode_(mode),
      shared_(std::make_shared<Shared>(Shared{this, std::move(produce), {}})) {}

Pump::~Pump() {
  shared_->owner = nullptr;
}

void Pump::EndIfSlow(std::chrono::nanoseconds period, Pressing pressing, Error error) {
  limit_ = {period, std::move(pressing), error};
  LookAgain();
}

void Pump::LookAgain() {
  call_.loop().host().After(limit_.period, [weak = std::weak_ptr<Shared>(shared_)] {
    const std::shared_ptr<Shared> shared = weak.lock();
    if (shared != nullptr && shared->owner != nullptr) {
      shared->owner->Look();
    }
  });
}

void Pump::Look() {
  if (done_ || call_.ended()) {
    return;
  }
  const size_t enough = call_.loop().services().options().slow_progress_bytes_min;
  // With nothing unwritten it is `produce` that is slow, not the client.
  if (std::exchange(written_, 0) < enough && unwritten_ > 0 && limit_.pressing()) {
    MS_LOG(kWarn, "ended a call whose client hardly reads")
        .Str("service", call_.method().service)
        .Str("method", call_.method().name)
        .Str("remote-addr", call_.client_address());
    done_ = true;
    call_.Finish(ToStatus(limit_.error));  // and with it goes this pump
    return;
  }
  LookAgain();
}

void Pump::OnWritten(size_t bytes) {
  written_ += bytes;
  unwritten_ -= std::min(unwritten_, bytes);
  Kick();
}

void Pump::Kick() {
  const size_t ahead_max = call_.loop().services().options().read_ahead_bytes_max;
  if (running_ || done_ || call_.ended() || unwritten_ >= ahead_max) {
    return;
  }
  running_ = true;
  const bool taken =
      call_.loop().RunInPool([shared = shared_] { shared->step = shared->produce(); },
                             [shared = shared_] {
                               if (shared->owner != nullptr) {
                                 shared->owner->OnStep();
                               }
                             });
  if (!taken) {
    done_ = true;
    call_.Finish(ToStatus(Error::kTooManyRequests));
  }
}

void Pump::OnStep() {
  running_ = false;
  Step step = std::exchange(shared_->step, {});
  done_ = step.done;  // before sending: what is written at once must not start another step
  for (BufferChain& part : step.parts) {
    unwritten_ += part.size();
    if (mode_ == Mode::kMessages) {
      call_.Send(std::move(part));
    } else {
      call_.SendPart(std::move(part));
    }
  }
  if (step.done) {
    call_.Finish(std::move(step.status));
    return;
  }
  Kick();
}

}  // namespace mainstay::rpc

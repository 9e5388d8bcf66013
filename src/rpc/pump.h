// Pump: sends what is read on the pool, ahead of the client by a bounded amount only.
//
// Threads    The call's loop; `produce` runs on the pool, never twice at a time.
// Ownership  Part of the call's StreamHandler. What a running `produce` needs outlives it.
// Limits     ServicesOptions::read_ahead_bytes_max plus one step, sent and not written. A client
// that
//            hardly reads does not hold what `produce` pins for ever: see EndIfSlow().
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "common/buffer.h"
#include "common/error.h"
#include "rpc/call.h"
#include "rpc/status.h"

namespace mainstay::rpc {

class Pump {
 public:
  struct Step {
    std::vector<BufferChain> parts;
    bool done = false;
    GrpcStatus status;  // with `done`
  };
  using Produce = absl::AnyInvocable<Step()>;
  using Pressing = absl::AnyInvocable<bool()>;
  // kMessages: each part is a message. kParts: parts of the message that SendBegin() announced.
  enum class Mode : uint8_t { kMessages, kParts };

  Pump(Call& call, Mode mode, Produce produce);
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;
  ~Pump();
  void Start() { Kick(); }
  // From now on, every `period`: if `pressing` says that what is held is missed elsewhere, and the
  // client took less than ServicesOptions::slow_progress_bytes_min since the last look, the call
  // ends with `error` and `produce` is let go of.
  void EndIfSlow(std::chrono::nanoseconds period, Pressing pressing, Error error);
  void OnWritten(size_t bytes);

 private:
  struct Shared {
    Pump* owner;  // null once the pump is gone; the loop's thread
    Produce produce;
    Step step;
  };
  struct Limit {
    std::chrono::nanoseconds period{0};
    Pressing pressing;
    Error error = Error::kOk;
  };
  void LookAgain();
  void Look();
  void Kick();
  void OnStep();

  Call& call_;
  const Mode mode_;
  std::shared_ptr<Shared> shared_;
  Limit limit_;
  size_t unwritten_ = 0;
  size_t written_ = 0;  // since the last look
  bool running_ = false;
  bool done_ = false;
};

// A handler that is nothing but a pump: for unary answers that are streamed.
class PumpHandler : public StreamHandler {
 public:
  PumpHandler(Call& call, Pump::Mode mode, Pump::Produce produce)
      : pump_(call, mode, std::move(produce)) {}
  void OnMessage(Buffer) override {}
  void OnWritten(size_t bytes) override { pump_.OnWritten(bytes); }
  Pump& pump() { return pump_; }

 private:
  Pump pump_;
};

}  // namespace mainstay::rpc

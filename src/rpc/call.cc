#include "rpc/call.h"

#include <string>
#include <utility>

#include "rpc/loop.h"
#include "rpc/method.h"
#include "rpc/services.h"

namespace mainstay::rpc {
namespace {

void Count(Counter* counter, double n = 1) {
  if (counter != nullptr) {
    counter->Add(n);
  }
}

}  // namespace

Call::Call(Loop& loop, const Method& method)
    : loop_(loop), method_(method), started_(loop.services().clock().Now()) {}

Call::~Call() = default;

void Call::set_handler(std::unique_ptr<StreamHandler> handler) {
  if (!ended_) {
    handler_ = std::move(handler);
  }
}

bool Call::RefusedAsTooLarge(uint64_t bytes) {
  const uint64_t bytes_max = loop_.services().options().response_bytes_max;
  if (bytes <= bytes_max) {
    return false;
  }
  Finish({Code::kResourceExhausted, "grpc: trying to send message larger than max (" +
                                        std::to_string(bytes) + " vs. " +
                                        std::to_string(bytes_max) + ")"});
  return true;
}

void Call::Send(BufferChain message) {
  if (ended_ || RefusedAsTooLarge(message.size())) {
    return;
  }
  Count(method_.metrics.sent);
  Count(loop_.services().metrics().sent_bytes, static_cast<double>(message.size()));
  DoSend(std::move(message));
}

void Call::SendBegin(uint64_t length) {
  if (ended_ || RefusedAsTooLarge(length)) {
    return;
  }
  Count(method_.metrics.sent);
  Count(loop_.services().metrics().sent_bytes, static_cast<double>(length));
  DoSendBegin(length);
}

void Call::SendPart(BufferChain part) {
  if (!ended_) {
    DoSendPart(std::move(part));
  }
}

void Call::Reply(BufferChain message) {
  Send(std::move(message));
  Finish(GrpcStatus::Ok());
}

void Call::Finish(GrpcStatus status) {
  if (ended_) {
    return;
  }
  // The transport may drop its share of this call while it writes the status.
  const CallPtr self = shared_from_this();
  End(status.code);
  DoFinish(status);
}

void Call::Incoming(Buffer message) {
  if (ended_) {
    return;
  }
  Count(method_.metrics.received);
  Count(loop_.services().metrics().received_bytes, static_cast<double>(message.size()));
  const CallPtr self = shared_from_this();
  if (method_.type == MethodType::kUnary) {
    if (!std::exchange(started_request_, true)) {
      method_.unary(self, std::move(message));
    }
    return;
  }
  if (method_.type == MethodType::kServerStream && std::exchange(started_request_, true)) {
    return;
  }
  if (handler_ != nullptr) {
    handler_->OnMessage(std::move(message));
  }
}

void Call::HalfClosed() {
  if (ended_) {
    return;
  }
  const CallPtr self = shared_from_this();
  if (method_.type != MethodType::kBidiStream && !started_request_) {
    Finish({Code::kInternal, "the call ended before its request message"});
    return;
  }
  if (handler_ != nullptr) {
    handler_->OnHalfClose();
  }
}

void Call::Written(size_t bytes) {
  if (!ended_ && handler_ != nullptr) {
    const CallPtr self = shared_from_this();
    handler_->OnWritten(bytes);
  }
}

void Call::Gone(Code code) {
  if (!ended_) {
    const CallPtr self = shared_from_this();
    End(code);
  }
}

void Call::End(Code code) {
  ended_ = true;
  Count(method_.metrics.handled[static_cast<size_t>(code)]);
  if (method_.metrics.seconds != nullptr) {
    const std::chrono::duration<double> took = loop_.services().clock().Now() - started_;
    method_.metrics.seconds->Observe(took.count());
  }
  // A handler often ends its own call: it must outlive the method of it that runs, and the call the
  // handler, which refers to it and may be asked for it until then.
  if (handler_ != nullptr) {
    loop_.Post(
        [self = shared_from_this(), handler = std::move(handler_)]() mutable { handler.reset(); });
  }
}

}  // namespace mainstay::rpc

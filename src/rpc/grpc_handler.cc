#include "rpc/grpc_handler.h"

#include <utility>

namespace mainstay::rpc {
namespace {

// A net::GrpcCall as services see it. `wire_` is gone once the call ended.
class WireCall : public Call {
 public:
  WireCall(Loop& loop, const Method& method, net::GrpcCall& wire)
      : Call(loop, method), wire_(&wire) {}

  std::optional<std::string_view> Metadata(std::string_view key) const override {
    if (wire_ == nullptr) {
      return std::nullopt;
    }
    const std::string_view value = wire_->Metadata(key);
    return value.data() == nullptr ? std::nullopt : std::optional(value);
  }
  std::string_view client_address() const override {
    return wire_ == nullptr ? std::string_view() : wire_->peer().address;
  }
  void SetInputPaused(bool paused) override {
    if (wire_ != nullptr) {
      wire_->SetInputPaused(paused);
    }
  }
  void Detach() { wire_ = nullptr; }

 protected:
  void DoSend(BufferChain message) override { wire_->Send(std::move(message)); }
  void DoSendBegin(uint64_t length) override { wire_->SendBegin(length); }
  void DoSendPart(BufferChain part) override { wire_->SendPart(std::move(part)); }
  void DoFinish(const GrpcStatus& status) override {
    net::GrpcCall* const wire = std::exchange(wire_, nullptr);
    wire->Finish(static_cast<net::GrpcCode>(status.code), status.message);
  }

 private:
  net::GrpcCall* wire_;
};

class WireSink : public net::GrpcSink {
 public:
  explicit WireSink(std::shared_ptr<WireCall> call) : call_(std::move(call)) {}
  void OnMessage(Buffer message) override {
    const CallPtr call = call_;  // Finish() may end this sink
    call->Incoming(std::move(message));
  }
  void OnHalfClose() override {
    const CallPtr call = call_;
    call->HalfClosed();
  }
  void OnWritten(size_t bytes) override {
    const CallPtr call = call_;
    call->Written(bytes);
  }
  void OnGone(net::GrpcCode code) override {
    const std::shared_ptr<WireCall> call = call_;
    call->Gone(static_cast<Code>(code));
    call->Detach();
  }

 private:
  const std::shared_ptr<WireCall> call_;
};

}  // namespace

NetLoop::NetLoop(Services& services, net::Loop& loop) : loop_(loop), rpc_loop_(services, *this) {
  loop_.set_context(&rpc_loop_);
  loop_.set_batch_end([this] { rpc_loop_.OnBatchEnd(); });
}

std::unique_ptr<net::GrpcSink> GrpcFront::OnCall(net::GrpcCall& call) {
  const Method* method = services_.Find(call.path());
  if (method == nullptr) {
    return nullptr;
  }
  auto wire = std::make_shared<WireCall>(NetLoop::Of(call.loop()), *method, call);
  services_.Begin(wire);
  return std::make_unique<WireSink>(std::move(wire));
}

bool GrpcFront::HasService(std::string_view service) const {
  for (const Method& method : services_.methods()) {
    if (method.service == service) {
      return true;
    }
  }
  return false;
}

}  // namespace mainstay::rpc

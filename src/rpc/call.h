// Call: one RPC in progress, whichever way it came in: a gRPC call (grpc_handler.h) or a request of
// the JSON gateway (http/gateway.h). Services see only this.
//
// Role        The transport makes a Call, hands it to Services::Begin() and feeds it: Incoming(),
//             HalfClosed(), Written(), Gone(). Services answer with Send() and Finish().
// Invariants  I1 after Finish() or Gone() nothing is sent and the handler hears nothing more.
//             I2 Finish() counts the call once, whoever ended it.
// Threads     The loop that the call belongs to, for everything.
// Ownership   Shared by the transport and whoever must answer later (a waiting slot); a
// StreamHandler
//             belongs to its call.
// Limits      What was sent and is not written is the sender's to bound: Written() says what left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "common/buffer.h"
#include "env/clock.h"
#include "rpc/status.h"

namespace mainstay::rpc {

class Loop;
struct Method;

// The server's side of one streaming call. Destroyed when the call is over.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // One request message. Server-streaming calls get exactly one.
  virtual void OnMessage(Buffer message) = 0;
  // The client sends no more.
  virtual void OnHalfClose() {}
  // `bytes` of what was sent have left this server's memory, in the order of Send().
  virtual void OnWritten(size_t bytes) { (void)bytes; }
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Loop& loop, const Method& method);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call();

  // ---- services
  // The first value of a metadata key (lower case); nullopt if absent. Valid while the call is.
  virtual std::optional<std::string_view> Metadata(std::string_view key) const = 0;
  virtual std::string_view client_address() const = 0;
  // One whole response message. One above ServicesOptions::response_bytes_max ends the call.
  void Send(BufferChain message);
  // One response message in parts: its length first, then exactly so many bytes.
  void SendBegin(uint64_t length);
  void SendPart(BufferChain part);
  // True if a message of so many bytes must not be sent; the call has ended then.
  bool RefusedAsTooLarge(uint64_t bytes);
  // A unary answer: the message and OK.
  void Reply(BufferChain message);
  void Finish(GrpcStatus status);
  // While paused the handler hears of no message and of no half-close, and the client is granted no
  // more input. Going on may call the handler from inside.
  virtual void SetInputPaused(bool paused) = 0;
  bool ended() const { return ended_; }
  Loop& loop() { return loop_; }
  const Method& method() const { return method_; }
  MonoTime started() const { return started_; }
  void set_handler(std::unique_ptr<StreamHandler> handler);

  // ---- the transport
  // Next message of the client, unframed.
  void Incoming(Buffer message);
  void HalfClosed();
  void Written(size_t bytes);
  // The call is over for a reason of the transport's: the client went away or reset it
  // (kCancelled), its deadline passed (kDeadlineExceeded). Nothing can be sent any more.
  void Gone(Code code);

 protected:
  // Whole message, or a part of one that DoSendBegin() announced.
  virtual void DoSend(BufferChain message) = 0;
  virtual void DoSendBegin(uint64_t length) = 0;
  virtual void DoSendPart(BufferChain part) = 0;
  virtual void DoFinish(const GrpcStatus& status) = 0;

 private:
  void End(Code code);

  Loop& loop_;
  const Method& method_;
  const MonoTime started_;
  std::unique_ptr<StreamHandler> handler_;
  bool started_request_ = false;
  bool ended_ = false;
  friend class Services;
};

using CallPtr = std::shared_ptr<Call>;

}  // namespace mainstay::rpc

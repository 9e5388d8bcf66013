// gRPC on the server's side of a Stream: messages, metadata, deadlines, status.
//
// Role        GrpcHandler is the Handler for requests whose content type is application/grpc; it
// asks its Router for a
//             GrpcSink per call.
// Threads     The stream's loop.
// Limits      A call keeps one incomplete message, or while its input is paused what the stream's
// window let in.
// Ownership   A GrpcCall is dead once OnGone() was called or Finish() returned: nobody may keep it.
// Errors      As grpc-go: texts and codes of unknown methods, oversized messages, bad encodings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/buffer.h"
#include "env/clock.h"
#include "net/http.h"

namespace mainstay::net {

// grpc-status numbers.
enum class GrpcCode : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

class GrpcCall {
 public:
  virtual ~GrpcCall() = default;
  // "/package.Service/Method".
  virtual std::string_view path() const = 0;
  // First value; null data if absent. Binary ("-bin") values come as they were sent, in base64.
  virtual std::string_view Metadata(std::string_view key) const = 0;
  virtual const Headers& metadata() const = 0;
  virtual const Peer& peer() const = 0;
  virtual Loop& loop() const = 0;
  virtual std::optional<MonoTime> deadline() const = 0;
  // Adds to the response's head. Before the first message.
  virtual void AddInitialMetadata(std::string_view key, std::string_view value) = 0;
  // Sends the head now, before any message.
  virtual void SendHeadNow() = 0;
  // Adds to the trailers. Before Finish().
  virtual void AddTrailer(std::string_view key, std::string_view value) = 0;
  virtual void Send(BufferChain message) = 0;
  // A message in parts: its length, then parts that sum up to it.
  virtual void SendBegin(uint64_t length) = 0;
  virtual void SendPart(BufferChain part) = 0;
  virtual void Finish(GrpcCode code, std::string_view message) = 0;
  virtual size_t unsent_bytes() const = 0;
  // While paused the sink hears of no message and of no half-close, and the peer is granted no more
  // input. Going on may call OnMessage() and OnHalfClose() from inside.
  virtual void SetInputPaused(bool paused) = 0;
};

class GrpcSink {
 public:
  virtual ~GrpcSink() = default;
  virtual void OnMessage(Buffer message) = 0;
  virtual void OnHalfClose() = 0;
  virtual void OnWritten(size_t bytes) { (void)bytes; }
  // Over for a reason that is not Finish(): kCancelled (reset, connection lost) or
  // kDeadlineExceeded. Last call.
  virtual void OnGone(GrpcCode code) = 0;
};

class GrpcRouter {
 public:
  virtual ~GrpcRouter() = default;
  // Null: no such method; the call is answered Unimplemented.
  virtual std::unique_ptr<GrpcSink> OnCall(GrpcCall& call) = 0;
  virtual bool HasService(std::string_view service) const = 0;
};

// A call whose peer leaves so much unread hears of no more requests until half of it has left.
inline constexpr size_t kUnsentPauseBytes = 1 << 20;

struct GrpcOptions {
  size_t receive_bytes_max = 4 << 20;
};

// `router` outlives it.
std::unique_ptr<Handler> NewGrpcHandler(GrpcRouter& router, GrpcOptions options);

// "a%20b" as grpc-message wants it.
std::string PercentEncode(std::string_view text);
// grpc-timeout, e.g. "100m"; nullopt if malformed.
std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text);

}  // namespace mainstay::net

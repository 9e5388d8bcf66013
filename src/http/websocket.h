// WebSocket (RFC 6455), the server's side: the handshake's rules, frames in and out. No socket.
//
// Threads  Pure, or owned by one.
// Errors   FrameReader: the close code that the peer is to be told.
// Limits   One message: what the reader was made for. Control frames: 125 bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/buffer.h"
#include "net/http.h"

namespace mainstay::http {

enum class SocketOpcode : uint8_t {
  kContinuation = 0,
  kText = 1,
  kBinary = 2,
  kClose = 8,
  kPing = 9,
  kPong = 10,
};

// Close codes of RFC 6455 7.4.1.
enum class CloseCode : uint16_t {
  kNormal = 1000,
  kProtocolError = 1002,
  kTooBig = 1009,
};

// "connection: upgrade" and "upgrade: websocket", anywhere in their lists.
bool WantsWebSocket(const net::RequestHead& head);
// 0 if the handshake is in order, else the HTTP status of the refusal.
int CheckHandshake(const net::RequestHead& head);
// Of a "sec-websocket-key" that CheckHandshake() took.
std::string AcceptKey(std::string_view key);

// The head of an unmasked, final frame for a payload of that size.
std::string FrameHead(SocketOpcode opcode, uint64_t payload_bytes);
std::string CloseFrame(CloseCode code);

// Cuts a peer's bytes into whole messages and control frames.
class FrameReader {
 public:
  struct Events {
    std::function<void(std::string_view message)> on_message;  // text or binary, all fragments
    std::function<void(std::string_view payload)> on_ping;
    std::function<void(std::string_view payload)> on_close;  // nothing is read after it
    std::function<void(CloseCode why)> on_error;             // nothing is read after it
  };
  FrameReader(size_t message_bytes_max, Events events)
      : message_bytes_max_(message_bytes_max), events_(std::move(events)) {}
  void Add(std::string_view bytes);
  // From here on Add() does nothing.
  void Stop() { stopped_ = true; }
  size_t held_bytes() const { return head_.size() + message_.size() + control_.size(); }

 private:
  bool TakeHead(std::string_view* bytes);
  bool CheckHead();
  void TakePayload(std::string_view* bytes);
  void EndOfFrame();
  void Fail(CloseCode why);
  bool is_control() const { return (opcode_ & 8) != 0; }

  const size_t message_bytes_max_;
  const Events events_;
  std::string head_;           // of the frame at hand, until it is whole
  bool in_payload_ = false;    // its payload is being taken
  bool final_ = false;         // of the frame at hand
  uint8_t opcode_ = 0;         // of the frame at hand
  uint64_t payload_left_ = 0;  // of the frame at hand
  uint64_t payload_at_ = 0;
  char mask_[4] = {};
  bool in_message_ = false;  // fragments came, the last one did not
  std::string message_;
  std::string control_;
  bool stopped_ = false;
};

}  // namespace mainstay::http

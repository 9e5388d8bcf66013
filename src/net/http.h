// One HTTP exchange, over HTTP/1.1 or HTTP/2, as its handler sees it. The engine knows no service.
//
// Role        A connection makes a Stream per request and asks the Handler for a StreamSink; the
// sink hears the request's
//             body and the end, and answers through the Stream.
// Threads     Everything on the connection's loop.
// Ownership   The connection owns Stream and sink. A Stream is dead once OnClosed() was called:
// nobody may keep it. Limits      ServerOptions (server.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/buffer.h"
#include "env/clock.h"

namespace mainstay::net {

class Loop;

// What a peer may send on a stream before it must wait for a grant, over HTTP/2.
inline constexpr int32_t kStreamWindow = 1 << 20;

// Who is at the other end; constant for a connection.
struct Peer {
  std::string address;  // "ip:port", or the socket's path
  bool tls = false;
  std::string common_name;  // subject CN of the verified leaf certificate; empty without one
};

// Header fields in the order in which they came; names in lower case. Repeated names stay apart.
class Headers {
 public:
  void Add(std::string_view name, std::string_view value);
  // The first value; an empty view with null data if absent.
  std::string_view Get(std::string_view name) const;
  bool Has(std::string_view name) const { return Get(name).data() != nullptr; }
  size_t size() const { return spans_.size(); }
  std::pair<std::string_view, std::string_view> at(size_t i) const;
  size_t bytes() const { return text_.size(); }
  void clear() {
    text_.clear();
    spans_.clear();
  }

 private:
  struct Span {
    uint32_t at, name, value;
  };
  std::string text_;
  std::vector<Span> spans_;
};

struct RequestHead {
  std::string method, path, query, authority;  // query without '?'
  Headers headers;                             // without pseudo-headers
  bool http2 = false;
};

using FieldList = std::vector<std::pair<std::string_view, std::string_view>>;

class Stream {
 public:
  virtual ~Stream() = default;
  const RequestHead& head() const { return head_; }
  const Peer& peer() const { return *peer_; }
  Loop& loop() const { return *loop_; }

  // The response, in this order: Respond() alone; or SendHead(), any SendBody(), End(). For
  // HTTP/1.1 a response without content-length goes out in chunks. Status 101, from OnRequest() for
  // HTTP/1.1 and a request without a body, turns the connection into a tunnel: bytes go both ways
  // as they are, until End() or the connection's end; OnEnd() is not called.
  virtual void SendHead(int status, const FieldList& fields) = 0;
  virtual void SendBody(BufferChain body) = 0;
  // `trailers` are sent over HTTP/2 only.
  virtual void End(const FieldList& trailers = {}) = 0;
  // Head and end in one, without a body: gRPC's "trailers only".
  virtual void RespondHeadOnly(int status, const FieldList& fields) = 0;
  void Respond(int status, const FieldList& fields, Buffer body);
  // Ends the exchange with an error of the protocol: RST_STREAM over HTTP/2, a closed connection
  // over HTTP/1.1.
  virtual void Reset(uint32_t http2_error) = 0;
  // Bytes given to SendBody() that have not gone to the socket's queue.
  virtual size_t unsent_bytes() const = 0;
  // While paused the peer is granted no more input on this stream: what was granted already (over
  // HTTP/2 at most kStreamWindow bytes) still comes to OnBody() and is the sink's to keep. Other
  // streams of the connection go on.
  virtual void SetInputPaused(bool paused) = 0;

 protected:
  RequestHead head_;
  const Peer* peer_ = nullptr;
  Loop* loop_ = nullptr;
};

class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual void OnBody(Buffer data) = 0;
  // Input that is kept because its message is incomplete or the stream is paused. All streams of a
  // connection together may keep
  // ServerOptions::held_bytes_max; the stream that goes beyond it is reset.
  virtual size_t held_bytes() const { return 0; }
  // The request is complete.
  virtual void OnEnd() = 0;
  // `bytes` of SendBody() have left for the socket.
  virtual void OnWritten(size_t bytes) { (void)bytes; }
  // The exchange is over, whoever ended it; nothing can be sent and nothing comes any more. Last
  // call.
  virtual void OnClosed() {}
};

class Handler {
 public:
  virtual ~Handler() = default;
  // Called when the head is there. Must return a sink; may answer at once. Any loop, at the same
  // time.
  virtual std::unique_ptr<StreamSink> OnRequest(Stream& stream) = 0;
};

}  // namespace mainstay::net

// Session: the protocol on a connection: HTTP/1.1 or HTTP/2. Bytes in, bytes out, no socket: a
// fuzzer or a simulator can drive it as the connection does.
#pragma once

#include <memory>
#include <string_view>

#include "net/http.h"
#include "net/out_queue.h"
#include "net/server.h"

namespace mainstay::net {

// What a session may ask of the connection under it.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  // There is output to be fetched with Pump().
  virtual void WantFlush() = 0;
  virtual Loop& loop() = 0;
  virtual const Peer& peer() = 0;
};

class Session {
 public:
  virtual ~Session() = default;
  // False: the connection is to be closed once the output is out.
  virtual bool OnBytes(std::string_view bytes) = 0;
  // Moves output into the queue until it holds `bytes_max`. False: close once it is written.
  virtual bool Pump(OutQueue* out, size_t bytes_max) = 0;
  // True while more input is of no use (a response is under way, output is full).
  virtual bool input_paused() const { return false; }
  // Ends politely: GOAWAY, or "connection: close" after the present response.
  virtual void Shutdown() = 0;
  // Nothing is in progress.
  virtual bool idle() const = 0;
  // False: the peer took too long; close.
  virtual bool OnTick(MonoTime now) = 0;
  // The connection is gone: every stream is told.
  virtual void OnClosed() = 0;
};

struct SessionConfig {
  const ServerOptions* options;
  const ListenerOptions* listener;
};

std::unique_ptr<Session> NewHttp2Session(SessionHost& host, SessionConfig config);
std::unique_ptr<Session> NewHttp1Session(SessionHost& host, SessionConfig config);

// The one that serves this request: gRPC's or the other. Null: nobody here does.
Handler* PickHandler(const ListenerOptions& listener, const RequestHead& head);

}  // namespace mainstay::net

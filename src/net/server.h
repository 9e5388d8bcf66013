// net::Server: listeners and the loops that serve their connections.
//
// Role        main binds listeners first, starts the loops, and opens the gates when the member is
// ready. Threads     Owner's thread for all methods; connections live on the loops. Errors Bind
// errors name the address. After EMFILE a listener pauses and goes on by itself. Limits
// ServerOptions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "env/clock.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

namespace mainstay::net {

struct ServerOptions {
  int loops = 2;
  uint32_t max_concurrent_streams = UINT32_MAX;
  size_t connections_max = 100000;        // of all listeners; beyond it new ones are closed
  size_t connections_per_client_max = 0;  // from one IP address; 0: no such limit
  size_t header_bytes_max = 64 << 10;     // of one request
  size_t body_bytes_max = 512 << 20;      // of one HTTP request outside gRPC
  size_t output_bytes_max =
      4 << 20;  // queued for one socket; beyond it the connection's input waits
  // Input that the streams of one HTTP/2 connection may keep together: incomplete messages, and
  // whole ones of streams that are paused. Beyond it the stream that still sends is reset.
  size_t held_bytes_max = 256 << 20;
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(10);
  std::chrono::nanoseconds header_timeout =
      std::chrono::seconds(30);  // from the first byte of a head to its end
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes(5);  // HTTP/1.1 between requests
  std::chrono::nanoseconds ping_min_interval = std::chrono::seconds(5);  // 0: any
  std::chrono::nanoseconds keepalive_interval = std::chrono::hours(2);   // 0: none
  std::chrono::nanoseconds keepalive_timeout = std::chrono::seconds(20);
  bool reuse_port = false, reuse_address = true;
};

enum class Protocols : uint8_t { kAll, kGrpcOnly, kHttpOnly };

struct ListenerOptions {
  std::string address;  // "127.0.0.1:2379", "[::1]:0"; for unix sockets the path
  bool unix_socket = false;
  bool plaintext = true;      // both: the first byte decides
  TlsContext* tls = nullptr;  // outlives the server; null: plaintext only
  Protocols protocols = Protocols::kAll;
  Handler* grpc = nullptr;  // for application/grpc over HTTP/2
  Handler* http = nullptr;  // for everything else
};

class Server {
 public:
  Server(ServerOptions options, Clock& clock);
  ~Server();
  // Binds and listens; connections queue in the kernel until Accept().
  Status Listen(ListenerOptions listener);
  // Ports of the listeners, in the order of Listen(); 0 for unix sockets.
  std::vector<int> ports() const;
  // Starts the loops. Makes the process ignore SIGPIPE.
  Status Start();
  // Lets connections in on all listeners.
  void Accept();
  // No new connections; GOAWAY to the present ones; returns when all are gone or `patience` is
  // over, then cuts them.
  void Shutdown(std::chrono::nanoseconds patience);
  const std::vector<std::unique_ptr<Loop>>& loops() const;
  size_t connection_count() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainstay::net

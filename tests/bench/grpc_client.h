// A gRPC client that costs a few microseconds a call: nghttp2 over non-blocking sockets on one thread, plaintext or TLS.
// For load only: it checks statuses and counts bytes, and hands message bytes to whoever asked.
//
// Threads  One; RunOnce() drives all connections.
// Errors   A connection that fails stops the process with a message: a benchmark that lost its server is void.
#pragma once

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mainstay::bench {

struct TlsFiles {
  std::string ca, cert, key;  // `ca` empty: plaintext
};

class Connection;

// One call in flight. Owned by its connection until done.
struct Call {
  std::string request;  // framed, what is still to be sent
  size_t sent = 0;
  bool keep_open = false;  // the request side stays open (streams)
  std::string partial;     // of the message being received
  uint64_t response_bytes = 0;
  int grpc_status = -1;
  std::string grpc_message;
  std::function<void(std::string_view)> on_message;  // a whole message; null: only counted
  std::function<void(Call&)> on_done;
};

class Client {
 public:
  Client(std::string host, int port, TlsFiles tls, int connections);
  ~Client();
  // Starts a call on connection `index`. `path` like "/etcdserverpb.KV/Put".
  Call& Start(int index, std::string_view path, std::string_view message);
  // Sends a further message on an open stream.
  void Send(int index, Call& call, std::string_view message);
  // Waits up to `timeout_ms` for sockets, handles all that is ready, writes what is queued.
  void RunOnce(int timeout_ms);
  int connection_count() const { return static_cast<int>(connections_.size()); }

 private:
  int epoll_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_;
  SSL_CTX* tls_ = nullptr;
};

}  // namespace mainstay::bench

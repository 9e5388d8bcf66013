// Connection: a socket, TLS if it has that, and the session on it.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"

#include "net/loop.h"
#include "net/session.h"

namespace mainstay::net {

class Connection : public Pollable, public SessionHost {
 public:
  // Takes over the descriptor. `on_gone` runs when this one goes.
  Connection(int fd,
             Loop& loop,
             const ServerOptions& options,
             const ListenerOptions& listener,
             std::string address,
             absl::AnyInvocable<void()> on_gone);
  ~Connection() override;

  // ---- Pollable
  int fd() const override { return fd_; }
  void OnReadable() override;
  void OnWritable() override;
  void OnFlush() override;
  void OnTick(MonoTime now) override;

  // ---- SessionHost
  void WantFlush() override;
  Loop& loop() override { return loop_; }
  const Peer& peer() override { return peer_; }

  void Shutdown();

 private:
  enum class Phase { kSniff, kHandshake, kPreface, kServing, kLinger };
  enum class IoResult { kOk, kAgain, kClosed };
  void Read();
  bool Sniff();
  bool Handshake();
  void HandshakeDone();
  void Take(std::string_view bytes);
  void Begin(bool http2);
  IoResult Receive(char* to, size_t size, size_t* got);
  IoResult WriteOut();
  void Linger();
  void Drain();
  void Close();
  void RejectLog(std::string_view reason);

  const int fd_;
  Loop& loop_;
  const ServerOptions& options_;
  const ListenerOptions& listener_;
  absl::AnyInvocable<void()> on_gone_;
  Peer peer_;
  SSL* ssl_ = nullptr;
  Phase phase_ = Phase::kSniff;
  std::string preface_;  // first bytes, until they say which protocol
  std::unique_ptr<Session> session_;
  OutQueue out_;
  MonoTime opened_;
  MonoTime linger_since_{};
  MonoTime stalled_since_ = kNever;  // output waits for the peer
  bool dirty_ = false;
  bool readable_ = false;  // the kernel may hold more input
  bool closing_ = false;   // close once output is out
  bool closed_ = false;
};

}  // namespace mainstay::net

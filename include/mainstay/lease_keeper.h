// mainstay::client::LeaseKeeper: keeps one lease alive.
//
// Role        Made by Client::KeepAlive(). Sends a renewal at once and then each third of the TTL,
// over
//             one stream, which it opens anew when lost.
// Threads     Next() from one thread at a time; Stop() from any.
// Errors      Ends when the server says the lease is gone, when no renewal got through for a whole
// TTL, or
//             with the server's error (status()).
// Limits      16 undelivered answers; older ones are dropped, since only the newest counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"

#include "proto/etcdserverpb/rpc.pb.h"

namespace mainstay::client {

class Transport;

class LeaseKeeper {
 public:
  LeaseKeeper(std::shared_ptr<Transport> transport, int64_t lease);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // The next renewal's answer; nullopt once the lease is gone or the keeper stopped, or when
  // `timeout` passes (zero: no timeout).
  std::optional<etcdserverpb::LeaseKeepAliveResponse> Next(std::chrono::nanoseconds timeout = {});
  bool done() const;
  // Why it ended: ok when the lease expired, was revoked or Stop() was called.
  absl::Status status() const;
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainstay::client

// mainstay::client::Transport: channels, credentials, tokens and the retry rules behind a Client.
// Internal.
//
// Role        Picks a connected endpoint for each call and repeats what may be repeated.
// Invariants  I1 a write is handed to gRPC at most once, and only on a connected channel; if that
// call is then
//             answered Unavailable, it is not repeated.
// Threads     Any.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/mutex.h"
#include "mainstay/client.h"

namespace mainstay::client {

absl::Status FromGrpc(const grpc::Status& status);

class Transport {
 public:
  using Clock = std::chrono::system_clock;  // gRPC's deadlines
  using TimePoint = Clock::time_point;

  static absl::StatusOr<std::shared_ptr<Transport>> Create(Options options);

  // Logs in if a user is set. A server without auth is no error.
  absl::Status Login(TimePoint deadline);

  // A channel that is connected now, starting at the next endpoint in turn. Null: none until the
  // deadline. `stopped`, if set, ends the wait.
  std::shared_ptr<grpc::Channel> Connected(TimePoint deadline,
                                           const std::function<bool()>& stopped = nullptr);

  TimePoint Deadline(const CallOptions& call) const;
  // Metadata of every call: the client API's version and the token.
  void Prepare(grpc::ClientContext& context, TimePoint deadline, bool require_leader = false);

  // One unary call with the rules above. `send` makes it on a channel.
  using Send =
      std::function<grpc::Status(const std::shared_ptr<grpc::Channel>&, grpc::ClientContext&)>;
  absl::Status Unary(bool is_read, const CallOptions& call, const Send& send);

  const Options& options() const { return options_; }

 private:
  Transport() = default;
  absl::Status Authenticate(TimePoint deadline);

  Options options_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::atomic<size_t> next_{0};  // spreads calls; no order needed
  Mutex mu_;
  std::string token_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mainstay::client

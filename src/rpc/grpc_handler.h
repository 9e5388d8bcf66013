// The way in for gRPC calls: joins net's gRPC engine and its loops with Services.
//
// Role        main makes one NetLoop per net::Loop and one GrpcFront, and gives the latter to
//             net::NewGrpcHandler().
// Threads     GrpcFront: any loop. A NetLoop: made before its loop starts.
// Ownership   All outlives the net::Server; NetLoops also outlive server::Server::Stop() and the
//             pool.
#pragma once

#include <memory>
#include <string_view>

#include "net/grpc.h"
#include "net/loop.h"
#include "rpc/loop.h"
#include "rpc/services.h"

namespace mainstay::rpc {

// One net::Loop as Services need it. It is the loop's context().
class NetLoop : public LoopHost {
 public:
  NetLoop(Services& services, net::Loop& loop);
  Loop& rpc_loop() { return rpc_loop_; }
  // Of a loop that has a NetLoop.
  static Loop& Of(net::Loop& loop) { return *static_cast<Loop*>(loop.context()); }

  void Post(absl::AnyInvocable<void()> work) override { loop_.Post(std::move(work)); }
  void After(std::chrono::nanoseconds delay, absl::AnyInvocable<void()> work) override {
    loop_.After(delay, std::move(work));
  }

 private:
  net::Loop& loop_;
  Loop rpc_loop_;
};

class GrpcFront : public net::GrpcRouter {
 public:
  explicit GrpcFront(Services& services) : services_(services) {}
  std::unique_ptr<net::GrpcSink> OnCall(net::GrpcCall& call) override;
  bool HasService(std::string_view service) const override;

 private:
  Services& services_;
};

}  // namespace mainstay::rpc

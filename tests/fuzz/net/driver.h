// Feeds bytes to a session that has no socket. The first byte says how the rest is cut.
#pragma once

#include <memory>
#include <string_view>

#include "net/grpc.h"
#include "net/loop.h"
#include "net/session.h"
#include "tests/support/manual_executor.h"

namespace mainstay::net::fuzzing {

class Host : public SessionHost {
 public:
  void WantFlush() override {}
  Loop& loop() override { return loop_; }
  const Peer& peer() override { return peer_; }

 private:
  mainstay::testing::FakeClock clock_;
  Loop loop_{"fuzz", clock_};
  Peer peer_;
};

class EchoHandler : public Handler {
 public:
  class Sink : public StreamSink {
   public:
    explicit Sink(Stream& stream) : stream_(stream) {}
    void OnBody(Buffer data) override { body_.Append(std::move(data)); }
    void OnEnd() override {
      stream_.SendHead(200, {});
      stream_.SendBody(std::move(body_));
      stream_.End();
    }

   private:
    Stream& stream_;
    BufferChain body_;
  };
  std::unique_ptr<StreamSink> OnRequest(Stream& stream) override {
    return std::make_unique<Sink>(stream);
  }
};

class EchoRouter : public GrpcRouter {
 public:
  class Sink : public GrpcSink {
   public:
    explicit Sink(GrpcCall& call) : call_(call) {}
    void OnMessage(Buffer message) override { call_.Send(BufferChain(std::move(message))); }
    void OnHalfClose() override { call_.Finish(GrpcCode::kOk, "done"); }
    void OnGone(GrpcCode) override {}

   private:
    GrpcCall& call_;
  };
  std::unique_ptr<GrpcSink> OnCall(GrpcCall& call) override {
    return call.path() == "/a.B/C" ? std::make_unique<Sink>(call) : nullptr;
  }
  bool HasService(std::string_view) const override { return false; }
};

inline void Drive(bool http2, std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  const size_t piece = static_cast<unsigned char>(bytes[0]) + size_t{1};
  bytes.remove_prefix(1);
  Host host;
  EchoHandler http;
  EchoRouter router;
  const auto grpc = NewGrpcHandler(router, {.receive_bytes_max = 4096});
  ServerOptions options;
  options.body_bytes_max = 4096;
  options.ping_min_interval = std::chrono::nanoseconds(0);
  ListenerOptions listener;
  listener.http = &http;
  listener.grpc = grpc.get();
  const auto session = http2 ? NewHttp2Session(host, {&options, &listener})
                             : NewHttp1Session(host, {&options, &listener});
  OutQueue out;
  for (bool open = true; open && !bytes.empty();) {
    open = session->OnBytes(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    open = session->Pump(&out, 1 << 20) && open;
    out.Consume(out.size());
  }
  session->OnTick(std::chrono::hours(1));
  session->OnClosed();
}

}  // namespace mainstay::net::fuzzing

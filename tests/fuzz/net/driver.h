// Feeds bytes to a session that has no socket. The first byte says how the rest is cut.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
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
  // Echoes at once, and ends with the first 'E'.
  class Tunnel : public StreamSink {
   public:
    explicit Tunnel(Stream& stream) : stream_(stream) {}
    void OnBody(Buffer data) override {
      MS_CHECK(!ended_);
      ended_ = data.view().find('E') != std::string_view::npos;
      stream_.SendBody(BufferChain(std::move(data)));
      if (ended_) {
        stream_.End();
      }
    }
    void OnEnd() override { MS_CHECK_MSG(false, "a tunnel has no end"); }

   private:
    Stream& stream_;
    bool ended_ = false;
  };
  std::unique_ptr<StreamSink> OnRequest(Stream& stream) override {
    const RequestHead& head = stream.head();
    if (!head.http2 && head.headers.Has("upgrade") && !head.headers.Has("content-length") &&
        !head.headers.Has("transfer-encoding")) {
      stream.SendHead(101, {});
      return std::make_unique<Tunnel>(stream);
    }
    return std::make_unique<Sink>(stream);
  }
};

// Echoes messages. Act() does what a handler may do at any time to a call that is alive.
class EchoRouter : public GrpcRouter {
 public:
  class Sink : public GrpcSink {
   public:
    Sink(GrpcCall& call, EchoRouter& router) : call_(&call), router_(router) {
      router_.live.push_back(this);
    }
    // Whoever holds on to the call was told that it is gone, or ended it.
    ~Sink() override {
      MS_CHECK(call_ == nullptr);
      std::erase(router_.live, this);
    }
    void OnMessage(Buffer message) override {
      MS_CHECK(call_ != nullptr && !paused_ && !half_closed_);
      const bool pause = !message.empty() && message.view()[0] == 'P';
      const bool finish = !message.empty() && message.view()[0] == 'F';
      call_->Send(BufferChain(std::move(message)));
      if (finish) {
        return Finish();
      }
      if (pause) {
        Pause(true);
      }
    }
    void OnHalfClose() override {
      MS_CHECK(call_ != nullptr && !paused_ && !half_closed_);
      half_closed_ = true;
      Finish();
    }
    void OnWritten(size_t) override { MS_CHECK(call_ != nullptr); }
    void OnGone(GrpcCode) override {
      MS_CHECK(call_ != nullptr);
      call_ = nullptr;
    }
    void Act(uint8_t what) {
      if (call_ == nullptr) {
        return;
      }
      switch (what % 5) {
        case 0:
          return Pause(true);
        case 1:
          return Pause(false);
        case 2:
          return call_->Send(BufferChain(Buffer::Copy(std::string(100 << 10, 's'))));
        case 3:
          return call_->SendHeadNow();
        default:
          return Finish();
      }
    }

   private:
    void Pause(bool paused) {
      paused_ = paused;
      call_->SetInputPaused(paused);
    }
    void Finish() { std::exchange(call_, nullptr)->Finish(GrpcCode::kOk, "done"); }
    GrpcCall* call_;
    EchoRouter& router_;
    bool paused_ = false, half_closed_ = false;
  };
  std::unique_ptr<GrpcSink> OnCall(GrpcCall& call) override {
    return call.path() == "/a.B/C" ? std::make_unique<Sink>(call, *this) : nullptr;
  }
  bool HasService(std::string_view) const override { return false; }
  void Act(uint8_t what) {
    if (!live.empty()) {
      live[what % live.size()]->Act(what / 16);
    }
  }
  std::vector<Sink*> live;
};

inline void DriveHttp1(std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  const size_t piece = static_cast<unsigned char>(bytes[0]) + size_t{1};
  bytes.remove_prefix(1);
  Host host;
  EchoHandler http;
  ServerOptions options;
  options.body_bytes_max = 4096;
  ListenerOptions listener;
  listener.http = &http;
  const auto session = NewHttp1Session(host, {&options, &listener});
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

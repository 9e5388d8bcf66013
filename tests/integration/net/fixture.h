// A net::Server on loopback ports that the kernel chooses, with time-outs on a clock that the test
// moves, and raw sockets against it.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "common/mutex.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/server.h"

namespace mainstay::net {

using std::chrono::seconds;

// Real time plus what the test adds.
class ShiftClock : public Clock {
 public:
  MonoTime Now() const override { return SystemClock().Now() + shift_.load(); }
  WallTime WallNow() const override { return SystemClock().WallNow(); }
  void Advance(std::chrono::nanoseconds by) { shift_.store(shift_.load() + by); }

 private:
  std::atomic<std::chrono::nanoseconds> shift_{std::chrono::nanoseconds(0)};
};

// "/big?N" sends N bytes, a part at a time, never more than 1 MiB ahead; all else says its path.
class Pages : public Handler {
 public:
  class Sink : public StreamSink {
   public:
    explicit Sink(Stream& stream, Pages& pages) : stream_(stream), pages_(pages) {}
    void OnBody(Buffer data) override { pages_.body_bytes += data.size(); }
    void OnEnd() override {
      if (stream_.head().path != "/big") {
        ended_ = true;
        return stream_.Respond(200, {}, Buffer::Copy(stream_.head().path));
      }
      left_ = std::stoull(stream_.head().query);
      stream_.SendHead(200, {});
      More();
    }
    void OnWritten(size_t) override {
      if (!ended_) {
        More();
      }
    }

   private:
    void More() {
      static const Buffer kPart = Buffer::Copy(std::string(64 << 10, 'b'));
      while (left_ > 0 && stream_.unsent_bytes() < (1 << 20)) {
        const size_t n = std::min<uint64_t>(left_, kPart.size());
        stream_.SendBody(BufferChain(kPart.Slice(0, n)));
        left_ -= n;
        pages_.produced += n;
      }
      if (left_ == 0) {
        ended_ = true;
        stream_.End();
      }
    }
    Stream& stream_;
    Pages& pages_;
    uint64_t left_ = 0;
    bool ended_ = false;
  };
  std::unique_ptr<StreamSink> OnRequest(Stream& stream) override {
    MutexLock lock(mu);
    last_common_name = stream.peer().common_name;
    return std::make_unique<Sink>(stream, *this);
  }
  std::atomic<uint64_t> body_bytes{0}, produced{0};
  Mutex mu;
  std::string last_common_name ABSL_GUARDED_BY(mu);
};

class Socket {
 public:
  explicit Socket(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
    // A hang is a failure, not a wait for ever.
    const timeval patience{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  bool connected() const { return connected_; }
  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) {
        return;
      }
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // Until the text was heard, or the end.
  std::string Until(std::string_view text) {
    std::string out;
    char buffer[4096];
    while (text.empty() || out.find(text) == std::string::npos) {
      const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n < 0 && errno == ECONNRESET) {
        reset_ = true;
      }
      if (n < 0 && errno == EAGAIN) {
        timed_out_ = true;
      }
      if (n <= 0) {
        break;
      }
      out.append(buffer, static_cast<size_t>(n));
    }
    return out;
  }
  std::string Rest() { return Until({}); }
  bool was_reset() const { return reset_; }
  bool timed_out() const { return timed_out_; }

 private:
  const int fd_;
  bool connected_ = false, reset_ = false, timed_out_ = false;
};

class NetTest : public ::testing::Test {
 protected:
  void Serve(ServerOptions options, ListenerOptions listener = {}) {
    listener.address = "127.0.0.1:0";
    listener.http = &pages;
    server = std::make_unique<Server>(options, clock);
    ASSERT_TRUE(server->Listen(listener).ok());
    ASSERT_TRUE(server->Start().ok());
    server->Accept();
    port = server->ports()[0];
  }
  // Waits for what another thread brings about; false after 20 s.
  template <class Claim>
  static bool Eventually(Claim claim) {
    for (int i = 0; i < 4000; ++i) {
      if (claim()) {
        return true;
      }
      ::poll(nullptr, 0, 5);
    }
    return false;
  }
  ShiftClock clock;
  Pages pages;
  std::unique_ptr<Server> server;
  int port = 0;
};

}  // namespace mainstay::net

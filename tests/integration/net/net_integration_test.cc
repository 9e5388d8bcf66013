// Goal: the server holds up over real sockets: TLS, many streams, big bodies, full descriptor
// tables, caps, shutdown.
// Method: loopback on ports that the kernel chooses; certificates made here; time-outs on a clock
// that the test moves.
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "common/log.h"
#include "tests/integration/net/fixture.h"

namespace mainstay::net {
namespace {

// Many requests in one write: each flush answers a few, and none waits for the loop's next tick.
TEST_F(NetTest, PipelinedRequestsDoNotStall) {
  Serve({.loops = 1});
  Socket socket(port);
  std::string all;
  for (int i = 0; i < 100; ++i) {
    all += "GET /p" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  }
  const auto began = SystemClock().Now();
  socket.Send(all);
  EXPECT_NE(socket.Until("/p99").find("/p99"), std::string::npos);
  EXPECT_LT(SystemClock().Now() - began, seconds(5));
}

TEST_F(NetTest, ABigBodyNeverSitsWholeInMemory) {
  Serve({.loops = 1});
  Socket socket(port);
  constexpr uint64_t kBytes = 100 << 20;
  socket.Send("GET /big?" + std::to_string(kBytes) + " HTTP/1.1\r\nHost: x\r\n" +
              "Connection: close\r\n\r\n");
  ASSERT_NE(socket.Until("bbbb").find("bbbb"), std::string::npos);
  // Nobody reads: what was made is what the queues and the kernel's buffers hold, and it stands.
  ASSERT_TRUE(Eventually([&, last = uint64_t{0}, same = 0]() mutable {
    same = pages.produced == last ? same + 1 : 0;
    last = pages.produced;
    return same > 40;
  }));
  EXPECT_LT(pages.produced.load(), kBytes / 4);
  EXPECT_GT(socket.Rest().size(), kBytes - (1 << 20));
  EXPECT_EQ(pages.produced.load(), kBytes);
}

// An answer that refuses the rest of a request arrives, though that rest was never read.
TEST_F(NetTest, ARefusalIsHeardBehindUnreadInput) {
  Serve({.loops = 1, .body_bytes_max = 1000});
  Socket socket(port);
  socket.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n");
  socket.Send(std::string(400000, 'x'));
  EXPECT_TRUE(socket.Until("413").starts_with("HTTP/1.1 413"));
  EXPECT_FALSE(socket.was_reset());
}

// C36.
TEST_F(NetTest, ConnectionsThatDripOrSayNothingAreCut) {
  Serve({.loops = 1});
  Socket silent(port), dripping(port), fine(port);
  dripping.Send("GET / HT");
  fine.Send("GET /fine HTTP/1.1\r\nHost: x\r\n\r\n");
  fine.Until("/fine");
  ASSERT_TRUE(Eventually([&] { return server->connection_count() == 3; }));
  clock.Advance(seconds(31));
  EXPECT_EQ(silent.Rest(), "");
  EXPECT_EQ(dripping.Rest(), "");
  EXPECT_FALSE(silent.timed_out() || dripping.timed_out());
  fine.Send("GET /again HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(fine.Until("/again").find("/again"), std::string::npos);
}

TEST_F(NetTest, OneClientCannotHaveMoreThanItsShare) {
  Serve({.loops = 1, .connections_per_client_max = 2});
  auto first = std::make_unique<Socket>(port);
  Socket second(port);
  ASSERT_TRUE(Eventually([&] { return server->connection_count() == 2; }));
  Socket third(port);
  EXPECT_EQ(third.Rest(), "");
  EXPECT_FALSE(third.timed_out());
  first = nullptr;
  ASSERT_TRUE(Eventually([&] { return server->connection_count() == 1; }));
  Socket fourth(port);
  fourth.Send("GET /in HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(fourth.Until("/in").find("/in"), std::string::npos);
}

TEST_F(NetTest, TheListenerOutlivesAFullDescriptorTable) {
  Serve({.loops = 1});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // UBSan looks at an object's type with a pipe, once for each type: not when there is none left.
  MS_LOG(kInfo, "the descriptor table is about to be full");
  std::vector<int> taken;
  rlimit low = before;
  low.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  // One descriptor is left, for the client's end.
  for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY)) {
    taken.push_back(fd);
  }
  ASSERT_FALSE(taken.empty());
  ::close(taken.back());
  taken.pop_back();
  {
    Socket refused(port);
    ASSERT_TRUE(refused.connected());
    refused.Rest();
    EXPECT_FALSE(refused.timed_out());  // it is told, not left hanging
  }
  for (const int fd : taken) {
    ::close(fd);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(Eventually([&] {
    Socket socket(port);
    socket.Send("GET /back HTTP/1.1\r\nHost: x\r\n\r\n");
    return socket.Until("/back").find("/back") != std::string::npos;
  }));
}

TEST_F(NetTest, ShutdownClosesIdleConnectionsAndStopsListening) {
  Serve({.loops = 2});
  Socket socket(port);
  socket.Send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
  socket.Until("/x");
  std::thread closer([&] {
    EXPECT_EQ(socket.Rest(), "");
    ::shutdown(socket.fd(), SHUT_RDWR);
  });
  const auto began = SystemClock().Now();
  server->Shutdown(seconds(15));
  EXPECT_LT(SystemClock().Now() - began, seconds(10));
  closer.join();
  EXPECT_EQ(server->connection_count(), 0u);
  EXPECT_FALSE(Socket(port).connected());
}

TEST_F(NetTest, ServesOnAUnixSocket) {
  char name[] = "/tmp/net-unix-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/s";
  server = std::make_unique<Server>(ServerOptions{.loops = 1}, clock);
  ASSERT_TRUE(server->Listen({.address = path, .unix_socket = true, .http = &pages}).ok());
  ASSERT_TRUE(server->Start().ok());
  server->Accept();
  EXPECT_EQ(server->ports(), std::vector<int>{0});
  server->Shutdown(seconds(1));
  server = nullptr;
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(name);
}

// ---- HTTP/2
struct Http2Client {
  explicit Http2Client(int port) : socket(port) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks, [](nghttp2_session*, uint8_t, int32_t, const uint8_t*, size_t n, void* user) {
          static_cast<Http2Client*>(user)->bytes += n;
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks, [](nghttp2_session*, int32_t, uint32_t error, void* user) {
          auto& me = *static_cast<Http2Client*>(user);
          (error == 0 ? me.closed_well : me.closed_badly)++;
          return 0;
        });
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks,
        [](nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_length,
           const uint8_t* value, size_t value_length, uint8_t, void* user) {
          auto& heard = static_cast<Http2Client*>(user)->statuses;
          const std::string key(reinterpret_cast<const char*>(name), name_length);
          const std::string text(reinterpret_cast<const char*>(value), value_length);
          if (key == "grpc-status") {
            heard.push_back(text);
          } else if (key == "grpc-message") {
            heard.back() += " " + text;
          }
          return 0;
        });
    nghttp2_session_client_new(&session, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
    nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, 1 << 24);
  }
  ~Http2Client() { nghttp2_session_del(session); }
  void Get(std::string_view path) {
    const auto nv = [](std::string_view name, std::string_view value) {
      return nghttp2_nv{reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                        reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                        value.size(), NGHTTP2_NV_FLAG_NONE};
    };
    const nghttp2_nv fields[] = {nv(":method", "GET"), nv(":scheme", "http"), nv(":path", path),
                                 nv(":authority", "x")};
    nghttp2_submit_request(session, nullptr, fields, 4, nullptr, nullptr);
  }
  // A gRPC call without a message, as an empty stream; no deadline if that is empty.
  void Call(std::string_view path, std::string_view timeout) {
    std::vector<nghttp2_nv> fields;
    const auto add = [&fields](std::string_view name, std::string_view value) {
      fields.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                        reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                        value.size(), NGHTTP2_NV_FLAG_NONE});
    };
    add(":method", "POST");
    add(":scheme", "http");
    add(":path", path);
    add(":authority", "x");
    add("content-type", "application/grpc");
    if (!timeout.empty()) {
      add("grpc-timeout", timeout);
    }
    nghttp2_submit_request(session, nullptr, fields.data(), fields.size(), nullptr, nullptr);
  }
  void Write() {
    const uint8_t* data = nullptr;
    for (ssize_t n = 0; (n = nghttp2_session_mem_send(session, &data)) > 0;) {
      socket.Send({reinterpret_cast<const char*>(data), static_cast<size_t>(n)});
    }
  }
  // False at the end of the connection.
  bool Step() {
    Write();
    char buffer[65536];
    const ssize_t n = ::recv(socket.fd(), buffer, sizeof buffer, 0);
    return n > 0 && nghttp2_session_mem_recv(session, reinterpret_cast<const uint8_t*>(buffer),
                                             static_cast<size_t>(n)) >= 0;
  }
  Socket socket;
  nghttp2_session* session = nullptr;
  size_t bytes = 0;
  int closed_well = 0, closed_badly = 0;
  std::vector<std::string> statuses;  // "CODE MESSAGE" of calls, as they ended
};

TEST_F(NetTest, TenThousandStreamsOnOneConnection) {
  Serve({.loops = 1});
  Http2Client client(port);
  constexpr int kStreams = 10000;
  int asked = 0;
  // nghttp2's client holds back what goes beyond 100 streams until it has heard the settings.
  while (client.closed_well + client.closed_badly < kStreams) {
    for (; asked < kStreams && asked - client.closed_well < 2000; ++asked) {
      client.Get("/s");
    }
    ASSERT_TRUE(client.Step());
  }
  EXPECT_EQ(client.closed_well, kStreams);
  EXPECT_EQ(client.bytes, size_t{2} * kStreams);
}

TEST_F(NetTest, ABigBodyOverHttp2IsBoundedByThePeersWindow) {
  Serve({.loops = 1});
  Http2Client client(port);
  constexpr size_t kBytes = 100 << 20;
  client.Get("/big?" + std::to_string(kBytes));
  while (client.bytes == 0) {
    ASSERT_TRUE(client.Step());
  }
  EXPECT_LT(pages.produced.load(), uint64_t{4} << 20);
  while (client.closed_well == 0) {
    ASSERT_TRUE(client.Step());
  }
  EXPECT_EQ(client.bytes, kBytes);
}

// ---- gRPC
// Answers no call; says how they end.
class Hanging : public GrpcRouter {
 public:
  class Sink : public GrpcSink {
   public:
    explicit Sink(Hanging& owner) : owner_(owner) {}
    void OnMessage(Buffer) override {}
    void OnHalfClose() override {}
    void OnGone(GrpcCode code) override {
      MutexLock lock(owner_.mu);
      owner_.gone.push_back(code);
    }

   private:
    Hanging& owner_;
  };
  std::unique_ptr<GrpcSink> OnCall(GrpcCall&) override {
    calls.fetch_add(1);
    return std::make_unique<Sink>(*this);
  }
  bool HasService(std::string_view) const override { return true; }
  std::atomic<int> calls{0};
  Mutex mu;
  std::vector<GrpcCode> gone ABSL_GUARDED_BY(mu);
};

TEST_F(NetTest, ACallEndsAtItsDeadlineAndNotBefore) {
  Hanging router;
  const auto grpc = NewGrpcHandler(router, {});
  Serve({.loops = 1}, {.address = {}, .grpc = grpc.get()});
  Http2Client client(port);
  client.Call("/a.B/C", "30S");
  client.Call("/a.B/C", "60S");
  client.Call("/a.B/C", "");
  client.Write();
  ASSERT_TRUE(Eventually([&] { return router.calls == 3; }));
  clock.Advance(seconds(31));
  while (client.statuses.empty()) {
    ASSERT_TRUE(client.Step());
  }
  EXPECT_EQ(client.statuses, std::vector<std::string>{"4 context deadline exceeded"});
  {
    MutexLock lock(router.mu);
    EXPECT_EQ(router.gone, std::vector<GrpcCode>{GrpcCode::kDeadlineExceeded});
  }
  clock.Advance(seconds(31));
  while (client.statuses.size() < 2) {
    ASSERT_TRUE(client.Step());
  }
  // The call without a deadline lives as long as its connection.
  server->Shutdown(std::chrono::nanoseconds(0));
  MutexLock lock(router.mu);
  EXPECT_EQ(router.gone,
            (std::vector<GrpcCode>{GrpcCode::kDeadlineExceeded, GrpcCode::kDeadlineExceeded,
                                   GrpcCode::kCancelled}));
}

}  // namespace
}  // namespace mainstay::net

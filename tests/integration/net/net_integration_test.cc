// Goal: the server holds up over real sockets: TLS, many streams, big bodies, full descriptor
// tables, caps, shutdown.
// Method: loopback on ports that the kernel chooses; certificates made here; time-outs on a clock
// that the test moves.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "net/grpc.h"
#include "net/loop.h"
#include "net/server.h"

namespace mainstay::net {
namespace {

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
    return std::make_unique<Sink>(stream, *this);
  }
  std::atomic<uint64_t> body_bytes{0}, produced{0};
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
  // False at the end of the connection.
  bool Step() {
    const uint8_t* data = nullptr;
    for (ssize_t n = 0; (n = nghttp2_session_mem_send(session, &data)) > 0;) {
      socket.Send({reinterpret_cast<const char*>(data), static_cast<size_t>(n)});
    }
    char buffer[65536];
    const ssize_t n = ::recv(socket.fd(), buffer, sizeof buffer, 0);
    return n > 0 && nghttp2_session_mem_recv(session, reinterpret_cast<const uint8_t*>(buffer),
                                             static_cast<size_t>(n)) >= 0;
  }
  Socket socket;
  nghttp2_session* session = nullptr;
  size_t bytes = 0;
  int closed_well = 0, closed_badly = 0;
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

// ---- TLS
class TlsTest : public NetTest {
 protected:
  TlsTest() {
    char name[] = "/tmp/net-tls-XXXXXX";
    MS_CHECK(::mkdtemp(name) != nullptr);
    dir = name;
    Make("one");
  }
  ~TlsTest() override { std::filesystem::remove_all(dir); }
  void Make(const std::string& host) {
    ASSERT_TRUE(WriteSelfSigned(dir + "/cert", dir + "/key", {host, "127.0.0.1"}, 1).ok());
  }
  void ServeTls(TlsOptions options) {
    options.cert_file = dir + "/cert";
    options.key_file = dir + "/key";
    auto made = NewTlsContext(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    tls = *std::move(made);
    Serve({.loops = 1}, {.address = {}, .tls = tls.get()});
  }
  struct Result {
    bool shaken = false;
    std::string alpn, text, names;
    int version = 0;
  };
  Result Ask(const std::string& alpn, int version_max = 0, const std::string& own_cert = "") {
    Result out;
    Socket socket(port);
    SSL_CTX* ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(ctx, version_max);
    if (!own_cert.empty()) {
      SSL_CTX_use_certificate_chain_file(ctx, (own_cert + "/cert").c_str());
      SSL_CTX_use_PrivateKey_file(ctx, (own_cert + "/key").c_str(), SSL_FILETYPE_PEM);
    }
    SSL* ssl = SSL_new(ctx);
    if (!alpn.empty()) {
      SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(alpn.data()),
                          static_cast<unsigned>(alpn.size()));
    }
    SSL_set_fd(ssl, socket.fd());
    out.shaken = SSL_connect(ssl) == 1;
    if (out.shaken) {
      const unsigned char* chosen = nullptr;
      unsigned n = 0;
      SSL_get0_alpn_selected(ssl, &chosen, &n);
      out.alpn.assign(reinterpret_cast<const char*>(chosen), n);
      out.version = SSL_version(ssl);
      X509* leaf = SSL_get0_peer_certificate(ssl);
      out.names = X509_check_host(leaf, "one", 3, 0, nullptr) == 1 ? "one" : "other";
      if (out.alpn.empty()) {
        const std::string_view request =
            "GET /tls HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        SSL_write(ssl, request.data(), static_cast<int>(request.size()));
        char buffer[4096];
        for (int got = 0; (got = SSL_read(ssl, buffer, sizeof buffer)) > 0;) {
          out.text.append(buffer, static_cast<size_t>(got));
        }
      }
    }
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return out;
  }
  std::string dir;
  std::unique_ptr<TlsContext> tls;
};

TEST_F(TlsTest, ServesHttp1WithoutAlpnAndHttp2WithIt) {
  ServeTls({});
  for (const std::string& alpn : {std::string(), std::string("\x08http/1.1")}) {
    const Result got = Ask(alpn);
    EXPECT_TRUE(got.shaken);
    EXPECT_EQ(got.alpn, "");
    EXPECT_NE(got.text.find("/tls"), std::string::npos);
  }
  EXPECT_EQ(Ask("\x08http/1.1\x02h2").alpn, "h2");
}

// Found by a real kube-apiserver: OpenSSL writes with write(), and SIGPIPE ended the server.
TEST_F(TlsTest, AClientThatGoesAwayMidAnswerEndsOnlyItsConnection) {
  ServeTls({});
  for (int round = 0; round < 20; ++round) {
    Socket socket(port);
    SSL_CTX* ctx = SSL_CTX_new(TLS_client_method());
    SSL* ssl = SSL_new(ctx);
    SSL_set_fd(ssl, socket.fd());
    ASSERT_EQ(SSL_connect(ssl), 1);
    const std::string_view request = "GET /big?50000000 HTTP/1.1\r\nHost: x\r\n\r\n";
    SSL_write(ssl, request.data(), static_cast<int>(request.size()));
    char first = 0;
    EXPECT_EQ(SSL_read(ssl, &first, 1), 1);
    SSL_set_quiet_shutdown(ssl, 1);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    const linger reset{1, 0};
    setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  EXPECT_TRUE(Ask("").shaken);
}

TEST_F(TlsTest, PlaintextGoesOnTheSamePort) {
  ServeTls({});
  Socket socket(port);
  socket.Send("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(socket.Until("/plain").find("/plain"), std::string::npos);
}

TEST_F(TlsTest, TheNextHandshakeUsesANewCertificate) {
  ServeTls({});
  EXPECT_EQ(Ask("").names, "one");
  Make("two");
  EXPECT_EQ(Ask("").names, "other");
}

TEST_F(TlsTest, VersionsAreBounded) {
  ServeTls({.min_version = "TLS1.3"});
  EXPECT_FALSE(Ask("", TLS1_2_VERSION).shaken);
  EXPECT_EQ(Ask("", TLS1_3_VERSION).version, TLS1_3_VERSION);
}

TEST_F(TlsTest, AClientWithoutACertificateIsRefusedWhereOneIsAsked) {
  const std::string ca = dir + "/ca";
  std::filesystem::copy_file(dir + "/cert", ca);
  ServeTls({.ca_file = ca, .client_auth = true});
  // In TLS 1.3 the client learns of it with its first read.
  EXPECT_EQ(Ask("").text, "");
  EXPECT_FALSE(Ask("", TLS1_2_VERSION).shaken);
}

TEST_F(TlsTest, UnknownCiphersAndMissingFilesAreNamed) {
  const auto cipher = NewTlsContext(
      {.cert_file = dir + "/cert", .key_file = dir + "/key", .cipher_suites = {"TLS_NONE"}});
  EXPECT_NE(cipher.status().ToString().find("TLS_NONE"), std::string::npos);
  const auto missing = NewTlsContext({.cert_file = dir + "/no", .key_file = dir + "/key"});
  EXPECT_NE(missing.status().ToString().find(dir + "/no"), std::string::npos);
}

}  // namespace
}  // namespace mainstay::net

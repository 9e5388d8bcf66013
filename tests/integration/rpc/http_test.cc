// Goal: HTTP/1.1 on the client port answers as etcd 3.7.1's, byte for byte where a client looks;
// cases C37 (its half that needs no auth) and C39. Method: an in-process member and a plain socket;
// expectations were taken from a real etcd's answers.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/integration/rpc/client.h"

namespace mainstay::testing {
namespace {

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
  bool Has(const std::string& field) const {
    return head.find(field + "\r\n") != std::string::npos;
  }
};

// A connection that a test uses for several requests.
class Http {
 public:
  explicit Http(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~Http() { ::close(fd_); }
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Writes give up after a second in which the other end takes nothing.
  void MakeImpatient() {
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  // False if not all of it could be written.
  bool TryWrite(const std::string& text) {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  void Write(const std::string& text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void SendRequest(const std::string& method,
                   const std::string& target,
                   const std::string& body,
                   const std::string& fields) {
    Write(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  Answer Ask(const std::string& method,
             const std::string& target,
             const std::string& body = "",
             const std::string& fields = "") {
    SendRequest(method, target, body, fields);
    Answer answer = ReadHead();
    const size_t at = Lower(answer.head).find("content-length: ");
    if (at != std::string::npos) {
      answer.body = ReadBytes(std::stoul(answer.head.substr(at + 16)));
    } else if (Lower(answer.head).find("transfer-encoding: chunked") != std::string::npos) {
      for (std::string chunk = ReadChunk(); !chunk.empty(); chunk = ReadChunk()) {
        answer.body += chunk;
      }
    }
    return answer;
  }
  Answer ReadHead() {
    size_t end;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos && Fill()) {
    }
    Answer answer;
    if (end == std::string::npos) {
      ADD_FAILURE() << "no head: " << in_;
      return answer;
    }
    answer.head = in_.substr(0, end + 2);
    in_.erase(0, end + 4);
    answer.status = std::stoi(answer.head.substr(9, 3));
    return answer;
  }
  std::string ReadBytes(size_t bytes) {
    while (in_.size() < bytes && Fill()) {
    }
    std::string out = in_.substr(0, bytes);
    in_.erase(0, bytes);
    return out;
  }
  std::string ReadChunk() {
    size_t end;
    while ((end = in_.find("\r\n")) == std::string::npos && Fill()) {
    }
    const size_t size = std::stoul(in_.substr(0, end), nullptr, 16);
    in_.erase(0, end + 2);
    std::string chunk = ReadBytes(size + 2);
    return chunk.substr(0, size);
  }

 private:
  static std::string Lower(std::string text) {
    for (char& c : text) {
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return text;
  }
  bool Fill() {
    char buffer[65536];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) {
      return false;
    }
    in_.append(buffer, static_cast<size_t>(n));
    return true;
  }
  const int fd_;
  std::string in_;
};

class HttpTest : public RpcTest {
 protected:
  HttpTest() : http_(member_.port()) {}
  explicit HttpTest(TestMember::Config config)
      : RpcTest(std::move(config)), http_(member_.port()) {}
  Http http_;
};

TEST_F(HttpTest, HealthEndpointsAnswerAsEtcd) {
  Answer answer = http_.Ask("GET", "/health");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "{\"health\":\"true\",\"reason\":\"\"}");
  answer = http_.Ask("GET", "/livez");
  EXPECT_EQ(answer.body, "ok\n");
  answer = http_.Ask("GET", "/readyz?verbose&exclude=non_learner");
  EXPECT_EQ(answer.body,
            "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\nok\n");
  answer = http_.Ask("GET", "/livez/serializable_read?verbose");
  EXPECT_EQ(answer.body, "[+]serializable_read ok\nok\n");
  EXPECT_EQ(http_.Ask("GET", "/readyz/nope").status, 404);
  answer = http_.Ask("POST", "/health");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.body, "Method Not Allowed\n");
}

TEST_F(HttpTest, ANoSpaceAlarmFailsHealthButNotReadiness) {
  pb::AlarmRequest request;
  request.set_action(pb::AlarmRequest::ACTIVATE);
  request.set_alarm(pb::NOSPACE);
  request.set_memberid(1);
  pb::AlarmResponse response;
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Alarm, request, &response), kFine);
  Answer answer = http_.Ask("GET", "/health");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "{\"health\":\"false\",\"reason\":\"ALARM NOSPACE\"}\n");
  EXPECT_EQ(http_.Ask("GET", "/health?exclude=NOSPACE").status, 200);
  EXPECT_EQ(http_.Ask("GET", "/readyz").status, 200);
}

TEST_F(HttpTest, VersionMetricsDebugVarsAndUnknownPaths) {
  Answer answer = http_.Ask("GET", "/version");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body.find("{\"etcdserver\":\"3.7.1\",\"etcdcluster\":\""), 0u) << answer.body;
  answer = http_.Ask("GET", "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("grpc_server_started_total"), std::string::npos);
  EXPECT_NE(http_.Ask("GET", "/debug/vars").body.find("\"raft.status\":{"), std::string::npos);
  answer = http_.Ask("GET", "/nope");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, "404 page not found\n");
  EXPECT_EQ(http_.Ask("OPTIONS", "/v3/kv/range").status, 200);
}

TEST_F(HttpTest, TheGatewayServesUnaryCalls) {
  Answer answer = http_.Ask("POST", "/v3/kv/put", R"({"key":"Zm9v","value":"YmFy"})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("\"revision\":\"2\""), std::string::npos) << answer.body;
  for (const char* path : {"/v3/kv/range", "/v3beta/kv/range"}) {
    answer = http_.Ask("POST", path, R"({"key":"Zm9v"})");
    EXPECT_NE(answer.body.find(R"("kvs":[{"key":"Zm9v","create_revision":"2","mod_revision":"2",)"
                               R"("version":"1","value":"YmFy"}],"count":"1"})"),
              std::string::npos)
        << answer.body;
  }
  answer = http_.Ask("POST", "/v3/kv/range", "");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, R"({"code":3,"message":"etcdserver: key is not provided"})");
  answer = http_.Ask("POST", "/v3/lease/grant", R"({"ID":"-1","TTL":100})");
  EXPECT_NE(answer.body.find(R"("ID":"-1","TTL":"100"})"), std::string::npos) << answer.body;
  answer = http_.Ask("POST", "/v3/kv/lease/timetolive", R"({"ID":"-1"})");
  EXPECT_NE(answer.body.find(R"("grantedTTL":"100")"), std::string::npos) << answer.body;
}

TEST_F(HttpTest, TheGatewaysErrorsAreEtcds) {
  Answer answer = http_.Ask("POST", "/v3/kv/range", R"({"key":)");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, R"({"code":3,"message":"unexpected EOF"})");
  answer = http_.Ask("GET", "/v3/kv/range");
  EXPECT_EQ(answer.status, 501);
  EXPECT_EQ(answer.body, R"({"code":12,"message":"Method Not Allowed"})");
  answer = http_.Ask("POST", "/v3/nope");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, R"({"code":5,"message":"Not Found"})");
  answer = http_.Ask("POST", "/v3/kv/range", R"({"key":"Zm9v"})", "Grpc-Timeout: xx\r\n");
  EXPECT_EQ(answer.body, R"({"code":3,"message":"invalid grpc-timeout: xx"})");
  answer = http_.Ask("POST", "/v3/lock/lock", "{}");
  EXPECT_EQ(answer.status, 501);
  EXPECT_EQ(
      answer.body,
      R"({"code":12,"message":"mainstay does not serve v3lockpb.Lock/Lock in this version"})");
}

TEST_F(HttpTest, C37AWrongTokenWhileAuthIsOffIsIgnoredAndTheConnectionStays) {
  for (const char* token : {"", "Authorization: none\r\n", "Authorization: Bearer x.1\r\n"}) {
    EXPECT_EQ(http_.Ask("POST", "/v3/kv/range", R"({"key":"Zm9v"})", token).status, 200);
  }
  const Answer answer =
      http_.Ask("POST", "/v3/auth/authenticate", R"({"name":"a","password":"b"})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, R"({"code":9,"message":"etcdserver: authentication is not enabled"})");
}

TEST_F(HttpTest, TheGatewayStreamsKeepAlivesAndWatches) {
  http_.Ask("POST", "/v3/lease/grant", R"({"ID":7,"TTL":100})");
  const Answer renewed = http_.Ask("POST", "/v3/lease/keepalive", R"({"ID":7}{"ID":"8"})");
  EXPECT_EQ(renewed.status, 200);
  const size_t newline = renewed.body.find('\n');
  EXPECT_EQ(renewed.body.find("{\"result\":{\"header\":"), 0u) << renewed.body;
  EXPECT_NE(renewed.body.substr(0, newline).find(R"("ID":"7","TTL":"100"}})"), std::string::npos);
  EXPECT_NE(renewed.body.substr(newline).find(R"("ID":"8"}})"), std::string::npos) << renewed.body;

  http_.SendRequest("POST", "/v3/watch", R"({"create_request":{"key":"Zm9v"}})", "");
  EXPECT_EQ(http_.ReadHead().status, 200);
  EXPECT_NE(http_.ReadChunk().find("\"created\":true}}\n"), std::string::npos);
  Put("foo", "bar");
  const std::string event = http_.ReadChunk();
  EXPECT_NE(event.find(R"("events":[{"kv":{"key":"Zm9v","create_revision":"2")"), std::string::npos)
      << event;
}

// ---- the gateway over a WebSocket; expectations are etcd 3.7.1's, but for the close frame that
// ends a stream, where etcd only closes the connection.
class SocketTest : public HttpTest {
 protected:
  static constexpr std::string_view kKey = "dGhlIHNhbXBsZSBub25jZQ==";
  static constexpr int kText = 0x81, kClose = 0x88, kPing = 0x89, kPong = 0x8A;
  struct Frame {
    int first = 0;  // -1: the connection is at its end
    std::string payload;
  };
  Answer Upgrade(const std::string& path, const std::string& fields = "") {
    http_.Write("GET " + path +
                " HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n"
                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
                std::string(kKey) + "\r\n" + fields + "\r\n");
    return http_.ReadHead();
  }
  void Say(int first, const std::string& payload) {
    std::string frame(1, static_cast<char>(first));
    if (payload.size() < 126) {
      frame += static_cast<char>(0x80 | payload.size());
    } else {
      frame += static_cast<char>(0xFF);
      for (int shift = 56; shift >= 0; shift -= 8) {
        frame += static_cast<char>(payload.size() >> shift);
      }
    }
    frame += std::string("\0\0\0\0", 4) + payload;  // a mask of zeros masks nothing
    http_.Write(frame);
  }
  Frame Hear() {
    const std::string head = http_.ReadBytes(2);
    if (head.size() < 2) {
      return {-1, {}};
    }
    size_t length = static_cast<unsigned char>(head[1]);
    if (length >= 126) {
      const std::string more = http_.ReadBytes(length == 126 ? 2 : 8);
      length = 0;
      for (const char c : more) {
        length = length << 8 | static_cast<unsigned char>(c);
      }
    }
    return {static_cast<unsigned char>(head[0]), http_.ReadBytes(length)};
  }
  std::string HearText() {
    const Frame frame = Hear();
    EXPECT_EQ(frame.first, kText) << frame.payload;
    return frame.payload;
  }
};

TEST_F(SocketTest, AWatchSpeaksOneJsonTextAFrame) {
  const Answer answer = Upgrade("/v3/watch");
  EXPECT_EQ(answer.status, 101);
  EXPECT_TRUE(answer.Has("Upgrade: websocket")) << answer.head;
  EXPECT_TRUE(answer.Has("Connection: Upgrade")) << answer.head;
  EXPECT_TRUE(answer.Has("Sec-Websocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")) << answer.head;
  EXPECT_EQ(answer.head.find("-Protocol"), std::string::npos);
  EXPECT_EQ(answer.head.find("Access-Control"), std::string::npos);
  Say(kText, R"({"create_request":{"key":"Zm9v"}})");
  std::string text = HearText();
  EXPECT_EQ(text.find("{\"result\":{\"header\":{"), 0u) << text;
  EXPECT_NE(text.find("\"created\":true}}"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  Put("foo", "bar");
  text = HearText();
  EXPECT_NE(text.find(R"("events":[{"kv":{"key":"Zm9v","create_revision":"2")"), std::string::npos)
      << text;
  // The client goes on talking: a second watch, a ping between fragments, a cancel.
  Say(0x01, R"({"create_request":{"key":"YQ==",)");
  Say(kPing, "still there?");
  const Frame pong = Hear();
  EXPECT_EQ(pong.first, kPong);
  EXPECT_EQ(pong.payload, "still there?");
  Say(0x80, R"("watch_id":"9"}})");
  EXPECT_NE(HearText().find(R"("watch_id":"9","created":true)"), std::string::npos);
  Say(kText, R"({"cancel_request":{"watch_id":9}})");
  EXPECT_NE(HearText().find(R"("watch_id":"9","canceled":true)"), std::string::npos);
  // And ends it: its code comes back, then the end of the connection.
  Say(kClose,
      "\x03\xe8"
      "bye");
  const Frame close = Hear();
  EXPECT_EQ(close.first, kClose);
  EXPECT_EQ(close.payload, "\x03\xe8");
  EXPECT_EQ(Hear().first, -1);
}

TEST_F(SocketTest, KeepAlivesAndUnaryCallsGoToo) {
  http_.Ask("POST", "/v3/lease/grant", R"({"ID":7,"TTL":100})");
  EXPECT_EQ(Upgrade("/v3beta/lease/keepalive").status, 101);
  Say(kText, R"({"ID":7}{"ID":"8"})");
  EXPECT_NE(HearText().find(R"("ID":"7","TTL":"100"}})"), std::string::npos);
  EXPECT_NE(HearText().find(R"("ID":"8"}})"), std::string::npos);
}

TEST_F(SocketTest, AnAnswerThatEndsTheCallEndsTheSocket) {
  EXPECT_EQ(Upgrade("/v3/kv/range").status, 101);
  Say(kText, R"({"key":"Zm9v"})");
  EXPECT_EQ(HearText().find("{\"header\":"), 0u);
  EXPECT_EQ(Hear().payload, "\x03\xe8");
  EXPECT_EQ(Hear().first, -1);
}

TEST_F(SocketTest, UnknownRoutesAndBadJsonAreSaidInAText) {
  EXPECT_EQ(Upgrade("/v3/nope").status, 101);
  EXPECT_EQ(HearText(), R"({"code":5,"message":"Not Found"})");
  EXPECT_EQ(Hear().first, kClose);
  EXPECT_EQ(Hear().first, -1);
}

TEST_F(SocketTest, BadJsonIsSaidInAText) {
  EXPECT_EQ(Upgrade("/v3/watch").status, 101);
  Say(kText, R"({"create_request":{"key":)");
  Say(kText, "]}}");
  EXPECT_NE(HearText().find(R"({"error":{"code":3,"message":)"), std::string::npos);
  EXPECT_EQ(Hear().first, kClose);
}

TEST_F(SocketTest, FramesThatBreakTheRulesEndIt) {
  EXPECT_EQ(Upgrade("/v3/watch").status, 101);
  http_.Write("\x81\x02{}");  // not masked
  const Frame close = Hear();
  EXPECT_EQ(close.first, kClose);
  EXPECT_EQ(close.payload, "\x03\xea");
  EXPECT_EQ(Hear().first, -1);
}

TEST_F(SocketTest, HandshakesOutOfOrderAreRefusedAsByGorilla) {
  Answer answer =
      http_.Ask("POST", "/v3/watch", "", "Connection: Upgrade\r\nUpgrade: websocket\r\n");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.body, "Method Not Allowed\n");
  answer = http_.Ask("GET", "/v3/watch", "",
                     "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 12\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, "Bad Request\n");
  EXPECT_TRUE(answer.Has("Sec-Websocket-Version: 13")) << answer.head;
  // Elsewhere an upgrade is not for us to make.
  EXPECT_EQ(Upgrade("/version").status, 200);
}

TEST_F(SocketTest, TheSubprotocolBearerIsAnswered) {
  const Answer answer = Upgrade("/v3/kv/range", "Sec-WebSocket-Protocol: Bearer, token.1\r\n");
  EXPECT_EQ(answer.status, 101);
  EXPECT_TRUE(answer.Has("Sec-Websocket-Protocol: Bearer")) << answer.head;
}

// A client that asks and never reads is not read for ever.
TEST_F(SocketTest, AClientThatReadsNothingIsStopped) {
  EXPECT_EQ(Upgrade("/v3/lease/keepalive").status, 101);
  http_.MakeImpatient();
  std::string frames;
  for (int i = 0; i < 1000; ++i) {
    frames += std::string("\x81\x88\0\0\0\0", 6) + R"({"ID":7})";
  }
  constexpr size_t kFlood = size_t{200} << 20;
  size_t taken = 0;
  while (taken < kFlood && http_.TryWrite(frames)) {
    taken += frames.size();
  }
  EXPECT_LT(taken, kFlood);
  // The others are served meanwhile.
  Http other(member_.port());
  EXPECT_EQ(other.Ask("GET", "/version").status, 200);
}

// One that asks for all it will ever want before it reads its first answer gets them all.
TEST_F(SocketTest, AFloodOfWatchesIsSlowedDownAndNotRefused) {
  EXPECT_EQ(Upgrade("/v3/watch").status, 101);
  constexpr int kWatches = 40000;
  std::string frames;
  for (int i = 0; i < kWatches; ++i) {
    const std::string json = R"({"create_request":{"key":"Zm9v"}})";
    frames += "\x81" + std::string(1, static_cast<char>(0x80 | json.size())) +
              std::string("\0\0\0\0", 4) + json;
  }
  std::thread writer([&] { http_.Write(frames); });
  // Until what the server may keep for this stream is full, or nearly: it goes on either way.
  ::poll(nullptr, 0, 500);
  int created = 0;
  for (std::string text = HearText(); text.find("\"created\":true") != std::string::npos;
       text = HearText()) {
    if (++created == kWatches) {
      break;
    }
  }
  writer.join();
  EXPECT_EQ(created, kWatches);
}

// A member whose clients are soon found slow, and which lets one snapshot be made at a time.
class SlowClientTest : public HttpTest {
 protected:
  static TestMember::Config Impatient() {
    TestMember::Config config = TestMember::DefaultConfig();
    config.services.slow_range_period = std::chrono::milliseconds(200);
    config.services.slow_snapshot_period = std::chrono::seconds(2);
    config.services.slow_progress_bytes_min = 1;
    config.services.snapshots_max = 1;
    // More than sockets and windows hold.
    config.export_snapshot = [](const server::PinnedState&, FileSystem& files,
                                const std::string& path) -> Status {
      MS_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files.Open(path, OpenMode::kCreate));
      return file->WriteAt(0, std::string(32 << 20, 's'));
    };
    return config;
  }
  SlowClientTest() : HttpTest(Impatient()) {
    for (int i = 0; i < 32; ++i) {
      Put("big" + std::to_string(i), std::string(1 << 20, 'v'));
    }
  }
  static std::string Frame(char type, char flags, char stream, const std::string& payload) {
    return std::string{0,
                       static_cast<char>(payload.size() >> 8),
                       static_cast<char>(payload.size()),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       stream} +
           payload;
  }
  static std::string Field(const std::string& name, const std::string& value) {
    return std::string{0, static_cast<char>(name.size())} + name +
           std::string{static_cast<char>(value.size())} + value;
  }
  // A call over HTTP/2 for all keys, by a client that grants no more than the first 65,535 bytes.
  static void AskForAll(Http& http, const std::string& path) {
    const std::string body{0, 0, 0, 0, 6, 0x0a, 1, 0, 0x12, 1, 0};
    http.Write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "") +
               Frame(1, 4, 1,
                     Field(":method", "POST") + Field(":scheme", "http") + Field(":path", path) +
                         Field(":authority", "localhost") +
                         Field("content-type", "application/grpc") + Field("te", "trailers")) +
               Frame(0, 1, 1, body));
    EXPECT_EQ(http.ReadBytes(32768).size(), 32768u) << "so the view is held";
  }
};

// Its view kept every later compaction from removing anything: the store only grew.
TEST_F(SlowClientTest, AReaderThatStopsDoesNotStopCompactions) {
  for (const std::string method : {"Range", "RangeStream"}) {
    Http stalled(member_.port());
    AskForAll(stalled, "/etcdserverpb.KV/" + method);
    const int64_t revision = Put("big0", "new").header().revision();
    EXPECT_EQ(Compact(revision, /*physical=*/true), kFine) << method;
  }
}

// Each snapshot under way holds a file as large as the store.
TEST_F(SlowClientTest, SnapshotsThatAreNotReadHoldNoDiskForEver) {
  Http stalled(member_.port());
  stalled.SendRequest("POST", "/v3/maintenance/snapshot", "{}", "");
  EXPECT_EQ(stalled.ReadHead().status, 200);
  const auto whole = [this] {
    grpc::ClientContext own;
    SetDeadline(&own);
    auto reader = maintenance_->Snapshot(&own, pb::SnapshotRequest());
    pb::SnapshotResponse ignored;
    while (reader->Read(&ignored)) {
    }
    return Of(reader->Finish());
  };
  const Outcome too_many{grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: too many requests"};
  Outcome outcome = whole();
  EXPECT_EQ(outcome, too_many);
  while (outcome == too_many) {
    outcome = whole();
  }
  EXPECT_EQ(outcome, kFine);
}

// 128 ranges of the whole store in one txn: more than gRPC's length can say, and once the end of
// the process.
TEST(AnswerLimitTest, AnswersBeyondTheLimitAreRefusedWithEtcdsText) {
  TestMember::Config config = TestMember::DefaultConfig();
  config.services.response_bytes_max = 5 << 20;
  config.server.txn_answer_bytes_max = 5 << 20;
  TestMember member(config);
  const std::shared_ptr<grpc::Channel> channel = Connect(member);
  const auto kv = pb::KV::NewStub(channel);
  const auto call = [](auto& stub, auto method, const auto& request, auto* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return Of((stub.*method)(&context, request, response));
  };
  pb::PutRequest put;
  pb::PutResponse done;
  put.set_value(std::string(1 << 20, 'v'));
  for (const char* key : {"a", "b", "c"}) {
    put.set_key(key);
    ASSERT_EQ(call(*kv, &pb::KV::Stub::Put, put, &done), kFine);
  }
  pb::TxnRequest txn;
  for (int i = 0; i < 2; ++i) {
    pb::RangeRequest* all = txn.add_success()->mutable_request_range();
    all->set_key("a");
    all->set_range_end("d");
  }
  pb::TxnResponse answer;
  const auto is_refused = [](const Outcome& o) {
    return o.code == grpc::StatusCode::RESOURCE_EXHAUSTED &&
           o.text.starts_with("grpc: trying to send message larger than max (");
  };
  Outcome outcome = call(*kv, &pb::KV::Stub::Txn, txn, &answer);
  EXPECT_TRUE(is_refused(outcome)) << outcome;
  txn.add_success()->mutable_request_put()->set_key("written");
  outcome = call(*kv, &pb::KV::Stub::Txn, txn, &answer);
  EXPECT_TRUE(is_refused(outcome)) << outcome;
  txn.Clear();
  pb::DeleteRangeRequest* remove = txn.add_success()->mutable_request_delete_range();
  remove->set_key("x");
  remove->set_range_end("z");
  remove->set_prev_kv(true);
  ASSERT_EQ(call(*kv, &pb::KV::Stub::Txn, txn, &answer), kFine);
  pb::RangeRequest range;
  pb::RangeResponse found;
  range.set_key("written");
  ASSERT_EQ(call(*kv, &pb::KV::Stub::Range, range, &found), kFine);
  EXPECT_EQ(found.count(), 1) << "as in etcd: done, only not told";
  for (const char* key : {"d", "e", "f"}) {
    put.set_key(key);
    ASSERT_EQ(call(*kv, &pb::KV::Stub::Put, put, &done), kFine);
  }
  range.set_key("a");
  range.set_range_end("z");
  outcome = call(*kv, &pb::KV::Stub::Range, range, &found);
  EXPECT_TRUE(is_refused(outcome)) << outcome;
  remove->set_key("a");
  outcome = call(*kv, &pb::KV::Stub::Txn, txn, &answer);
  EXPECT_TRUE(is_refused(outcome)) << outcome;
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) {
    put.set_key(key);
    ASSERT_EQ(call(*kv, &pb::KV::Stub::Put, put, &done), kFine);
  }
  pb::DeleteRangeResponse removed;
  outcome = call(*kv, &pb::KV::Stub::DeleteRange, *remove, &removed);
  EXPECT_TRUE(is_refused(outcome)) << outcome;
}

class BigRequestTest : public HttpTest {
 protected:
  static TestMember::Config Config() {
    TestMember::Config config = TestMember::DefaultConfig();
    config.server.max_request_bytes = 10485760;
    return config;
  }
  BigRequestTest() : HttpTest(Config()) {}
};

TEST_F(BigRequestTest, C39BigAnswersPassBothWays) {
  const std::string value(1 << 20, 'v');
  for (int i = 0; i < 5; ++i) {
    Put("k" + std::to_string(i), value);
  }
  EXPECT_EQ(Get("k", "l").kvs_size(), 5);
  const Answer answer = http_.Ask("POST", "/v3/kv/range", R"({"key":"aw==","range_end":"bA=="})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_GT(answer.body.size(), size_t{6} << 20);
  EXPECT_NE(answer.body.find("\"count\":\"5\"}"), std::string::npos);
}

class WhitelistTest : public HttpTest {
 protected:
  static TestMember::Config Config() {
    TestMember::Config config = TestMember::DefaultConfig();
    config.http.host_whitelist = {"good.example"};
    config.http.cors = {"http://a.example"};
    return config;
  }
  WhitelistTest() : HttpTest(Config()) {}
};

TEST_F(WhitelistTest, OtherHostsAreMisdirectedAndOtherOriginsGetNoCors) {
  Answer answer = http_.Ask("GET", "/version");
  EXPECT_EQ(answer.status, 421);
  EXPECT_NE(answer.body.find("CVE-2018-5702"), std::string::npos);
  http_.Write("GET /version HTTP/1.1\r\nHost: good.example:99\r\nOrigin: http://b\r\n\r\n");
  answer = http_.ReadHead();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.head.find("ccess-"), std::string::npos);
}

}  // namespace
}  // namespace mainstay::testing

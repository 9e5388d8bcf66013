// Goal: HTTP/1.1 on the client port answers as etcd 3.7.1's, byte for byte where a client looks;
// cases C37 (its half that needs no auth) and C39. Method: an in-process member and a plain socket;
// expectations were taken from a real etcd's answers.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

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

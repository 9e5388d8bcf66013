// Goal: the gRPC layer frames, refuses and ends calls as grpc-go does.
// Method: a Stream without a connection; request bytes cut at every place.
#include "net/grpc.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <map>

#include "common/coding.h"
#include "net/loop.h"
#include "tests/support/manual_executor.h"

namespace mainstay::net {
namespace {

using std::chrono::nanoseconds;

class FakeStream : public Stream {
 public:
  FakeStream(Loop& loop, const Peer& peer) {
    loop_ = &loop;
    peer_ = &peer;
    head_.method = "POST";
    head_.path = "/pkg.Service/Echo";
    head_.http2 = true;
  }
  RequestHead& request() { return head_; }
  void SendHead(int code, const FieldList& list) override {
    status = code;
    Keep(list);
  }
  void SendBody(BufferChain part) override { body += part.ToString(); }
  void End(const FieldList& list) override {
    ended = true;
    Keep(list);
  }
  void RespondHeadOnly(int code, const FieldList& list) override {
    SendHead(code, list);
    ended = head_only = true;
  }
  void Reset(uint32_t) override {}
  size_t unsent_bytes() const override { return unsent; }
  void SetInputPaused(bool to) override { paused = to; }

  int status = 0;
  bool ended = false, head_only = false, paused = false;
  size_t unsent = 0;
  std::string body;
  std::map<std::string, std::string> fields;

 private:
  void Keep(const FieldList& list) {
    for (const auto& [name, value] : list) {
      fields[std::string(name)] = value;
    }
  }
};

class EchoRouter : public GrpcRouter {
 public:
  class Sink : public GrpcSink {
   public:
    Sink(GrpcCall& call, EchoRouter& router) : call_(call), router_(router) {}
    void OnMessage(Buffer message) override {
      router_.heard.emplace_back(message.view());
      if (router_.heard.size() == router_.pause_after) {
        call_.SetInputPaused(true);
        router_.paused = &call_;
      }
      call_.Send(BufferChain(std::move(message)));
    }
    void OnHalfClose() override { call_.Finish(GrpcCode::kOk, ""); }
    void OnGone(GrpcCode code) override { router_.gone.push_back(code); }

   private:
    GrpcCall& call_;
    EchoRouter& router_;
  };
  std::unique_ptr<GrpcSink> OnCall(GrpcCall& call) override {
    deadline = call.deadline();
    if (call.path() != "/pkg.Service/Echo") {
      return nullptr;
    }
    return std::make_unique<Sink>(call, *this);
  }
  bool HasService(std::string_view service) const override { return service == "pkg.Service"; }

  size_t pause_after = 0;  // messages; 0: never
  GrpcCall* paused = nullptr;
  std::vector<std::string> heard;
  std::vector<GrpcCode> gone;
  std::optional<MonoTime> deadline;
};

std::string Framed(std::string_view message, char flag = 0) {
  std::string out(1, flag);
  char length[4];
  StoreBE32(length, static_cast<uint32_t>(message.size()));
  out.append(length, 4);
  out.append(message);
  return out;
}

std::string Gzip(std::string_view text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

class GrpcTest : public ::testing::Test {
 protected:
  GrpcTest() { stream.request().headers.Add("content-type", "application/grpc"); }
  std::unique_ptr<StreamSink> Start() { return handler->OnRequest(stream); }
  std::string Field(const std::string& name) { return stream.fields[name]; }

  testing::FakeClock clock;
  Loop loop{"test", clock};
  Peer peer;
  EchoRouter router;
  std::unique_ptr<Handler> handler = NewGrpcHandler(router, {.receive_bytes_max = 1000});
  FakeStream stream{loop, peer};
};

TEST_F(GrpcTest, MessagesComeOutWholeWhereverTheBytesAreCut) {
  const std::string bytes = Framed("one") + Framed("") + Framed(std::string(300, 'x'));
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    router.heard.clear();
    FakeStream one(loop, peer);
    one.request().headers.Add("content-type", "application/grpc+proto");
    const auto sink = handler->OnRequest(one);
    sink->OnBody(Buffer::Copy(std::string_view(bytes).substr(0, cut)));
    sink->OnBody(Buffer::Copy(std::string_view(bytes).substr(cut)));
    sink->OnEnd();
    ASSERT_EQ(router.heard, (std::vector<std::string>{"one", "", std::string(300, 'x')}))
        << "cut at " << cut;
    EXPECT_EQ(one.body, bytes);
    EXPECT_EQ(one.fields["grpc-status"], "0");
  }
}

TEST_F(GrpcTest, AMessageBeyondTheLimitIsRefusedByItsPrefixAlone) {
  const auto sink = Start();
  sink->OnBody(Buffer::Copy(Framed(std::string(1001, 'x')).substr(0, 5)));
  EXPECT_EQ(Field("grpc-status"), "8");
  EXPECT_EQ(Field("grpc-message"), "grpc: received message larger than max (1001 vs. 1000)");
  EXPECT_EQ(router.gone.size(), 1u);
  EXPECT_TRUE(stream.head_only);
}

TEST_F(GrpcTest, CompressionIsRefusedWhereItWasNotNamed) {
  const auto sink = Start();
  sink->OnBody(Buffer::Copy(Framed("x", 1)));
  EXPECT_EQ(Field("grpc-status"), "13");
}

TEST_F(GrpcTest, APausedCallHearsNothingAndLosesNothing) {
  const std::string bytes = Framed("one") + Framed("two") + Framed("") + Framed("four");
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    router.heard.clear();
    router.pause_after = 1;
    FakeStream one(loop, peer);
    one.request().headers.Add("content-type", "application/grpc");
    const auto sink = handler->OnRequest(one);
    sink->OnBody(Buffer::Copy(std::string_view(bytes).substr(0, cut)));
    sink->OnBody(Buffer::Copy(std::string_view(bytes).substr(cut)));
    sink->OnEnd();
    ASSERT_EQ(router.heard, std::vector<std::string>{"one"}) << "cut at " << cut;
    EXPECT_TRUE(one.paused);
    EXPECT_EQ(sink->held_bytes(), bytes.size() - 8);
    EXPECT_FALSE(one.ended);  // the half-close waits behind the messages
    router.pause_after = 3;
    router.paused->SetInputPaused(false);
    ASSERT_EQ(router.heard, (std::vector<std::string>{"one", "two", ""})) << "cut at " << cut;
    EXPECT_TRUE(one.paused);
    router.paused->SetInputPaused(false);
    ASSERT_EQ(router.heard, (std::vector<std::string>{"one", "two", "", "four"}));
    EXPECT_FALSE(one.paused);
    EXPECT_EQ(sink->held_bytes(), 0u);
    EXPECT_EQ(one.fields["grpc-status"], "0");
    EXPECT_EQ(one.body, bytes);
  }
}

TEST_F(GrpcTest, BytesMissingBehindAPauseAreStillAnError) {
  router.pause_after = 1;
  const auto sink = Start();
  sink->OnBody(Buffer::Copy(Framed("one") + "xyz"));
  sink->OnEnd();
  EXPECT_FALSE(stream.ended);
  router.paused->SetInputPaused(false);
  EXPECT_EQ(Field("grpc-status"), "2");
}

TEST_F(GrpcTest, AClientThatReadsNothingIsNotHeardEither) {
  const auto sink = Start();
  stream.unsent = kUnsentPauseBytes + 1;
  sink->OnBody(Buffer::Copy(Framed("one") + Framed("two")));
  EXPECT_EQ(router.heard, std::vector<std::string>{"one"});
  EXPECT_TRUE(stream.paused);
  stream.unsent = kUnsentPauseBytes - 1;
  sink->OnWritten(2);
  EXPECT_TRUE(stream.paused);
  stream.unsent = kUnsentPauseBytes / 2;
  sink->OnWritten(1);
  EXPECT_EQ(router.heard, (std::vector<std::string>{"one", "two"}));
  EXPECT_FALSE(stream.paused);
}

TEST_F(GrpcTest, AnUnknownEncodingIsUnimplemented) {
  stream.request().headers.Add("grpc-encoding", "snappy");
  const auto sink = Start();
  EXPECT_EQ(Field("grpc-status"), "12");
  EXPECT_EQ(Field("grpc-message"),
            "grpc: Decompressor is not installed for grpc-encoding \"snappy\"");
  EXPECT_EQ(Field("grpc-accept-encoding"), "identity,gzip");
}

// Texts and codes as etcd 3.7.1 gave them for the same bytes.
TEST_F(GrpcTest, GzipIsDecodedAndItsFaultsAreNamed) {
  const std::string good = Gzip("hello");
  std::string wrong_sum = good;
  wrong_sum[wrong_sum.size() - 8] = static_cast<char>(wrong_sum[wrong_sum.size() - 8] ^ 1);
  const struct {
    std::string bytes, heard, code, text;
  } cases[] = {
      {good, "hello", "0", ""},
      {Gzip(""), "", "0", ""},
      {Gzip("a") + Gzip("b"), "ab", "0", ""},
      {Gzip(std::string(1000, 'z')), std::string(1000, 'z'), "0", ""},
      {"", "", "13", "grpc: failed to decompress the message: EOF"},
      {"junkjunkjunkjunk", "", "13",
       "grpc: failed to decompress the message: gzip: invalid header"},
      {good.substr(0, 5), "", "13", "grpc: failed to decompress the message: unexpected EOF"},
      {good.substr(0, good.size() - 6), "", "13",
       "grpc: failed to read decompressed data: unexpected EOF"},
      {wrong_sum, "", "13", "grpc: failed to read decompressed data: gzip: invalid checksum"},
      {Gzip(std::string(50 << 20, '\0')).substr(0, 990), "", "8",
       "grpc: received message after decompression larger than max 1000"},
  };
  for (const auto& one : cases) {
    router.heard.clear();
    FakeStream call(loop, peer);
    call.request().headers.Add("content-type", "application/grpc");
    call.request().headers.Add("grpc-encoding", "gzip");
    const auto sink = handler->OnRequest(call);
    // A message that is not compressed may stand beside one that is.
    sink->OnBody(Buffer::Copy(Framed("plain") + Framed(one.bytes, 1)));
    sink->OnEnd();
    EXPECT_EQ(call.fields["grpc-status"], one.code) << one.text;
    EXPECT_EQ(call.fields["grpc-message"], one.text);
    ASSERT_EQ(router.heard.size(), one.code == "0" ? 2u : 1u) << one.text;
    EXPECT_EQ(router.heard.back(), one.code == "0" ? one.heard : "plain");
  }
}

TEST_F(GrpcTest, AnUnknownPayloadFormatIsRefused) {
  const auto sink = Start();
  sink->OnBody(Buffer::Copy(Framed("x", 2)));
  EXPECT_EQ(Field("grpc-status"), "13");
  EXPECT_EQ(Field("grpc-message"), "grpc: received unexpected payload format 2");
}

TEST_F(GrpcTest, UnknownNamesAreToldApart) {
  const std::pair<std::string, std::string> cases[] = {
      {"/pkg.Service/Nope", "unknown method Nope for service pkg.Service"},
      {"/pkg.Other/Echo", "unknown service pkg.Other"},
      {"nonsense", "malformed method name: \"nonsense\""}};
  for (const auto& [path, text] : cases) {
    FakeStream one(loop, peer);
    one.request().headers.Add("content-type", "application/grpc");
    one.request().path = path;
    const auto sink = handler->OnRequest(one);
    EXPECT_EQ(one.fields["grpc-status"], "12");
    EXPECT_EQ(one.fields["grpc-message"], text);
  }
}

TEST_F(GrpcTest, OtherContentTypesAre415AndOtherMethods405) {
  for (const std::string type : {"application/json", "application/grpcx", "", "text/plain"}) {
    FakeStream one(loop, peer);
    one.request().headers.Add("content-type", type);
    const auto sink = handler->OnRequest(one);
    EXPECT_EQ(one.status, 415) << type;
  }
  stream.request().method = "GET";
  const auto sink = Start();
  EXPECT_EQ(stream.status, 405);
}

TEST_F(GrpcTest, BytesMissingAtTheEndAreAnError) {
  const auto sink = Start();
  sink->OnBody(Buffer::Copy(Framed("whole") + "\0\0"));
  sink->OnBody(Buffer::Static("x"));
  sink->OnEnd();
  EXPECT_EQ(Field("grpc-status"), "2");
  EXPECT_EQ(Field("grpc-message"), "unexpected EOF");
  EXPECT_EQ(router.gone.size(), 1u);  // the handler learns of it
}

TEST_F(GrpcTest, ALostStreamIsToldOnce) {
  const auto sink = Start();
  sink->OnClosed();
  EXPECT_EQ(router.gone, std::vector<GrpcCode>{GrpcCode::kCancelled});
}

TEST_F(GrpcTest, TheLongestTimeoutDoesNotOverflow) {
  stream.request().headers.Add("grpc-timeout", "99999999H");
  const auto sink = Start();
  ASSERT_TRUE(router.deadline.has_value());
  EXPECT_GT(*router.deadline, clock.Now() + std::chrono::hours(1000000));
  EXPECT_FALSE(stream.ended);
}

TEST_F(GrpcTest, AMalformedTimeoutIs400) {
  stream.request().headers.Add("grpc-timeout", "5x");
  const auto sink = Start();
  EXPECT_EQ(stream.status, 400);
  EXPECT_EQ(Field("grpc-status"), "13");
}

TEST(GrpcTimeoutTest, UnitsAndLimits) {
  EXPECT_EQ(ParseGrpcTimeout("1H"), std::chrono::hours(1));
  EXPECT_EQ(ParseGrpcTimeout("2M"), std::chrono::minutes(2));
  EXPECT_EQ(ParseGrpcTimeout("3S"), std::chrono::seconds(3));
  EXPECT_EQ(ParseGrpcTimeout("4m"), std::chrono::milliseconds(4));
  EXPECT_EQ(ParseGrpcTimeout("5u"), std::chrono::microseconds(5));
  EXPECT_EQ(ParseGrpcTimeout("12345678n"), nanoseconds(12345678));
  EXPECT_EQ(ParseGrpcTimeout("99999999H"), nanoseconds::max());
  for (const std::string_view bad : {"", "1", "H", "123456789n", "-1S", "1.5S", "1s", " 1S"}) {
    EXPECT_EQ(ParseGrpcTimeout(bad), std::nullopt) << bad;
  }
}

TEST(PercentEncodeTest, OnlyPrintableAsciiStays) {
  EXPECT_EQ(PercentEncode("etcdserver: key is not found"), "etcdserver: key is not found");
  EXPECT_EQ(PercentEncode("100%\n\t\xE2\x98\xBA~\x7f"), "100%25%0A%09%E2%98%BA~%7F");
  EXPECT_EQ(PercentEncode(""), "");
}

}  // namespace
}  // namespace mainstay::net

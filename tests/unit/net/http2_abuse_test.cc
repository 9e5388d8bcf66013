// Goal: a peer that breaks HTTP/2's rules, or keeps them to do harm, loses its connection or its
// stream, and costs a bounded amount until then; a busy peer that means well keeps both.
// Method: frames written by hand into a session without a socket; a clock that the test moves.
#include <gtest/gtest.h>
#include <malloc.h>
#include <nghttp2/nghttp2.h>

#include "net/loop.h"
#include "net/session.h"
#include "tests/support/http2_frames.h"
#include "tests/support/manual_executor.h"

namespace mainstay::net {
namespace {

using std::chrono::seconds;
using testing::Be32;
using testing::HpackField;
using testing::HpackRequest;
using testing::Http2Frame;
using testing::Http2Preface;
using testing::Http2Type;
using testing::kAck;
using testing::kEndHeaders;
using testing::kEndStream;

class Host : public SessionHost {
 public:
  void WantFlush() override {}
  Loop& loop() override { return loop_; }
  const Peer& peer() override { return peer_; }
  testing::FakeClock clock;

 private:
  Loop loop_{"test", clock};
  Peer peer_;
};

// Never answers; counts.
class Silent : public Handler {
 public:
  class Sink : public StreamSink {
   public:
    explicit Sink(Silent& owner) : owner_(owner) {}
    void OnBody(Buffer data) override { owner_.body_bytes += data.size(); }
    void OnEnd() override {}
    void OnClosed() override { --owner_.open; }

   private:
    Silent& owner_;
  };
  std::unique_ptr<StreamSink> OnRequest(Stream& stream) override {
    ++requests;
    most_open = std::max(most_open, ++open);
    streams.push_back(&stream);
    return std::make_unique<Sink>(*this);
  }
  int requests = 0, open = 0, most_open = 0;
  size_t body_bytes = 0;
  std::vector<Stream*> streams;  // as they came; the test knows which are alive
};

class Http2AbuseTest : public ::testing::Test {
 protected:
  ~Http2AbuseTest() override { Close(); }
  void Close() {
    if (session_ != nullptr) {
      session_->OnClosed();
    }
  }
  // A connection, after the one before has gone.
  void Open() {
    Close();
    frames.clear();
    input_.clear();
    alive = true;
    listener.http = &silent;
    session_ = NewHttp2Session(host, {&options, &listener});
    Send(Http2Preface() + Http2Frame(Http2Type::kSettings, kAck, 0, ""));
  }
  // What the server answers is kept in `frames`, as type, id and payload.
  void Send(std::string_view bytes) {
    alive = session_->OnBytes(bytes) && alive;
    Pump();
  }
  void Pump() {
    OutQueue queue;
    alive = session_->Pump(&queue, 16 << 20) && alive;
    while (!queue.empty()) {
      input_ += queue.front();
      queue.Consume(queue.front().size());
    }
    while (input_.size() >= 9) {
      const size_t length = LoadBE32(input_.data()) >> 8;
      if (input_.size() < 9 + length) {
        return;
      }
      frames.push_back({static_cast<Http2Type>(input_[3]), LoadBE32(input_.data() + 5),
                        input_.substr(9, length)});
      input_.erase(0, 9 + length);
    }
  }
  std::string Headers(uint32_t id, uint8_t flags = kEndHeaders | kEndStream) {
    return Http2Frame(Http2Type::kHeaders, flags, id, HpackRequest("POST", "/x"));
  }
  std::string Reset(uint32_t id) {
    return Http2Frame(Http2Type::kRstStream, 0, id, Be32(NGHTTP2_CANCEL));
  }
  std::string Ping() { return Http2Frame(Http2Type::kPing, 0, 0, std::string(8, 'p')); }
  struct Heard {
    Http2Type type;
    uint32_t id;
    std::string payload;
  };
  size_t Count(Http2Type type) const {
    return static_cast<size_t>(std::count_if(frames.begin(), frames.end(),
                                             [type](const Heard& f) { return f.type == type; }));
  }
  // Of the last GOAWAY; -1 without one.
  int64_t GoawayCode() const {
    for (auto it = frames.rbegin(); it != frames.rend(); ++it) {
      if (it->type == Http2Type::kGoaway) {
        return LoadBE32(it->payload.data() + 4);
      }
    }
    return -1;
  }
  bool Cut() const { return !alive || GoawayCode() > 0; }

  ServerOptions options;
  ListenerOptions listener;
  Silent silent;
  Host host;
  std::vector<Heard> frames;
  bool alive = true;

 private:
  std::unique_ptr<Session> session_;
  std::string input_;
};

// CVE-2023-44487.
TEST_F(Http2AbuseTest, RapidResetsLoseTheConnection) {
  Open();
  uint32_t id = 1;
  for (; id < 200000 && !Cut(); id += 2) {
    Send(Headers(id) + Reset(id));
  }
  EXPECT_TRUE(Cut());
  EXPECT_LT(silent.requests, 50000);
  EXPECT_LE(silent.most_open, 1);
}

// A client whose thousands of calls all time out at once resets them all, and means no harm.
TEST_F(Http2AbuseTest, AThousandsOfResetsAtOnceAreForgiven) {
  Open();
  std::string calls, resets;
  for (uint32_t id = 1; id < 10000; id += 2) {
    calls += Headers(id);
    resets += Reset(id);
  }
  Send(calls);
  EXPECT_EQ(silent.open, 5000);
  Send(resets);
  EXPECT_EQ(silent.open, 0);
  EXPECT_FALSE(Cut());
}

// CVE-2024-27316 and its like.
TEST_F(Http2AbuseTest, ContinuationsWithoutEndLoseTheConnection) {
  Open();
  Send(Http2Frame(Http2Type::kHeaders, 0, 1, HpackRequest("POST", "/x")));
  int sent = 0;
  for (; sent < 1000 && !Cut(); ++sent) {
    Send(Http2Frame(Http2Type::kContinuation, 0, 1, HpackField("a", std::string(100, 'v'))));
  }
  EXPECT_TRUE(Cut());
  EXPECT_LT(sent, 50);
  EXPECT_EQ(silent.requests, 0);
}

TEST_F(Http2AbuseTest, EmptyContinuationsWithoutEndLoseTheConnection) {
  Open();
  Send(Http2Frame(Http2Type::kHeaders, 0, 1, ""));
  int sent = 0;
  for (; sent < 1000 && !Cut(); ++sent) {
    Send(Http2Frame(Http2Type::kContinuation, 0, 1, ""));
  }
  EXPECT_TRUE(Cut());
  EXPECT_LT(sent, 50);
}

// A head of 60 KiB over four frames is within the limits.
TEST_F(Http2AbuseTest, ALongHeadInAFewContinuationsIsTaken) {
  Open();
  std::string fields;
  while (fields.size() < 14000) {
    fields += HpackField("a", std::string(120, 'v'));
  }
  Send(Http2Frame(Http2Type::kHeaders, kEndStream, 1, HpackRequest("POST", "/x") + fields) +
       Http2Frame(Http2Type::kContinuation, 0, 1, fields) +
       Http2Frame(Http2Type::kContinuation, kEndHeaders, 1, fields));
  EXPECT_EQ(silent.requests, 1);
  EXPECT_FALSE(Cut());
}

TEST_F(Http2AbuseTest, AHeaderListBeyondTheLimitEndsItsStreamOnly) {
  Open();
  std::string fields;
  while (fields.size() < 16000) {
    fields += HpackField("a", "");  // 33 bytes of the list for 4 on the wire
  }
  Send(Http2Frame(Http2Type::kHeaders, kEndStream, 1, HpackRequest("POST", "/x")) +
       Http2Frame(Http2Type::kContinuation, kEndHeaders, 1, fields));
  EXPECT_EQ(silent.requests, 0);
  EXPECT_EQ(Count(Http2Type::kRstStream), 1u);
  Send(Headers(3));
  EXPECT_EQ(silent.requests, 1);
  EXPECT_FALSE(Cut());
}

// Before it has heard our limit a client may open more: those are refused, and may be tried again.
TEST_F(Http2AbuseTest, NoMoreStreamsThanAllowedAreOpenAtOnce) {
  options.max_concurrent_streams = 3;
  listener.http = &silent;
  Open();
  std::string all;
  for (uint32_t id = 1; id < 20; id += 2) {
    all += Headers(id);
  }
  Send(all);
  EXPECT_EQ(silent.most_open, 3);
  EXPECT_EQ(silent.requests, 3);
}

TEST_F(Http2AbuseTest, AFreedPlaceIsGivenToTheNextStream) {
  options.max_concurrent_streams = 3;
  Open();
  for (uint32_t id = 1; id < 2000; id += 2) {
    Send(Headers(id));
    if (id >= 5) {
      Send(Reset(id - 4));
    }
    ASSERT_LE(silent.open, 3);
  }
  EXPECT_EQ(silent.requests, 1000);
  EXPECT_FALSE(Cut());
}

TEST_F(Http2AbuseTest, KeepAlivePingsOfACallAreTolerated) {
  Open();
  Send(Headers(1));
  for (int i = 0; i < 200; ++i) {
    host.clock.Advance(seconds(30));
    Send(Ping());
    ASSERT_FALSE(Cut()) << "ping " << i;
  }
  EXPECT_EQ(Count(Http2Type::kPing), 200u);  // each was answered
}

TEST_F(Http2AbuseTest, PingsFasterThanAllowedAreStrikes) {
  Open();
  Send(Headers(1));
  host.clock.Advance(seconds(10));
  int sent = 0;
  for (; sent < 10 && !Cut(); ++sent) {
    Send(Ping());
    host.clock.Advance(options.ping_min_interval - std::chrono::milliseconds(1));
  }
  // The first is none; two are forgiven.
  EXPECT_EQ(sent, 4);
  EXPECT_EQ(GoawayCode(), NGHTTP2_ENHANCE_YOUR_CALM);
}

// As grpc-go without PermitWithoutStream: with no call open, pings are for every two hours.
TEST_F(Http2AbuseTest, PingsWithoutACallAreStrikes) {
  Open();
  int sent = 0;
  for (; sent < 10 && !Cut(); ++sent) {
    host.clock.Advance(seconds(30));
    Send(Ping());
  }
  EXPECT_EQ(sent, 4);
}

TEST_F(Http2AbuseTest, AnAnswerForgivesStrikes) {
  Open();
  for (uint32_t id = 1; id < 200; id += 2) {
    Send(Headers(id));
    silent.streams.back()->Respond(200, {}, {});
    Pump();
    Send(Ping());
    Send(Ping());
    ASSERT_FALSE(Cut()) << "stream " << id;
  }
}

// What must be acknowledged is not queued without end for a peer that does not read.
TEST_F(Http2AbuseTest, SettingsThatNobodyHearsAcknowledgedLoseTheConnection) {
  Open();
  std::string flood;
  for (int i = 0; i < 5000; ++i) {
    flood += Http2Frame(Http2Type::kSettings, 0, 0, "");
  }
  Send(flood);
  EXPECT_TRUE(Cut());
}

// CVE-2019-9517 and -9511: no matter how small the grants, what waits is what the handler gave.
TEST_F(Http2AbuseTest, AWindowThatOverflowsLosesTheConnection) {
  Open();
  for (int i = 0; i < 2; ++i) {
    Send(Http2Frame(Http2Type::kWindowUpdate, 0, 0, Be32(0x7fffffff)));
  }
  EXPECT_EQ(GoawayCode(), NGHTTP2_FLOW_CONTROL_ERROR);
}

TEST_F(Http2AbuseTest, DataBeyondTheGrantLosesTheConnectionOrTheStream) {
  Open();
  Send(Headers(1, kEndHeaders));
  silent.streams[0]->SetInputPaused(true);
  const std::string data = Http2Frame(Http2Type::kData, 0, 1, std::string(16384, 'd'));
  for (int i = 0; i < 1000 && !Cut(); ++i) {
    Send(data);
    if (Count(Http2Type::kRstStream) > 0) {
      break;
    }
  }
  EXPECT_TRUE(Cut() || Count(Http2Type::kRstStream) > 0);
  // The frame that goes beyond it is the last.
  EXPECT_LE(silent.body_bytes, static_cast<size_t>(kStreamWindow) + 16384);
}

// RFC 9113 5.1: whoever ended a stream says no more on it, however the bytes are cut.
TEST_F(Http2AbuseTest, FramesForAStreamThatThePeerEndedLoseTheConnection) {
  const std::string data = Http2Frame(Http2Type::kData, 0, 1, "late");
  for (const std::string& late : {data, Headers(1, kEndHeaders | kEndStream)}) {
    for (const bool answered : {false, true}) {
      Open();
      if (answered) {
        Send(Headers(1, kEndHeaders | kEndStream));
        silent.streams.back()->Respond(200, {}, Buffer::Copy("x"));
        Pump();
        for (const char byte : late) {
          Send({&byte, 1});
        }
      } else {
        Send(Headers(1, kEndHeaders) + Reset(1) + late);
      }
      EXPECT_EQ(GoawayCode(), NGHTTP2_STREAM_CLOSED) << answered;
    }
  }
}

TEST_F(Http2AbuseTest, DataOnItsWayWhenTheServerResetIsPassedOver) {
  Open();
  Send(Headers(1, kEndHeaders));
  silent.streams.back()->Reset(NGHTTP2_CANCEL);
  Pump();
  for (int i = 0; i < 10; ++i) {
    Send(Http2Frame(Http2Type::kData, 0, 1, "on its way"));
  }
  Send(Headers(3, kEndHeaders));
  EXPECT_FALSE(Cut());
  EXPECT_EQ(silent.requests, 2);
}

// An API server's connection lives for months: what is over must leave nothing behind.
TEST_F(Http2AbuseTest, AnsweredRequestsLeaveNoMemoryBehind) {
  Open();
  const auto ask = [this](uint32_t from, uint32_t to) {
    for (uint32_t id = from; id < to; id += 2) {
      Send(Http2Frame(Http2Type::kHeaders, kEndHeaders | kEndStream, id, HpackRequest("GET", "/")));
      silent.streams.back()->Respond(200, {}, Buffer::Copy("x"));
      silent.streams.clear();
      Pump();
      frames.clear();
    }
  };
  ask(1, 2001);
  const size_t before = mallinfo2().uordblks;
  ask(2001, 42001);
  ASSERT_TRUE(alive);
  EXPECT_EQ(silent.requests, 21000);
  EXPECT_EQ(silent.open, 0);
  EXPECT_LT(mallinfo2().uordblks, before + 100'000);  // 5 bytes a request
}

}  // namespace
}  // namespace mainstay::net

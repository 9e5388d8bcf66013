// Goal: no frames from a peer harm the HTTP/2 session and the gRPC layer on it.
// Method: libFuzzer writes a program of frames: after a valid preface each byte chooses a frame
// that is right but for what the next bytes make of it, raw bytes, or something that the server
// does (write, pause and go on, answer, tick). Limits are small, so that they are met. Counts at
// the end must agree.
#include <cstdlib>

#include "tests/fuzz/net/driver.h"
#include "tests/fuzz/net/input.h"
#include "tests/support/http2_frames.h"

namespace mainstay::net {
namespace {

using fuzzing::EchoHandler;
using fuzzing::EchoRouter;
using fuzzing::Host;
using mainstay::fuzzing::Input;
using namespace mainstay::testing;  // NOLINT: frames by the dozen

constexpr size_t kReceiveMax = 4096;
constexpr size_t kHeldMax = 64 << 10;

std::string Fields(Input& in) {
  static constexpr std::pair<std::string_view, std::string_view> kTable[] = {
      {":method", "POST"},
      {":method", "GET"},
      {":scheme", "http"},
      {":path", "/a.B/C"},
      {":path", "/x?q=1"},
      {":path", "/v3/watch"},
      {":authority", "x"},
      {"content-type", "application/grpc"},
      {"content-type", "application/grpc+proto"},
      {"content-type", "application/json"},
      {"te", "trailers"},
      {"grpc-timeout", "1S"},
      {"grpc-timeout", "99999999H"},
      {"grpc-timeout", "x"},
      {"grpc-encoding", "gzip"},
      {"grpc-encoding", "snappy"},
      {"content-length", "5"},
      {"connection", "close"},
  };
  // The usual heads first: a fuzzer should not have to find them.
  static const std::string kGrpc = HpackRequest("POST", "/a.B/C") +
                                   HpackField("content-type", "application/grpc") +
                                   HpackField("te", "trailers");
  std::string out;
  const uint8_t kind = in.Byte() % 4;
  if (kind == 0) {
    return kGrpc;
  }
  if (kind == 1) {
    return kGrpc + HpackField("grpc-encoding", "gzip");
  }
  if (kind == 2) {
    out = HpackRequest("POST", "/x");
  }
  for (int n = in.Byte() % 16; n > 0; --n) {
    const uint8_t which = in.Byte();
    if (which < std::size(kTable)) {
      out += HpackField(kTable[which].first, kTable[which].second);
    } else if (which < 128) {
      out += static_cast<char>(0x80 | in.Byte());  // of the static or the dynamic table
    } else if (which < 160) {
      // Into the dynamic table.
      std::string field = HpackField(in.Text(in.Byte() % 64), in.Text(in.Byte() % 64));
      field[0] = 0x40;
      out += field;
    } else {
      out += HpackField(in.Text(in.Byte() % 32), in.Text(in.Byte() % 127));
    }
  }
  return out;
}

std::string Data(Input& in) {
  const uint8_t kind = in.Byte();
  const std::string_view payload = in.Text(in.Byte());
  if (kind < 64) {
    return std::string(payload);
  }
  std::string out(1, static_cast<char>(kind % 8 == 0 ? in.Byte() : kind & 1));
  out += Be32(kind % 8 == 1 ? in.Number() : static_cast<uint32_t>(payload.size()));
  out += payload;
  if (kind > 240) {
    out.append(4000, 'z');  // more than one frame's worth of input for a few bytes of program
  }
  return out;
}

class Program {
 public:
  explicit Program(Input in) : in_(in) {
    options_.body_bytes_max = kReceiveMax;
    options_.held_bytes_max = kHeldMax;
    options_.max_concurrent_streams = 20;
    options_.ping_min_interval = std::chrono::nanoseconds(0);
    listener_.http = &http_;
    listener_.grpc = grpc_.get();
    session_ = NewHttp2Session(host_, {&options_, &listener_});
    open_ = session_->OnBytes(Http2Preface());
  }

  void Run() {
    while (open_ && !in_.empty()) {
      Step(in_.Byte());
    }
    Pump();
    session_->OnTick(std::chrono::hours(1));
    session_->OnClosed();
    session_ = nullptr;
    // Every call that began has ended, and was told so.
    if (!router_.live.empty()) {
      std::abort();
    }
  }

 private:
  uint32_t Id() {
    const uint8_t byte = in_.Byte();
    if (byte < 128) {
      return next_id_ - 2 * (byte % 8) - 2;  // a late one: most are open
    }
    return byte < 250 ? next_id_ : in_.Number();
  }
  void Frame(Http2Type type, uint8_t flags, uint32_t id, std::string_view payload) {
    Bytes(Http2Frame(type, flags, id, payload));
  }
  void Bytes(std::string_view bytes) {
    // Sometimes cut, as the network does.
    const size_t cut = in_.Byte() % 4 == 0 ? std::min<size_t>(in_.Byte(), bytes.size()) : 0;
    open_ = session_->OnBytes(bytes.substr(0, cut)) && session_->OnBytes(bytes.substr(cut));
  }
  void Pump() {
    OutQueue out;
    open_ = session_->Pump(&out, 1 << 20) && open_;
  }
  void Step(uint8_t op) {
    switch (op % 20) {
      case 0:
      case 1:
      case 2:
        next_id_ += 2;
        return Frame(Http2Type::kHeaders, op % 20 == 2 ? in_.Byte() & 0x0D : kEndHeaders,
                     next_id_ - 2, Fields(in_));
      case 3:
        return Frame(Http2Type::kHeaders, in_.Byte(), Id(), Fields(in_));
      case 4:
      case 5:
      case 6:
        return Frame(Http2Type::kData, 0, Id(), Data(in_));
      case 7:
        return Frame(Http2Type::kData, kEndStream, Id(), Data(in_));
      case 8: {
        const std::string_view padding(kZeros.data(), in_.Byte());
        std::string payload(1, static_cast<char>(padding.size()));
        payload += Data(in_);
        return Frame(Http2Type::kData, 8, Id(), payload + std::string(padding));
      }
      case 9:
        return Frame(Http2Type::kRstStream, 0, Id(), Be32(in_.Byte()));
      case 10:
        return Frame(Http2Type::kWindowUpdate, 0, in_.Byte() % 2 == 0 ? 0 : Id(),
                     Be32(in_.Number() >> (in_.Byte() % 32)));
      case 11:
        return Frame(Http2Type::kContinuation, in_.Byte() & kEndHeaders, Id(), Fields(in_));
      case 12:
        return Frame(Http2Type::kPing, in_.Byte() & kAck, 0, "12345678");
      case 13: {
        std::string settings(1, '\0');
        settings += static_cast<char>(1 + in_.Byte() % 8);
        settings += Be32(in_.Number() >> (in_.Byte() % 32));
        return Frame(Http2Type::kSettings, 0, 0, settings);
      }
      case 14:
        return Frame(Http2Type::kSettings, kAck, 0, "");
      case 15:
        return Frame(static_cast<Http2Type>(in_.Byte() % 16), in_.Byte(), Id(),
                     in_.Text(in_.Byte()));
      case 16:
        return Bytes(in_.Text(in_.Byte()));
      case 17:
        return router_.Act(in_.Byte());
      case 18:
        if (in_.Byte() == 0) {
          session_->Shutdown();
        }
        open_ = session_->OnTick(host_.loop().now()) && open_;
        return;
      default:
        return Pump();
    }
  }

  static inline const std::string kZeros = std::string(255, '\0');
  Input in_;
  Host host_;
  EchoHandler http_;
  EchoRouter router_;
  const std::unique_ptr<Handler> grpc_ =
      NewGrpcHandler(router_, {.receive_bytes_max = kReceiveMax});
  ServerOptions options_;
  ListenerOptions listener_;
  std::unique_ptr<Session> session_;
  uint32_t next_id_ = 1;
  bool open_ = true;
};

}  // namespace
}  // namespace mainstay::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mainstay::net::Program(mainstay::fuzzing::Input(data, size)).Run();
  return 0;
}

#include "net/grpc.h"

#include <zlib.h>

#include <algorithm>

#include "fmt/format.h"

#include "common/check.h"
#include "common/coding.h"
#include "net/loop.h"

namespace mainstay::net {

std::string PercentEncode(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
    }
  }
  return out;
}

std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text) {
  // At most 8 digits and a unit.
  if (text.size() < 2 || text.size() > 9) {
    return std::nullopt;
  }
  int64_t value = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    value = value * 10 + (c - '0');
  }
  int64_t unit = 0;
  switch (text.back()) {
    case 'H':
      unit = 3600'000'000'000;
      break;
    case 'M':
      unit = 60'000'000'000;
      break;
    case 'S':
      unit = 1'000'000'000;
      break;
    case 'm':
      unit = 1'000'000;
      break;
    case 'u':
      unit = 1000;
      break;
    case 'n':
      unit = 1;
      break;
    default:
      return std::nullopt;
  }
  return std::chrono::nanoseconds(value > INT64_MAX / unit ? INT64_MAX : value * unit);
}

namespace {

struct Inflated {
  Buffer message;
  GrpcCode code = GrpcCode::kOk;  // or why not, in grpc-go's words
  std::string error;
};

Inflated NotInflated(std::string_view step, std::string_view why) {
  return {{}, GrpcCode::kInternal, fmt::format("grpc: failed to {}: {}", step, why)};
}

// What zlib's refusal is called; only a member's head is "decompress" to grpc-go, its rest "read".
Inflated GzipError(const z_stream& z, bool in_head) {
  const std::string_view step = in_head ? "decompress the message" : "read decompressed data";
  if (z.avail_in == 0) {
    return NotInflated(step, "unexpected EOF");
  }
  const std::string_view reason = z.msg != nullptr ? z.msg : "";
  return NotInflated(step, in_head ? "gzip: invalid header"
                           : reason == "incorrect data check" || reason == "incorrect length check"
                               ? "gzip: invalid checksum"
                               : "flate: corrupt input");
}

// Inflates one message: one gzip member or several, one after the other, as Go's reader takes them.
Inflated Gunzip(std::string_view bytes, size_t bytes_max) {
  z_stream z{};
  if (bytes.empty()) {
    return NotInflated("decompress the message", "EOF");
  }
  if (inflateInit2(&z, 15 + 16) != Z_OK) {
    return {{}, GrpcCode::kResourceExhausted, "grpc: out of memory"};
  }
  constexpr size_t kStep = 16 << 10;
  std::string out;
  Inflated result;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  bool in_head = true;
  while (true) {
    const size_t had = out.size();
    out.resize(had + kStep);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    z.avail_out = kStep;
    const int rc = inflate(&z, Z_NO_FLUSH);
    out.resize(out.size() - z.avail_out);
    // Ten bytes at least are a member's head.
    in_head = in_head && z.total_in < 10;
    if (out.size() > bytes_max) {
      result = {
          {},
          GrpcCode::kResourceExhausted,
          fmt::format("grpc: received message after decompression larger than max {}", bytes_max)};
      break;
    }
    if (rc == Z_STREAM_END && z.avail_in == 0) {
      result.message = Buffer::Copy(out);
      break;
    }
    if (rc == Z_STREAM_END) {
      inflateReset(&z);
    } else if (rc != Z_OK) {
      result = GzipError(z, in_head);
      break;
    }
  }
  inflateEnd(&z);
  return result;
}

class Call : public StreamSink, public GrpcCall {
 public:
  Call(Stream& stream, GrpcRouter& router, GrpcOptions options)
      : stream_(&stream), router_(router), options_(options) {}
  ~Call() override { CancelTimer(); }

  void Begin() {
    const RequestHead& head = stream_->head();
    if (head.method != "POST") {
      return RefuseHttp(
          405, GrpcCode::kInternal,
          fmt::format("Received a HEADERS frame with :method \"{}\" which should be POST",
                      head.method));
    }
    const std::string_view type = head.headers.Get("content-type");
    if (!type.starts_with("application/grpc") ||
        (type.size() > 16 && type[16] != '+' && type[16] != ';')) {
      return RefuseHttp(415, GrpcCode::kInternal,
                        fmt::format("invalid gRPC request content-type \"{}\"", type));
    }
    gzip_ = head.headers.Get("grpc-encoding") == "gzip";
    const std::string_view encoding = head.headers.Get("grpc-encoding");
    if (!encoding.empty() && encoding != "identity" && !gzip_) {
      // grpc-go does not say what would do; the protocol wants it said.
      AddTrailer("grpc-accept-encoding", "identity,gzip");
      return Finish(
          GrpcCode::kUnimplemented,
          fmt::format("grpc: Decompressor is not installed for grpc-encoding \"{}\"", encoding));
    }
    if (const std::string_view text = head.headers.Get("grpc-timeout"); text.data() != nullptr) {
      const auto timeout = ParseGrpcTimeout(text);
      if (!timeout) {
        return RefuseHttp(400, GrpcCode::kInternal,
                          fmt::format("malformed grpc-timeout: {}", text));
      }
      // The longest timeout a peer may write does not fit behind the present moment.
      const MonoTime now = stream_->loop().now();
      deadline_ = *timeout > kNever - now ? kNever : now + *timeout;
      timer_ = stream_->loop().After(*timeout, [this] {
        timer_.reset();
        DeadlinePassed();
      });
      timer_loop_ = &stream_->loop();
    }
    sink_ = router_.OnCall(*this);
    if (sink_ == nullptr && !finished_) {
      Unknown();
    }
  }

  // ---- StreamSink
  void OnBody(Buffer data) override {
    if (finished_) {
      return;
    }
    // The usual case: one whole message in one piece, nothing before it.
    if (input_.empty()) {
      while (!finished_ && !paused_ && data.size() >= 5) {
        const uint32_t length = LoadBE32(data.data() + 1);
        if (!CheckLength(length) || data.size() - 5 < length) {
          break;
        }
        Message(data.data()[0], data.Slice(5, length));
        data = data.Slice(5 + size_t{length}, data.size() - 5 - length);
      }
    }
    if (!finished_ && !data.empty()) {
      input_.append(data.view());
      Deframe();
    }
  }
  void OnEnd() override {
    if (finished_ || half_closed_) {
      return;
    }
    half_closed_ = true;
    if (!paused_) {
      HalfClose();
    }
  }
  void OnWritten(size_t bytes) override {
    if (sink_ != nullptr && !finished_) {
      sink_->OnWritten(bytes);
    }
    if (output_full_ && !finished_ && stream_ != nullptr &&
        stream_->unsent_bytes() <= kUnsentPauseBytes / 2) {
      output_full_ = false;
      Throttle();
    }
  }
  size_t held_bytes() const override { return input_.size() - input_at_; }
  void OnClosed() override {
    stream_ = nullptr;
    if (!finished_) {
      finished_ = true;
      if (sink_ != nullptr) {
        sink_->OnGone(GrpcCode::kCancelled);
      }
    }
  }

  // ---- GrpcCall
  std::string_view path() const override { return stream_->head().path; }
  std::string_view Metadata(std::string_view key) const override {
    return stream_->head().headers.Get(key);
  }
  const Headers& metadata() const override { return stream_->head().headers; }
  const Peer& peer() const override { return stream_->peer(); }
  Loop& loop() const override { return stream_->loop(); }
  std::optional<MonoTime> deadline() const override { return deadline_; }
  void AddInitialMetadata(std::string_view key, std::string_view value) override {
    initial_.emplace_back(key, value);
  }
  void AddTrailer(std::string_view key, std::string_view value) override {
    trailers_.emplace_back(key, value);
  }
  void SendHeadNow() override {
    if (!finished_) {
      NeedHead();
    }
  }
  void Send(BufferChain message) override {
    if (finished_) {
      return;
    }
    SendBegin(message.size());
    SendPart(std::move(message));
  }
  void SendBegin(uint64_t length) override {
    if (finished_) {
      return;
    }
    MS_CHECK(length <= UINT32_MAX);
    NeedHead();
    char prefix[5] = {0};
    StoreBE32(prefix + 1, static_cast<uint32_t>(length));
    pending_prefix_ = Buffer::Copy({prefix, 5});
    if (length == 0) {
      SendPart({});
    }
  }
  void SendPart(BufferChain part) override {
    if (finished_) {
      return;
    }
    if (!pending_prefix_.empty()) {
      part.Prepend(std::exchange(pending_prefix_, Buffer()));
    }
    stream_->SendBody(std::move(part));
    if (!output_full_ && stream_->unsent_bytes() > kUnsentPauseBytes) {
      output_full_ = true;
      Throttle();
    }
  }
  void SetInputPaused(bool paused) override {
    if (!finished_ && stream_ != nullptr) {
      sink_full_ = paused;
      Throttle();
    }
  }
  void Finish(GrpcCode code, std::string_view message) override {
    if (finished_) {
      return;
    }
    finished_ = true;
    const std::string number = std::to_string(static_cast<int>(code));
    const std::string text = PercentEncode(message);
    FieldList fields;
    if (!head_sent_) {
      fields.emplace_back("content-type", "application/grpc");
      for (const auto& [key, value] : initial_) {
        fields.emplace_back(key, value);
      }
    }
    fields.emplace_back("grpc-status", number);
    if (!text.empty()) {
      fields.emplace_back("grpc-message", text);
    }
    for (const auto& [key, value] : trailers_) {
      fields.emplace_back(key, value);
    }
    if (head_sent_) {
      stream_->End(fields);
    } else {
      stream_->RespondHeadOnly(200, fields);
    }
    CancelTimer();
  }
  size_t unsent_bytes() const override { return stream_ != nullptr ? stream_->unsent_bytes() : 0; }

 private:
  // Input goes on once neither the sink nor the output has a reason against it.
  void Throttle() {
    const bool pause = sink_full_ || output_full_;
    if (pause == paused_) {
      return;
    }
    paused_ = pause;
    if (!paused_) {
      Deframe();  // it may pause, or end, this call again
    }
    if (finished_ || stream_ == nullptr) {
      return;
    }
    stream_->SetInputPaused(paused_);
    if (!paused_ && half_closed_ && !deframing_) {
      HalfClose();
    }
  }
  void HalfClose() {
    if (std::exchange(half_close_told_, true)) {
      return;
    }
    if (held_bytes() > 0) {
      return Fail(GrpcCode::kUnknown, "unexpected EOF");
    }
    if (sink_ != nullptr) {
      sink_->OnHalfClose();
    }
  }
  void CancelTimer() {
    if (timer_) {
      timer_loop_->Cancel(*timer_);
      timer_.reset();
    }
  }
  void NeedHead() {
    if (head_sent_) {
      return;
    }
    head_sent_ = true;
    FieldList fields = {{"content-type", "application/grpc"}};
    for (const auto& [key, value] : initial_) {
      fields.emplace_back(key, value);
    }
    stream_->SendHead(200, fields);
  }
  void RefuseHttp(int status, GrpcCode code, const std::string& message) {
    finished_ = true;
    const std::string number = std::to_string(static_cast<int>(code));
    const std::string text = PercentEncode(message);
    stream_->RespondHeadOnly(
        status,
        {{"content-type", "application/grpc"}, {"grpc-status", number}, {"grpc-message", text}});
  }
  void Unknown() {
    const std::string full(stream_->head().path);
    const size_t slash = full.rfind('/');
    if (full.empty() || full[0] != '/' || slash == 0) {
      return Finish(GrpcCode::kUnimplemented, fmt::format("malformed method name: \"{}\"", full));
    }
    const std::string service = full.substr(1, slash - 1);
    if (router_.HasService(service)) {
      return Finish(GrpcCode::kUnimplemented, fmt::format("unknown method {} for service {}",
                                                          full.substr(slash + 1), service));
    }
    Finish(GrpcCode::kUnimplemented, fmt::format("unknown service {}", service));
  }
  void DeadlinePassed() {
    if (finished_) {
      return;
    }
    if (sink_ != nullptr) {
      sink_->OnGone(GrpcCode::kDeadlineExceeded);
    }
    Finish(GrpcCode::kDeadlineExceeded, "context deadline exceeded");
  }
  bool CheckLength(uint32_t length) {
    if (length <= options_.receive_bytes_max) {
      return true;
    }
    Fail(GrpcCode::kResourceExhausted,
         fmt::format("grpc: received message larger than max ({} vs. {})", length,
                     options_.receive_bytes_max));
    return false;
  }
  // Ends the call from this side; the sink hears that it is gone.
  void Fail(GrpcCode code, const std::string& message) {
    if (sink_ != nullptr) {
      sink_->OnGone(GrpcCode::kCancelled);
    }
    Finish(code, message);
  }
  void Message(char flag, Buffer bytes) {
    if (flag != 0) {
      if (flag != 1) {
        return Fail(GrpcCode::kInternal, fmt::format("grpc: received unexpected payload format {}",
                                                     static_cast<int>(flag)));
      }
      if (!gzip_) {
        return Fail(GrpcCode::kInternal,
                    "grpc: compressed flag set with identity or empty encoding");
      }
      Inflated plain = Gunzip(bytes.view(), options_.receive_bytes_max);
      if (plain.code != GrpcCode::kOk) {
        return Fail(plain.code, plain.error);
      }
      bytes = std::move(plain.message);
    }
    if (sink_ != nullptr) {
      sink_->OnMessage(std::move(bytes));
    }
  }
  // Not entered anew from a message that it delivers: the outer loop goes on with the rest.
  void Deframe() {
    if (std::exchange(deframing_, true)) {
      return;
    }
    while (!finished_ && !paused_ && input_.size() - input_at_ >= 5) {
      const uint32_t length = LoadBE32(input_.data() + input_at_ + 1);
      if (!CheckLength(length)) {
        break;
      }
      if (input_.size() - input_at_ - 5 < length) {
        input_.reserve(input_at_ + 5 + length);
        break;
      }
      const char flag = input_[input_at_];
      Buffer message = Buffer::Copy(std::string_view(input_).substr(input_at_ + 5, length));
      input_at_ += 5 + size_t{length};
      Message(flag, std::move(message));
    }
    // Not after each message of a long queue: that would move the rest once per message.
    if (finished_ || input_at_ >= input_.size() / 2) {
      input_.erase(0, finished_ ? input_.size() : input_at_);
      input_at_ = 0;
    }
    deframing_ = false;
  }

  Stream* stream_;
  GrpcRouter& router_;
  const GrpcOptions options_;
  std::optional<Loop::Timer> timer_;
  Loop* timer_loop_ = nullptr;
  std::unique_ptr<GrpcSink> sink_;
  std::string input_;
  size_t input_at_ = 0;  // what is before it was delivered
  Buffer pending_prefix_;
  std::optional<MonoTime> deadline_;
  std::vector<std::pair<std::string, std::string>> initial_, trailers_;
  bool gzip_ = false;
  bool head_sent_ = false;
  bool half_closed_ = false;
  bool half_close_told_ = false;
  bool sink_full_ = false;    // SetInputPaused()
  bool output_full_ = false;  // the peer does not read
  bool paused_ = false;       // either
  bool deframing_ = false;
  bool finished_ = false;
};

class GrpcHandler : public Handler {
 public:
  GrpcHandler(GrpcRouter& router, GrpcOptions options) : router_(router), options_(options) {}
  std::unique_ptr<StreamSink> OnRequest(Stream& stream) override {
    auto call = std::make_unique<Call>(stream, router_, options_);
    call->Begin();
    return call;
  }

 private:
  GrpcRouter& router_;
  const GrpcOptions options_;
};

}  // namespace

std::unique_ptr<Handler> NewGrpcHandler(GrpcRouter& router, GrpcOptions options) {
  return std::make_unique<GrpcHandler>(router, options);
}

}  // namespace mainstay::net

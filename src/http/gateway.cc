#include "http/gateway.h"

#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "common/limits.h"
#include "http/json.h"
#include "net/grpc.h"
#include "rpc/errors.h"

namespace mainstay::http {
namespace {

using rpc::Code;
using rpc::GrpcStatus;
using rpc::MethodType;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kMetadataPrefix = "grpc-metadata-";
constexpr std::string_view kGatewayPrefix = "grpcgateway-";

void RespondStatus(Exchange& exchange, Code code, std::string_view message) {
  net::FieldList fields = {{"content-type", kJson}};
  if (code == Code::kUnauthenticated) {
    fields.emplace_back("www-authenticate", message);
  }
  exchange.Respond(HttpStatus(code), fields, StatusJson(code, message));
}

class GatewaySink;

class GatewayCall : public rpc::Call {
 public:
  GatewayCall(rpc::Loop& loop, const rpc::Method& method, ExchangePtr exchange)
      : Call(loop, method), exchange_(std::move(exchange)) {}

  std::optional<std::string_view> Metadata(std::string_view key) const override;
  std::string_view client_address() const override {
    return exchange_->alive() ? std::string_view(exchange_->stream().peer().address)
                              : std::string_view();
  }
  void SetInputPaused(bool paused) override {
    handler_full_ = paused;
    Throttle();
  }
  bool input_paused() const { return handler_full_ || output_full_; }
  // The sink that hears when input goes on; null once it is gone.
  void set_sink(GatewaySink* sink) { sink_ = sink; }
  void OutputLeft() {
    if (written_ > 0 && exchange_->alive() && exchange_->stream().unsent_bytes() == 0) {
      Written(std::exchange(written_, 0));
      output_full_ = false;
      Throttle();
    }
  }

 protected:
  void DoSend(BufferChain message) override {
    if (method().type == MethodType::kUnary) {
      answer_ = std::move(message);
    } else {
      WriteMessage(message.Flatten().view(), message.size());
    }
  }
  void DoSendBegin(uint64_t length) override { too_big_ = length > kAnswerBytesMax; }
  void DoSendPart(BufferChain part) override {
    const size_t bytes = part.size();
    if (!too_big_) {
      answer_.Append(std::move(part));
    }
    // It is in memory now, as JSON needs it: the sender may go on, but not from inside this call.
    loop().Post([self = shared_from_this(), bytes] { self->Written(bytes); });
  }
  void DoFinish(const GrpcStatus& status) override {
    if (method().type != MethodType::kUnary) {
      return EndStream(status);
    }
    if (!status.ok()) {
      return RespondStatus(*exchange_, status.code, status.message);
    }
    if (too_big_ || answer_.size() > kAnswerBytesMax) {
      return RespondStatus(*exchange_, Code::kResourceExhausted,
                           rpc::ErrorText(Error::kOverloaded));
    }
    StatusOr<std::string> json = BytesToJson(method().response_type, answer_.Flatten().view());
    if (!json.ok()) {
      return RespondStatus(*exchange_, Code::kInternal, Message(json.status()));
    }
    exchange_->Respond(
        200, {{"content-type", kJson}, {"grpc-metadata-content-type", "application/grpc"}}, *json);
  }

 private:
  void WriteMessage(std::string_view bytes, size_t size) {
    StatusOr<std::string> json = BytesToJson(method().response_type, bytes);
    if (!json.ok()) {
      return Finish({Code::kInternal, std::string(Message(json.status()))});
    }
    StartStream();
    written_ += size;
    exchange_->Write(BufferChain(Buffer::Copy("{\"result\":" + *json + "}\n")));
    if (exchange_->alive() && exchange_->stream().unsent_bytes() > net::kUnsentPauseBytes) {
      output_full_ = true;
      Throttle();
    }
  }
  // Tells the stream, and the sink once input goes on.
  void Throttle();
  void StartStream() {
    if (!std::exchange(started_, true)) {
      exchange_->Start(
          200, {{"content-type", kJson}, {"grpc-metadata-content-type", "application/grpc"}});
    }
  }
  void EndStream(const GrpcStatus& status) {
    if (status.ok()) {
      StartStream();
      return exchange_->End();
    }
    const std::string error = "{\"error\":" + StatusJson(status.code, status.message) + "}\n";
    if (!started_) {
      return exchange_->Respond(HttpStatus(status.code), {{"content-type", kJson}}, error);
    }
    exchange_->Write(BufferChain(Buffer::Copy(error)));
    exchange_->End();
  }

  const ExchangePtr exchange_;
  BufferChain answer_;
  bool too_big_ = false;
  bool started_ = false;
  // Bytes of messages handed to the stream whose JSON has not left: given back when it is empty, as
  // JSON and message differ in length.
  size_t written_ = 0;
  GatewaySink* sink_ = nullptr;
  bool handler_full_ = false, output_full_ = false, paused_ = false;
};

std::optional<std::string_view> GatewayCall::Metadata(std::string_view key) const {
  if (!exchange_->alive()) {
    return std::nullopt;
  }
  const net::Headers& headers = exchange_->head().headers;
  std::string name;
  if (key == "authorization") {
    name = key;
  } else if (key.substr(0, kGatewayPrefix.size()) == kGatewayPrefix) {
    name = key.substr(kGatewayPrefix.size());
  } else {
    name = std::string(kMetadataPrefix) + std::string(key);
  }
  const std::string_view value = headers.Get(name);
  return value.data() == nullptr ? std::nullopt : std::optional(value);
}

// A request on a route of the gateway.
class GatewaySink : public net::StreamSink {
 public:
  GatewaySink(rpc::Services& services, std::shared_ptr<GatewayCall> call, ExchangePtr exchange)
      : receive_bytes_max_(services.options().request_bytes_max + kGrpcOverheadBytes),
        splitter_(2 * receive_bytes_max_),
        call_(std::move(call)),
        exchange_(std::move(exchange)) {
    call_->set_sink(this);
  }
  ~GatewaySink() override { call_->set_sink(nullptr); }

  void OnBody(Buffer data) override {
    splitter_.Add(data.view());
    Feed();
  }
  void OnEnd() override {
    complete_ = true;
    if (!call_->input_paused()) {
      HalfClose();
    }
  }
  void OnWritten(size_t) override { call_->OutputLeft(); }
  size_t held_bytes() const override { return splitter_.held_bytes(); }
  void OnClosed() override {
    exchange_->Detach();
    call_->Gone(Code::kCancelled);
  }
  // Input was paused and is not any more.
  void GoOn() {
    Feed();
    if (complete_ && !call_->input_paused()) {
      HalfClose();
    }
  }

 private:
  void HalfClose() {
    if (call_->ended() || std::exchange(half_closed_, true)) {
      return;
    }
    if (splitter_.pending()) {
      return call_->Finish({Code::kInvalidArgument, "unexpected EOF"});
    }
    const bool stream = call_->method().type == MethodType::kBidiStream;
    if (!stream && !fed_) {
      Message("");
    }
    call_->HalfClosed();
  }
  void Feed() {
    while (!call_->ended() && !call_->input_paused()) {
      std::optional<std::string> document = splitter_.Next();
      if (!document.has_value()) {
        break;
      }
      // Of a call with one request message the first document counts, as in Go's decoder.
      if (call_->method().type == MethodType::kBidiStream || !fed_) {
        Message(*document);
      }
    }
    if (!call_->ended() && !call_->input_paused() && splitter_.too_long()) {
      TooLarge(2 * receive_bytes_max_);
    }
  }
  void TooLarge(size_t bytes) {
    call_->Finish({Code::kResourceExhausted, "grpc: received message larger than max (" +
                                                 std::to_string(bytes) + " vs. " +
                                                 std::to_string(receive_bytes_max_) + ")"});
  }
  void Message(std::string_view json) {
    fed_ = true;
    StatusOr<std::string> bytes = JsonToBytes(call_->method().request_type, json);
    if (!bytes.ok()) {
      return call_->Finish(
          {Code::kInvalidArgument, std::string(mainstay::Message(bytes.status()))});
    }
    if (bytes->size() > receive_bytes_max_) {
      return TooLarge(bytes->size());
    }
    call_->Incoming(Buffer::Copy(*bytes));
  }

  const size_t receive_bytes_max_;
  DocumentSplitter splitter_;
  const std::shared_ptr<GatewayCall> call_;
  const ExchangePtr exchange_;
  bool fed_ = false;
  bool complete_ = false;
  bool half_closed_ = false;
};

void GatewayCall::Throttle() {
  if (std::exchange(paused_, input_paused()) == paused_ || !exchange_->alive()) {
    return;
  }
  exchange_->stream().SetInputPaused(paused_);
  if (!paused_) {
    // Not from here: the handler may be in the middle of its work.
    loop().Post([self = std::static_pointer_cast<GatewayCall>(shared_from_this())] {
      if (self->sink_ != nullptr) {
        self->sink_->GoOn();
      }
    });
  }
}

// For answers that need no body.
class DoneSink : public net::StreamSink {
 public:
  void OnBody(Buffer) override {}
  void OnEnd() override {}
};

// False: refused.
bool SetDeadline(rpc::Loop& loop, const std::shared_ptr<GatewayCall>& call, Exchange& exchange) {
  const std::string_view text = exchange.head().headers.Get("grpc-timeout");
  if (text.data() == nullptr) {
    return true;
  }
  const std::optional<std::chrono::nanoseconds> timeout = net::ParseGrpcTimeout(text);
  if (!timeout.has_value()) {
    RespondStatus(exchange, Code::kInvalidArgument, "invalid grpc-timeout: " + std::string(text));
    return false;
  }
  loop.host().After(*timeout, [weak = std::weak_ptr<GatewayCall>(call)] {
    if (const auto waiting = weak.lock()) {
      waiting->Finish(rpc::ToStatus(Error::kContextDeadlineExceeded));
    }
  });
  return true;
}

}  // namespace

std::unique_ptr<net::StreamSink> StartGateway(rpc::Services& services,
                                              rpc::Loop& loop,
                                              ExchangePtr exchange,
                                              std::string_view path) {
  const rpc::Method* method = services.FindRoute(path);
  if (method == nullptr) {
    RespondStatus(*exchange, Code::kNotFound, "Not Found");
    return std::make_unique<DoneSink>();
  }
  if (exchange->head().method != "POST") {
    // Not HTTP's 405: grpc-gateway answers so.
    RespondStatus(*exchange, Code::kUnimplemented, "Method Not Allowed");
    return std::make_unique<DoneSink>();
  }
  auto call = std::make_shared<GatewayCall>(loop, *method, exchange);
  if (!SetDeadline(loop, call, *exchange)) {
    return std::make_unique<DoneSink>();
  }
  services.Begin(call);
  return std::make_unique<GatewaySink>(services, std::move(call), std::move(exchange));
}

}  // namespace mainstay::http

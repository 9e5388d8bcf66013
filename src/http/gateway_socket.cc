#include "http/gateway_socket.h"

#include <string>
#include <utility>

#include "common/limits.h"
#include "http/exchange.h"
#include "http/gateway.h"
#include "http/websocket.h"
#include "net/grpc.h"

namespace mainstay::http {
namespace {

constexpr std::string_view kProtocolField = "sec-websocket-protocol";

std::string_view TrimSpaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  return text;
}

// The value of the cookie "token"; null data without one.
std::string_view TokenCookie(const net::Headers& headers) {
  constexpr std::string_view kName = "token=";
  for (size_t i = 0; i < headers.size(); ++i) {
    auto [key, list] = headers.at(i);
    while (key == "cookie" && !list.empty()) {
      const size_t end = list.find(';');
      const std::string_view cookie = TrimSpaces(list.substr(0, end));
      if (cookie.substr(0, kName.size()) == kName) {
        return cookie.substr(kName.size());
      }
      list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
    }
  }
  return {};
}

// Between the socket and the gateway: a sink to the former, a stream to the latter.
class GatewaySocket : public net::StreamSink, public net::Stream {
 public:
  GatewaySocket(net::Stream& outer, size_t message_bytes_max, std::string_view path)
      : outer_(&outer),
        reader_(message_bytes_max,
                {.on_message = [this](std::string_view message) { OnMessage(message); },
                 .on_ping = [this](std::string_view payload) { OnPing(payload); },
                 .on_close = [this](std::string_view payload) { OnClose(payload); },
                 .on_error = [this](CloseCode why) { Leave(CloseFrame(why)); }}) {
    head_ = SocketRequest(outer.head(), path);
    peer_ = &outer.peer();
    loop_ = &outer.loop();
  }

  void Start(rpc::Services& services, rpc::Loop& loop) {
    const net::Headers& headers = outer_->head().headers;
    const std::string accept = AcceptKey(headers.Get("sec-websocket-key"));
    net::FieldList fields = {
        {"upgrade", "websocket"}, {"connection", "Upgrade"}, {"sec-websocket-accept", accept}};
    if (headers.Get(kProtocolField).substr(0, 6) == "Bearer") {
      fields.emplace_back(kProtocolField, "Bearer");
    }
    outer_->SendHead(101, fields);
    inner_ = StartGateway(services, loop, std::make_shared<Exchange>(*this), head_.path);
  }

  // ---- net::StreamSink: what the socket says
  void OnBody(Buffer data) override { reader_.Add(data.view()); }
  void OnEnd() override {}  // a tunnel has no end but the connection's
  void OnWritten(size_t bytes) override {
    if (inner_ != nullptr && !left_) {
      inner_->OnWritten(bytes);
    }
    if (output_full_ && outer_ != nullptr && outer_->unsent_bytes() <= net::kUnsentPauseBytes / 2) {
      output_full_ = false;
      Throttle();
    }
  }
  size_t held_bytes() const override {
    return reader_.held_bytes() + (inner_ != nullptr ? inner_->held_bytes() : 0);
  }
  void OnClosed() override {
    outer_ = nullptr;
    Cancel();
  }

  // ---- net::Stream: what the gateway says
  void SendHead(int, const net::FieldList&) override {}  // the client knows of no status
  void SendBody(BufferChain body) override {
    line_ += body.Flatten().view();
    size_t at = 0;
    for (size_t end; (end = line_.find('\n', at)) != std::string::npos; at = end + 1) {
      SendText(std::string_view(line_).substr(at, end - at));
    }
    line_.erase(0, at);
  }
  void End(const net::FieldList&) override {
    SendText(std::exchange(line_, {}));
    Leave(CloseFrame(CloseCode::kNormal));
  }
  void RespondHeadOnly(int, const net::FieldList&) override {
    Leave(CloseFrame(CloseCode::kNormal));
  }
  void Reset(uint32_t http2_error) override {
    if (outer_ != nullptr) {
      outer_->Reset(http2_error);
    }
  }
  size_t unsent_bytes() const override { return outer_ != nullptr ? outer_->unsent_bytes() : 0; }
  void SetInputPaused(bool paused) override {
    inner_paused_ = paused;
    Throttle();
  }

 private:
  void OnMessage(std::string_view message) {
    inner_->OnBody(Buffer::Copy(message));
    // Documents that a client cut badly do not run into each other.
    if (!left_) {
      inner_->OnBody(Buffer::Static("\n"));
    }
  }
  void OnPing(std::string_view payload) { SendFrame(SocketOpcode::kPong, payload); }
  void OnClose(std::string_view payload) {
    // The code, if there was one, goes back.
    const std::string_view code = payload.substr(0, 2);
    Leave(FrameHead(SocketOpcode::kClose, code.size()) + std::string(code));
  }

  void SendText(std::string_view text) {
    if (!text.empty()) {
      SendFrame(SocketOpcode::kText, text);
    }
  }
  void SendFrame(SocketOpcode opcode, std::string_view payload) {
    if (outer_ == nullptr || left_) {
      return;
    }
    BufferChain frame(Buffer::Copy(FrameHead(opcode, payload.size())));
    if (!payload.empty()) {
      frame.Append(Buffer::Copy(payload));
    }
    outer_->SendBody(std::move(frame));
    if (!output_full_ && outer_->unsent_bytes() > net::kUnsentPauseBytes) {
      output_full_ = true;
      Throttle();
    }
  }
  void Throttle() {
    const bool pause = inner_paused_ || output_full_;
    if (outer_ != nullptr && !left_ && pause != paused_) {
      paused_ = pause;
      outer_->SetInputPaused(pause);
    }
  }
  // Says good-bye; the connection ends once that is out.
  void Leave(const std::string& frame) {
    if (std::exchange(left_, true) || outer_ == nullptr) {
      return;
    }
    reader_.Stop();
    outer_->SendBody(BufferChain(Buffer::Copy(frame)));
    outer_->End();
    Cancel();
  }
  // Tells the gateway, once, that nothing comes and goes any more. It may be the gateway itself
  // that ended, in the middle of its work, even before Start() has heard of its sink.
  void Cancel() {
    left_ = true;
    if (inner_ != nullptr && !std::exchange(cancelled_, true)) {
      inner_->OnClosed();
    }
  }

  net::Stream* outer_;
  FrameReader reader_;
  std::unique_ptr<net::StreamSink> inner_;
  std::string line_;  // of the answer, until it is whole
  bool inner_paused_ = false, output_full_ = false, paused_ = false;
  bool left_ = false;  // the close frame is out, or the connection gone
  bool cancelled_ = false;
};

// For a handshake that was refused.
class RefusedSink : public net::StreamSink {
 public:
  void OnBody(Buffer) override {}
  void OnEnd() override {}
};

}  // namespace

net::RequestHead SocketRequest(const net::RequestHead& outer, std::string_view path) {
  constexpr std::string_view kBearer = "Bearer,";
  net::RequestHead head;
  head.method = "POST";
  head.path = path;
  head.query = outer.query;
  head.authority = outer.authority;
  for (const std::string_view name : {"origin", "referer"}) {
    if (outer.headers.Has(name)) {
      head.headers.Add(name, outer.headers.Get(name));
    }
  }
  const std::string_view protocol = outer.headers.Get(kProtocolField);
  const size_t bearer = protocol.find(kBearer);
  if (const std::string_view token = TokenCookie(outer.headers); token.data() != nullptr) {
    head.headers.Add("authorization", "Bearer " + std::string(token));
  } else if (bearer != std::string_view::npos) {
    head.headers.Add("authorization",
                     "Bearer " + std::string(TrimSpaces(protocol.substr(bearer + kBearer.size()))));
  }
  return head;
}

std::unique_ptr<net::StreamSink> StartGatewaySocket(rpc::Services& services,
                                                    rpc::Loop& loop,
                                                    net::Stream& stream,
                                                    std::string_view path) {
  if (const int status = CheckHandshake(stream.head()); status != 0) {
    stream.Respond(status,
                   {{"content-type", "text/plain; charset=utf-8"},
                    {"sec-websocket-version", "13"},
                    {"x-content-type-options", "nosniff"}},
                   Buffer::Static(status == 405 ? "Method Not Allowed\n" : "Bad Request\n"));
    return std::make_unique<RefusedSink>();
  }
  const size_t message_max = 2 * (services.options().request_bytes_max + kGrpcOverheadBytes);
  auto socket = std::make_unique<GatewaySocket>(stream, message_max, path);
  socket->Start(services, loop);
  return socket;
}

}  // namespace mainstay::http

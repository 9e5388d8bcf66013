// HTTP/1.1: one exchange at a time on a connection; the next request waits in the input until the
// response is out.
#include <algorithm>
#include <charconv>
#include <optional>

#include "fmt/format.h"

#include "common/check.h"
#include "net/loop.h"
#include "net/session.h"

namespace mainstay::net {
namespace {

constexpr size_t kRequestLineMax = 8 << 10;
constexpr size_t kHeaderCountMax = 200;
// What does not even claim to be HTTP gets no answer in HTTP: the connection is closed.
constexpr int kNotHttp = -1;

std::string_view Reason(int status) {
  switch (status) {
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Request Entity Too Large";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return out;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

// True if the comma-separated list holds the token, whatever its case.
bool ListHas(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (Lower(Trim(list.substr(0, comma))) == token) {
      return true;
    }
    if (comma == std::string_view::npos) {
      break;
    }
    list.remove_prefix(comma + 1);
  }
  return false;
}

class Http1Session;

class Http1Stream : public Stream {
 public:
  Http1Stream(Http1Session& session, const Peer& peer, Loop& loop) : session_(session) {
    peer_ = &peer;
    loop_ = &loop;
  }
  void SendHead(int status, const FieldList& fields) override;
  void SendBody(BufferChain body) override;
  void End(const FieldList& trailers) override;
  void RespondHeadOnly(int status, const FieldList& fields) override {
    FieldList all = fields;
    all.emplace_back("content-length", "0");
    SendHead(status, all);
    End({});
  }
  void Reset(uint32_t) override;
  size_t unsent_bytes() const override;
  void SetInputPaused(bool paused) override;

 private:
  friend class Http1Session;
  Http1Session& session_;
  std::unique_ptr<StreamSink> sink_;
  bool head_sent_ = false;
  bool chunked_ = false;
  bool ended_ = false;
  bool keep_alive_ = true;
  bool input_paused_ = false;
  bool tunnel_ = false;
};

class Http1Session : public Session {
 public:
  Http1Session(SessionHost& host, SessionConfig config) : host_(host), config_(config) {
    began_ = host.loop().now();
  }

  bool OnBytes(std::string_view bytes) override {
    input_.append(bytes);
    Parse();
    return !failed_;
  }

  bool Pump(OutQueue* out, size_t bytes_max) override {
    // Here and not in SetInputPaused(), which the sink calls from the middle of its own work.
    if (std::exchange(resume_, false) && stream_ != nullptr) {
      Parse();
    }
    while (!output_.empty() && out->size() < bytes_max) {
      out->Add(output_.front());
      output_bytes_ -= output_.front().size();
      output_.pop_front();
    }
    if (written_ > 0 && output_.empty() && stream_ != nullptr && stream_->sink_ != nullptr) {
      stream_->sink_->OnWritten(std::exchange(written_, 0));
    }
    if (stream_ != nullptr && stream_->ended_ && output_.empty()) {
      FinishExchange();
    }
    return !(close_ && output_.empty() && stream_ == nullptr) && !aborted_;
  }

  bool input_paused() const override {
    return stream_ != nullptr &&
           (BodyPaused() || (state_ == State::kResponding && input_.size() > 0));
  }
  void Shutdown() override {
    close_ = true;
    host_.WantFlush();
  }
  bool idle() const override { return stream_ == nullptr; }
  bool OnTick(MonoTime now) override {
    const ServerOptions& o = *config_.options;
    if (state_ == State::kHead) {
      return now - began_ <= (head_begun_ ? o.header_timeout : o.idle_timeout);
    }
    // A body must keep coming, unless it is we who do not want it.
    return state_ == State::kResponding || state_ == State::kTunnel || input_paused() ||
           now - heard_ <= o.header_timeout;
  }
  void OnClosed() override {
    if (stream_ != nullptr) {
      const std::unique_ptr<Http1Stream> stream = std::move(stream_);
      if (stream->sink_ != nullptr) {
        stream->sink_->OnClosed();
      }
    }
  }

 private:
  friend class Http1Stream;
  enum class State {
    kHead,
    kBody,
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailers,
    kResponding,
    kTunnel
  };

  bool BodyPaused() const {
    return stream_ != nullptr && stream_->input_paused_ && state_ != State::kResponding;
  }

  void Write(Buffer bytes) {
    output_bytes_ += bytes.size();
    output_.push_back(std::move(bytes));
    host_.WantFlush();
  }

  void Fail(int status) {
    // What follows on this connection cannot be told apart any more.
    failed_ = close_ = true;
    const std::string body = fmt::format("{} {}", status, Reason(status));
    Write(Buffer::Copy(fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{}",
        body, body)));
  }

  void Parse() {
    heard_ = host_.loop().now();
    while (!failed_ && !aborted_ && !BodyPaused()) {
      const size_t before = input_.size();
      const State state = state_;
      switch (state_) {
        case State::kHead:
          ParseHead();
          break;
        case State::kBody:
          TakeBody(&body_left_);
          if (body_left_ == 0 && state_ == State::kBody) {
            EndOfRequest();
          }
          break;
        case State::kChunkSize:
          ParseChunkSize();
          break;
        case State::kChunkData:
          TakeBody(&body_left_);
          if (body_left_ == 0) {
            state_ = State::kChunkEnd;
          }
          break;
        case State::kChunkEnd:
          if (input_.size() >= 2) {
            if (!input_.starts_with("\r\n")) {
              return Fail(400);
            }
            input_.erase(0, 2);
            state_ = State::kChunkSize;
          }
          break;
        case State::kTrailers:
          ParseTrailer();
          break;
        case State::kResponding:
          return;
        case State::kTunnel:
          if (!input_.empty() && !stream_->ended_) {
            stream_->sink_->OnBody(Buffer::Copy(std::exchange(input_, {})));
          }
          return;
      }
      if (state_ == state && input_.size() == before) {
        return;
      }
    }
  }

  // One line without its CRLF, if it is there whole. Lines end in CRLF; a bare LF is tolerated as
  // RFC 9112 allows.
  std::optional<std::string> Line(size_t max) {
    const size_t end = input_.find('\n');
    if (end == std::string::npos) {
      line_too_long_ = input_.size() > max;
      return std::nullopt;
    }
    if (end > max) {
      line_too_long_ = true;
      return std::nullopt;
    }
    std::string line = input_.substr(0, end);
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    input_.erase(0, end + 1);
    return line;
  }

  void ParseHead() {
    while (input_.starts_with("\r\n") && header_lines_ == 0 && stream_ == nullptr) {
      input_.erase(0, 2);  // empty lines before a request, as RFC 9112 2.2 asks
    }
    if (input_.empty()) {
      return;
    }
    if (stream_ == nullptr) {
      if (close_) {
        return;
      }
      if (!head_begun_) {
        head_begun_ = true;  // from here the head has header_timeout, however it drips
        began_ = host_.loop().now();
      }
      const std::optional<std::string> line = Line(kRequestLineMax);
      if (!line) {
        return line_too_long_ ? FailRequest(431) : void();
      }
      stream_ = std::make_unique<Http1Stream>(*this, host_.peer(), host_.loop());
      header_bytes_ = 0;
      if (const int status = ParseRequestLine(*line); status != 0) {
        stream_ = nullptr;
        if (status == kNotHttp) {
          failed_ = aborted_ = true;
          host_.WantFlush();
          return;
        }
        return Fail(status);
      }
    }
    while (state_ == State::kHead && !failed_) {
      const std::optional<std::string> line = Line(config_.options->header_bytes_max);
      if (!line) {
        return line_too_long_ ? FailRequest(431) : void();
      }
      if (line->empty()) {
        return HeadDone();
      }
      header_bytes_ += line->size();
      if (header_bytes_ > config_.options->header_bytes_max || ++header_lines_ > kHeaderCountMax) {
        return FailRequest(431);
      }
      const size_t colon = line->find(':');
      // A space before the colon or a folded line is how requests are smuggled past a proxy.
      if (colon == std::string::npos || !IsToken(line->substr(0, colon))) {
        return FailRequest(400);
      }
      const std::string_view value = Trim(std::string_view(*line).substr(colon + 1));
      if (value.find('\0') != std::string_view::npos ||
          value.find('\r') != std::string_view::npos) {
        return FailRequest(400);
      }
      stream_->head_.headers.Add(Lower(line->substr(0, colon)), value);
    }
  }

  void FailRequest(int status) {
    stream_ = nullptr;
    Fail(status);
  }

  int ParseRequestLine(const std::string& line) {
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    if (first == std::string::npos || first == last) {
      return 400;
    }
    RequestHead& head = stream_->head_;
    head.method = line.substr(0, first);
    std::string target = line.substr(first + 1, last - first - 1);
    const std::string version = line.substr(last + 1);
    const bool clean = std::all_of(target.begin(), target.end(), [](char c) {
      return static_cast<unsigned char>(c) > ' ' && c != 0x7f;
    });
    if (!IsToken(head.method) || target.empty() || !clean) {
      return 400;
    }
    if (version != "HTTP/1.1" && version != "HTTP/1.0") {
      return version.starts_with("HTTP/") ? 505 : kNotHttp;
    }
    http10_ = version == "HTTP/1.0";
    stream_->keep_alive_ = !http10_;
    if (const size_t scheme = target.find("://"); target[0] != '/' && scheme != std::string::npos) {
      const size_t path = target.find('/', scheme + 3);
      head.authority = target.substr(
          scheme + 3, path == std::string::npos ? std::string::npos : path - scheme - 3);
      target = path == std::string::npos ? "/" : target.substr(path);
    }
    const size_t mark = target.find('?');
    head.path = target.substr(0, mark);
    head.query = mark == std::string::npos ? "" : target.substr(mark + 1);
    return 0;
  }

  void HeadDone() {
    RequestHead& head = stream_->head_;
    header_lines_ = 0;
    head_begun_ = false;
    size_t hosts = 0;
    size_t lengths = 0;
    size_t encodings = 0;
    for (size_t i = 0; i < head.headers.size(); ++i) {
      hosts += head.headers.at(i).first == "host" ? 1 : 0;
      lengths += head.headers.at(i).first == "content-length" ? 1 : 0;
      encodings += head.headers.at(i).first == "transfer-encoding" ? 1 : 0;
    }
    if (hosts > 1 || (hosts == 0 && !http10_) || lengths > 1 || encodings > 1) {
      return FailRequest(400);
    }
    if (head.authority.empty() && hosts == 1) {
      head.authority = head.headers.Get("host");
    }
    const std::string_view connection = head.headers.Get("connection");
    if (ListHas(connection, "close")) {
      stream_->keep_alive_ = false;
    } else if (http10_ && ListHas(connection, "keep-alive")) {
      stream_->keep_alive_ = true;
    }
    const std::string_view encoding = head.headers.Get("transfer-encoding");
    body_total_ = 0;
    if (encoding.data() != nullptr) {
      if (lengths != 0 || Lower(encoding) != "chunked" || http10_) {
        return FailRequest(encoding == "chunked" ? 400 : 501);
      }
      state_ = State::kChunkSize;
    } else {
      body_left_ = 0;
      if (lengths == 1) {
        const std::string_view text = head.headers.Get("content-length");
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), body_left_);
        if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
          return FailRequest(400);
        }
      }
      if (body_left_ > config_.options->body_bytes_max) {
        return FailRequest(413);
      }
      state_ = State::kBody;
    }
    const bool has_body = state_ == State::kChunkSize || body_left_ > 0;
    if (has_body && Lower(head.headers.Get("expect")) == "100-continue") {
      Write(Buffer::Static("HTTP/1.1 100 Continue\r\n\r\n"));
    }
    Handler* handler = PickHandler(*config_.listener, head);
    if (handler == nullptr || config_.listener->protocols == Protocols::kGrpcOnly) {
      stream_->RespondHeadOnly(404, {});
    } else {
      stream_->sink_ = handler->OnRequest(*stream_);
    }
    if (stream_->tunnel_) {
      state_ = State::kTunnel;
    } else if (!has_body) {
      EndOfRequest();
    }
  }

  void TakeBody(uint64_t* left) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(*left, input_.size()));
    if (n == 0) {
      return;
    }
    body_total_ += n;
    if (stream_->sink_ != nullptr) {
      stream_->sink_->OnBody(Buffer::Copy(std::string_view(input_).substr(0, n)));
    }
    input_.erase(0, n);
    *left -= n;
  }

  void ParseChunkSize() {
    const std::optional<std::string> line = Line(1024);
    if (!line) {
      return line_too_long_ ? Broken(400) : void();
    }
    const std::string_view digits = Trim(std::string_view(*line).substr(0, line->find(';')));
    const auto parsed =
        std::from_chars(digits.data(), digits.data() + digits.size(), body_left_, 16);
    if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) {
      return Broken(400);
    }
    if (body_left_ > config_.options->body_bytes_max ||
        body_total_ + body_left_ > config_.options->body_bytes_max) {
      return Broken(413);
    }
    state_ = body_left_ == 0 ? State::kTrailers : State::kChunkData;
  }

  void ParseTrailer() {
    const std::optional<std::string> line = Line(config_.options->header_bytes_max);
    if (line && line->empty()) {
      return EndOfRequest();
    }
    header_bytes_ += line ? line->size() + 2 : 0;
    if (line_too_long_ || header_bytes_ > config_.options->header_bytes_max) {
      Broken(431);
    }
  }

  // The request broke after its handler had begun.
  void Broken(int status) {
    if (!stream_->head_sent_) {
      const std::unique_ptr<Http1Stream> stream = std::move(stream_);
      if (stream->sink_ != nullptr) {
        stream->sink_->OnClosed();
      }
      Fail(status);
    } else {
      aborted_ = failed_ = true;
    }
    host_.WantFlush();
  }

  void EndOfRequest() {
    state_ = State::kResponding;
    if (stream_->sink_ != nullptr) {
      stream_->sink_->OnEnd();
    }
    host_.WantFlush();
  }

  void FinishExchange() {
    const std::unique_ptr<Http1Stream> stream = std::move(stream_);
    if (!stream->keep_alive_ || state_ != State::kResponding) {
      close_ = true;  // asked for, or the request's rest would be read as a request
    }
    if (stream->sink_ != nullptr) {
      stream->sink_->OnClosed();
    }
    state_ = State::kHead;
    began_ = host_.loop().now();
    if (!close_ && !input_.empty()) {
      Parse();
    }
  }

  SessionHost& host_;
  const SessionConfig config_;
  std::string input_;
  std::deque<Buffer> output_;
  size_t output_bytes_ = 0;
  size_t written_ = 0;
  State state_ = State::kHead;
  std::unique_ptr<Http1Stream> stream_;
  size_t header_bytes_ = 0;
  size_t header_lines_ = 0;
  bool head_begun_ = false;
  bool line_too_long_ = false;
  bool http10_ = false;
  uint64_t body_left_ = 0;
  uint64_t body_total_ = 0;
  bool resume_ = false;  // input was paused and goes on
  bool close_ = false;
  bool failed_ = false;
  bool aborted_ = false;
  MonoTime began_{}, heard_{};
};

void Http1Stream::SendHead(int status, const FieldList& fields) {
  MS_CHECK(!head_sent_);
  head_sent_ = true;
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, Reason(status));
  bool has_length = false;
  for (const auto& [name, value] : fields) {
    has_length = has_length || name == "content-length";
    // Canonical capitals, as Go's server writes them.
    bool up = true;
    for (const char c : name) {
      out.push_back(up && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
      up = c == '-';
    }
    out += ": ";
    for (const char c : value) {
      out.push_back(c == '\r' || c == '\n' ? ' ' : c);  // a value cannot start a new field
    }
    out += "\r\n";
  }
  const bool bodyless = status == 204 || status / 100 == 1;
  if (!has_length && !bodyless) {
    chunked_ = !session_.http10_;
    keep_alive_ = keep_alive_ && chunked_;
    if (chunked_) {
      out += "Transfer-Encoding: chunked\r\n";
    }
  }
  tunnel_ = status == 101;
  if (tunnel_) {
    keep_alive_ = false;
  } else if (!keep_alive_ || session_.close_) {
    keep_alive_ = false;
    out += "Connection: close\r\n";
  }
  out += "\r\n";
  session_.Write(Buffer::Copy(out));
}

void Http1Stream::SendBody(BufferChain body) {
  MS_CHECK(head_sent_ && !ended_);
  if (head_.method == "HEAD" || body.empty()) {
    return;
  }
  session_.written_ += body.size();
  if (chunked_) {
    session_.Write(Buffer::Copy(fmt::format("{:x}\r\n", body.size())));
  }
  for (const Buffer& part : body) {
    session_.Write(part);
  }
  if (chunked_) {
    session_.Write(Buffer::Static("\r\n"));
  }
}

void Http1Stream::End(const FieldList&) {
  MS_CHECK(head_sent_ && !ended_);
  ended_ = true;
  if (chunked_ && head_.method != "HEAD") {
    session_.Write(Buffer::Static("0\r\n\r\n"));
  }
  session_.host_.WantFlush();
}

void Http1Stream::Reset(uint32_t) {
  session_.aborted_ = true;
  session_.host_.WantFlush();
}

void Http1Stream::SetInputPaused(bool paused) {
  input_paused_ = paused;
  session_.resume_ = session_.resume_ || !paused;
  session_.host_.WantFlush();
}

size_t Http1Stream::unsent_bytes() const {
  return session_.output_bytes_;
}

}  // namespace

std::unique_ptr<Session> NewHttp1Session(SessionHost& host, SessionConfig config) {
  return std::make_unique<Http1Session>(host, config);
}

}  // namespace mainstay::net

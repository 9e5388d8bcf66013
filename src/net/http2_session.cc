#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "common/check.h"
#include "common/coding.h"
#include "common/log.h"
#include "net/loop.h"
#include "net/session.h"

namespace mainstay::net {
namespace {

constexpr int32_t kConnectionWindow = 8 << 20;
// nghttp2's own 1,000 and 33 would cut a client whose calls all time out at once; these still end a
// rapid reset (CVE-2023-44487) before it costs much.
constexpr uint64_t kResetBurst = 20000;
constexpr uint64_t kResetsPerSecond = 1000;
// grpc-go forgives two early pings.
constexpr int kPingStrikesMax = 2;
constexpr std::chrono::nanoseconds kPingWithoutStreams = std::chrono::hours(2);

class Http2Session;

class Http2Stream : public Stream {
 public:
  Http2Stream(Http2Session& session, int32_t id, const Peer& peer, Loop& loop)
      : session_(session), id_(id) {
    peer_ = &peer;
    loop_ = &loop;
    head_.http2 = true;
  }
  void SendHead(int status, const FieldList& fields) override;
  void SendBody(BufferChain body) override;
  void End(const FieldList& trailers) override;
  void RespondHeadOnly(int status, const FieldList& fields) override;
  void Reset(uint32_t http2_error) override;
  size_t unsent_bytes() const override { return unsent_; }
  void SetInputPaused(bool paused) override;

 private:
  friend class Http2Session;
  void Resume();
  Http2Session& session_;
  const int32_t id_;
  std::unique_ptr<StreamSink> sink_;
  size_t header_bytes_ = 0;
  bool head_heard_ = false;
  bool peer_done_ = false;  // it ended or reset the stream
  bool head_sent_ = false;
  bool ended_ = false;
  bool deferred_ = false;
  bool input_paused_ = false;
  size_t owed_ = 0;  // heard while paused: granted again when it is over
  size_t held_ = 0;  // the sink's held_bytes(), as the session counts it
  std::deque<Buffer> body_;
  size_t unsent_ = 0;
  std::vector<std::pair<std::string, std::string>> trailers_;
};

nghttp2_nv Field(std::string_view name, std::string_view value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

// Finds the heads of frames in what a peer sends, however it is cut.
class FrameHeads {
 public:
  struct Head {
    uint8_t type;
    int32_t id;
  };
  // Takes from the front of `bytes` up to the end of the next head, or all of them.
  std::optional<Head> Next(std::string_view* bytes) {
    while (!bytes->empty()) {
      if (skip_ > 0) {
        const size_t n = std::min(skip_, bytes->size());
        skip_ -= n;
        bytes->remove_prefix(n);
        continue;
      }
      const size_t n = std::min(sizeof head_ - have_, bytes->size());
      std::memcpy(head_ + have_, bytes->data(), n);
      bytes->remove_prefix(n);
      have_ += n;
      if (have_ == sizeof head_) {
        have_ = 0;
        skip_ = LoadBE32(head_) >> 8;
        return Head{static_cast<uint8_t>(head_[3]),
                    static_cast<int32_t>(LoadBE32(head_ + 5) & 0x7fffffff)};
      }
    }
    return std::nullopt;
  }

 private:
  size_t skip_ = NGHTTP2_CLIENT_MAGIC_LEN;  // of a payload; first of the preface
  size_t have_ = 0;
  char head_[9];
};

class Http2Session : public Session {
 public:
  Http2Session(SessionHost& host, SessionConfig config) : host_(host), config_(config) {
    nghttp2_session_callbacks* callbacks = nullptr;
    MS_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, OnBeginFrame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, SendData);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, OnFrameSent);
    nghttp2_option* option = nullptr;
    MS_CHECK(nghttp2_option_new(&option) == 0);
    nghttp2_option_set_max_outbound_ack(option, 256);
    nghttp2_option_set_stream_reset_rate_limit(option, kResetBurst, kResetsPerSecond);
    // Kept for priorities that nobody here asks for, they would stay as long as the connection, for
    // want of a limit on streams.
    nghttp2_option_set_no_closed_streams(option, 1);
    // OnData() says what may be granted again.
    nghttp2_option_set_no_auto_window_update(option, 1);
    MS_CHECK(nghttp2_session_server_new2(&session_, callbacks, this, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const std::array<nghttp2_settings_entry, 3> settings = {
        {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
         {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
          static_cast<uint32_t>(config.options->header_bytes_max)},
         {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, config.options->max_concurrent_streams}}};
    // No limit is what a peer assumes that hears of none.
    const bool limited = config.options->max_concurrent_streams != UINT32_MAX;
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), limited ? 3 : 2);
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
    opened_ = last_heard_ = host.loop().now();
  }
  ~Http2Session() override { nghttp2_session_del(session_); }
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  bool OnBytes(std::string_view bytes) override {
    last_heard_ = host_.loop().now();
    pinged_ = false;
    host_.WantFlush();
    // nghttp2 says nothing of data for a stream that is over, so it is looked for here.
    bool reset = false;
    std::string_view rest = bytes;
    while (const auto head = heads_.Next(&rest)) {
      reset |= head->type == NGHTTP2_RST_STREAM;
      if (head->type == NGHTTP2_DATA && head->id % 2 == 1 && (reset || head->id <= highest_id_) &&
          !streams_.contains(head->id)) {
        if (!Feed(bytes.substr(0, bytes.size() - rest.size()))) {
          return false;
        }
        bytes = rest;
        RefuseFinished(head->id);
      }
    }
    return Feed(bytes);
  }

  bool Pump(OutQueue* out, size_t bytes_max) override {
    out_ = out;
    bool ok = true;
    while (out->size() < bytes_max) {
      const uint8_t* data = nullptr;
      const ssize_t n = nghttp2_session_mem_send(session_, &data);
      if (n <= 0) {
        ok = n == 0;
        break;
      }
      out->Copy({reinterpret_cast<const char*>(data), static_cast<size_t>(n)});
    }
    out_ = nullptr;
    // Written() is told after nghttp2 is left: it may send more, or end the stream.
    for (size_t i = 0; i < written_.size(); ++i) {
      if (const auto found = streams_.find(written_[i].first);
          found != streams_.end() && found->second->sink_ != nullptr) {
        found->second->sink_->OnWritten(written_[i].second);
      }
    }
    written_.clear();
    return ok &&
           (nghttp2_session_want_read(session_) != 0 || nghttp2_session_want_write(session_) != 0);
  }

  void Shutdown() override {
    if (!shutting_down_) {
      shutting_down_ = true;
      nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                            nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                            nullptr, 0);
      host_.WantFlush();
    }
  }
  bool idle() const override { return streams_.empty(); }

  bool OnTick(MonoTime now) override {
    const ServerOptions& o = *config_.options;
    if (!heard_settings_ && now - opened_ > o.header_timeout) {
      return false;
    }
    // A head that was begun must be finished in time, like any request line.
    if (open_heads_ > 0 && now - head_began_ > o.header_timeout) {
      return false;
    }
    if (pinged_ && now - ping_sent_ > o.keepalive_timeout) {
      return false;
    }
    if (!pinged_ && o.keepalive_interval.count() > 0 && o.keepalive_timeout.count() > 0 &&
        now - last_heard_ > o.keepalive_interval) {
      nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
      pinged_ = true;
      ping_sent_ = now;
      host_.WantFlush();
    }
    return true;
  }

  void OnClosed() override {
    closed_ = true;
    std::unordered_map<int32_t, std::unique_ptr<Http2Stream>> streams;
    streams.swap(streams_);
    for (auto& [id, stream] : streams) {
      if (stream->sink_ != nullptr) {
        stream->sink_->OnClosed();
      }
    }
  }

 private:
  friend class Http2Stream;

  static Http2Session& Self(void* user) { return *static_cast<Http2Session*>(user); }

  // A new stream must have a higher number than all before, and one that the peer ended hears no
  // more from it. nghttp2 passes over frames of skipped and of closed streams; RFC 9113 5.1 and
  // 5.1.1 want the connection to end.
  static int OnBeginFrame(nghttp2_session* session, const nghttp2_frame_hd* head, void* user) {
    Http2Session& me = Self(user);
    const int32_t id = head->stream_id;
    if (head->type != NGHTTP2_HEADERS || id % 2 == 0) {
      return 0;
    }
    if (id > me.highest_id_) {
      if (id > me.highest_id_ + 2) {
        me.skipped_.emplace_back(me.highest_id_ + 2, id - 2);
        if (me.skipped_.size() > kSkippedMax) {
          me.skipped_.erase(me.skipped_.begin());
        }
      }
      me.highest_id_ = id;
    } else if (std::any_of(me.skipped_.begin(), me.skipped_.end(),
                           [id](const auto& s) { return s.first <= id && id <= s.second; })) {
      nghttp2_session_terminate_session(session, NGHTTP2_PROTOCOL_ERROR);
    } else if (!me.streams_.contains(id)) {
      me.RefuseFinished(id);
    }
    return 0;
  }

  // Ends the connection when the peer had ended the stream itself. One that this side reset may
  // still have frames on their way.
  void RefuseFinished(int32_t id) {
    if (std::find(finished_.begin(), finished_.end(), id) != finished_.end()) {
      nghttp2_session_terminate_session(session_, NGHTTP2_STREAM_CLOSED);
    }
  }

  static int OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    Http2Session& me = Self(user);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      return 0;
    }
    const int32_t id = frame->hd.stream_id;
    auto stream = std::make_unique<Http2Stream>(me, id, me.host_.peer(), me.host_.loop());
    nghttp2_session_set_stream_user_data(session, id, stream.get());
    me.streams_[id] = std::move(stream);
    if (me.open_heads_++ == 0) {
      me.head_began_ = me.host_.loop().now();
    }
    return 0;
  }

  static int OnHeader(nghttp2_session* session,
                      const nghttp2_frame* frame,
                      const uint8_t* name,
                      size_t name_length,
                      const uint8_t* value,
                      size_t value_length,
                      uint8_t,
                      void* user) {
    auto* stream = static_cast<Http2Stream*>(
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
    if (stream == nullptr || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      return 0;  // trailers of a request: nothing uses them
    }
    const std::string_view key(reinterpret_cast<const char*>(name), name_length);
    const std::string_view text(reinterpret_cast<const char*>(value), value_length);
    stream->header_bytes_ += name_length + value_length + 32;
    if (stream->header_bytes_ > Self(user).config_.options->header_bytes_max) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    RequestHead& head = stream->head_;
    if (key == ":method") {
      head.method = text;
    } else if (key == ":path") {
      const size_t mark = text.find('?');
      head.path = text.substr(0, mark);
      head.query = mark == std::string_view::npos ? "" : text.substr(mark + 1);
    } else if (key == ":authority") {
      head.authority = text;
    } else if (!key.starts_with(":")) {
      head.headers.Add(key, text);
    }
    return 0;
  }

  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    Http2Session& me = Self(user);
    switch (frame->hd.type) {
      case NGHTTP2_SETTINGS:
        me.heard_settings_ = true;
        return 0;
      case NGHTTP2_PING:
        return (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0 ? me.OnPing() : 0;
      case NGHTTP2_HEADERS:
      case NGHTTP2_DATA:
      case NGHTTP2_RST_STREAM:
        break;
      default:
        return 0;
    }
    auto* stream = static_cast<Http2Stream*>(
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
    if (stream == nullptr) {
      return 0;
    }
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
                      (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA);
    stream->peer_done_ |= ends || frame->hd.type == NGHTTP2_RST_STREAM;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      --me.open_heads_;
      stream->head_heard_ = true;
      me.Dispatch(*stream);
    }
    if (ends && stream->sink_ != nullptr) {
      stream->sink_->OnEnd();
    }
    return 0;
  }

  bool Feed(std::string_view bytes) {
    return nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(bytes.data()),
                                    bytes.size()) >= 0;
  }

  void Dispatch(Http2Stream& stream) {
    if (stream.head_.authority.empty()) {
      stream.head_.authority = stream.head_.headers.Get("host");
    }
    Handler* handler = PickHandler(*config_.listener, stream.head_);
    if (handler == nullptr) {
      stream.RespondHeadOnly(404, {});
      return;
    }
    stream.sink_ = handler->OnRequest(stream);
  }

  int OnPing() {
    const MonoTime now = host_.loop().clock().Now();
    const auto least = config_.options->ping_min_interval;
    if (least.count() <= 0) {
      return 0;
    }
    if (std::exchange(sent_since_ping_, false)) {
      // As grpc-go: a ping after a head or data of ours (its bandwidth probe) counts for nothing.
      ping_strikes_ = 0;
      last_ping_ = now;
      return 0;
    }
    const bool early = now - last_ping_ < (streams_.empty() ? kPingWithoutStreams : least);
    last_ping_ = now;
    if (early && ++ping_strikes_ > kPingStrikesMax) {
      static constexpr std::string_view kReason = "too_many_pings";
      nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                            nghttp2_session_get_last_proc_stream_id(session_),
                            NGHTTP2_ENHANCE_YOUR_CALM,
                            reinterpret_cast<const uint8_t*>(kReason.data()), kReason.size());
      nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    return 0;
  }

  // The connection's window is granted again at once, whoever keeps the data: a stream that waits
  // must not hold up the others.
  static int OnData(nghttp2_session* session,
                    uint8_t,
                    int32_t id,
                    const uint8_t* data,
                    size_t length,
                    void* user) {
    Http2Session& me = Self(user);
    auto* stream = static_cast<Http2Stream*>(nghttp2_session_get_stream_user_data(session, id));
    if (nghttp2_session_consume_connection(session, length) != 0) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (stream == nullptr || stream->sink_ == nullptr) {
      return nghttp2_session_consume_stream(session, id, length) == 0
                 ? 0
                 : NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    stream->sink_->OnBody(Buffer::Copy({reinterpret_cast<const char*>(data), length}));
    me.CountHeld(*stream);
    if (stream->held_ > 0 && me.held_ > me.config_.options->held_bytes_max) {
      return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    stream->owed_ += length;
    return me.Grant(*stream) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  void CountHeld(Http2Stream& stream) {
    const size_t now = stream.sink_ != nullptr ? stream.sink_->held_bytes() : 0;
    held_ += now - stream.held_;
    stream.held_ = now;
  }

  bool Grant(Http2Stream& stream) {
    if (stream.input_paused_ || stream.owed_ == 0) {
      return true;
    }
    return nghttp2_session_consume_stream(session_, stream.id_, std::exchange(stream.owed_, 0)) ==
           0;
  }

  static int OnStreamClose(nghttp2_session*, int32_t id, uint32_t, void* user) {
    Http2Session& me = Self(user);
    const auto found = me.streams_.find(id);
    if (found == me.streams_.end()) {
      return 0;
    }
    std::unique_ptr<Http2Stream> stream = std::move(found->second);
    me.streams_.erase(found);
    me.held_ -= stream->held_;
    if (stream->peer_done_) {
      me.finished_[me.finished_count_++ % me.finished_.size()] = id;
    }
    // A head that was refused half-way (too big, malformed) is not waited for.
    if (!stream->head_heard_) {
      --me.open_heads_;
    }
    if (stream->sink_ != nullptr) {
      stream->sink_->OnClosed();
    }
    return 0;
  }

  // An answer that did not wait for the whole request: the rest is of no use, and the peer is told
  // to stop.
  static int OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_HEADERS) {
      Self(user).sent_since_ping_ = true;
    }
    const bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                      (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (ends && nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static ssize_t ReadBody(nghttp2_session* session,
                          int32_t id,
                          uint8_t*,
                          size_t length,
                          uint32_t* flags,
                          nghttp2_data_source* source,
                          void*) {
    auto& stream = *static_cast<Http2Stream*>(source->ptr);
    const size_t n = std::min(length, stream.unsent_);
    if (n == stream.unsent_ && stream.ended_) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!stream.trailers_.empty()) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        std::vector<nghttp2_nv> fields;
        for (const auto& [name, value] : stream.trailers_) {
          fields.push_back(Field(name, value));
        }
        nghttp2_submit_trailer(session, id, fields.data(), fields.size());
      }
    } else if (n == 0) {
      stream.deferred_ = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    return static_cast<ssize_t>(n);
  }

  static int SendData(nghttp2_session*,
                      nghttp2_frame*,
                      const uint8_t* frame_head,
                      size_t length,
                      nghttp2_data_source* source,
                      void* user) {
    Http2Session& me = Self(user);
    auto& stream = *static_cast<Http2Stream*>(source->ptr);
    me.out_->Copy({reinterpret_cast<const char*>(frame_head), 9});
    size_t left = length;
    while (left > 0) {
      Buffer& front = stream.body_.front();
      if (front.size() <= left) {
        left -= front.size();
        me.out_->Add(front);
        stream.body_.pop_front();
      } else {
        me.out_->Add(front.Slice(0, left));
        front = front.Slice(left, front.size() - left);
        left = 0;
      }
    }
    stream.unsent_ -= length;
    if (length > 0) {
      me.written_.emplace_back(stream.id_, length);
      me.sent_since_ping_ = true;
    }
    return 0;
  }

  SessionHost& host_;
  const SessionConfig config_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<int32_t, std::unique_ptr<Http2Stream>> streams_;
  size_t held_ = 0;  // by all streams' sinks
  OutQueue* out_ = nullptr;
  std::vector<std::pair<int32_t, size_t>> written_;
  bool shutting_down_ = false;
  bool closed_ = false;
  bool heard_settings_ = false;
  int open_heads_ = 0;
  MonoTime opened_{}, head_began_{}, last_heard_{}, ping_sent_{};
  MonoTime last_ping_ = -kPingWithoutStreams;
  bool pinged_ = false;
  int ping_strikes_ = 0;
  bool sent_since_ping_ = false;
  FrameHeads heads_;
  static constexpr size_t kSkippedMax = 16;
  // The last streams that the peer ended and that are closed; what is older is passed over.
  std::array<int32_t, 64> finished_{};
  size_t finished_count_ = 0;
  int32_t highest_id_ = -1;
  std::vector<std::pair<int32_t, int32_t>>
      skipped_;  // ranges of ids that no stream had, newest last
};

void Http2Stream::SendHead(int status, const FieldList& fields) {
  MS_CHECK(!head_sent_);
  head_sent_ = true;
  const std::string code = std::to_string(status);
  absl::InlinedVector<nghttp2_nv, 8> list;
  list.push_back(Field(":status", code));
  for (const auto& [name, value] : fields) {
    list.push_back(Field(name, value));
  }
  nghttp2_data_provider body{{.ptr = this}, Http2Session::ReadBody};
  nghttp2_submit_response(session_.session_, id_, list.data(), list.size(), &body);
  session_.host_.WantFlush();
}

void Http2Stream::RespondHeadOnly(int status, const FieldList& fields) {
  MS_CHECK(!head_sent_);
  head_sent_ = ended_ = true;
  const std::string code = std::to_string(status);
  absl::InlinedVector<nghttp2_nv, 8> list;
  list.push_back(Field(":status", code));
  for (const auto& [name, value] : fields) {
    list.push_back(Field(name, value));
  }
  nghttp2_submit_response(session_.session_, id_, list.data(), list.size(), nullptr);
  session_.host_.WantFlush();
}

void Http2Stream::Resume() {
  if (deferred_) {
    deferred_ = false;
    nghttp2_session_resume_data(session_.session_, id_);
  }
  session_.host_.WantFlush();
}

void Http2Stream::SendBody(BufferChain body) {
  MS_CHECK(head_sent_ && !ended_);
  for (const Buffer& part : body) {
    unsent_ += part.size();
    body_.push_back(part);
  }
  Resume();
}

void Http2Stream::End(const FieldList& trailers) {
  MS_CHECK(head_sent_ && !ended_);
  ended_ = true;
  for (const auto& [name, value] : trailers) {
    trailers_.emplace_back(name, value);
  }
  Resume();
}

void Http2Stream::SetInputPaused(bool paused) {
  input_paused_ = paused;
  session_.CountHeld(*this);
  if (!session_.Grant(*this)) {
    return Reset(NGHTTP2_INTERNAL_ERROR);
  }
  session_.host_.WantFlush();
}

void Http2Stream::Reset(uint32_t http2_error) {
  nghttp2_submit_rst_stream(session_.session_, NGHTTP2_FLAG_NONE, id_, http2_error);
  session_.host_.WantFlush();
}

}  // namespace

std::unique_ptr<Session> NewHttp2Session(SessionHost& host, SessionConfig config) {
  return std::make_unique<Http2Session>(host, config);
}

Handler* PickHandler(const ListenerOptions& listener, const RequestHead& head) {
  const bool grpc = head.http2 && head.headers.Get("content-type").starts_with("application/grpc");
  if (grpc && listener.protocols != Protocols::kHttpOnly) {
    return listener.grpc;
  }
  return listener.protocols == Protocols::kGrpcOnly ? listener.grpc : listener.http;
}

}  // namespace mainstay::net

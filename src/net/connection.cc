#include "net/connection.h"

#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/log.h"

namespace mainstay::net {
namespace {

constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kReadChunk = 64 << 10;
// Fairness: one connection reads at most this much per wake-up.
constexpr size_t kReadPerWakeup = 512 << 10;
// After our last byte the peer's are read and dropped for so long: closing on unread input would
// send a reset, which may overtake what we said.
constexpr std::chrono::nanoseconds kLingerMax = std::chrono::seconds(2);
constexpr size_t kTlsRecord = 16 << 10;
// A peer that takes nothing for so long is gone.
constexpr std::chrono::nanoseconds kStallMax = std::chrono::minutes(2);

}  // namespace

Connection::Connection(int fd,
                       Loop& loop,
                       const ServerOptions& options,
                       const ListenerOptions& listener,
                       std::string address,
                       absl::AnyInvocable<void()> on_gone)
    : fd_(fd),
      loop_(loop),
      options_(options),
      listener_(listener),
      on_gone_(std::move(on_gone)),
      opened_(loop.now()) {
  peer_.address = std::move(address);
  if (listener.tls == nullptr) {
    phase_ = Phase::kPreface;
  }
}

Connection::~Connection() {
  if (session_ != nullptr) {
    session_->OnClosed();
  }
  SSL_free(ssl_);
  ::close(fd_);
  on_gone_();
}

void Connection::Close() {
  if (!closed_) {
    closed_ = true;
    loop_.Remove(this);
  }
}

void Connection::RejectLog(std::string_view reason) {
  MS_LOG(kWarn, "rejected connection on client endpoint")
      .Str("remote-addr", peer_.address)
      .Str("error", reason);
}

void Connection::WantFlush() {
  if (!dirty_) {
    dirty_ = true;
    loop_.MarkDirty(this);
  }
}

void Connection::Shutdown() {
  if (session_ != nullptr) {
    session_->Shutdown();
  } else {
    closing_ = true;
  }
  WantFlush();
}

// The first byte of a TLS record is 0x16; of any HTTP request a letter.
bool Connection::Sniff() {
  char first = 0;
  const ssize_t n = ::recv(fd_, &first, 1, MSG_PEEK);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    Close();
    return false;
  }
  if (n < 0) {
    readable_ = false;
    return false;
  }
  if (first != 0x16) {
    if (!listener_.plaintext) {
      RejectLog("tls: first record does not look like a TLS handshake");
      Close();
      return false;
    }
    phase_ = Phase::kPreface;
    return true;
  }
  ssl_ = listener_.tls->NewServer();
  if (ssl_ == nullptr) {
    RejectLog("tls: no usable certificate");
    Close();
    return false;
  }
  SSL_set_fd(ssl_, fd_);
  SSL_set_accept_state(ssl_);
  peer_.tls = true;
  phase_ = Phase::kHandshake;
  return true;
}

bool Connection::Handshake() {
  ERR_clear_error();
  const int n = SSL_do_handshake(ssl_);
  if (n == 1) {
    HandshakeDone();
    return !closed_;
  }
  const int error = SSL_get_error(ssl_, n);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    readable_ = false;
    return false;
  }
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_error_string_n(code, text.data(), text.size());
  if (code == 0) {
    MS_LOG(kDebug, "rejected connection on client endpoint")
        .Str("remote-addr", peer_.address)
        .Str("error", "EOF");
  } else {
    RejectLog(text.data());
  }
  Close();
  return false;
}

void Connection::HandshakeDone() {
  if (const std::string refusal = listener_.tls->CheckPeer(ssl_); !refusal.empty()) {
    RejectLog(refusal);
    return Close();
  }
  if (X509* leaf = SSL_get0_peer_certificate(ssl_);
      leaf != nullptr && SSL_get_verify_result(ssl_) == X509_V_OK) {
    std::array<char, 256> name{};
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(leaf), NID_commonName, name.data(),
                                  name.size()) > 0) {
      peer_.common_name = name.data();
    }
  }
  const unsigned char* chosen = nullptr;
  unsigned length = 0;
  SSL_get0_alpn_selected(ssl_, &chosen, &length);
  if (length == 2 && chosen[0] == 'h' && chosen[1] == '2') {
    Begin(true);
  } else {
    phase_ = Phase::kPreface;
  }
}

void Connection::Begin(bool http2) {
  phase_ = Phase::kServing;
  session_ = http2 ? NewHttp2Session(*this, {&options_, &listener_})
                   : NewHttp1Session(*this, {&options_, &listener_});
  WantFlush();
}

Connection::IoResult Connection::Receive(char* to, size_t size, size_t* got) {
  *got = 0;
  if (ssl_ == nullptr) {
    const ssize_t n = ::recv(fd_, to, size, 0);
    if (n > 0) {
      *got = static_cast<size_t>(n);
      return IoResult::kOk;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? IoResult::kAgain : IoResult::kClosed;
  }
  ERR_clear_error();
  const int n = SSL_read_ex(ssl_, to, size, got);
  if (n == 1) {
    return IoResult::kOk;
  }
  const int error = SSL_get_error(ssl_, n);
  return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? IoResult::kAgain
                                                                       : IoResult::kClosed;
}

void Connection::Take(std::string_view bytes) {
  if (phase_ == Phase::kPreface) {
    preface_.append(bytes);
    const size_t n = std::min(preface_.size(), kHttp2Preface.size());
    const bool may_be_http2 = std::string_view(preface_).substr(0, n) == kHttp2Preface.substr(0, n);
    // "PRI" is no method of HTTP/1.1; three bytes decide.
    if (may_be_http2 && n < 3) {
      return;
    }
    Begin(may_be_http2);
    const std::string first = std::exchange(preface_, {});
    if (!session_->OnBytes(first)) {
      closing_ = true;
    }
    return;
  }
  if (!session_->OnBytes(bytes)) {
    closing_ = true;
  }
}

void Connection::Read() {
  static thread_local std::array<char, kReadChunk> buffer;
  size_t total = 0;
  while (readable_ && !closed_ && !closing_) {
    if (session_ != nullptr &&
        (session_->input_paused() || out_.size() >= options_.output_bytes_max)) {
      return;  // OnFlush() comes back here
    }
    if (total >= kReadPerWakeup) {
      loop_.MarkDirty(this);  // the others first; OnFlush() goes on
      dirty_ = true;
      return;
    }
    size_t got = 0;
    switch (Receive(buffer.data(), buffer.size(), &got)) {
      case IoResult::kAgain:
        readable_ = false;
        return;
      case IoResult::kClosed:
        return Close();
      case IoResult::kOk:
        break;
    }
    total += got;
    Take({buffer.data(), got});
    if (ssl_ == nullptr && got < buffer.size()) {
      readable_ = false;  // the kernel has no more, and tells when it has
    }
  }
  if (closing_) {
    WantFlush();
  }
}

void Connection::Linger() {
  if (ssl_ != nullptr) {
    SSL_shutdown(ssl_);
  }
  ::shutdown(fd_, SHUT_WR);
  if (session_ != nullptr) {
    session_->OnClosed();
    session_ = nullptr;
  }
  phase_ = Phase::kLinger;
  linger_since_ = loop_.now();
  Drain();
}

void Connection::Drain() {
  std::array<char, 16 << 10> dropped;
  for (size_t total = 0; total < kReadPerWakeup;) {
    const ssize_t n = ::recv(fd_, dropped.data(), dropped.size(), 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n <= 0) {
      return Close();
    }
    total += static_cast<size_t>(n);
  }
  Close();  // it goes on sending whatever we say
}

void Connection::OnReadable() {
  if (phase_ == Phase::kLinger) {
    return Drain();
  }
  readable_ = true;
  if (phase_ == Phase::kSniff && !Sniff()) {
    return;
  }
  if (phase_ == Phase::kHandshake && !Handshake()) {
    return;
  }
  Read();
}

void Connection::OnWritable() {
  if (phase_ == Phase::kHandshake) {
    if (Handshake()) {
      readable_ = true;  // records may lie in OpenSSL's buffer already
      Read();
    }
    return;
  }
  if (!out_.empty()) {
    WantFlush();
  }
}

Connection::IoResult Connection::WriteOut() {
  while (!out_.empty()) {
    size_t done = 0;
    if (ssl_ == nullptr) {
      std::array<iovec, 64> pieces;
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen =
          static_cast<size_t>(out_.Gather(pieces.data(), static_cast<int>(pieces.size())));
      const ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
      if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? IoResult::kAgain : IoResult::kClosed;
      }
      done = static_cast<size_t>(n);
    } else {
      ERR_clear_error();
      // One record for many small pieces. A retry sees the same bytes, and perhaps more.
      static thread_local std::array<char, kTlsRecord> record;
      std::string_view front = out_.front();
      if (front.size() < record.size() && front.size() < out_.size()) {
        front = {record.data(), out_.Peek(record.data(), record.size())};
      }
      const int n = SSL_write_ex(ssl_, front.data(), front.size(), &done);
      if (n != 1) {
        const int error = SSL_get_error(ssl_, n);
        return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? IoResult::kAgain
                                                                             : IoResult::kClosed;
      }
    }
    out_.Consume(done);
  }
  return IoResult::kOk;
}

void Connection::OnFlush() {
  dirty_ = false;
  if (closed_ || phase_ == Phase::kLinger) {
    return;
  }
  if (phase_ == Phase::kHandshake || phase_ == Phase::kSniff) {
    if (closing_) {
      Close();
    }
    return;
  }
  constexpr size_t kPumpBytes = 256 << 10;
  bool open = session_ != nullptr || !closing_;
  for (int round = 0; round < 16; ++round) {
    if (session_ != nullptr) {
      open = session_->Pump(&out_, kPumpBytes);
    }
    const bool filled = out_.size() >= kPumpBytes;
    switch (WriteOut()) {
      case IoResult::kClosed:
        return Close();
      case IoResult::kAgain:
        if (stalled_since_ == kNever) {
          stalled_since_ = loop_.now();
        }
        return;  // EPOLLOUT will come
      case IoResult::kOk:
        stalled_since_ = kNever;
        break;
    }
    if (!filled) {
      break;
    }
    if (round == 15) {
      WantFlush();
    }
  }
  if ((closing_ || !open) && out_.empty()) {
    return Linger();
  }
  if (readable_) {
    Read();
  }
}

void Connection::OnTick(MonoTime now) {
  if (phase_ == Phase::kLinger) {
    if (now - linger_since_ > kLingerMax) {
      Close();
    }
    return;
  }
  if (phase_ != Phase::kServing) {
    // A half-open handshake, or a connection that never says what it wants.
    if (now - opened_ > options_.handshake_timeout) {
      Close();
    }
    return;
  }
  if ((stalled_since_ != kNever && now - stalled_since_ > kStallMax) || !session_->OnTick(now)) {
    Close();
  }
}

}  // namespace mainstay::net

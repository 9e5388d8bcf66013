#include "tests/bench/grpc_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "common/coding.h"

namespace mainstay::bench {
namespace {

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "load: %s\n", text.c_str());
  std::exit(1);
}

std::string Frame(std::string_view message) {
  std::string out(5, '\0');
  StoreBE32(out.data() + 1, static_cast<uint32_t>(message.size()));
  out += message;
  return out;
}

constexpr int32_t kWindow = 1 << 28;

}  // namespace

class Connection {
 public:
  Connection(const std::string& host, int port, SSL_CTX* tls, std::string authority) : authority_(std::move(authority)) {
    Connect(host, port);
    if (tls != nullptr) {
      Handshake(tls, host);
    }
    fcntl(fd_, F_SETFL, O_NONBLOCK);
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnClose);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_session_client_new2(&session_, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow},
                                               {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 2);
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow);
  }
  ~Connection() {
    nghttp2_session_del(session_);
    SSL_free(ssl_);
    close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }

  Call& Start(std::string_view path, std::string_view message) {
    auto owned = std::make_unique<Call>();
    Call& call = *owned;
    call.request = Frame(message);
    const auto field = [](std::string_view name, std::string_view value) {
      return nghttp2_nv{reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                        reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
                        NGHTTP2_NV_FLAG_NONE};
    };
    const nghttp2_nv headers[] = {field(":method", "POST"),
                                  field(":scheme", ssl_ != nullptr ? "https" : "http"),
                                  field(":path", path),
                                  field(":authority", authority_),
                                  field("content-type", "application/grpc"),
                                  field("te", "trailers")};
    nghttp2_data_provider body{{.ptr = &call}, ReadBody};
    const int32_t id = nghttp2_submit_request(session_, nullptr, headers, std::size(headers), &body, nullptr);
    if (id < 0) {
      Die(std::string("submit: ") + nghttp2_strerror(id));
    }
    nghttp2_session_set_stream_user_data(session_, id, &call);
    streams_[&call] = id;
    calls_[id] = std::move(owned);
    return call;
  }

  void Send(Call& call, std::string_view message) {
    if (call.sent == call.request.size()) {
      call.request.clear();
      call.sent = 0;
    }
    call.request += Frame(message);
    nghttp2_session_resume_data(session_, streams_.at(&call));
  }

  void Read() {
    char buffer[64 << 10];
    while (true) {
      const ssize_t n = ssl_ != nullptr ? SslRead(buffer, sizeof buffer) : recv(fd_, buffer, sizeof buffer, 0);
      if (n == 0) {
        Die("the server closed a connection");
      }
      if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) {
          return;
        }
        Die(std::string("read: ") + std::strerror(errno));
      }
      const ssize_t used = nghttp2_session_mem_recv(session_, reinterpret_cast<uint8_t*>(buffer), static_cast<size_t>(n));
      if (used < 0) {
        Die(std::string("protocol: ") + nghttp2_strerror(static_cast<int>(used)));
      }
      if (ssl_ == nullptr && static_cast<size_t>(n) < sizeof buffer) {
        return;
      }
    }
  }

  void Flush() {
    while (true) {
      while (out_.size() - out_at_ < (64 << 10)) {
        const uint8_t* data = nullptr;
        const ssize_t n = nghttp2_session_mem_send(session_, &data);
        if (n < 0) {
          Die(std::string("protocol: ") + nghttp2_strerror(static_cast<int>(n)));
        }
        if (n == 0) {
          break;
        }
        out_.append(reinterpret_cast<const char*>(data), static_cast<size_t>(n));
      }
      if (out_at_ == out_.size()) {
        out_.clear();
        out_at_ = 0;
        return;
      }
      const ssize_t n = ssl_ != nullptr ? SslWrite(out_.data() + out_at_, out_.size() - out_at_)
                                        : send(fd_, out_.data() + out_at_, out_.size() - out_at_, MSG_NOSIGNAL);
      if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) {
          return;
        }
        Die(std::string("write: ") + std::strerror(errno));
      }
      out_at_ += static_cast<size_t>(n);
    }
  }

 private:
  void Connect(const std::string& host, int port) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
      Die("the address must be an IPv4 address: " + host);
    }
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      Die(std::string("connect: ") + std::strerror(errno));
    }
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  void Handshake(SSL_CTX* tls, const std::string& host) {
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, fd_);
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str());
    static constexpr unsigned char kAlpn[] = "\x02h2";
    SSL_set_alpn_protos(ssl_, kAlpn, 3);
    if (SSL_connect(ssl_) != 1) {
      ERR_print_errors_fp(stderr);
      Die("TLS handshake");
    }
  }
  ssize_t SslRead(char* to, size_t size) {
    const int n = SSL_read(ssl_, to, static_cast<int>(size));
    return n > 0 ? n : Again(n);
  }
  ssize_t SslWrite(const char* from, size_t size) {
    SSL_set_mode(ssl_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    const int n = SSL_write(ssl_, from, static_cast<int>(size));
    return n > 0 ? n : Again(n);
  }
  ssize_t Again(int n) {
    const int error = SSL_get_error(ssl_, n);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      errno = EAGAIN;
      return -1;
    }
    return 0;
  }

  static ssize_t ReadBody(nghttp2_session*, int32_t, uint8_t* to, size_t length, uint32_t* flags,
                          nghttp2_data_source* source, void*) {
    Call& call = *static_cast<Call*>(source->ptr);
    const size_t left = call.request.size() - call.sent;
    const size_t n = left < length ? left : length;
    std::memcpy(to, call.request.data() + call.sent, n);
    call.sent += n;
    if (call.sent == call.request.size()) {
      if (!call.keep_open) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
      } else if (n == 0) {
        return NGHTTP2_ERR_DEFERRED;
      }
    }
    return static_cast<ssize_t>(n);
  }
  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name, size_t name_length,
                      const uint8_t* value, size_t value_length, uint8_t, void*) {
    auto* call = static_cast<Call*>(nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
    const std::string_view key(reinterpret_cast<const char*>(name), name_length);
    const std::string_view text(reinterpret_cast<const char*>(value), value_length);
    if (call != nullptr && key == "grpc-status") {
      call->grpc_status = std::atoi(std::string(text).c_str());
    } else if (call != nullptr && key == "grpc-message") {
      call->grpc_message = text;
    }
    return 0;
  }
  static int OnData(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data, size_t length, void*) {
    auto* call = static_cast<Call*>(nghttp2_session_get_stream_user_data(session, id));
    if (call == nullptr) {
      return 0;
    }
    call->response_bytes += length;
    if (!call->on_message) {
      return 0;
    }
    call->partial.append(reinterpret_cast<const char*>(data), length);
    size_t at = 0;
    while (call->partial.size() - at >= 5) {
      const uint32_t size = LoadBE32(call->partial.data() + at + 1);
      if (call->partial.size() - at - 5 < size) {
        break;
      }
      call->on_message(std::string_view(call->partial).substr(at + 5, size));
      at += 5 + size;
    }
    call->partial.erase(0, at);
    return 0;
  }
  static int OnClose(nghttp2_session*, int32_t id, uint32_t, void* self) {
    auto& me = *static_cast<Connection*>(self);
    const auto found = me.calls_.find(id);
    if (found == me.calls_.end()) {
      return 0;
    }
    const std::unique_ptr<Call> call = std::move(found->second);
    me.calls_.erase(found);
    me.streams_.erase(call.get());
    if (call->on_done) {
      call->on_done(*call);
    }
    return 0;
  }

  int fd_ = -1;
  SSL* ssl_ = nullptr;
  nghttp2_session* session_ = nullptr;
  std::string authority_;
  std::unordered_map<int32_t, std::unique_ptr<Call>> calls_;
  std::unordered_map<const Call*, int32_t> streams_;
  std::string out_;
  size_t out_at_ = 0;
};

Client::Client(std::string host, int port, TlsFiles tls, int connections) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (!tls.ca.empty()) {
    tls_ = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_verify(tls_, SSL_VERIFY_PEER, nullptr);
    if (SSL_CTX_load_verify_locations(tls_, tls.ca.c_str(), nullptr) != 1 ||
        (!tls.cert.empty() && (SSL_CTX_use_certificate_chain_file(tls_, tls.cert.c_str()) != 1 ||
                               SSL_CTX_use_PrivateKey_file(tls_, tls.key.c_str(), SSL_FILETYPE_PEM) != 1))) {
      ERR_print_errors_fp(stderr);
      Die("TLS files");
    }
  }
  const std::string authority = host + ":" + std::to_string(port);
  for (int i = 0; i < connections; ++i) {
    connections_.push_back(std::make_unique<Connection>(host, port, tls_, authority));
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.u32 = static_cast<uint32_t>(i);
    epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_.back()->fd(), &event);
  }
}

Client::~Client() {
  connections_.clear();
  SSL_CTX_free(tls_);
  close(epoll_);
}

Call& Client::Start(int index, std::string_view path, std::string_view message) {
  return connections_[static_cast<size_t>(index)]->Start(path, message);
}

void Client::Send(int index, Call& call, std::string_view message) {
  connections_[static_cast<size_t>(index)]->Send(call, message);
}

void Client::RunOnce(int timeout_ms) {
  for (const auto& connection : connections_) {
    connection->Flush();
  }
  epoll_event events[64];
  const int n = epoll_wait(epoll_, events, 64, timeout_ms);
  for (int i = 0; i < n; ++i) {
    Connection& connection = *connections_[events[i].data.u32];
    if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
      connection.Read();
    }
    connection.Flush();
  }
}

}  // namespace mainstay::bench

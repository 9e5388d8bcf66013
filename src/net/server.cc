#include "net/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "fmt/format.h"

#include "common/check.h"
#include "common/log.h"
#include "common/mutex.h"
#include "net/connection.h"

namespace mainstay::net {
namespace {

constexpr int kBacklog = 4096;
constexpr std::chrono::nanoseconds kAcceptPause = std::chrono::milliseconds(50);

std::string AddressText(const sockaddr_storage& from, const std::string& unix_path) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (from.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(from);
    inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(in.sin_port));
  }
  if (from.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(from);
    inet_ntop(AF_INET6, &in.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(in.sin6_port));
  }
  return unix_path;
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

}  // namespace

struct Server::Impl {
  Impl(ServerOptions o, Clock& c) : options(o), clock(c) {}

  class Acceptor;
  struct Bound {
    int fd = -1;
    std::unique_ptr<ListenerOptions> options;
    int port = 0;
  };
  void Hand(int fd, const ListenerOptions& listener, std::string address, std::string client);
  // Counts one more connection of this address, unless it has all that it may have.
  bool Admit(const std::string& client) {
    if (options.connections_per_client_max == 0 || client.empty()) {
      return true;
    }
    MutexLock lock(mu);
    size_t& count = by_client[client];
    if (count >= options.connections_per_client_max) {
      return false;
    }
    ++count;
    return true;
  }
  void Gone(const std::string& client) {
    live.fetch_sub(1);
    if (options.connections_per_client_max == 0 || client.empty()) {
      return;
    }
    MutexLock lock(mu);
    if (const auto found = by_client.find(client);
        found != by_client.end() && --found->second == 0) {
      by_client.erase(found);
    }
  }

  const ServerOptions options;
  Clock& clock;
  std::vector<Bound> bound;
  std::atomic<size_t> live{0};
  Mutex mu;
  std::unordered_map<std::string, size_t> by_client ABSL_GUARDED_BY(mu);
  std::atomic<size_t> next{0};
  std::atomic<bool> stopping{false};
  std::vector<std::unique_ptr<Loop>> loops;  // last: what they drop still counts in the above
};

// A listening socket on a loop.
class Server::Impl::Acceptor : public Pollable {
 public:
  Acceptor(Impl& server, int fd, const ListenerOptions& listener, Loop& loop)
      : server_(server),
        fd_(fd),
        listener_(listener),
        loop_(loop),
        spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}
  ~Acceptor() override {
    if (resume_) {
      loop_.Cancel(*resume_);
    }
    ::close(fd_);
    if (spare_ >= 0) {
      ::close(spare_);
    }
    if (listener_.unix_socket) {
      ::unlink(listener_.address.c_str());
    }
  }
  int fd() const override { return fd_; }
  void OnWritable() override {}
  void OnReadable() override {
    if (spare_ < 0) {
      spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    while (!server_.stopping.load()) {
      sockaddr_storage from{};
      socklen_t length = sizeof from;
      const int fd =
          ::accept4(fd_, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        Take(fd, from);
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) {
        continue;
      }
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return Exhausted();
      }
      return;  // EAGAIN: all are in
    }
  }

 private:
  void Take(int fd, const sockaddr_storage& from) {
    std::string address = AddressText(from, listener_.address);
    std::string client =
        listener_.unix_socket ? std::string() : address.substr(0, address.rfind(':'));
    if (server_.live.load() >= server_.options.connections_max || !server_.Admit(client)) {
      ::close(fd);
      return;
    }
    if (!listener_.unix_socket) {
      SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
      SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
      SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
      SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 30);
    }
    server_.Hand(fd, listener_, std::move(address), std::move(client));
  }
  // No descriptor for the next connection: take it with the spare one and close it, so that the
  // peer learns at once, then wait a little. The listener never dies of it.
  void Exhausted() {
    MS_LOG(kWarn, "out of file descriptors; refusing connections for a moment")
        .Error(std::generic_category().message(errno));
    if (spare_ >= 0) {
      ::close(spare_);
      if (const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC); fd >= 0) {
        ::close(fd);
      }
      spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (!resume_) {
      resume_ = loop_.After(kAcceptPause, [this] {
        resume_.reset();
        OnReadable();
      });
    }
  }

  Impl& server_;
  const int fd_;
  const ListenerOptions& listener_;
  Loop& loop_;
  int spare_;
  std::optional<Loop::Timer> resume_;
};

void Server::Impl::Hand(int fd,
                        const ListenerOptions& listener,
                        std::string address,
                        std::string client) {
  Loop& loop = *loops[next.fetch_add(1) % loops.size()];
  live.fetch_add(1);
  // Made here: work that a stopping loop drops takes its descriptor and its place in the count
  // along.
  auto connection =
      std::make_unique<Connection>(fd, loop, options, listener, std::move(address),
                                   [this, client = std::move(client)] { Gone(client); });
  loop.Post([this, &loop, connection = std::move(connection)]() mutable {
    Connection* raw = connection.get();
    if (loop.Add(std::move(connection)) && stopping.load()) {
      raw->Shutdown();
    }
  });
}

Server::Server(ServerOptions options, Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {
  for (int i = 0; i < std::max(1, options.loops); ++i) {
    impl_->loops.push_back(std::make_unique<Loop>("loop-" + std::to_string(i), clock));
  }
}

Server::~Server() {
  for (const auto& loop : impl_->loops) {
    loop->Stop();
  }
  for (const Impl::Bound& bound : impl_->bound) {
    if (bound.fd >= 0) {
      ::close(bound.fd);
    }
  }
}

namespace {

// "listen tcp 127.0.0.1:2379: bind: address already in use", as Go's net package says it.
Status ListenError(const ListenerOptions& listener, std::string_view call, int errno_value) {
  const Status status = ErrnoStatus("", errno_value);
  std::string text = std::generic_category().message(errno_value);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return Status(status.code(),
                fmt::format("listen {} {}: {}: {}", listener.unix_socket ? "unix" : "tcp",
                            listener.address, call, text));
}

Status BindUnix(const ListenerOptions& listener, int* fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (listener.address.size() >= sizeof address.sun_path) {
    return ListenError(listener, "bind", EINVAL);
  }
  std::memcpy(address.sun_path, listener.address.data(), listener.address.size());
  *fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ::unlink(listener.address.c_str());
  if (*fd < 0 || ::bind(*fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return ListenError(listener, "bind", errno);
  }
  return absl::OkStatus();
}

Status BindTcp(const ListenerOptions& listener, bool reuse_port, int* fd, int* port) {
  const size_t colon = listener.address.rfind(':');
  std::string host = listener.address.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) {
    host = host.substr(1, host.size() - 2);
  }
  // getaddrinfo() keeps the lower 16 bits of whatever number it is given.
  const std::string port_text = listener.address.substr(colon + 1);
  if (port_text.find_first_not_of("0123456789") == std::string::npos &&
      (port_text.size() > 5 || std::strtol(port_text.c_str(), nullptr, 10) > UINT16_MAX)) {
    return InvalidArgument(fmt::format("listen tcp: address {}: invalid port", port_text));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port_text.c_str(), &hints, &found);
  if (error != 0) {
    return InvalidArgument(fmt::format("listen tcp: lookup {}: {}", host, gai_strerror(error)));
  }
  // "localhost" may name both families; etcd takes the first, IPv4 before IPv6.
  const addrinfo* use = found;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family == AF_INET) {
      use = at;
      break;
    }
  }
  *fd = ::socket(use->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  SetOption(*fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (reuse_port) {
    SetOption(*fd, SOL_SOCKET, SO_REUSEPORT, 1);
  }
  const int rc = *fd < 0 ? -1 : ::bind(*fd, use->ai_addr, use->ai_addrlen);
  const int bind_errno = errno;
  ::freeaddrinfo(found);
  if (rc != 0) {
    return ListenError(listener, "bind", bind_errno);
  }
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  ::getsockname(*fd, reinterpret_cast<sockaddr*>(&local), &length);
  *port = ntohs(local.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(local).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(local).sin_port);
  return absl::OkStatus();
}

}  // namespace

Status Server::Listen(ListenerOptions listener) {
  Impl::Bound bound;
  Status status = listener.unix_socket
                      ? BindUnix(listener, &bound.fd)
                      : BindTcp(listener, impl_->options.reuse_port, &bound.fd, &bound.port);
  if (status.ok() && ::listen(bound.fd, kBacklog) != 0) {
    status = ListenError(listener, "listen", errno);
  }
  if (!status.ok()) {
    if (bound.fd >= 0) {
      ::close(bound.fd);
    }
    return status;
  }
  bound.options = std::make_unique<ListenerOptions>(std::move(listener));
  impl_->bound.push_back(std::move(bound));
  return absl::OkStatus();
}

std::vector<int> Server::ports() const {
  std::vector<int> out;
  for (const Impl::Bound& bound : impl_->bound) {
    out.push_back(bound.port);
  }
  return out;
}

Status Server::Start() {
  // OpenSSL writes with write(): a peer that went away would end the process instead of the
  // connection.
  std::signal(SIGPIPE, SIG_IGN);
  for (const auto& loop : impl_->loops) {
    MS_RETURN_IF_ERROR(loop->Start());
  }
  return absl::OkStatus();
}

void Server::Accept() {
  size_t i = 0;
  for (Impl::Bound& bound : impl_->bound) {
    if (bound.fd < 0) {
      continue;
    }
    Loop& loop = *impl_->loops[i++ % impl_->loops.size()];
    const int fd = std::exchange(bound.fd, -1);
    // Made here, so that a loop that stops before it runs this closes the socket all the same.
    loop.Post([&loop, acceptor = std::make_unique<Impl::Acceptor>(*impl_, fd, *bound.options,
                                                                  loop)]() mutable {
      loop.Add(std::move(acceptor));
    });
  }
}

void Server::Shutdown(std::chrono::nanoseconds patience) {
  impl_->stopping.store(true);
  for (const auto& loop : impl_->loops) {
    Loop* at = loop.get();
    at->Post([at] {
      std::vector<Pollable*> acceptors;
      at->ForEach([&acceptors](Pollable& item) {
        if (auto* connection = dynamic_cast<Connection*>(&item)) {
          connection->Shutdown();
        } else if (dynamic_cast<Impl::Acceptor*>(&item) != nullptr) {
          acceptors.push_back(&item);
        }
      });
      for (Pollable* acceptor : acceptors) {
        at->Remove(acceptor);
      }
    });
  }
  const MonoTime until = impl_->clock.Now() + patience;
  while (impl_->live.load() > 0 && impl_->clock.Now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const auto& loop : impl_->loops) {
    loop->Stop();
  }
}

const std::vector<std::unique_ptr<Loop>>& Server::loops() const {
  return impl_->loops;
}
size_t Server::connection_count() const {
  return impl_->live.load();
}

}  // namespace mainstay::net

#include "cli/fetch.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>

#include "common/status.h"

namespace mainstay::cli {
namespace {

constexpr size_t kBodyMax = 16 << 20;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

absl::StatusOr<std::string> FetchPlaintext(const std::string& host_port, const std::string& path) {
  const size_t colon = host_port.rfind(':');
  if (colon == std::string::npos) {
    return InvalidArgument(fmt::format("{}: missing port in address", host_port));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host_port.substr(0, colon).c_str(), host_port.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return NotFound(fmt::format("lookup {}: no such host", host_port));
  }
  const Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const int connected = ::connect(socket.fd(), found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (connected != 0) {
    return ErrnoStatus("connect " + host_port, errno);
  }
  // HTTP/1.0, so that the answer ends where the connection does.
  const std::string request = fmt::format("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", path, host_port);
  if (::send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return ErrnoStatus("send " + host_port, errno);
  }
  std::string answer;
  char part[16384];
  ssize_t n = 0;
  while ((n = ::recv(socket.fd(), part, sizeof part, 0)) > 0) {
    answer.append(part, static_cast<size_t>(n));
    if (answer.size() > kBodyMax) {
      return ResourceExhausted("answer is too large");
    }
  }
  const size_t body = answer.find("\r\n\r\n");
  if (n < 0 || body == std::string::npos) {
    return ErrnoStatus("read " + host_port, n < 0 ? errno : EPROTO);
  }
  return answer.substr(body + 4);
}

}  // namespace mainstay::cli

#include "http/websocket.h"

#include <openssl/evp.h>

#include <array>

#include "common/coding.h"

namespace mainstay::http {
namespace {

constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr size_t kKeyChars = 24;  // 16 bytes in base64
constexpr uint64_t kControlMax = 125;

bool SameText(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [&](char x, char y) { return lower(x) == lower(y); });
}

// True if one of the fields of that name holds the token in its list.
bool HasToken(const net::Headers& headers, std::string_view name, std::string_view token) {
  for (size_t i = 0; i < headers.size(); ++i) {
    auto [key, list] = headers.at(i);
    while (key == name && !list.empty()) {
      const size_t comma = list.find(',');
      std::string_view item = list.substr(0, comma);
      while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) {
        item.remove_prefix(1);
      }
      while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) {
        item.remove_suffix(1);
      }
      if (SameText(item, token)) {
        return true;
      }
      list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    }
  }
  return false;
}

bool IsKey(std::string_view key) {
  const bool base64 = std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/' || c == '=';
  });
  return base64 && key.size() == kKeyChars && key.find('=') == kKeyChars - 2;
}

}  // namespace

bool WantsWebSocket(const net::RequestHead& head) {
  return !head.http2 && HasToken(head.headers, "connection", "upgrade") &&
         HasToken(head.headers, "upgrade", "websocket");
}

int CheckHandshake(const net::RequestHead& head) {
  if (head.method != "GET") {
    return 405;
  }
  const std::string_view length = head.headers.Get("content-length");
  const bool body = (!length.empty() && length != "0") || head.headers.Has("transfer-encoding");
  if (body || !HasToken(head.headers, "sec-websocket-version", "13") ||
      !IsKey(head.headers.Get("sec-websocket-key"))) {
    return 400;
  }
  return 0;
}

std::string AcceptKey(std::string_view key) {
  const std::string text = std::string(key) + std::string(kGuid);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha1(), nullptr);
  std::array<unsigned char, 64> encoded{};
  const int size = EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(length));
  return {reinterpret_cast<const char*>(encoded.data()), static_cast<size_t>(size)};
}

std::string FrameHead(SocketOpcode opcode, uint64_t payload_bytes) {
  std::string out(1, static_cast<char>(0x80 | static_cast<uint8_t>(opcode)));
  size_t length_bytes = 0;
  if (payload_bytes < 126) {
    out += static_cast<char>(payload_bytes);
  } else if (payload_bytes <= UINT16_MAX) {
    out += static_cast<char>(126);
    length_bytes = 2;
  } else {
    out += static_cast<char>(127);
    length_bytes = 8;
  }
  for (size_t i = length_bytes; i > 0; --i) {
    out += static_cast<char>(payload_bytes >> (8 * (i - 1)));
  }
  return out;
}

std::string CloseFrame(CloseCode code) {
  const auto number = static_cast<uint16_t>(code);
  std::string out = FrameHead(SocketOpcode::kClose, 2);
  out += static_cast<char>(number >> 8);
  out += static_cast<char>(number & 0xFF);
  return out;
}

void FrameReader::Add(std::string_view bytes) {
  while (!stopped_) {
    if (in_payload_) {
      TakePayload(&bytes);
      if (payload_left_ > 0) {
        return;
      }
      in_payload_ = false;
      EndOfFrame();
    } else if (!TakeHead(&bytes)) {
      return;
    }
  }
}

void FrameReader::Fail(CloseCode why) {
  stopped_ = true;
  events_.on_error(why);
}

// False: more bytes are needed, or the frame was refused.
bool FrameReader::TakeHead(std::string_view* bytes) {
  while (true) {
    size_t need = 2;
    if (head_.size() >= 2) {
      const int length = head_[1] & 0x7F;
      need = 6U + (length == 126 ? 2U : length == 127 ? 8U : 0U);
      if (head_.size() == need) {
        break;
      }
      if (head_.size() == 2 && !CheckHead()) {
        return false;
      }
    }
    if (bytes->empty()) {
      return false;
    }
    const size_t n = std::min(need - head_.size(), bytes->size());
    head_.append(bytes->substr(0, n));
    bytes->remove_prefix(n);
  }
  payload_left_ = static_cast<uint64_t>(head_[1] & 0x7F);
  if (payload_left_ >= 126) {
    payload_left_ = 0;
    for (size_t i = 2; i < head_.size() - 4; ++i) {
      payload_left_ = payload_left_ << 8 | static_cast<unsigned char>(head_[i]);
    }
  }
  std::copy_n(head_.end() - 4, 4, mask_);
  head_.clear();
  payload_at_ = 0;
  // Refused by its length alone, before a byte of it is kept.
  if (!is_control() && payload_left_ > message_bytes_max_ - message_.size()) {
    Fail(CloseCode::kTooBig);
    return false;
  }
  in_payload_ = true;
  return true;
}

// The first two bytes say all that can be wrong with a head.
bool FrameReader::CheckHead() {
  final_ = (head_[0] & 0x80) != 0;
  opcode_ = static_cast<uint8_t>(head_[0] & 0x0F);
  const bool reserved = (head_[0] & 0x70) != 0;
  const bool masked = (head_[1] & 0x80) != 0;
  bool ok = !reserved && masked;
  switch (static_cast<SocketOpcode>(opcode_)) {
    case SocketOpcode::kContinuation:
      ok = ok && in_message_;
      break;
    case SocketOpcode::kText:
    case SocketOpcode::kBinary:
      ok = ok && !in_message_;
      break;
    case SocketOpcode::kClose:
    case SocketOpcode::kPing:
    case SocketOpcode::kPong:
      ok = ok && final_ && static_cast<uint64_t>(head_[1] & 0x7F) <= kControlMax;
      break;
    default:
      ok = false;
  }
  if (!ok) {
    Fail(CloseCode::kProtocolError);
  }
  return ok;
}

void FrameReader::TakePayload(std::string_view* bytes) {
  std::string& to = is_control() ? control_ : message_;
  const auto n = static_cast<size_t>(std::min<uint64_t>(payload_left_, bytes->size()));
  const size_t had = to.size();
  to.append(bytes->substr(0, n));
  for (size_t i = had; i < to.size(); ++i) {
    to[i] = static_cast<char>(to[i] ^ mask_[payload_at_++ & 3]);
  }
  bytes->remove_prefix(n);
  payload_left_ -= n;
}

void FrameReader::EndOfFrame() {
  if (!is_control()) {
    in_message_ = !final_;
    if (final_) {
      const std::string message = std::exchange(message_, {});
      events_.on_message(message);
    }
    return;
  }
  const std::string payload = std::exchange(control_, {});
  switch (static_cast<SocketOpcode>(opcode_)) {
    case SocketOpcode::kPing:
      return events_.on_ping(payload);
    case SocketOpcode::kClose:
      if (payload.size() == 1) {
        return Fail(CloseCode::kProtocolError);
      }
      stopped_ = true;
      return events_.on_close(payload);
    default:
      return;  // a pong: nothing was asked
  }
}

}  // namespace mainstay::http

// HTTP/2 frames as a client that minds no rule would write them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "common/coding.h"

namespace mainstay::testing {

enum class Http2Type : uint8_t {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoaway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};
inline constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;

inline std::string Be32(uint32_t value) {
  char bytes[4];
  StoreBE32(bytes, value);
  return {bytes, 4};
}

inline std::string Http2Frame(Http2Type type,
                              uint8_t flags,
                              uint32_t id,
                              std::string_view payload) {
  std::string out = Be32(static_cast<uint32_t>(payload.size())).substr(1);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  out += Be32(id);
  out += payload;
  return out;
}

// The client's first bytes: the preface and empty settings.
inline std::string Http2Preface() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Http2Frame(Http2Type::kSettings, 0, 0, "");
}

// One header field for HPACK, without compression and without the table. Up to 126 bytes each.
inline std::string HpackField(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  for (const std::string_view part : {name, value}) {
    out += static_cast<char>(part.size());
    out += part;
  }
  return out;
}

inline std::string HpackFields(
    std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    out += HpackField(name, value);
  }
  return out;
}

inline std::string HpackRequest(std::string_view method, std::string_view path) {
  return HpackFields(
      {{":method", method}, {":scheme", "http"}, {":path", path}, {":authority", "x"}});
}

}  // namespace mainstay::testing

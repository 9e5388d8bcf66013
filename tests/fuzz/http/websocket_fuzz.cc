// Goal: no bytes of a peer harm the WebSocket reader, and how they are cut makes no difference.
// Method: libFuzzer's bytes whole and cut; what the reader says must be the same.
#include <cstdlib>
#include <string>
#include <vector>

#include "http/websocket.h"

namespace mainstay::http {
namespace {

constexpr size_t kMessageMax = 300;

std::string Read(std::string_view bytes, size_t piece) {
  std::string said;
  FrameReader reader(
      kMessageMax,
      {.on_message =
           [&](std::string_view m) {
             if (m.size() > kMessageMax) {
               std::abort();
             }
             said += "m" + std::to_string(m.size()) + std::string(m);
           },
       .on_ping = [&](std::string_view p) { said += "p" + std::string(p); },
       .on_close = [&](std::string_view c) { said += "c" + std::string(c); },
       .on_error = [&](CloseCode why) { said += "e" + std::to_string(static_cast<int>(why)); }});
  while (!bytes.empty()) {
    reader.Add(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (reader.held_bytes() > kMessageMax + 125 + 14) {
    std::abort();
  }
  return said;
}

}  // namespace
}  // namespace mainstay::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (mainstay::http::Read(bytes, data[0] + size_t{1}) !=
      mainstay::http::Read(bytes, bytes.size() + 1)) {
    std::abort();
  }
  return 0;
}

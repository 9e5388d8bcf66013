// A fuzzer's bytes, taken apart as numbers and texts. At the end all is zero and empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace mainstay::fuzzing {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : left_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return left_.empty(); }
  uint8_t Byte() {
    if (left_.empty()) {
      return 0;
    }
    const auto byte = static_cast<uint8_t>(left_[0]);
    left_.remove_prefix(1);
    return byte;
  }
  uint32_t Number() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      value = value << 8 | Byte();
    }
    return value;
  }
  std::string_view Text(size_t bytes) {
    const std::string_view text = left_.substr(0, bytes);
    left_.remove_prefix(text.size());
    return text;
  }
  std::string_view Rest() { return Text(left_.size()); }

 private:
  std::string_view left_;
};

}  // namespace mainstay::fuzzing

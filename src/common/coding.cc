#include "common/coding.h"

#include <array>

namespace mainstay {

bool WireReader::ReadVarint(uint64_t* v) {
  uint64_t out = 0;
  for (unsigned shift = 0; shift < 64 && at_ != end_; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at_++);
    out |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      *v = out;
      return true;
    }
  }
  return false;
}

bool WireReader::Next() {
  if (!ok_ || at_ == end_) {
    return false;
  }
  ok_ = false;
  uint64_t tag;
  if (!ReadVarint(&tag) || tag > UINT32_MAX || tag >> 3 == 0) {
    return false;
  }
  field_ = static_cast<uint32_t>(tag >> 3);
  type_ = static_cast<WireType>(tag & 7);
  number_ = 0;
  bytes_ = {};
  const auto left = [this] { return static_cast<size_t>(end_ - at_); };
  switch (type_) {
    case WireType::kVarint:
      ok_ = ReadVarint(&number_);
      return ok_;
    case WireType::kFixed64:
      if (left() < 8) {
        return false;
      }
      number_ = LoadLE<uint64_t>(at_);
      at_ += 8;
      break;
    case WireType::kFixed32:
      if (left() < 4) {
        return false;
      }
      number_ = LoadLE<uint32_t>(at_);
      at_ += 4;
      break;
    case WireType::kBytes: {
      uint64_t length;
      if (!ReadVarint(&length) || length > left()) {
        return false;
      }
      bytes_ = {at_, static_cast<size_t>(length)};
      at_ += length;
      break;
    }
    default:
      return false;
  }
  ok_ = true;
  return true;
}

std::string Hex(std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

namespace {
int Nibble(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}
}  // namespace

std::optional<std::string> Unhex(std::string_view text) {
  if (text.size() % 2 != 0) {
    return std::nullopt;
  }
  std::string out;
  out.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = Nibble(text[i]);
    const int low = Nibble(text[i + 1]);
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(high << 4 | low));
  }
  return out;
}

std::string HexId(uint64_t id) {
  std::array<char, 17> text{};
  const int length =
      snprintf(text.data(), text.size(), "%llx", static_cast<unsigned long long>(id));
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace mainstay

// Byte coding: fixed-width integers in either order, and protobuf's varints and tags for the few
// messages that we assemble by hand on hot paths.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace mainstay {

static_assert(std::endian::native == std::endian::little, "little-endian machines only, as etcd");

template <class T>
inline void StoreLE(char* to, T v) {
  std::memcpy(to, &v, sizeof v);
}
template <class T>
inline T LoadLE(const char* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline void StoreBE64(char* to, uint64_t v) {
  StoreLE(to, __builtin_bswap64(v));
}
inline uint64_t LoadBE64(const char* from) {
  return __builtin_bswap64(LoadLE<uint64_t>(from));
}
inline void StoreBE32(char* to, uint32_t v) {
  StoreLE(to, __builtin_bswap32(v));
}
inline uint32_t LoadBE32(const char* from) {
  return __builtin_bswap32(LoadLE<uint32_t>(from));
}
inline void AppendBE64(std::string* to, uint64_t v) {
  char b[8];
  StoreBE64(b, v);
  to->append(b, 8);
}

// ---- protobuf wire format
// -------------------------------------------------------------------------------------
inline constexpr size_t kVarintMax = 10;

inline size_t VarintSize(uint64_t v) {
  return static_cast<size_t>((63 - __builtin_clzll(v | 1)) * 9 + 73) / 64;
}
inline char* PutVarint(char* to, uint64_t v) {
  while (v >= 0x80) {
    *to++ = static_cast<char>(v | 0x80);
    v >>= 7;
  }
  *to++ = static_cast<char>(v);
  return to;
}
inline void AppendVarint(std::string* to, uint64_t v) {
  char b[kVarintMax];
  to->append(b, static_cast<size_t>(PutVarint(b, v) - b));
}

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr uint32_t WireTag(uint32_t field, WireType type) {
  return field << 3 | static_cast<uint32_t>(type);
}

// proto3: a zero or empty field is left out.
inline size_t VarintFieldSize(uint32_t field, uint64_t v) {
  return v == 0 ? 0 : VarintSize(WireTag(field, WireType::kVarint)) + VarintSize(v);
}
inline size_t BytesFieldSize(uint32_t field, size_t length) {
  return length == 0 ? 0
                     : VarintSize(WireTag(field, WireType::kBytes)) + VarintSize(length) + length;
}
inline char* PutVarintField(char* to, uint32_t field, uint64_t v) {
  return v == 0 ? to : PutVarint(PutVarint(to, WireTag(field, WireType::kVarint)), v);
}
inline char* PutBytesHead(char* to, uint32_t field, size_t length) {
  return PutVarint(PutVarint(to, WireTag(field, WireType::kBytes)), length);
}
inline char* PutBytesField(char* to, uint32_t field, std::string_view bytes) {
  if (bytes.empty()) {
    return to;
  }
  to = PutBytesHead(to, field, bytes.size());
  std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}
inline void AppendVarintField(std::string* to, uint32_t field, uint64_t v) {
  if (v != 0) {
    AppendVarint(to, WireTag(field, WireType::kVarint));
    AppendVarint(to, v);
  }
}
// Also writes an empty field: for submessages, whose presence counts.
inline void AppendBytesField(std::string* to, uint32_t field, std::string_view bytes) {
  AppendVarint(to, WireTag(field, WireType::kBytes));
  AppendVarint(to, bytes.size());
  to->append(bytes);
}

// Walks the fields of one encoded message. Usage:
//   WireReader r(bytes);
//   while (r.Next()) switch (r.field()) { case 1: key = r.bytes(); break; ... }
//   if (!r.ok()) -> malformed
class WireReader {
 public:
  explicit WireReader(std::string_view in) : at_(in.data()), end_(in.data() + in.size()) {}
  // Moves to the next field; false at the end or at the first malformed byte.
  bool Next();
  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }
  WireType type() const { return type_; }
  // The value as an integer; 0 for a length-delimited field.
  uint64_t varint() const { return number_; }
  int64_t i64() const { return static_cast<int64_t>(number_); }
  // The value of a length-delimited field; empty otherwise. Points into the input.
  std::string_view bytes() const { return bytes_; }

 private:
  bool ReadVarint(uint64_t* v);
  const char* at_;
  const char* end_;
  bool ok_ = true;
  uint32_t field_ = 0;
  WireType type_ = WireType::kVarint;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

// ---- text
// ------------------------------------------------------------------------------------------------------
std::string Hex(std::string_view bytes);
std::optional<std::string> Unhex(std::string_view text);
// Lower-case hex of a number without padding, as etcd prints ids.
std::string HexId(uint64_t id);

}  // namespace mainstay

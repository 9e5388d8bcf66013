// The numbers of bbolt's file format, for its reader and its writer.
//
// Sources  docs/on-disk-format.md, "Snapshot file".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mainstay::snapshot {

inline constexpr uint16_t kBranchPage = 0x01;
inline constexpr uint16_t kLeafPage = 0x02;
inline constexpr uint16_t kMetaPage = 0x04;
inline constexpr uint32_t kBucketElement = 0x01;
inline constexpr size_t kHeaderBytes = 16;
inline constexpr size_t kElementBytes = 16;
inline constexpr size_t kBucketHeaderBytes = 16;
inline constexpr size_t kMetaBytes = 64;
inline constexpr uint32_t kMagic = 0xED0CDAED;
inline constexpr uint32_t kFormatVersion = 2;
inline constexpr uint64_t kNoFreelist = ~uint64_t{0};
inline constexpr uint64_t kPageBytesMin = 512;
inline constexpr uint64_t kPageBytesMax = 16 << 20;

inline uint64_t Fnv1a(std::string_view bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

}  // namespace mainstay::snapshot

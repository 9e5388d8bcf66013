// CRC-32C (Castagnoli, reflected, init and final xor 0xFFFFFFFF), in hardware where the processor
// has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mainstay {

// The checksum of `bytes` after what `crc` covers; 0 to start. Crc32c("123456789") = 0xE3069283.
uint32_t Crc32cExtend(uint32_t crc, std::string_view bytes);
inline uint32_t Crc32c(std::string_view bytes) {
  return Crc32cExtend(0, bytes);
}

// The checksum of A followed by B, from those of A and B and the length of B. O(log length_b).
uint32_t Crc32cCombine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);

}  // namespace mainstay

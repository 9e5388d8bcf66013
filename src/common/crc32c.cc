#include "common/crc32c.h"

#include <array>

#include "common/coding.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace mainstay {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // Castagnoli, bits reversed

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) {
      c = c & 1 ? c >> 1 ^ kPolynomial : c >> 1;
    }
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t ExtendSoftware(uint32_t state, std::string_view bytes) {
  for (const char c : bytes) {
    state = kTable[(state ^ static_cast<unsigned char>(c)) & 0xFF] ^ state >> 8;
  }
  return state;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ExtendHardware(uint32_t state, std::string_view bytes) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  uint64_t wide = state;
  for (; left >= 8; left -= 8, at += 8) {
    wide = _mm_crc32_u64(wide, LoadLE<uint64_t>(at));
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; left > 0; --left, ++at) {
    narrow = _mm_crc32_u8(narrow, static_cast<unsigned char>(*at));
  }
  return narrow;
}
bool HaveHardware() {
  return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
__attribute__((target("+crc"))) uint32_t ExtendHardware(uint32_t state, std::string_view bytes) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    state = __crc32cd(state, LoadLE<uint64_t>(at));
  }
  for (; left > 0; --left, ++at) {
    state = __crc32cb(state, static_cast<unsigned char>(*at));
  }
  return state;
}
bool HaveHardware() {
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#else
uint32_t ExtendHardware(uint32_t state, std::string_view bytes) {
  return ExtendSoftware(state, bytes);
}
bool HaveHardware() {
  return false;
}
#endif

// a * b in GF(2)[x] modulo the polynomial, both with bits reversed: x^0 is the top bit.
uint32_t MultiplyModP(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if (a & bit) {
      product ^= b;
    }
    b = b & 1 ? b >> 1 ^ kPolynomial : b >> 1;
  }
  return product;
}

// kPowers[i] = x^(8 * 2^i) modulo the polynomial.
std::array<uint32_t, 64> MakePowers() {
  std::array<uint32_t, 64> powers{};
  powers[0] = 0x00800000;  // x^8
  for (size_t i = 1; i < powers.size(); ++i) {
    powers[i] = MultiplyModP(powers[i - 1], powers[i - 1]);
  }
  return powers;
}

}  // namespace

uint32_t Crc32cExtend(uint32_t crc, std::string_view bytes) {
  static const bool hardware = HaveHardware();
  return ~(hardware ? ExtendHardware(~crc, bytes) : ExtendSoftware(~crc, bytes));
}

uint32_t Crc32cCombine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
  // Appending n zero bytes multiplies a checksum by x^(8n); the conditioning of init and final xor
  // cancels out.
  static const std::array<uint32_t, 64> powers = MakePowers();
  for (size_t i = 0; length_b != 0; ++i, length_b >>= 1) {
    if (length_b & 1) {
      crc_a = MultiplyModP(powers[i], crc_a);
    }
  }
  return crc_a ^ crc_b;
}

}  // namespace mainstay

// Randomness as a parameter.
#pragma once

#include <cstdint>

namespace mainstay {

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next64() = 0;
  // Uniform in [0, bound). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) {
    // Multiply-shift; the bias of 2^-64 * bound does not matter for jitter, ids and test choices.
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next64()) * bound) >> 64);
  }
};

// SplitMix64: small, fast, one seed = one sequence on every machine. Not for secrets.
class SeededRandom : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next64() override {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }

 private:
  uint64_t state_;
};

// The kernel's generator. Any thread.
Random& SystemRandom();

}  // namespace mainstay

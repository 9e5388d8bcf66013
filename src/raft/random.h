// The core's own randomness (SplitMix64): one seed, one sequence, on every machine.
#pragma once

#include <cstdint>

namespace mainstay::raft {

class SeededJitter {
 public:
  explicit SeededJitter(uint64_t seed) : state_(seed) {}
  uint64_t Next64() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  // In [0, bound). REQUIRES: bound > 0. The bias of bound / 2^64 does not matter for timeouts.
  uint64_t Below(uint64_t bound) { return Next64() % bound; }

 private:
  uint64_t state_;
};

}  // namespace mainstay::raft

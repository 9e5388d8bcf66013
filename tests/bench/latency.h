// LatencyHistogram: counts in buckets of at most 1.6 % width, from 1 us to over an hour, in constant memory.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace mainstay::bench {

class LatencyHistogram {
 public:
  void Record(uint64_t microseconds) {
    ++buckets_[Bucket(microseconds)];
    ++count_;
    max_ = microseconds > max_ ? microseconds : max_;
  }
  // The value below which `fraction` of the records lie, in microseconds; the bucket's upper edge.
  uint64_t Quantile(double fraction) const {
    const auto target = static_cast<uint64_t>(fraction * static_cast<double>(count_));
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > target) {
        const uint64_t edge = UpperEdge(i);
        return edge < max_ ? edge : max_;
      }
    }
    return max_;
  }
  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }

 private:
  static constexpr unsigned kSubBits = 6;  // 64 steps an octave
  static size_t Bucket(uint64_t v) {
    if (v < (1U << kSubBits)) {
      return static_cast<size_t>(v);
    }
    const auto octave = static_cast<unsigned>(std::bit_width(v)) - kSubBits - 1;
    const size_t index = (static_cast<size_t>(octave + 1) << kSubBits) + ((v >> octave) & ((1U << kSubBits) - 1));
    return index < kBuckets ? index : kBuckets - 1;
  }
  static uint64_t UpperEdge(size_t index) {
    if (index < (1U << kSubBits)) {
      return index;
    }
    const size_t octave = (index >> kSubBits) - 1;
    const uint64_t base = (1U << kSubBits) + (index & ((1U << kSubBits) - 1));
    return ((base + 1) << octave) - 1;
  }
  static constexpr size_t kBuckets = 28 << kSubBits;
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace mainstay::bench

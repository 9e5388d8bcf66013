// Typed numbers: values of different meaning do not mix, and cost what the bare integer costs.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace mainstay {

template <class Tag, class Rep>
class Tagged {
 public:
  using rep = Rep;
  constexpr Tagged() = default;
  constexpr explicit Tagged(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const Tagged&) const = default;

 private:
  Rep value_ = 0;
};

// A tagged counter that can step: Raft indexes and terms.
template <class Tag>
class Counter64 : public Tagged<Tag, uint64_t> {
 public:
  using Tagged<Tag, uint64_t>::Tagged;
  constexpr Counter64 Next() const { return Counter64(this->value() + 1); }
  // REQUIRES: value() > 0.
  constexpr Counter64 Prev() const { return Counter64(this->value() - 1); }
  constexpr Counter64 operator+(uint64_t n) const { return Counter64(this->value() + n); }
  constexpr Counter64 operator-(uint64_t n) const { return Counter64(this->value() - n); }
  // Distance. REQUIRES: *this >= other.
  constexpr uint64_t operator-(Counter64 other) const { return this->value() - other.value(); }
  constexpr auto operator<=>(const Counter64&) const = default;
};

using Term = Counter64<struct TermTag>;    // Raft election epoch
using Index = Counter64<struct IndexTag>;  // place in the Raft log, from 1; 0 is "before the first"

using MemberId = Tagged<struct MemberIdTag, uint64_t>;  // a member of the cluster; 0 is nobody
using ClusterId = Tagged<struct ClusterIdTag, uint64_t>;
using LeaseId = Tagged<struct LeaseIdTag, int64_t>;  // 0 is "no lease"; may be negative

// Store-wide write counter and the position within one transaction.
struct Revision {
  int64_t main = 0;
  int64_t sub = 0;
  constexpr auto operator<=>(const Revision&) const = default;
};

}  // namespace mainstay

template <class Tag, class Rep>
struct std::hash<mainstay::Tagged<Tag, Rep>> {
  size_t operator()(mainstay::Tagged<Tag, Rep> v) const noexcept {
    return std::hash<Rep>()(v.value());
  }
};
template <class Tag>
struct std::hash<mainstay::Counter64<Tag>> {
  size_t operator()(mainstay::Counter64<Tag> v) const noexcept {
    return std::hash<uint64_t>()(v.value());
  }
};

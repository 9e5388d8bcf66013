// Ids of requests and of leases that the server names: low 16 bits of the member id, 40 bits of
// wall milliseconds at start, an 8-bit counter that carries into them. etcd's layout, so ids of
// both kinds of member never meet.
//
// Threads  Any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/types.h"
#include "env/clock.h"

namespace mainstay::server {

class RequestIds {
 public:
  RequestIds(MemberId member, WallTime now)
      : prefix_(member.value() << 48),
        suffix_((static_cast<uint64_t>(
                     std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) &
                 ((uint64_t{1} << 40) - 1))
                << 8) {}
  uint64_t Next() {
    const uint64_t suffix = suffix_.fetch_add(1, std::memory_order_relaxed) + 1;
    return prefix_ | (suffix & ((uint64_t{1} << 48) - 1));
  }
  // Positive, never 0.
  LeaseId NextLease() {
    while (true) {
      const auto id = static_cast<int64_t>(Next() & ((uint64_t{1} << 63) - 1));
      if (id != 0) {
        return LeaseId(id);
      }
    }
  }

 private:
  const uint64_t prefix_;
  std::atomic<uint64_t> suffix_;
};

}  // namespace mainstay::server

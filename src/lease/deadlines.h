// Deadlines: a timer wheel without an end. Leases wait in slots of a tenth of a second; a renewal
// touches nothing here: the entry fires at the old time, is found early, and goes to the new slot.
//
// Threads  One at a time (the Lessor's lock).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"

#include "common/types.h"

namespace mainstay::lease {

class Deadlines {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr Time kSlot = std::chrono::milliseconds(100);

  struct Entry {
    LeaseId id;
    uint64_t serial = 0;  // which of the leases that ever had this id
  };

  // Fires at the first slot border at or after `at`.
  void Add(Entry entry, Time at);
  // The next entry whose slot border is not after `now`, removed; earlier slots first.
  std::optional<Entry> PopDue(Time now);
  void Clear() { slots_.clear(); }
  bool empty() const { return slots_.empty(); }

 private:
  absl::btree_map<int64_t, std::vector<Entry>>
      slots_;  // by border, in slots since the clock's start
};

}  // namespace mainstay::lease

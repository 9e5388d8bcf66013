// Requests that were proposed and wait for their entry to be applied, found by request id or by
// deadline.
//
// Threads  One ("raft").
// Limits   Every waiter was admitted through a bounded queue and leaves at its deadline; one entry
// of memory each.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "env/clock.h"
#include "server/reply_to.h"

namespace mainstay::server {

struct Waiter {
  uint64_t id = 0;
  uint32_t kind = 0;  // field number of InternalRaftRequest; 0 = a configuration change
  MonoTime started{0};
  MonoTime deadline = kNever;
  ReplyTo reply_to;
};

class WaitTable {
 public:
  void Add(const Waiter& waiter);
  // Nullopt: nobody here waits for that request.
  std::optional<Waiter> Take(uint64_t id);
  // Takes out those whose deadline has come, earliest first.
  void TakeExpired(MonoTime now, std::vector<Waiter>* out);
  void TakeAll(std::vector<Waiter>* out);
  // Not after the earliest deadline; kNever if nobody waits for a time.
  MonoTime next_deadline();
  size_t size() const { return by_id_.size(); }

 private:
  struct Due {
    MonoTime deadline;
    uint64_t id;
    bool operator>(const Due& other) const { return deadline > other.deadline; }
  };
  // Drops entries at the head whose request is done or has another deadline.
  void DropSettledHeads();
  bool IsCurrent(const Due& due) const;

  absl::flat_hash_map<uint64_t, Waiter> by_id_;
  // Nearly all deadlines are "now + request timeout" and come in order: a deque costs nothing. The
  // others sort.
  std::deque<Due> in_order_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> out_of_order_;
};

}  // namespace mainstay::server

#include "server/wait_table.h"

#include <algorithm>

namespace mainstay::server {

void WaitTable::Add(const Waiter& waiter) {
  by_id_.insert_or_assign(waiter.id, waiter);
  if (waiter.deadline == kNever) {
    return;
  }
  const Due due{waiter.deadline, waiter.id};
  if (in_order_.empty() || in_order_.back().deadline <= due.deadline) {
    in_order_.push_back(due);
  } else {
    out_of_order_.push(due);
  }
}

std::optional<Waiter> WaitTable::Take(uint64_t id) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) {
    return std::nullopt;
  }
  Waiter waiter = it->second;
  by_id_.erase(it);
  DropSettledHeads();
  return waiter;
}

bool WaitTable::IsCurrent(const Due& due) const {
  const auto it = by_id_.find(due.id);
  return it != by_id_.end() && it->second.deadline == due.deadline;
}

void WaitTable::DropSettledHeads() {
  while (!in_order_.empty() && !IsCurrent(in_order_.front())) {
    in_order_.pop_front();
  }
  while (!out_of_order_.empty() && !IsCurrent(out_of_order_.top())) {
    out_of_order_.pop();
  }
}

MonoTime WaitTable::next_deadline() {
  const MonoTime a = in_order_.empty() ? kNever : in_order_.front().deadline;
  const MonoTime b = out_of_order_.empty() ? kNever : out_of_order_.top().deadline;
  return std::min(a, b);
}

void WaitTable::TakeExpired(MonoTime now, std::vector<Waiter>* out) {
  while (next_deadline() <= now) {
    const bool from_order = !in_order_.empty() && in_order_.front().deadline == next_deadline();
    const uint64_t id = from_order ? in_order_.front().id : out_of_order_.top().id;
    // Take() also drops this head, since its request is then settled.
    if (std::optional<Waiter> waiter = Take(id)) {
      out->push_back(*waiter);
    } else {
      DropSettledHeads();
    }
  }
}

void WaitTable::TakeAll(std::vector<Waiter>* out) {
  for (auto& [id, waiter] : by_id_) {
    out->push_back(waiter);
  }
  // The map's order changes from start to start; answers should not.
  std::sort(out->begin(), out->end(), [](const Waiter& a, const Waiter& b) { return a.id < b.id; });
  by_id_.clear();
  in_order_.clear();
  out_of_order_ = {};
}

}  // namespace mainstay::server

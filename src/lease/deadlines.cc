#include "lease/deadlines.h"

namespace mainstay::lease {

void Deadlines::Add(Entry entry, Time at) {
  const int64_t border = at / kSlot + (at % kSlot > Time::zero() ? 1 : 0);
  slots_[border].push_back(entry);
}

std::optional<Deadlines::Entry> Deadlines::PopDue(Time now) {
  const auto first = slots_.begin();
  if (first == slots_.end() || first->first > now / kSlot) {
    return std::nullopt;
  }
  const Entry entry = first->second.back();
  first->second.pop_back();
  if (first->second.empty()) {
    slots_.erase(first);
  }
  return entry;
}

}  // namespace mainstay::lease

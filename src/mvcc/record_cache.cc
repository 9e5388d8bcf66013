#include "mvcc/record_cache.h"

namespace mainstay::mvcc {

Buffer RecordCache::Get(Revision revision) {
  Shard& shard = ShardOf(revision);
  MutexLock lock(shard.mu);
  const auto found = shard.index.find({revision.main, revision.sub});
  if (found == shard.index.end()) {
    return {};
  }
  Slot& slot = shard.slots[found->second];
  slot.used = true;
  return slot.record;
}

bool RecordCache::Contains(Revision revision) {
  Shard& shard = ShardOf(revision);
  MutexLock lock(shard.mu);
  return shard.index.contains({revision.main, revision.sub});
}

void RecordCache::Put(Revision revision, Buffer record) {
  Shard& shard = ShardOf(revision);
  const size_t cost = Cost(record);
  if (cost > shard_bytes_max_ / 4) {
    return;  // one record must not push out all others
  }
  MutexLock lock(shard.mu);
  if (shard.index.contains({revision.main, revision.sub})) {
    return;
  }
  // The clock's hand clears one second chance a step, so it finds a victim within two rounds.
  while (shard.bytes + cost > shard_bytes_max_ && !shard.index.empty()) {
    shard.hand = (shard.hand + 1) % shard.slots.size();
    Slot& slot = shard.slots[shard.hand];
    if (slot.record.empty()) {
      continue;
    }
    if (slot.used) {
      slot.used = false;
      continue;
    }
    shard.bytes -= Cost(slot.record);
    shard.index.erase({slot.revision.main, slot.revision.sub});
    shard.free.push_back(static_cast<uint32_t>(shard.hand));
    slot.record = Buffer();
  }
  uint32_t place;
  if (!shard.free.empty()) {
    place = shard.free.back();
    shard.free.pop_back();
  } else {
    place = static_cast<uint32_t>(shard.slots.size());
    shard.slots.emplace_back();
  }
  shard.slots[place] = {revision, std::move(record), false};
  shard.index[{revision.main, revision.sub}] = place;
  shard.bytes += cost;
}

}  // namespace mainstay::mvcc

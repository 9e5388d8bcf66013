// What watchers are told: the changes of one revision, in order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/buffer.h"

namespace mainstay::mvcc {

struct Event {
  enum class Type : uint8_t { kPut = 0, kDelete = 1 };
  Type type = Type::kPut;
  // Encoded mvccpb.KeyValue: the stored bytes for a put; key and mod_revision only for a delete.
  Buffer kv;
  // Inside `kv`.
  std::string_view key;
  // mod_revision of what this change replaced; 0 if there was nothing.
  int64_t prev_revision = 0;
  // A put that began a life of the key.
  bool is_create = false;
  // The replaced record, if it was at hand; otherwise ReadView::Get(key, revision - 1) finds it.
  Buffer prev_kv;
};

struct EventBatch {
  int64_t revision = 0;
  std::vector<Event> events;
};

}  // namespace mainstay::mvcc

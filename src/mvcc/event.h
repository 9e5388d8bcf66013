#pragma once
// PROVISIONAL local copy, not committed
#include <cstdint>
#include <string_view>
#include <vector>
#include "common/buffer.h"
namespace mainstay::mvcc {
struct Event { enum class Type : uint8_t { kPut = 0, kDelete = 1 }; Type type = Type::kPut; Buffer kv; std::string_view key; int64_t prev_revision = 0; bool is_create = false; Buffer prev_kv; };
struct EventBatch { int64_t revision = 0; std::vector<Event> events; };
}

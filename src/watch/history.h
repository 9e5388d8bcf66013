// watch::HistorySource: where watchers that are behind read what they missed. Declared by watch,
// implemented over mvcc by StoreHistory (store_history.h) and by plain containers in tests.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.h"
#include "mvcc/event.h"

namespace mainstay::watch {

struct HistoryChunk {
  std::vector<mvcc::EventBatch> batches;  // whole revisions, ascending
  int64_t last_revision = 0;              // everything up to here, from the asked-for start, is in
};

class HistorySource {
 public:
  struct Request {
    int64_t from = 0;  // first and last wanted revision, 1 < from <= to
    int64_t to = 0;
    size_t bytes_max = 0;  // stop after the revision that reaches it; at least one is given
    // Fill Event::prev_kv of every event that is no creation; it stays empty where the predecessor
    // was compacted away, which happens at the compacted revision itself.
    bool prev_kv = false;
  };
  virtual ~HistorySource() = default;
  // kCompacted if `from` is below the compacted revision now. A store that does not show `from` yet
  // gives an empty chunk with last_revision = from - 1. Other errors: it cannot be read. May touch
  // the disk. Any thread.
  virtual ErrorOr<HistoryChunk> Read(const Request& request) = 0;
  // Revisions below it cannot be read; at it, they can. Any thread, never blocks.
  virtual int64_t compacted_revision() const = 0;
};

}  // namespace mainstay::watch

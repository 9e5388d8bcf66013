// watch::StoreHistory: history as mvcc keeps it.
//
// Threads  Any. Each read takes a view of its own, so compaction and writers do not wait for it.
#pragma once

#include <functional>
#include <utility>

#include "mvcc/store.h"
#include "watch/history.h"

namespace mainstay::watch {

class StoreHistory : public HistorySource {
 public:
  // `store` outlives this object.
  explicit StoreHistory(const mvcc::Store& store)
      : StoreHistory([&store] { return store.View(); }) {}
  // For a store that may be replaced: `view` gives the newest state of the store that is in use
  // now; any thread.
  explicit StoreHistory(std::function<mvcc::ReadView()> view) : view_(std::move(view)) {}

  // Errors beside kCompacted: kCorrupt for rows that fail their checksum, else kInternal; logged.
  ErrorOr<HistoryChunk> Read(const Request& request) override;
  int64_t compacted_revision() const override { return view_().compact_revision(); }

 private:
  const std::function<mvcc::ReadView()> view_;
};

}  // namespace mainstay::watch

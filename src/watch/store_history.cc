#include "watch/store_history.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace mainstay::watch {
namespace {

using History = mvcc::ReadView::History;

ErrorOr<History> ReadView(const mvcc::ReadView& view,
                          const HistorySource::Request& request,
                          int64_t to,
                          bool prev_kv) {
  const auto revisions_max = static_cast<size_t>(to - request.from + 1);
  StatusOr<ErrorOr<History>> read =
      view.ReadHistory(request.from, to, request.bytes_max, revisions_max, prev_kv);
  if (!read.ok()) {
    MS_LOG(kError, "failed to read history of the store")
        .Num("from-revision", request.from)
        .Error(Message(read.status()));
    return absl::IsDataLoss(read.status()) ? Error::kCorrupt : Error::kInternal;
  }
  return *std::move(read);
}

}  // namespace

ErrorOr<HistoryChunk> StoreHistory::Read(const Request& request) {
  const mvcc::ReadView view = view_();
  const int64_t to = std::min(request.to, view.revision());
  if (to < request.from) {
    return HistoryChunk{.batches = {}, .last_revision = request.from - 1};
  }
  ErrorOr<History> read = ReadView(view, request, to, request.prev_kv);
  if (read.error() == Error::kCompacted && request.prev_kv &&
      request.from >= view.compact_revision()) {
    // Only at the compacted revision itself can a predecessor be gone: that revision alone,
    // without.
    read = ReadView(view, request, request.from, false);
  }
  if (!read.ok()) {
    return read.error();
  }
  return HistoryChunk{.batches = std::move(read->batches), .last_revision = read->last_revision};
}

}  // namespace mainstay::watch

#include "server/wal_task.h"

#include <algorithm>

namespace mainstay::server {

Status WalTask::Write(const WalItem& item, bool* must_sync) {
  *must_sync = *must_sync || item.must_sync;
  if (!item.entries.empty() || item.hard_state) {
    MS_RETURN_IF_ERROR(p_.log.Append(item.entries, item.hard_state));
  }
  if (item.snapshot_mark) {
    MS_RETURN_IF_ERROR(p_.log.MarkSnapshot(*item.snapshot_mark));
  }
  if (item.release_below != Index(0)) {
    MS_RETURN_IF_ERROR(p_.log.Release(item.release_below));
  }
  return absl::OkStatus();
}

bool WalTask::RunOnce() {
  if (p_.shared.fatal.raised() || !p_.inbox.PopAll(&popped_)) {
    return false;
  }
  uint64_t seq = 0;
  bool must_sync = false;
  Status status;
  for (const WalItem& item : popped_) {
    status = Write(item, &must_sync);
    if (!status.ok()) {
      break;
    }
    seq = std::max(seq, item.seq);
  }
  if (status.ok() && must_sync) {
    status = p_.log.Sync();
  }
  popped_.clear();
  if (!status.ok()) {
    p_.shared.fatal.Raise(status);
    return false;
  }
  if (seq != 0) {
    p_.shared.persisted_seq.store(seq, std::memory_order_release);
    p_.shared.raft.Wake();
  }
  return true;
}

}  // namespace mainstay::server

// The log on disk as the server needs it: what WalTask writes and what boot finds. Implemented over
// wal.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/types.h"
#include "raft/types.h"
#include "server/options.h"

namespace mainstay::server {

class DurableLog {
 public:
  virtual ~DurableLog() = default;
  // Entries in order; one whose index is already there replaces it and all behind it. Not durable
  // before Sync().
  virtual Status Append(std::span<const raft::Entry> entries,
                        const std::optional<raft::HardState>& state) = 0;
  // Everything appended is durable. A failure must not be retried.
  virtual Status Sync() = 0;
  // The store holds everything up to `meta.index`, durably: replay may begin behind it.
  virtual Status MarkSnapshot(const raft::SnapshotMeta& meta) = 0;
  // Files wholly below `index` may go.
  virtual Status Release(Index index) = 0;
  // Synced entries of [from, to), at most `bytes_max` of payload but at least one. Any thread.
  virtual StatusOr<std::vector<raft::Entry>> Read(Index from, Index to, size_t bytes_max) const = 0;
  virtual Status Close() = 0;
};

struct RecoveredLog {
  std::unique_ptr<DurableLog> log;
  MemberId member;  // 0 in a log just made
  ClusterId cluster;
  raft::HardState hard_state;
  raft::EntryId compacted;           // the entry before the first of `entries`
  std::vector<raft::Entry> entries;  // contiguous
};

struct LogIdentity {
  MemberId member;
  ClusterId cluster;
};

// Opens the log in `dir`, or makes it there, with that identity, when there is none. `applied` is
// what the store holds: entries up to it need not be given back.
using LogOpener = std::function<StatusOr<RecoveredLog>(
    const std::string& dir, std::optional<LogIdentity> create, raft::EntryId applied)>;

// The log of production, over wal. Borrows the environment's files and pool.
LogOpener WalOpener(const Options& options, const Environment& env);

}  // namespace mainstay::server

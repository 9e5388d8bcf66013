// A log in memory that tells synced from written, and can crash.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "server/durable_log.h"

namespace mainstay::server {

// What a log disk holds. `synced` survives a crash; `written` does not.
struct LogDisk {
  struct Content {
    std::optional<LogIdentity> identity;
    raft::HardState state;
    raft::EntryId compacted;
    std::vector<raft::Entry> entries;
    std::vector<raft::SnapshotMeta> marks;
  };
  Content written;
  Content synced;
  int syncs = 0;
  bool fail_sync = false;
  bool hang = false;  // the test does not step "wal" while it is set
  void Crash() { written = synced; }
};

class MemoryLog : public DurableLog {
 public:
  explicit MemoryLog(LogDisk& disk) : disk_(disk) {}
  Status Append(std::span<const raft::Entry> entries,
                const std::optional<raft::HardState>& state) override {
    auto& log = disk_.written;
    for (const raft::Entry& entry : entries) {
      while (!log.entries.empty() && log.entries.back().index >= entry.index) {
        log.entries.pop_back();
      }
      log.entries.push_back(entry);
    }
    if (state) {
      log.state = *state;
    }
    return absl::OkStatus();
  }
  Status Sync() override {
    if (disk_.fail_sync) {
      return Internal("sync /data/wal/0.wal: Input/output error");
    }
    ++disk_.syncs;
    disk_.synced = disk_.written;
    return absl::OkStatus();
  }
  Status MarkSnapshot(const raft::SnapshotMeta& meta) override {
    disk_.written.marks.push_back(meta);
    return absl::OkStatus();
  }
  Status Release(Index index) override {
    auto& log = disk_.written;
    while (!log.entries.empty() && log.entries.front().index < index) {
      log.compacted = log.entries.front().id();
      log.entries.erase(log.entries.begin());
    }
    return absl::OkStatus();
  }
  StatusOr<std::vector<raft::Entry>> Read(Index from, Index to, size_t bytes_max) const override {
    std::vector<raft::Entry> out;
    size_t bytes = 0;
    for (const raft::Entry& entry : disk_.synced.entries) {
      if (entry.index >= from && entry.index < to && (out.empty() || bytes < bytes_max)) {
        bytes += entry.data.size();
        out.push_back(entry);
      }
    }
    return out;
  }
  Status Close() override { return Sync(); }

 private:
  LogDisk& disk_;
};

}  // namespace mainstay::server

// The Raft log on disk, in etcd's framing: segments of checksummed records, read by etcd's own
// tools.
//
// Role        Written by thread "wal" through Writer; read at boot by Recover(), later by Reader
// for slow followers. Invariants  I1 what was appended before a Sync() that returned OK is found by
// Recover() after any crash.
//             I2 indexes inside a log are contiguous; a record whose index is already there
//             replaces it and all behind. I3 the running checksum goes through all segments.
// Threads     Writer: one, but for PrepareNext(), which may run on a pool at the same time. Reader:
// any. Errors      A failed write or sync poisons the Writer: each later call returns that error,
// nothing is retried. Recover():
//             a torn tail, never acknowledged, is cut off and kept as *.broken; anything else that
//             does not verify is DataLoss naming file and offset.
// Limits      A record holds at most kRecordBytesMax.
// Sources     docs/on-disk-format.md, "Log".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/metrics.h"
#include "common/mutex.h"
#include "common/status.h"
#include "common/types.h"
#include "env/file_system.h"
#include "raft/types.h"

namespace mainstay::wal {

inline constexpr uint64_t kRecordBytesMax = 512 << 20;

struct Metadata {
  MemberId member;
  ClusterId cluster;
  friend bool operator==(const Metadata&, const Metadata&) = default;
};

struct Options {
  uint64_t segment_bytes = 64'000'000;
  bool unsafe_no_fsync = false;
  Histogram* sync_seconds = nullptr;
  Histogram* write_seconds = nullptr;
  Gauge* bytes_written = nullptr;
};

class Writer {
 public:
  // A new log in `dir`, which exists and holds none.
  static StatusOr<std::unique_ptr<Writer>> Create(FileSystem& fs,
                                                  std::string dir,
                                                  Metadata metadata,
                                                  Options options);
  ~Writer();

  Status Append(std::span<const raft::Entry> entries, const std::optional<raft::HardState>& state);
  // Says that the store holds everything up to `meta`.
  Status SaveSnapshot(const raft::SnapshotMeta& meta);
  // Writes and syncs everything since the last call; starts a new segment when this one is full.
  Status Sync();
  // True if the segment after this one is not prepared yet: run PrepareNext() somewhere.
  bool wants_next() const;
  // Makes the next segment, zeroed to size, so that later syncs change no metadata. Failing is
  // harmless: the next cut makes the file itself and says why if it cannot.
  void PrepareNext();
  // Removes segments that hold only entries below `index`.
  Status Release(Index index);
  const std::string& dir() const { return dir_; }

 private:
  friend class Recovery;
  struct Segment {
    uint64_t sequence;
    Index first;
    std::string name;
  };
  Writer(FileSystem& fs, std::string dir, Metadata metadata, Options options);
  void Frame(int64_t type, std::string_view data, bool with_data);
  void FrameHead();
  Status Start(uint64_t sequence, Index first);
  Status Cut();
  StatusOr<std::unique_ptr<File>> NextFile(uint64_t sequence);
  Status Fail(Status status);

  FileSystem& fs_;
  const std::string dir_;
  const Metadata metadata_;
  const Options options_;

  std::vector<Segment> segments_;  // oldest first; the last one is written
  std::unique_ptr<File> file_;
  uint64_t offset_ = 0;  // end of what is in the file
  std::string pending_;  // framed, not written yet
  std::string scratch_;
  uint32_t crc_ = 0;
  Index last_;
  raft::HardState state_;
  Status failed_;

  mutable Mutex mu_;
  bool preparing_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<File> prepared_ ABSL_GUARDED_BY(mu_);
};

struct Recovered {
  Metadata metadata;
  raft::HardState hard_state;
  raft::SnapshotMeta snapshot;  // newest snapshot record that the commit index covers; zero if none
  raft::EntryId before;         // the entry before the first of `entries`; its term is 0 if unknown
  std::vector<raft::Entry>
      entries;  // contiguous, from after `after` or, if the log begins later, from its start
  std::unique_ptr<Writer> writer;
};

// True if `dir` holds at least one segment.
bool Exists(FileSystem& fs, const std::string& dir);
// Reads the log; entries up to `after` are checked but not kept. Leaves it ready to be written on.
StatusOr<Recovered> Recover(FileSystem& fs, const std::string& dir, Index after, Options options);

// Reads entries of [from, to) back, at most `bytes_max` of payload but at least one. NotFound if
// `from` is not in the log any more. Reads what is in the files: the caller asks only for what was
// synced.
StatusOr<std::vector<raft::Entry>> ReadEntries(
    FileSystem& fs, const std::string& dir, Index from, Index to, size_t bytes_max);

}  // namespace mainstay::wal

#include "server/durable_log.h"

#include <utility>

#include "server/tracked_pool.h"
#include "wal/wal.h"

namespace mainstay::server {
namespace {

class WalLog : public DurableLog {
 public:
  WalLog(std::unique_ptr<wal::Writer> writer, FileSystem& files, WorkPool& pool)
      : writer_(std::move(writer)), files_(files), pool_(pool) {
    Prepare();
  }
  Status Append(std::span<const raft::Entry> entries,
                const std::optional<raft::HardState>& state) override {
    return writer_->Append(entries, state);
  }
  Status Sync() override {
    const Status status = writer_->Sync();
    Prepare();
    return status;
  }
  Status MarkSnapshot(const raft::SnapshotMeta& meta) override {
    return writer_->SaveSnapshot(meta);
  }
  Status Release(Index index) override { return writer_->Release(index); }
  StatusOr<std::vector<raft::Entry>> Read(Index from, Index to, size_t bytes_max) const override {
    return wal::ReadEntries(files_, writer_->dir(), from, to, bytes_max);
  }
  Status Close() override {
    pool_.Close();
    return writer_->Sync();
  }

 private:
  // Zeroing the next segment takes long: elsewhere.
  void Prepare() {
    if (writer_->wants_next()) {
      // Not taken: the next sync asks again, and the cut makes the file itself if it must.
      (void)pool_.TrySubmit([this] { writer_->PrepareNext(); });
    }
  }

  const std::unique_ptr<wal::Writer> writer_;
  FileSystem& files_;
  TrackedPool pool_;  // last: its jobs end before what they use
};

wal::Options WalOptions(const Options& options, MetricRegistry& metrics) {
  const std::vector<double> bounds = ExponentialBuckets(0.001, 2, 14);
  wal::Options out;
  out.segment_bytes = options.wal_segment_bytes;
  out.unsafe_no_fsync = options.unsafe_no_fsync;
  out.sync_seconds =
      &metrics.AddHistogram("etcd_disk_wal_fsync_duration_seconds",
                            "The latency distributions of fsync called by WAL.", bounds);
  out.write_seconds =
      &metrics.AddHistogram("etcd_disk_wal_write_duration_seconds",
                            "The latency distributions of write called by WAL.", bounds);
  out.bytes_written =
      &metrics.AddGauge("etcd_disk_wal_write_bytes_total", "Total number of bytes written in WAL.");
  return out;
}

}  // namespace

LogOpener WalOpener(const Options& options, const Environment& env) {
  const wal::Options wal_options = WalOptions(options, env.metrics);
  FileSystem& files = env.files;
  WorkPool& pool = env.pool;
  return [=, &files, &pool](const std::string& dir, std::optional<LogIdentity> create,
                            raft::EntryId applied) -> StatusOr<RecoveredLog> {
    RecoveredLog out;
    if (create) {
      MS_ASSIGN_OR_RETURN(
          std::unique_ptr<wal::Writer> writer,
          wal::Writer::Create(files, dir, {create->member, create->cluster}, wal_options));
      out.member = create->member;
      out.cluster = create->cluster;
      out.log = std::make_unique<WalLog>(std::move(writer), files, pool);
      return out;
    }
    MS_ASSIGN_OR_RETURN(wal::Recovered found, wal::Recover(files, dir, applied.index, wal_options));
    out.member = found.metadata.member;
    out.cluster = found.metadata.cluster;
    out.hard_state = found.hard_state;
    out.compacted = found.before;
    out.entries = std::move(found.entries);
    out.log = std::make_unique<WalLog>(std::move(found.writer), files, pool);
    return out;
  };
}

}  // namespace mainstay::server

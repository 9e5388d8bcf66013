#include <algorithm>
#include <chrono>

#include "fmt/format.h"

#include "common/check.h"
#include "common/crc32c.h"
#include "common/log.h"
#include "raft/codec.h"
#include "wal/record.h"

namespace mainstay::wal {
namespace {

constexpr size_t kZeroChunk = 1 << 20;
constexpr std::chrono::milliseconds kSlowSync{1000};

std::string TempName(const std::string& dir, uint64_t sequence) {
  return fmt::format("{}/{}.tmp", dir, sequence % 2);
}

// Writes zeros, not only allocates: blocks that were allocated but never written change metadata at
// their first sync.
Status Zero(File& file, uint64_t from, uint64_t to) {
  const std::string zeros(kZeroChunk, '\0');
  for (uint64_t at = from; at < to; at += kZeroChunk) {
    MS_RETURN_IF_ERROR(file.WriteAt(
        at, std::string_view(zeros).substr(0, std::min<uint64_t>(kZeroChunk, to - at))));
  }
  return absl::OkStatus();
}

}  // namespace

Writer::Writer(FileSystem& fs, std::string dir, Metadata metadata, Options options)
    : fs_(fs), dir_(std::move(dir)), metadata_(metadata), options_(options) {}

Writer::~Writer() = default;

StatusOr<std::unique_ptr<Writer>> Writer::Create(FileSystem& fs,
                                                 std::string dir,
                                                 Metadata metadata,
                                                 Options options) {
  if (Exists(fs, dir)) {
    return FailedPrecondition("wal: " + dir + " holds a log already");
  }
  std::unique_ptr<Writer> out(new Writer(fs, std::move(dir), metadata, options));
  out->FrameHead();
  // etcd's first segment says that there is a snapshot at index 0.
  out->Frame(kSnapshot, EncodeSnapshot({}), true);
  MS_RETURN_IF_ERROR(out->Start(0, Index(0)));
  return out;
}

Status Writer::Fail(Status status) {
  if (failed_.ok()) {
    failed_ = status;
  }
  return failed_;
}

void Writer::Frame(int64_t type, std::string_view data, bool with_data) {
  crc_ = Crc32cExtend(crc_, data);
  AppendFrame(&pending_, type, crc_, data, with_data);
}

void Writer::FrameHead() {
  AppendFrame(&pending_, kCrc, crc_, {}, false);
  Frame(kMetadata, EncodeMetadata(metadata_), true);
}

StatusOr<std::unique_ptr<File>> Writer::NextFile(uint64_t sequence) {
  {
    MutexLock lock(mu_);
    if (prepared_ != nullptr) {
      return std::move(prepared_);
    }
  }
  const std::string temp = TempName(dir_, sequence);
  MS_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs_.Open(temp, OpenMode::kCreateOrOpen));
  MS_RETURN_IF_ERROR(file->Truncate(0));
  MS_RETURN_IF_ERROR(file->Preallocate(options_.segment_bytes));
  return file;
}

// Writes what is pending as the head of a new segment and makes the segment part of the log.
Status Writer::Start(uint64_t sequence, Index first) {
  MS_ASSIGN_OR_RETURN(std::unique_ptr<File> file, NextFile(sequence));
  MS_RETURN_IF_ERROR(file->WriteAt(0, pending_));
  MS_RETURN_IF_ERROR(file->DataSync());
  const std::string name = SegmentName(sequence, first);
  MS_RETURN_IF_ERROR(fs_.Rename(file->path(), dir_ + "/" + name));
  MS_RETURN_IF_ERROR(fs_.SyncDir(dir_));
  // The name has changed under the open file; opening it again lets errors say the name that is
  // there now.
  MS_ASSIGN_OR_RETURN(file_, fs_.Open(dir_ + "/" + name, OpenMode::kReadWrite));
  segments_.push_back({sequence, first, name});
  offset_ = pending_.size();
  pending_.clear();
  return absl::OkStatus();
}

Status Writer::Append(std::span<const raft::Entry> entries,
                      const std::optional<raft::HardState>& state) {
  MS_RETURN_IF_ERROR(failed_);
  for (const raft::Entry& entry : entries) {
    MS_CHECK(entry.index <= last_.Next() || last_ == Index(0));
    scratch_.resize(raft::EntrySize(entry));
    raft::PutEntry(scratch_.data(), entry);
    Frame(kEntry, scratch_, true);
    last_ = entry.index;
  }
  if (state) {
    state_ = *state;
    scratch_.clear();
    raft::AppendHardState(&scratch_, state_);
    Frame(kState, scratch_, true);
  }
  return absl::OkStatus();
}

Status Writer::SaveSnapshot(const raft::SnapshotMeta& meta) {
  MS_RETURN_IF_ERROR(failed_);
  Frame(kSnapshot, EncodeSnapshot(meta), true);
  last_ = std::max(last_, meta.index);
  return absl::OkStatus();
}

Status Writer::Sync() {
  MS_RETURN_IF_ERROR(failed_);
  if (pending_.empty()) {
    return absl::OkStatus();
  }
  const auto began = std::chrono::steady_clock::now();
  if (Status s = file_->WriteAt(offset_, pending_); !s.ok()) {
    return Fail(std::move(s));
  }
  const auto written = std::chrono::steady_clock::now();
  if (!options_.unsafe_no_fsync) {
    if (Status s = file_->DataSync(); !s.ok()) {
      return Fail(std::move(s));
    }
  }
  const auto synced = std::chrono::steady_clock::now();
  if (options_.write_seconds != nullptr) {
    options_.write_seconds->Observe(Seconds(written - began));
  }
  if (options_.sync_seconds != nullptr) {
    options_.sync_seconds->Observe(Seconds(synced - written));
  }
  if (options_.bytes_written != nullptr) {
    options_.bytes_written->Add(static_cast<double>(pending_.size()));
  }
  if (synced - written > kSlowSync) {
    MS_LOG(kWarn, "slow fdatasync")
        .Duration("took", synced - written)
        .Duration("expected-duration", kSlowSync);
  }
  offset_ += pending_.size();
  pending_.clear();
  return offset_ >= options_.segment_bytes ? Cut() : absl::OkStatus();
}

Status Writer::Cut() {
  const uint64_t sequence = segments_.back().sequence + 1;
  FrameHead();
  scratch_.clear();
  raft::AppendHardState(&scratch_, state_);
  Frame(kState, scratch_, true);
  if (Status s = Start(sequence, last_.Next()); !s.ok()) {
    return Fail(std::move(s));
  }
  return absl::OkStatus();
}

bool Writer::wants_next() const {
  MutexLock lock(mu_);
  return !preparing_ && prepared_ == nullptr;
}

void Writer::PrepareNext() {
  {
    MutexLock lock(mu_);
    if (preparing_ || prepared_ != nullptr) {
      return;
    }
    preparing_ = true;
  }
  const std::string path = dir_ + "/next.tmp";
  const auto prepare = [&]() -> StatusOr<std::unique_ptr<File>> {
    MS_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs_.Open(path, OpenMode::kCreateOrOpen));
    MS_RETURN_IF_ERROR(file->Truncate(0));
    MS_RETURN_IF_ERROR(Zero(*file, 0, options_.segment_bytes));
    MS_RETURN_IF_ERROR(file->DataSync());
    return file;
  };
  StatusOr<std::unique_ptr<File>> file = prepare();
  if (!file.ok()) {
    MS_LOG(kWarn, "failed to prepare the next log segment").Error(file.status().ToString());
  }
  MutexLock lock(mu_);
  preparing_ = false;
  if (file.ok()) {
    prepared_ = *std::move(file);
  }
}

Status Writer::Release(Index index) {
  MS_RETURN_IF_ERROR(failed_);
  bool removed = false;
  // A segment may go when the next one begins at or below the index: the next then holds everything
  // from there on.
  while (segments_.size() > 1 && segments_[1].first <= index) {
    MS_RETURN_IF_ERROR(fs_.Remove(dir_ + "/" + segments_[0].name));
    segments_.erase(segments_.begin());
    removed = true;
  }
  return removed ? fs_.SyncDir(dir_) : absl::OkStatus();
}

}  // namespace mainstay::wal

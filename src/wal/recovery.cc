#include <algorithm>

#include "fmt/format.h"

#include "common/coding.h"
#include "common/log.h"
#include "raft/codec.h"
#include "wal/record.h"

namespace mainstay::wal {
namespace {

struct Found {
  std::string name;
  SegmentId id;
};

StatusOr<std::vector<Found>> ListSegments(FileSystem& fs, const std::string& dir) {
  std::vector<Found> out;
  MS_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(dir));
  for (const std::string& name : names) {
    if (const auto id = ParseSegmentName(name)) {
      out.push_back({name, *id});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Found& a, const Found& b) { return a.id.sequence < b.id.sequence; });
  for (size_t i = 1; i < out.size(); ++i) {
    if (out[i].id.sequence != out[i - 1].id.sequence + 1) {
      return DataLoss(fmt::format("wal: {}: the segment between {} and {} is missing", dir,
                                  out[i - 1].name, out[i].name));
    }
  }
  return out;
}

StatusOr<std::string> ReadSegment(FileSystem& fs, const std::string& path) {
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(path, OpenMode::kRead));
  MS_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::string bytes;
  MS_RETURN_IF_ERROR(file->ReadAt(0, size, &bytes));
  return bytes;
}

// Takes the content of records in the order of the log.
class Content {
 public:
  explicit Content(Index after) : after_(after) {}

  Status Take(const FrameView& frame, const std::string& where) {
    switch (frame.type) {
      case kMetadata: {
        const auto metadata = DecodeMetadata(frame.data);
        if (!metadata) {
          return DataLoss("wal: " + where + ": the metadata does not decode");
        }
        if (has_metadata_ && !(*metadata == metadata_)) {
          return DataLoss("wal: " + where + ": the metadata is that of another member or cluster");
        }
        metadata_ = *metadata;
        has_metadata_ = true;
        return absl::OkStatus();
      }
      case kEntry:
        return TakeEntry(frame.data, where);
      case kState: {
        MS_ASSIGN_OR_RETURN(state_, raft::DecodeHardState(frame.data));
        return absl::OkStatus();
      }
      case kSnapshot: {
        MS_ASSIGN_OR_RETURN(raft::SnapshotMeta meta, DecodeSnapshotRecord(frame.data));
        snapshots_.push_back(std::move(meta));
        return absl::OkStatus();
      }
      default:
        return DataLoss(fmt::format("wal: {}: a record of unknown type {}", where, frame.type));
    }
  }

  bool has_metadata() const { return has_metadata_; }
  Index last() const { return last_; }
  Recovered Finish() {
    Recovered out;
    out.metadata = metadata_;
    out.hard_state = state_;
    for (const raft::SnapshotMeta& meta : snapshots_) {
      if (meta.index <= state_.commit && meta.index >= out.snapshot.index) {
        out.snapshot = meta;
      }
    }
    out.before = before_;
    if (entries_.empty() && before_.index < out.snapshot.index && first_ == Index(0)) {
      out.before = out.snapshot.id();  // a log that was emptied after a snapshot
    }
    out.entries = std::move(entries_);
    return out;
  }

 private:
  Status TakeEntry(std::string_view bytes, const std::string& where) {
    StatusOr<raft::Entry> decoded = raft::DecodeEntry(Buffer::Copy(bytes));
    if (!decoded.ok()) {
      return DataLoss("wal: " + where + ": an entry does not decode");
    }
    raft::Entry& entry = *decoded;
    if (entry.index == Index(0) || (first_ != Index(0) && entry.index > last_.Next())) {
      return DataLoss(fmt::format("wal: {}: gap: index {} follows {}", where, entry.index.value(),
                                  last_.value()));
    }
    if (first_ == Index(0)) {
      first_ = entry.index;
      before_ = {Term(0), entry.index.Prev()};
      for (const raft::SnapshotMeta& meta : snapshots_) {
        if (meta.index == before_.index) {
          before_ = meta.id();
        }
      }
    }
    last_ = entry.index;
    if (entry.index <= after_) {
      // What came behind it is overwritten with it.
      entries_.clear();
      before_ = entry.id();
      return absl::OkStatus();
    }
    while (!entries_.empty() && entries_.back().index >= entry.index) {
      entries_.pop_back();
    }
    entries_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  const Index after_;
  bool has_metadata_ = false;
  Metadata metadata_;
  raft::HardState state_;
  std::vector<raft::SnapshotMeta> snapshots_;
  std::vector<raft::Entry> entries_;
  raft::EntryId before_;
  Index first_;
  Index last_;
};

}  // namespace

// Walks all segments, mends the tail, and hands the log to a Writer.
class Recovery {
 public:
  Recovery(FileSystem& fs, const std::string& dir, Index after, Options options)
      : fs_(fs), dir_(dir), options_(options), content_(after) {}

  StatusOr<Recovered> Run() {
    MS_RETURN_IF_ERROR(RemoveTemporaries());
    MS_ASSIGN_OR_RETURN(segments_, ListSegments(fs_, dir_));
    if (segments_.empty()) {
      return NotFound("wal: " + dir_ + " holds no log");
    }
    for (size_t i = 0; i < segments_.size(); ++i) {
      MS_RETURN_IF_ERROR(Walk(segments_[i], i + 1 == segments_.size(), i == 0));
    }
    if (!content_.has_metadata()) {
      return DataLoss("wal: " + dir_ + ": no metadata record");
    }
    const Index last = content_.last();
    Recovered out = content_.Finish();
    std::unique_ptr<Writer> writer(new Writer(fs_, dir_, out.metadata, options_));
    for (const Found& segment : segments_) {
      writer->segments_.push_back({segment.id.sequence, segment.id.first, segment.name});
    }
    MS_ASSIGN_OR_RETURN(writer->file_,
                        fs_.Open(dir_ + "/" + segments_.back().name, OpenMode::kReadWrite));
    writer->offset_ = end_;
    writer->crc_ = crc_;
    writer->last_ = last;
    writer->state_ = out.hard_state;
    out.writer = std::move(writer);
    return out;
  }

 private:
  Status RemoveTemporaries() {
    MS_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(dir_));
    for (const std::string& name : names) {
      if (name.ends_with(".tmp")) {
        MS_RETURN_IF_ERROR(fs_.Remove(dir_ + "/" + name));
      }
    }
    return absl::OkStatus();
  }

  Status Walk(const Found& segment, bool is_last, bool is_first) {
    const std::string path = dir_ + "/" + segment.name;
    MS_ASSIGN_OR_RETURN(const std::string bytes, ReadSegment(fs_, path));
    uint64_t offset = 0;
    while (true) {
      FrameView frame;
      const std::string where = fmt::format("{} at offset {}", path, offset);
      switch (ReadFrame(bytes, offset, &crc_, &frame)) {
        case FrameResult::kEnd:
          return is_last ? Tail(path, bytes, offset, false) : absl::OkStatus();
        case FrameResult::kTorn:
          if (!is_last) {
            return DataLoss("wal: " + where + ": a record is cut, but later segments follow");
          }
          return Tail(path, bytes, offset, true);
        case FrameResult::kBad:
          return DataLoss("wal: " + where + ": walpb: crc mismatch");
        case FrameResult::kFrame:
          break;
      }
      if (frame.type == kCrc) {
        // The oldest segment that is left starts the chain wherever it stands.
        if (offset == 0 && is_first) {
          crc_ = frame.crc;
        } else if (frame.crc != crc_) {
          return DataLoss("wal: " + where +
                          ": the checksum does not go on from the segment before");
        }
      } else {
        MS_RETURN_IF_ERROR(content_.Take(frame, where));
      }
      offset = frame.end;
      if (offset == bytes.size()) {
        return is_last ? Tail(path, bytes, offset, false) : absl::OkStatus();
      }
    }
  }

  // Everything from `end` on was never acknowledged. What stands there goes, since old bytes behind
  // new records would look like damage; a torn record is kept aside first, for whoever wants to
  // look.
  Status Tail(const std::string& path, const std::string& bytes, uint64_t end, bool torn) {
    end_ = end;
    const bool clean = std::all_of(bytes.begin() + static_cast<ptrdiff_t>(end), bytes.end(),
                                   [](char c) { return c == '\0'; });
    if (clean && bytes.size() >= options_.segment_bytes) {
      return absl::OkStatus();
    }
    if (torn) {
      MS_LOG(kWarn, "found a torn record at the end of the log; cutting it off")
          .Str("path", path)
          .Unsigned("offset", end)
          .Str("kept-as", path + ".broken");
      MS_RETURN_IF_ERROR(WriteFileAtomically(fs_, path + ".broken", bytes));
    }
    MS_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs_.Open(path, OpenMode::kReadWrite));
    MS_RETURN_IF_ERROR(file->Truncate(end));
    MS_RETURN_IF_ERROR(file->Preallocate(std::max(end, options_.segment_bytes)));
    return file->DataSync();
  }

  FileSystem& fs_;
  const std::string dir_;
  const Options options_;
  std::vector<Found> segments_;
  Content content_;
  uint32_t crc_ = 0;
  uint64_t end_ = 0;
};

bool Exists(FileSystem& fs, const std::string& dir) {
  const auto names = fs.List(dir);
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& n) {
           return ParseSegmentName(n).has_value();
         });
}

StatusOr<Recovered> Recover(FileSystem& fs, const std::string& dir, Index after, Options options) {
  return Recovery(fs, dir, after, options).Run();
}

StatusOr<std::vector<raft::Entry>> ReadEntries(
    FileSystem& fs, const std::string& dir, Index from, Index to, size_t bytes_max) {
  MS_ASSIGN_OR_RETURN(const std::vector<Found> segments, ListSegments(fs, dir));
  // The last segment that begins at or before `from`.
  size_t at = segments.size();
  while (at > 0 && segments[at - 1].id.first > from) {
    --at;
  }
  if (at == 0) {
    return NotFound(fmt::format("wal: {}: index {} is not in the log any more", dir, from.value()));
  }
  std::vector<raft::Entry> out;
  size_t bytes = 0;
  for (--at; at < segments.size(); ++at) {
    const std::string path = dir + "/" + segments[at].name;
    MS_ASSIGN_OR_RETURN(const std::string content, ReadSegment(fs, path));
    uint32_t crc = 0;
    FrameView frame;
    for (uint64_t offset = 0; offset < content.size(); offset = frame.end) {
      const FrameResult result = ReadFrame(content, offset, &crc, &frame);
      if (result == FrameResult::kEnd) {
        break;
      }
      if (result != FrameResult::kFrame) {
        return DataLoss(fmt::format("wal: {} at offset {}: walpb: crc mismatch", path, offset));
      }
      if (frame.type == kCrc) {
        crc = frame.crc;
      }
      if (frame.type != kEntry) {
        continue;
      }
      MS_ASSIGN_OR_RETURN(raft::Entry entry, raft::DecodeEntry(Buffer::Copy(frame.data)));
      while (!out.empty() && out.back().index >= entry.index) {
        bytes -= out.back().cost_bytes();
        out.pop_back();
      }
      if (entry.index < from || entry.index >= to) {
        continue;
      }
      if (!out.empty() && bytes + entry.cost_bytes() > bytes_max) {
        continue;  // a later record may still replace what is in; only the front part is given
      }
      if (out.empty() ? entry.index != from : entry.index != out.back().index.Next()) {
        continue;
      }
      bytes += entry.cost_bytes();
      out.push_back(std::move(entry));
    }
  }
  if (out.empty()) {
    return NotFound(fmt::format("wal: {}: index {} is not in the log", dir, from.value()));
  }
  return out;
}

}  // namespace mainstay::wal

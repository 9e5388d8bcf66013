// Records of a segment: framing, types and the small messages inside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/types.h"
#include "raft/types.h"
#include "wal/wal.h"

namespace mainstay::wal {

enum RecordType : int64_t { kMetadata = 1, kEntry = 2, kState = 3, kCrc = 4, kSnapshot = 5 };

inline constexpr size_t kSectorBytes = 512;

struct FrameView {
  int64_t type = 0;
  uint32_t crc = 0;
  std::string_view data;
  uint64_t end = 0;  // offset of the next frame
};

enum class FrameResult {
  kFrame,
  kEnd,   // a zero length word: nothing was written here
  kTorn,  // cut by the end of the file, or written in part: a sector of it is all zero
  kBad,   // whole, but no valid record
};
// Reads the frame at `offset` of a segment's bytes and checks it against the running checksum,
// which it moves on. The checksum of a kCrc record is checked by the caller, who knows the segment
// before.
FrameResult ReadFrame(std::string_view segment, uint64_t offset, uint32_t* crc, FrameView* out);

// Appends one frame: length word, record, padding.
void AppendFrame(
    std::string* out, int64_t type, uint32_t crc, std::string_view data, bool with_data);

std::string EncodeMetadata(const Metadata& metadata);
std::optional<Metadata> DecodeMetadata(std::string_view bytes);
std::string EncodeSnapshot(const raft::SnapshotMeta& meta);
StatusOr<raft::SnapshotMeta> DecodeSnapshotRecord(std::string_view bytes);

std::string SegmentName(uint64_t sequence, Index first);
struct SegmentId {
  uint64_t sequence;
  Index first;
};
std::optional<SegmentId> ParseSegmentName(std::string_view name);

}  // namespace mainstay::wal

#include "wal/record.h"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"

#include "common/coding.h"
#include "common/crc32c.h"
#include "raft/codec.h"

namespace mainstay::wal {
namespace {

bool AllZero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

// Segments are zeroed before they are written: a sector of zeros inside a record never reached the
// disk.
bool HasLostSector(std::string_view segment, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to;) {
    const uint64_t sector_end = std::min(to, (at / kSectorBytes + 1) * kSectorBytes);
    if (AllZero(segment.substr(at, sector_end - at))) {
      return true;
    }
    at = sector_end;
  }
  return false;
}

// The sector that holds `at` has been written beyond `at`.
bool SectorGoesOn(std::string_view segment, uint64_t at) {
  const uint64_t end = std::min<uint64_t>(segment.size(), (at / kSectorBytes + 1) * kSectorBytes);
  return !AllZero(segment.substr(at, end - at));
}

// A type, a checksum and the head of the data take no more.
constexpr uint64_t kHeadBytesMax = 1 + 10 + 1 + 10 + 1 + 10;

// The length that a record has by its own fields: type, checksum and, if there is one, the head of
// the data. Nothing if the bytes do not begin as a record does.
std::optional<uint64_t> LengthByContent(std::string_view bytes) {
  size_t at = 0;
  const auto field = [&](char tag, uint64_t* value) {
    if (at >= bytes.size() || bytes[at] != tag) {
      return false;
    }
    ++at;
    *value = 0;
    for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes[at++]);
      *value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        return true;
      }
    }
    return false;
  };
  uint64_t value = 0;
  if (!field(0x08, &value) || !field(0x10, &value)) {
    return std::nullopt;
  }
  const size_t without_data = at;
  return field(0x1A, &value) ? at + value : without_data;
}

void AppendProto2(std::string* to, uint32_t field, uint64_t v) {
  AppendVarint(to, WireTag(field, WireType::kVarint));
  AppendVarint(to, v);
}

}  // namespace

FrameResult ReadFrame(std::string_view segment, uint64_t offset, uint32_t* crc, FrameView* out) {
  if (segment.size() - offset < 8) {
    return AllZero(segment.substr(offset)) ? FrameResult::kEnd : FrameResult::kTorn;
  }
  const auto word = LoadLE<uint64_t>(segment.data() + offset);
  if (word == 0) {
    // A sector is written whole or not at all: zeros before bytes that are there are damage, not an
    // end.
    return SectorGoesOn(segment, offset) ? FrameResult::kBad : FrameResult::kEnd;
  }
  const uint64_t length = word & 0x00FF'FFFF'FFFF'FFFF;
  const uint64_t padding = (word >> 63) != 0 ? (word >> 56) & 7 : 0;
  const uint64_t begin = offset + 8;
  if ((length + padding) % 8 != 0 || length > kRecordBytesMax) {
    return FrameResult::kBad;
  }
  // A length word that was damaged may point behind the end or over sectors of zeros, which would
  // look like a torn record: believe it only if the record itself says the same.
  const uint64_t head_end =
      std::min<uint64_t>(begin + std::min(length, kHeadBytesMax), segment.size());
  const bool head_is_there = begin + std::min(length, kHeadBytesMax) <= segment.size() &&
                             !HasLostSector(segment, begin, head_end);
  if (head_is_there && LengthByContent(segment.substr(begin, head_end - begin)) != length) {
    return FrameResult::kBad;
  }
  if (length + padding > segment.size() - begin) {
    return FrameResult::kTorn;
  }
  const auto broken = [&] {
    return HasLostSector(segment, begin, begin + length) ? FrameResult::kTorn : FrameResult::kBad;
  };
  *out = FrameView();
  out->end = begin + length + padding;
  WireReader r(segment.substr(begin, length));
  while (r.Next()) {
    if (r.field() == 1) {
      out->type = r.i64();
    } else if (r.field() == 2) {
      out->crc = static_cast<uint32_t>(r.varint());
    } else if (r.field() == 3) {
      out->data = r.bytes();
    }
  }
  if (!r.ok()) {
    return broken();
  }
  if (out->type == kCrc) {
    return FrameResult::kFrame;
  }
  const uint32_t moved = Crc32cExtend(*crc, out->data);
  if (moved != out->crc) {
    return broken();
  }
  *crc = moved;
  return FrameResult::kFrame;
}

void AppendFrame(
    std::string* out, int64_t type, uint32_t crc, std::string_view data, bool with_data) {
  const size_t length = 1 + VarintSize(static_cast<uint64_t>(type)) + 1 + VarintSize(crc) +
                        (with_data ? 1 + VarintSize(data.size()) + data.size() : 0);
  const size_t padding = (8 - length % 8) % 8;
  const uint64_t word = length | (padding != 0 ? (0x80 | padding) << 56 : 0);
  char head[8];
  StoreLE(head, word);
  out->append(head, 8);
  AppendProto2(out, 1, static_cast<uint64_t>(type));
  AppendProto2(out, 2, crc);
  if (with_data) {
    AppendBytesField(out, 3, data);
  }
  out->append(padding, '\0');
}

std::string EncodeMetadata(const Metadata& metadata) {
  std::string out;
  AppendProto2(&out, 1, metadata.member.value());
  AppendProto2(&out, 2, metadata.cluster.value());
  return out;
}

std::optional<Metadata> DecodeMetadata(std::string_view bytes) {
  Metadata out;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      out.member = MemberId(r.varint());
    } else if (r.field() == 2) {
      out.cluster = ClusterId(r.varint());
    }
  }
  return r.ok() ? std::optional(out) : std::nullopt;
}

std::string EncodeSnapshot(const raft::SnapshotMeta& meta) {
  std::string out;
  AppendProto2(&out, 1, meta.index.value());
  AppendProto2(&out, 2, meta.term.value());
  if (!meta.conf_state.voters.empty()) {
    std::string conf_state;
    raft::AppendConfState(&conf_state, meta.conf_state);
    AppendBytesField(&out, 3, conf_state);
  }
  return out;
}

StatusOr<raft::SnapshotMeta> DecodeSnapshotRecord(std::string_view bytes) {
  raft::SnapshotMeta out;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      out.index = Index(r.varint());
    } else if (r.field() == 2) {
      out.term = Term(r.varint());
    } else if (r.field() == 3) {
      MS_ASSIGN_OR_RETURN(out.conf_state, raft::DecodeConfState(r.bytes()));
    }
  }
  if (!r.ok()) {
    return DataLoss("wal: a snapshot record does not decode");
  }
  return out;
}

std::string SegmentName(uint64_t sequence, Index first) {
  return fmt::format("{:016x}-{:016x}.wal", sequence, first.value());
}

std::optional<SegmentId> ParseSegmentName(std::string_view name) {
  if (name.size() != 16 + 1 + 16 + 4 || name[16] != '-' || !name.ends_with(".wal")) {
    return std::nullopt;
  }
  uint64_t sequence = 0;
  uint64_t first = 0;
  const auto a = std::from_chars(name.data(), name.data() + 16, sequence, 16);
  const auto b = std::from_chars(name.data() + 17, name.data() + 33, first, 16);
  if (a.ptr != name.data() + 16 || b.ptr != name.data() + 33) {
    return std::nullopt;
  }
  return SegmentId{sequence, Index(first)};
}

}  // namespace mainstay::wal

#include "mvcc/rows.h"

#include "common/coding.h"

namespace mainstay::mvcc {

std::string RecordRowPrefix(std::string_view user_key) {
  std::string out;
  out.reserve(user_key.size() + 3 + 16);
  out.push_back('k');
  for (const char c : user_key) {
    out.push_back(c);
    if (c == '\0') {
      out.push_back('\xFF');
    }
  }
  out.push_back('\0');
  out.push_back('\1');
  return out;
}

std::string RecordRowKey(std::string_view user_key, Revision revision) {
  std::string out = RecordRowPrefix(user_key);
  AppendBE64(&out, ~static_cast<uint64_t>(revision.main));
  AppendBE64(&out, ~static_cast<uint64_t>(revision.sub));
  return out;
}

std::optional<RecordRow> ParseRecordRowKey(std::string_view row_key) {
  if (row_key.size() < 1 + 2 + 16 || row_key[0] != 'k') {
    return std::nullopt;
  }
  RecordRow out;
  const std::string_view tail = row_key.substr(row_key.size() - 16);
  std::string_view key = row_key.substr(1, row_key.size() - 1 - 16);
  while (true) {
    const size_t zero = key.find('\0');
    if (zero == std::string_view::npos || zero + 1 >= key.size()) {
      return std::nullopt;
    }
    out.user_key.append(key.substr(0, zero));
    const char mark = key[zero + 1];
    key.remove_prefix(zero + 2);
    if (mark == '\1') {
      break;
    }
    if (mark != '\xFF') {
      return std::nullopt;
    }
    out.user_key.push_back('\0');
  }
  if (!key.empty()) {
    return std::nullopt;
  }
  out.revision.main = static_cast<int64_t>(~LoadBE64(tail.data()));
  out.revision.sub = static_cast<int64_t>(~LoadBE64(tail.data() + 8));
  return out;
}

std::string RevisionKey(Revision revision, bool tombstone) {
  std::string out;
  out.reserve(18);
  AppendBE64(&out, static_cast<uint64_t>(revision.main));
  out.push_back('_');
  AppendBE64(&out, static_cast<uint64_t>(revision.sub));
  if (tombstone) {
    out.push_back('t');
  }
  return out;
}

std::string RevisionRowKey(Revision revision, bool tombstone) {
  return "r" + RevisionKey(revision, tombstone);
}

std::string RevisionRowLower(int64_t main) {
  std::string out = "r";
  AppendBE64(&out, static_cast<uint64_t>(main));
  return out;
}

std::optional<RevisionRowId> ParseRevisionRowKey(std::string_view row_key) {
  const bool tombstone = row_key.size() == 19;
  if ((row_key.size() != 18 && !tombstone) || row_key[0] != 'r' || row_key[9] != '_' ||
      (tombstone && row_key[18] != 't')) {
    return std::nullopt;
  }
  RevisionRowId out;
  out.revision.main = static_cast<int64_t>(LoadBE64(row_key.data() + 1));
  out.revision.sub = static_cast<int64_t>(LoadBE64(row_key.data() + 10));
  out.tombstone = tombstone;
  return out;
}

std::string EncodeRevisionRow(const RevisionRow& row) {
  std::string out;
  out.reserve(row.user_key.size() + 9);
  char crc[4];
  StoreBE32(crc, row.record_crc);
  out.append(crc, 4);
  AppendVarint(&out, row.record_bytes);
  out.append(row.user_key);
  return out;
}

std::optional<RevisionRow> DecodeRevisionRow(std::string_view bytes) {
  if (bytes.size() < 5) {
    return std::nullopt;
  }
  RevisionRow out;
  out.record_crc = LoadBE32(bytes.data());
  bytes.remove_prefix(4);
  uint64_t length = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    if (bytes.empty()) {
      return std::nullopt;
    }
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    length |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      if (length > UINT32_MAX) {
        return std::nullopt;
      }
      out.record_bytes = static_cast<uint32_t>(length);
      out.user_key = bytes;
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace mainstay::mvcc

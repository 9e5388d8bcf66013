// The store's rows in the backend (docs/on-disk-format.md):
//   'k' user key (0x00 as 0x00 0xFF, ended by 0x00 0x01) + 16 bytes ~main ~sub   -> encoded
//   KeyValue, newest first 'r' main '_' sub ['t']  (etcd's 17 or 18 bytes) -> RevisionRow
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/types.h"

namespace mainstay::mvcc {

std::string RecordRowKey(std::string_view user_key, Revision revision);
// Everything of one user key sorts in [RecordRowPrefix(key), that + 17 bytes).
std::string RecordRowPrefix(std::string_view user_key);
struct RecordRow {
  std::string user_key;
  Revision revision;
};
std::optional<RecordRow> ParseRecordRowKey(std::string_view row_key);

// Without the space byte: what etcd's `key` bucket has as key.
std::string RevisionKey(Revision revision, bool tombstone);
std::string RevisionRowKey(Revision revision, bool tombstone);
// First row at or after `main`.
std::string RevisionRowLower(int64_t main);
struct RevisionRowId {
  Revision revision;
  bool tombstone = false;
};
// Of a row key with the space byte.
std::optional<RevisionRowId> ParseRevisionRowKey(std::string_view row_key);

// What a revision row holds: enough for hashes and for finding the record, without the record.
struct RevisionRow {
  std::string_view user_key;
  uint32_t record_bytes = 0;
  uint32_t record_crc = 0;
};
std::string EncodeRevisionRow(const RevisionRow& row);
std::optional<RevisionRow> DecodeRevisionRow(std::string_view bytes);

}  // namespace mainstay::mvcc

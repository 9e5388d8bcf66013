// The payload of a normal log entry: etcdserverpb.InternalRaftRequest around the client's own
// request bytes, put together and taken apart by hand, because every write passes here twice.
//
// Threads  Pure functions; any.
// Sources  docs/on-disk-format.md; fields >= 20000 are ours and unknown to etcd, which skips them.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/buffer.h"

namespace mainstay::server {

struct EntryHeader {
  uint64_t id = 0;  // of the request; waiters are found by it
  std::string_view username = {};
  uint64_t auth_revision = 0;
  std::string_view client_address = {};
  int64_t wall_time_ns = 0;
  uint64_t proposer = 0;
};

// One entry: `request` under field `kind`. An empty request is written too, since the presence of
// the field says which call it is.
Buffer EncodeEntry(const EntryHeader& header, uint32_t kind, std::string_view request);

// How many bytes EncodeEntry() would give.
size_t EncodedEntrySize(const EntryHeader& header, uint32_t kind, std::string_view request);

struct DecodedEntry {
  EntryHeader header;
  uint32_t kind = 0;              // the request field found; 0 = none that this version knows of
  std::string_view request = {};  // points into the input
};

// False if `data` is no protobuf message. Views point into `data`. A field number that is neither
// ours nor a request of the range that etcd uses for requests is skipped; the last request field
// wins, as in protobuf's oneof-less merge.
bool DecodeEntry(std::string_view data, DecodedEntry* out);

// header.id alone; 0 if absent or malformed.
uint64_t PeekRequestId(std::string_view data);

}  // namespace mainstay::server

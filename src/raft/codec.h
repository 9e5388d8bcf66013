// raftpb's wire format, written and read by hand: no copy of entry payloads when reading, none but
// the last when writing.
//
// Writing follows etcd 3.7, as seen in its files: zero scalars are left out, save in HardState and
// in ConfChange's type and node_id; fields go in number order; a message inside is always written.
// Reading takes that and the older form, which writes all zeros; unknown fields are skipped.
//
// Threads     Any; no state.
// Ownership   Decoded Buffers are slices of the input Buffer and keep its owner alive.
// Errors      DataLoss for bytes that are no such message. Never CHECK-fails on input.
// Limits      None of its own: the caller bounds the input's size.
#pragma once

#include <string>

#include "common/buffer.h"
#include "common/status.h"
#include "raft/types.h"

namespace mainstay::raft {

// Exact size of the encoded entry, and the encoding at `to`; returns the end. `to` has room for
// EntrySize(entry).
size_t EntrySize(const Entry& entry);
char* PutEntry(char* to, const Entry& entry);

void AppendEntry(std::string* to, const Entry& entry);
void AppendHardState(std::string* to, const HardState& state);
void AppendConfState(std::string* to, const ConfState& state);
void AppendConfChange(std::string* to, const ConfChange& change);
void AppendConfChangeV2(std::string* to, const ConfChangeV2& change);
void AppendSnapshotMeta(std::string* to, const SnapshotMeta& meta);
void AppendSnapshot(std::string* to, const Snapshot& snapshot);
void AppendMessage(std::string* to, const Message& message);

// As one Buffer of exactly the right size.
Buffer EncodeEntry(const Entry& entry);
Buffer EncodeConfChange(const ConfChange& change);
Buffer EncodeConfChangeV2(const ConfChangeV2& change);

// The message as a chain: small fields are joined, entry payloads and snapshot data of at least
// kReferenceBytesMin are referenced. Same bytes as AppendMessage.
BufferChain EncodeMessage(const Message& message);

StatusOr<Entry> DecodeEntry(const Buffer& bytes);
StatusOr<HardState> DecodeHardState(std::string_view bytes);
StatusOr<ConfState> DecodeConfState(std::string_view bytes);
StatusOr<ConfChange> DecodeConfChange(const Buffer& bytes);
StatusOr<ConfChangeV2> DecodeConfChangeV2(const Buffer& bytes);
StatusOr<SnapshotMeta> DecodeSnapshotMeta(std::string_view bytes);
StatusOr<Snapshot> DecodeSnapshot(const Buffer& bytes);
StatusOr<Message> DecodeMessage(const Buffer& bytes);

// The change in a kConfChange or kConfChangeV2 entry. REQUIRES: entry.is_conf_change().
StatusOr<ConfChangeV2> DecodeChangeOf(const Entry& entry);

}  // namespace mainstay::raft

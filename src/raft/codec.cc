#include "raft/codec.h"

#include <cstring>
#include <limits>
#include <utility>

#include "common/coding.h"
#include "common/limits.h"

namespace mainstay::raft {
namespace {

// For fields that etcd 3.7 writes although they are zero.
void AppendAlways(std::string* to, uint32_t field, uint64_t v) {
  AppendVarint(to, WireTag(field, WireType::kVarint));
  AppendVarint(to, v);
}

void AppendData(std::string* to, uint32_t field, std::string_view bytes) {
  if (!bytes.empty()) {
    AppendBytesField(to, field, bytes);
  }
}

void AppendHead(std::string* to, uint32_t field, size_t length) {
  AppendVarint(to, WireTag(field, WireType::kBytes));
  AppendVarint(to, length);
}

void AppendIds(std::string* to, uint32_t field, const std::vector<MemberId>& ids) {
  for (MemberId id : ids) {
    AppendAlways(to, field, id.value());
  }
}

size_t EntryHeadSize(const Entry& entry) {
  return VarintFieldSize(1, static_cast<uint64_t>(entry.type)) +
         VarintFieldSize(2, entry.term.value()) + VarintFieldSize(3, entry.index.value());
}

char* PutEntryHead(char* to, const Entry& entry) {
  to = PutVarintField(to, 1, static_cast<uint64_t>(entry.type));
  to = PutVarintField(to, 2, entry.term.value());
  return PutVarintField(to, 3, entry.index.value());
}

// Collects a message as a chain: text grows in a string until a payload is worth referencing.
class ChainWriter {
 public:
  std::string* text() { return &text_; }
  void Payload(const Buffer& bytes) {
    if (bytes.size() < kReferenceBytesMin) {
      text_.append(bytes.view());
      return;
    }
    Flush();
    chain_.Append(bytes);
  }
  BufferChain Finish() {
    Flush();
    return std::move(chain_);
  }

 private:
  void Flush() {
    if (!text_.empty()) {
      chain_.Append(Buffer::Copy(text_));
      text_.clear();
    }
  }
  std::string text_;
  BufferChain chain_;
};

void WriteEntry(ChainWriter* out, const Entry& entry) {
  char head[4 * (kVarintMax + 1)];
  out->text()->append(head, static_cast<size_t>(PutEntryHead(head, entry) - head));
  if (!entry.data.empty()) {
    AppendHead(out->text(), 4, entry.data.size());
    out->Payload(entry.data);
  }
}

std::string MetaBytes(const SnapshotMeta& meta) {
  std::string bytes;
  AppendSnapshotMeta(&bytes, meta);
  return bytes;
}

void WriteSnapshot(ChainWriter* out, const Snapshot& snapshot, const std::string& meta) {
  if (!snapshot.data.empty()) {
    AppendHead(out->text(), 1, snapshot.data.size());
    out->Payload(snapshot.data);
  }
  AppendBytesField(out->text(), 2, meta);
}

void WriteMessage(ChainWriter* out, const Message& message) {
  std::string* text = out->text();
  AppendVarintField(text, 1, static_cast<uint64_t>(message.type));
  AppendVarintField(text, 2, message.to.value());
  AppendVarintField(text, 3, message.from.value());
  AppendVarintField(text, 4, message.term.value());
  AppendVarintField(text, 5, message.log_term.value());
  AppendVarintField(text, 6, message.index.value());
  for (const Entry& entry : message.entries) {
    AppendHead(text, 7, EntrySize(entry));
    WriteEntry(out, entry);
  }
  AppendVarintField(text, 8, message.commit.value());
  if (message.snapshot) {
    const std::string meta = MetaBytes(message.snapshot->meta);
    AppendHead(text, 9,
               BytesFieldSize(1, message.snapshot->data.size()) +
                   VarintSize(WireTag(2, WireType::kBytes)) + VarintSize(meta.size()) +
                   meta.size());
    WriteSnapshot(out, *message.snapshot, meta);
  }
  AppendVarintField(text, 10, message.reject ? 1 : 0);
  AppendVarintField(text, 11, message.reject_hint.value());
  AppendData(text, 12, message.context.view());
}

// ---- reading ----------------------------------------------------------------------------------

Status Malformed(std::string_view what) {
  return DataLoss(std::string("raftpb: malformed ").append(what));
}

// A field that has the wrong wire type is a malformed message, not an unknown field.
bool IsNumber(const WireReader& r) {
  return r.type() == WireType::kVarint;
}
bool IsBytes(const WireReader& r) {
  return r.type() == WireType::kBytes;
}

template <class Number>
bool ReadNumber(const WireReader& r, Number* out) {
  *out = Number(r.varint());
  return IsNumber(r);
}

template <class Enum>
bool ReadEnum(const WireReader& r, uint64_t max, Enum* out) {
  if (!IsNumber(r) || r.varint() > max) {
    return false;
  }
  *out = static_cast<Enum>(r.varint());
  return true;
}

bool ReadBytes(const WireReader& r, const Buffer& whole, Buffer* out) {
  *out = whole.Within(r.bytes());
  return IsBytes(r);
}

// Unpacked as proto2 writes it, or packed as a proto3 writer might.
bool ReadIds(const WireReader& r, std::vector<MemberId>* out) {
  if (IsNumber(r)) {
    out->emplace_back(r.varint());
    return true;
  }
  if (!IsBytes(r)) {
    return false;
  }
  const std::string_view packed = r.bytes();
  uint64_t value = 0;
  unsigned shift = 0;
  for (const char c : packed) {
    if (shift >= 64) {
      return false;
    }
    value |= static_cast<uint64_t>(c & 0x7F) << shift;
    shift += 7;
    if ((c & 0x80) == 0) {
      out->emplace_back(value);
      value = 0;
      shift = 0;
    }
  }
  return shift == 0;
}

bool ReadEntry(const Buffer& bytes, Entry* out) {
  WireReader r(bytes.view());
  bool ok = true;
  while (ok && r.Next()) {
    switch (r.field()) {
      case 1:
        ok = ReadEnum(r, 2, &out->type);
        break;
      case 2:
        ok = ReadNumber(r, &out->term);
        break;
      case 3:
        ok = ReadNumber(r, &out->index);
        break;
      case 4:
        ok = ReadBytes(r, bytes, &out->data);
        break;
      default:
        break;
    }
  }
  return ok && r.ok();
}

bool ReadConfState(std::string_view bytes, ConfState* out) {
  WireReader r(bytes);
  bool ok = true;
  while (ok && r.Next()) {
    switch (r.field()) {
      case 1:
        ok = ReadIds(r, &out->voters);
        break;
      case 2:
        ok = ReadIds(r, &out->learners);
        break;
      case 3:
        ok = ReadIds(r, &out->voters_outgoing);
        break;
      case 4:
        ok = ReadIds(r, &out->learners_next);
        break;
      case 5:
        out->auto_leave = r.varint() != 0;
        ok = IsNumber(r);
        break;
      default:
        break;
    }
  }
  return ok && r.ok();
}

bool ReadMeta(std::string_view bytes, SnapshotMeta* out) {
  WireReader r(bytes);
  bool ok = true;
  while (ok && r.Next()) {
    switch (r.field()) {
      case 1:
        ok = IsBytes(r) && ReadConfState(r.bytes(), &out->conf_state);
        break;
      case 2:
        ok = ReadNumber(r, &out->index);
        break;
      case 3:
        ok = ReadNumber(r, &out->term);
        break;
      default:
        break;
    }
  }
  return ok && r.ok();
}

bool ReadSnapshot(const Buffer& bytes, Snapshot* out) {
  WireReader r(bytes.view());
  bool ok = true;
  while (ok && r.Next()) {
    switch (r.field()) {
      case 1:
        ok = ReadBytes(r, bytes, &out->data);
        break;
      case 2:
        ok = IsBytes(r) && ReadMeta(r.bytes(), &out->meta);
        break;
      default:
        break;
    }
  }
  return ok && r.ok();
}

bool ReadSingle(std::string_view bytes, ConfChangeSingle* out) {
  WireReader r(bytes);
  bool ok = true;
  while (ok && r.Next()) {
    switch (r.field()) {
      case 1:
        ok = ReadEnum(r, 3, &out->type);
        break;
      case 2:
        ok = ReadNumber(r, &out->node_id);
        break;
      default:
        break;
    }
  }
  return ok && r.ok();
}

bool IsMessageType(uint64_t number) {
  return number <= static_cast<uint64_t>(MessageType::kPreVoteResp) ||
         number == static_cast<uint64_t>(MessageType::kForgetLeader);
}

bool ReadMessageField(const WireReader& r, const Buffer& bytes, Message* out) {
  switch (r.field()) {
    case 1:
      return IsMessageType(r.varint()) && ReadEnum(r, 255, &out->type);
    case 2:
      return ReadNumber(r, &out->to);
    case 3:
      return ReadNumber(r, &out->from);
    case 4:
      return ReadNumber(r, &out->term);
    case 5:
      return ReadNumber(r, &out->log_term);
    case 6:
      return ReadNumber(r, &out->index);
    case 7:
      return IsBytes(r) && ReadEntry(bytes.Within(r.bytes()), &out->entries.emplace_back());
    case 8:
      return ReadNumber(r, &out->commit);
    case 9:
      return IsBytes(r) && ReadSnapshot(bytes.Within(r.bytes()), &out->snapshot.emplace());
    case 10:
      out->reject = r.varint() != 0;
      return IsNumber(r);
    case 11:
      return ReadNumber(r, &out->reject_hint);
    case 12:
      return ReadBytes(r, bytes, &out->context);
    default:
      return true;
  }
}

}  // namespace

size_t EntrySize(const Entry& entry) {
  return EntryHeadSize(entry) + BytesFieldSize(4, entry.data.size());
}

char* PutEntry(char* to, const Entry& entry) {
  return PutBytesField(PutEntryHead(to, entry), 4, entry.data.view());
}

void AppendEntry(std::string* to, const Entry& entry) {
  const size_t before = to->size();
  to->resize(before + EntrySize(entry));
  PutEntry(to->data() + before, entry);
}

void AppendHardState(std::string* to, const HardState& state) {
  AppendAlways(to, 1, state.term.value());
  AppendAlways(to, 2, state.vote.value());
  AppendAlways(to, 3, state.commit.value());
}

void AppendConfState(std::string* to, const ConfState& state) {
  AppendIds(to, 1, state.voters);
  AppendIds(to, 2, state.learners);
  AppendIds(to, 3, state.voters_outgoing);
  AppendIds(to, 4, state.learners_next);
  AppendVarintField(to, 5, state.auto_leave ? 1 : 0);
}

void AppendConfChange(std::string* to, const ConfChange& change) {
  AppendVarintField(to, 1, change.id);
  AppendAlways(to, 2, static_cast<uint64_t>(change.type));
  AppendAlways(to, 3, change.node_id.value());
  AppendData(to, 4, change.context.view());
}

void AppendConfChangeV2(std::string* to, const ConfChangeV2& change) {
  AppendVarintField(to, 1, static_cast<uint64_t>(change.transition));
  for (const ConfChangeSingle& single : change.changes) {
    std::string bytes;
    AppendAlways(&bytes, 1, static_cast<uint64_t>(single.type));
    AppendAlways(&bytes, 2, single.node_id.value());
    AppendBytesField(to, 2, bytes);
  }
  AppendData(to, 3, change.context.view());
}

void AppendSnapshotMeta(std::string* to, const SnapshotMeta& meta) {
  std::string conf_state;
  AppendConfState(&conf_state, meta.conf_state);
  AppendBytesField(to, 1, conf_state);
  AppendVarintField(to, 2, meta.index.value());
  AppendVarintField(to, 3, meta.term.value());
}

void AppendSnapshot(std::string* to, const Snapshot& snapshot) {
  ChainWriter out;
  WriteSnapshot(&out, snapshot, MetaBytes(snapshot.meta));
  to->append(out.Finish().ToString());
}

void AppendMessage(std::string* to, const Message& message) {
  to->append(EncodeMessage(message).ToString());
}

Buffer EncodeEntry(const Entry& entry) {
  MutableBuffer out(EntrySize(entry));
  const size_t size = static_cast<size_t>(PutEntry(out.data(), entry) - out.data());
  return std::move(out).Finish(size);
}

Buffer EncodeConfChange(const ConfChange& change) {
  std::string bytes;
  AppendConfChange(&bytes, change);
  return Buffer::Copy(bytes);
}

Buffer EncodeConfChangeV2(const ConfChangeV2& change) {
  std::string bytes;
  AppendConfChangeV2(&bytes, change);
  return Buffer::Copy(bytes);
}

BufferChain EncodeMessage(const Message& message) {
  ChainWriter out;
  WriteMessage(&out, message);
  return out.Finish();
}

StatusOr<Entry> DecodeEntry(const Buffer& bytes) {
  Entry entry;
  if (!ReadEntry(bytes, &entry)) {
    return Malformed("Entry");
  }
  return entry;
}

StatusOr<HardState> DecodeHardState(std::string_view bytes) {
  HardState state;
  WireReader r(bytes);
  bool ok = true;
  while (ok && r.Next()) {
    switch (r.field()) {
      case 1:
        ok = ReadNumber(r, &state.term);
        break;
      case 2:
        ok = ReadNumber(r, &state.vote);
        break;
      case 3:
        ok = ReadNumber(r, &state.commit);
        break;
      default:
        break;
    }
  }
  if (!ok || !r.ok()) {
    return Malformed("HardState");
  }
  return state;
}

StatusOr<ConfState> DecodeConfState(std::string_view bytes) {
  ConfState state;
  if (!ReadConfState(bytes, &state)) {
    return Malformed("ConfState");
  }
  return state;
}

StatusOr<ConfChange> DecodeConfChange(const Buffer& bytes) {
  ConfChange change;
  WireReader r(bytes.view());
  bool ok = true;
  while (ok && r.Next()) {
    switch (r.field()) {
      case 1:
        ok = ReadNumber(r, &change.id);
        break;
      case 2:
        ok = ReadEnum(r, 3, &change.type);
        break;
      case 3:
        ok = ReadNumber(r, &change.node_id);
        break;
      case 4:
        ok = ReadBytes(r, bytes, &change.context);
        break;
      default:
        break;
    }
  }
  if (!ok || !r.ok()) {
    return Malformed("ConfChange");
  }
  return change;
}

StatusOr<ConfChangeV2> DecodeConfChangeV2(const Buffer& bytes) {
  ConfChangeV2 change;
  WireReader r(bytes.view());
  bool ok = true;
  while (ok && r.Next()) {
    switch (r.field()) {
      case 1:
        ok = ReadEnum(r, 2, &change.transition);
        break;
      case 2:
        ok = IsBytes(r) && ReadSingle(r.bytes(), &change.changes.emplace_back());
        break;
      case 3:
        ok = ReadBytes(r, bytes, &change.context);
        break;
      default:
        break;
    }
  }
  if (!ok || !r.ok()) {
    return Malformed("ConfChangeV2");
  }
  return change;
}

StatusOr<SnapshotMeta> DecodeSnapshotMeta(std::string_view bytes) {
  SnapshotMeta meta;
  if (!ReadMeta(bytes, &meta)) {
    return Malformed("SnapshotMetadata");
  }
  return meta;
}

StatusOr<Snapshot> DecodeSnapshot(const Buffer& bytes) {
  Snapshot snapshot;
  if (!ReadSnapshot(bytes, &snapshot)) {
    return Malformed("Snapshot");
  }
  return snapshot;
}

StatusOr<Message> DecodeMessage(const Buffer& bytes) {
  Message message;
  WireReader r(bytes.view());
  bool ok = true;
  while (ok && r.Next()) {
    ok = ReadMessageField(r, bytes, &message);
  }
  if (!ok || !r.ok()) {
    return Malformed("Message");
  }
  return message;
}

StatusOr<ConfChangeV2> DecodeChangeOf(const Entry& entry) {
  if (entry.type == EntryType::kConfChangeV2) {
    return DecodeConfChangeV2(entry.data);
  }
  MS_ASSIGN_OR_RETURN(ConfChange change, DecodeConfChange(entry.data));
  return ToV2(change);
}

}  // namespace mainstay::raft

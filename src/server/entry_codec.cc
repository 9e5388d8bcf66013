#include "server/entry_codec.h"

#include <cstring>

#include "common/check.h"
#include "common/coding.h"

namespace mainstay::server {
namespace {

constexpr uint32_t kLegacyIdField = 1;
constexpr uint32_t kHeaderField = 100;
constexpr uint32_t kClientAddressField = 20000;
constexpr uint32_t kWallTimeField = 20001;
constexpr uint32_t kProposerField = 20002;
constexpr uint32_t kOwnFieldsFrom = 20000;

size_t HeaderBodySize(const EntryHeader& h) {
  return VarintFieldSize(1, h.id) + BytesFieldSize(2, h.username.size()) +
         VarintFieldSize(3, h.auth_revision);
}

size_t SubmessageSize(uint32_t field, size_t length) {
  return VarintSize(WireTag(field, WireType::kBytes)) + VarintSize(length) + length;
}

char* PutSubmessage(char* to, uint32_t field, std::string_view bytes) {
  to = PutBytesHead(to, field, bytes.size());
  if (!bytes.empty()) {
    std::memcpy(to, bytes.data(), bytes.size());
  }
  return to + bytes.size();
}

void DecodeHeader(std::string_view bytes, EntryHeader* out, bool* ok) {
  WireReader r(bytes);
  while (r.Next()) {
    switch (r.field()) {
      case 1:
        out->id = r.varint();
        break;
      case 2:
        out->username = r.bytes();
        break;
      case 3:
        out->auth_revision = r.varint();
        break;
      default:
        break;
    }
  }
  *ok = *ok && r.ok();
}

char* PutHeader(char* to, const EntryHeader& h) {
  to = PutBytesHead(to, kHeaderField, HeaderBodySize(h));
  to = PutVarintField(to, 1, h.id);
  to = PutBytesField(to, 2, h.username);
  return PutVarintField(to, 3, h.auth_revision);
}

}  // namespace

size_t EncodedEntrySize(const EntryHeader& header, uint32_t kind, std::string_view request) {
  return SubmessageSize(kind, request.size()) +
         SubmessageSize(kHeaderField, HeaderBodySize(header)) +
         BytesFieldSize(kClientAddressField, header.client_address.size()) +
         VarintFieldSize(kWallTimeField, static_cast<uint64_t>(header.wall_time_ns)) +
         VarintFieldSize(kProposerField, header.proposer);
}

Buffer EncodeEntry(const EntryHeader& header, uint32_t kind, std::string_view request) {
  MutableBuffer out(EncodedEntrySize(header, kind, request));
  char* at = out.data();
  // Fields in ascending order, as every protobuf library writes them.
  if (kind < kHeaderField) {
    at = PutSubmessage(at, kind, request);
    at = PutHeader(at, header);
  } else {
    at = PutHeader(at, header);
    at = PutSubmessage(at, kind, request);
  }
  at = PutBytesField(at, kClientAddressField, header.client_address);
  at = PutVarintField(at, kWallTimeField, static_cast<uint64_t>(header.wall_time_ns));
  at = PutVarintField(at, kProposerField, header.proposer);
  const auto size = static_cast<size_t>(at - out.data());
  MS_CHECK_EQ(size, out.size());
  return std::move(out).Finish(size);
}

bool DecodeEntry(std::string_view data, DecodedEntry* out) {
  *out = DecodedEntry{};
  bool ok = true;
  uint64_t legacy_id = 0;
  WireReader r(data);
  while (r.Next()) {
    switch (r.field()) {
      case kLegacyIdField:
        legacy_id = r.varint();
        break;
      case kHeaderField:
        DecodeHeader(r.bytes(), &out->header, &ok);
        break;
      case kClientAddressField:
        out->header.client_address = r.bytes();
        break;
      case kWallTimeField:
        out->header.wall_time_ns = r.i64();
        break;
      case kProposerField:
        out->header.proposer = r.varint();
        break;
      default:
        if (r.type() == WireType::kBytes && r.field() < kOwnFieldsFrom) {
          out->kind = r.field();
          out->request = r.bytes();
        }
        break;
    }
  }
  if (legacy_id != 0) {
    out->header.id = legacy_id;
  }
  return ok && r.ok();
}

uint64_t PeekRequestId(std::string_view data) {
  WireReader r(data);
  while (r.Next()) {
    if (r.field() == kHeaderField) {
      EntryHeader header;
      bool ok = true;
      DecodeHeader(r.bytes(), &header, &ok);
      return ok ? header.id : 0;
    }
    if (r.field() == kLegacyIdField && r.varint() != 0) {
      return r.varint();
    }
  }
  return 0;
}

}  // namespace mainstay::server

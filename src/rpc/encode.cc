#include "rpc/encode.h"

#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/coding.h"
#include "common/limits.h"

namespace mainstay::rpc {
namespace {

constexpr uint32_t kHeaderField = 1;

uint64_t U(int64_t v) {
  return static_cast<uint64_t>(v);
}

char* PutHeader(char* at, const Header& header) {
  at = PutBytesHead(at, kHeaderField, HeaderSize(header));
  at = PutVarintField(at, 1, header.cluster_id);
  at = PutVarintField(at, 2, header.member_id);
  at = PutVarintField(at, 3, U(header.revision));
  return PutVarintField(at, 4, header.raft_term);
}

// As a field 1, present even when empty.
size_t HeaderFieldSize(const Header& header) {
  const size_t size = HeaderSize(header);
  return 1 + VarintSize(size) + size;
}

size_t RecordSize(uint32_t field, const Buffer& record) {
  return VarintSize(WireTag(field, WireType::kBytes)) + VarintSize(record.size()) + record.size();
}

size_t RecordsSize(uint32_t field, const std::vector<Buffer>& records) {
  size_t size = 0;
  for (const Buffer& record : records) {
    size += RecordSize(field, record);
  }
  return size;
}

bool Shared(const Buffer& record) {
  return record.size() >= kReferenceBytesMin;
}

// Writes a message of known size as a chain: small parts into one block, big records by reference.
class Writer {
 public:
  // `size`: of the whole message; `shared`: bytes of it that are referenced.
  Writer(size_t size, size_t shared, BufferArena* arena) : arena_(arena), left_(size - shared) {
    start_ = at_ = arena_->Reserve(left_);
  }

  char* at() { return at_; }
  void set_at(char* at) { at_ = at; }
  void Varint(uint32_t field, uint64_t v) { at_ = PutVarintField(at_, field, v); }
  void Head(uint32_t field, size_t length) { at_ = PutBytesHead(at_, field, length); }
  void PutFullHeader(const Header& header) { at_ = PutHeader(at_, header); }
  void Record(uint32_t field, const Buffer& record) {
    Head(field, record.size());
    if (Shared(record)) {
      Cut();
      chain_.Append(record);
    } else {
      std::memcpy(at_, record.data(), record.size());
      at_ += record.size();
    }
  }
  void Records(uint32_t field, const std::vector<Buffer>& records) {
    for (const Buffer& record : records) {
      Record(field, record);
    }
  }
  BufferChain Finish() && {
    Cut();
    MS_CHECK_EQ(left_, size_t{0});
    return std::move(chain_);
  }

 private:
  // Ends the current block. The next Reserve() continues where this one stopped.
  void Cut() {
    const auto used = static_cast<size_t>(at_ - start_);
    MS_CHECK_LE(used, left_);
    chain_.Append(arena_->Commit(used));
    left_ -= used;
    start_ = at_ = arena_->Reserve(left_);
  }

  BufferArena* const arena_;
  size_t left_;
  char* start_;
  char* at_;
  BufferChain chain_;
};

size_t SharedBytes(const std::vector<Buffer>& records) {
  size_t bytes = 0;
  for (const Buffer& record : records) {
    bytes += Shared(record) ? record.size() : 0;
  }
  return bytes;
}

// ---- bodies without their header
size_t RangeBodySize(const mvcc::RangeResult& r) {
  return RecordsSize(2, r.kvs) + VarintFieldSize(3, r.more) + VarintFieldSize(4, U(r.count));
}
void WriteRangeBody(Writer& w, const mvcc::RangeResult& r) {
  w.Records(2, r.kvs);
  w.Varint(3, r.more);
  w.Varint(4, U(r.count));
}

size_t PutBodySize(const mvcc::PutResult& r) {
  return r.prev_kv.empty() ? 0 : RecordSize(2, r.prev_kv);
}
void WritePutBody(Writer& w, const mvcc::PutResult& r) {
  if (!r.prev_kv.empty()) {
    w.Record(2, r.prev_kv);
  }
}

size_t DeleteBodySize(const mvcc::DeleteResult& r) {
  return VarintFieldSize(2, U(r.deleted)) + RecordsSize(3, r.prev_kvs);
}
void WriteDeleteBody(Writer& w, const mvcc::DeleteResult& r) {
  w.Varint(2, U(r.deleted));
  w.Records(3, r.prev_kvs);
}

// Sizes of a txn's nested messages, in the order in which WriteTxnBody() needs them: computed once,
// bottom up.
class TxnSizes {
 public:
  // Size of everything but the header.
  size_t Body(const mvcc::TxnResult& r) {
    size_t size = VarintFieldSize(2, r.succeeded);
    for (const mvcc::OpResult& op : r.responses) {
      const size_t place = sizes_.size();
      sizes_.push_back(0);
      const size_t inner = std::visit([this](const auto& v) { return Op(v); }, op.result);
      sizes_[place] = inner;
      // ResponseOp{field: inner}, itself field 3 of the TxnResponse.
      const size_t response_op = 1 + VarintSize(inner) + inner;
      size += 1 + VarintSize(response_op) + response_op;
    }
    return size;
  }
  size_t Next() { return sizes_[next_++]; }
  size_t shared() const { return shared_; }

 private:
  static size_t OpHeader(int64_t revision) { return HeaderFieldSize({.revision = revision}); }
  size_t Op(const mvcc::RangeResult& r) {
    shared_ += SharedBytes(r.kvs);
    return OpHeader(r.revision) + RangeBodySize(r);
  }
  size_t Op(const mvcc::PutResult& r) {
    shared_ += Shared(r.prev_kv) ? r.prev_kv.size() : 0;
    return OpHeader(r.revision) + PutBodySize(r);
  }
  size_t Op(const mvcc::DeleteResult& r) {
    shared_ += SharedBytes(r.prev_kvs);
    return OpHeader(r.revision) + DeleteBodySize(r);
  }
  size_t Op(const std::unique_ptr<mvcc::TxnResult>& r) { return HeaderFieldSize({}) + Body(*r); }

  std::vector<size_t> sizes_;
  size_t next_ = 0;
  size_t shared_ = 0;
};

void WriteTxnBody(Writer& w, const mvcc::TxnResult& r, TxnSizes& sizes);

struct OpWriter {
  Writer& w;
  TxnSizes& sizes;
  void operator()(const mvcc::RangeResult& r) const {
    w.PutFullHeader({.revision = r.revision});
    WriteRangeBody(w, r);
  }
  void operator()(const mvcc::PutResult& r) const {
    w.PutFullHeader({.revision = r.revision});
    WritePutBody(w, r);
  }
  void operator()(const mvcc::DeleteResult& r) const {
    w.PutFullHeader({.revision = r.revision});
    WriteDeleteBody(w, r);
  }
  void operator()(const std::unique_ptr<mvcc::TxnResult>& r) const {
    w.PutFullHeader({});
    WriteTxnBody(w, *r, sizes);
  }
};

void WriteTxnBody(Writer& w, const mvcc::TxnResult& r, TxnSizes& sizes) {
  w.Varint(2, r.succeeded);
  for (const mvcc::OpResult& op : r.responses) {
    const size_t inner = sizes.Next();
    w.Head(3, 1 + VarintSize(inner) + inner);
    w.Head(static_cast<uint32_t>(op.result.index()) + 1, inner);
    std::visit(OpWriter{w, sizes}, op.result);
  }
}

}  // namespace

size_t HeaderSize(const Header& header) {
  return VarintFieldSize(1, header.cluster_id) + VarintFieldSize(2, header.member_id) +
         VarintFieldSize(3, U(header.revision)) + VarintFieldSize(4, header.raft_term);
}

BufferChain EncodeHeaderOnly(const Header& header, BufferArena* arena) {
  return BufferChain(EncodeRangeHead(header, arena));
}

BufferChain EncodeRange(const Header& header, const mvcc::RangeResult& result, BufferArena* arena) {
  Writer w(HeaderFieldSize(header) + RangeBodySize(result), SharedBytes(result.kvs), arena);
  w.PutFullHeader(header);
  WriteRangeBody(w, result);
  return std::move(w).Finish();
}

BufferChain EncodePut(const Header& header, const mvcc::PutResult& result, BufferArena* arena) {
  Writer w(HeaderFieldSize(header) + PutBodySize(result),
           Shared(result.prev_kv) ? result.prev_kv.size() : 0, arena);
  w.PutFullHeader(header);
  WritePutBody(w, result);
  return std::move(w).Finish();
}

BufferChain EncodeDelete(const Header& header,
                         const mvcc::DeleteResult& result,
                         BufferArena* arena) {
  Writer w(HeaderFieldSize(header) + DeleteBodySize(result), SharedBytes(result.prev_kvs), arena);
  w.PutFullHeader(header);
  WriteDeleteBody(w, result);
  return std::move(w).Finish();
}

BufferChain EncodeTxn(const Header& header, const mvcc::TxnResult& result, BufferArena* arena) {
  TxnSizes sizes;
  const size_t size = HeaderFieldSize(header) + sizes.Body(result);
  Writer w(size, sizes.shared(), arena);
  w.PutFullHeader(header);
  WriteTxnBody(w, result, sizes);
  return std::move(w).Finish();
}

Buffer EncodeRangeHead(const Header& header, BufferArena* arena) {
  const size_t size = HeaderFieldSize(header);
  PutHeader(arena->Reserve(size), header);
  return arena->Commit(size);
}

Buffer EncodeRangeTail(bool more, int64_t count, BufferArena* arena) {
  const size_t size = VarintFieldSize(3, more) + VarintFieldSize(4, U(count));
  char* at = PutVarintField(arena->Reserve(size), 3, more);
  PutVarintField(at, 4, U(count));
  return arena->Commit(size);
}

BufferChain WrapRangeStream(BufferChain range_response, BufferArena* arena) {
  const size_t length = range_response.size();
  const size_t size = 1 + VarintSize(length);
  PutBytesHead(arena->Reserve(size), 1, length);
  range_response.Prepend(arena->Commit(size));
  return range_response;
}

BufferChain EncodeLease(const Header& header, LeaseId id, int64_t ttl_s, BufferArena* arena) {
  const size_t size =
      HeaderFieldSize(header) + VarintFieldSize(2, U(id.value())) + VarintFieldSize(3, U(ttl_s));
  char* at = PutHeader(arena->Reserve(size), header);
  at = PutVarintField(at, 2, U(id.value()));
  PutVarintField(at, 3, U(ttl_s));
  return BufferChain(arena->Commit(size));
}

}  // namespace mainstay::rpc

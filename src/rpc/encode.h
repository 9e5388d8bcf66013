// Responses of etcdserverpb assembled by hand: a few head bytes of our own and slices of stored
// records. Nothing of a record is parsed; big ones are shared, small ones copied once.
//
// Threads  Pure functions; any. `arena` belongs to the caller's thread.
// Sources  proto/etcdserverpb/rpc.proto; equality with protobuf's own output is a test.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/buffer.h"
#include "common/types.h"
#include "mvcc/request.h"
#include "server/reply.h"

namespace mainstay::rpc {

// etcdserverpb.ResponseHeader.
struct Header {
  uint64_t cluster_id = 0;
  uint64_t member_id = 0;
  int64_t revision = 0;
  uint64_t raft_term = 0;
};

size_t HeaderSize(const Header& header);

// A message that holds nothing but a header as field 1.
BufferChain EncodeHeaderOnly(const Header& header, BufferArena* arena);

BufferChain EncodeRange(const Header& header, const mvcc::RangeResult& result, BufferArena* arena);
BufferChain EncodePut(const Header& header, const mvcc::PutResult& result, BufferArena* arena);
BufferChain EncodeDelete(const Header& header,
                         const mvcc::DeleteResult& result,
                         BufferArena* arena);
// Outer header full, those of operations with the revision only, nested ones present and empty.
BufferChain EncodeTxn(const Header& header, const mvcc::TxnResult& result, BufferArena* arena);

// RangeResponse in two: what stands before the records (field 1) and after them (fields 3, 4), for
// answers that are streamed.
Buffer EncodeRangeHead(const Header& header, BufferArena* arena);
Buffer EncodeRangeTail(bool more, int64_t count, BufferArena* arena);
// RangeStreamResponse around a RangeResponse's bytes.
BufferChain WrapRangeStream(BufferChain range_response, BufferArena* arena);

// LeaseGrantResponse, LeaseKeepAliveResponse: header, ID = 2, TTL = 3.
BufferChain EncodeLease(const Header& header, LeaseId id, int64_t ttl_s, BufferArena* arena);

}  // namespace mainstay::rpc

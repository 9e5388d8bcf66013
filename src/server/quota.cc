#include "server/quota.h"

#include <algorithm>

#include "common/coding.h"

namespace mainstay::server {
namespace {

constexpr uint32_t kPutField = 4;
constexpr uint32_t kTxnField = 6;
constexpr uint32_t kLeaseGrantField = 8;
constexpr uint64_t kPutOverhead = 256;
constexpr uint64_t kLeaseOverhead = 64;
// mvcc::kTxnDepthMax: rpc refuses anything deeper.
constexpr int kDepthMax = 128;

uint64_t PutCost(std::string_view put) {
  uint64_t cost = kPutOverhead;
  WireReader r(put);
  while (r.Next()) {
    if (r.field() == 1 || r.field() == 2) {
      cost += r.bytes().size();
    }
  }
  return cost;
}

uint64_t TxnCost(std::string_view txn, int depth);

// RequestOp: request_put = 2, request_txn = 4.
uint64_t OpCost(std::string_view op, int depth) {
  uint64_t cost = 0;
  WireReader r(op);
  while (r.Next()) {
    if (r.field() == 2) {
      cost = PutCost(r.bytes());
    } else if (r.field() == 4) {
      cost = TxnCost(r.bytes(), depth + 1);
    } else {
      cost = 0;  // a oneof: the last member wins
    }
  }
  return cost;
}

uint64_t TxnCost(std::string_view txn, int depth) {
  if (depth > kDepthMax) {
    return 0;
  }
  uint64_t success = 0;
  uint64_t failure = 0;
  WireReader r(txn);
  while (r.Next()) {
    if (r.field() == 2) {
      success += OpCost(r.bytes(), depth);
    } else if (r.field() == 3) {
      failure += OpCost(r.bytes(), depth);
    }
  }
  return std::max(success, failure);
}

}  // namespace

uint64_t RequestCost(uint32_t kind, std::string_view request) {
  switch (kind) {
    case kPutField:
      return PutCost(request);
    case kTxnField:
      return TxnCost(request, 0);
    case kLeaseGrantField:
      return kLeaseOverhead;
    default:
      return 0;
  }
}

bool RequestOverQuota(int64_t quota, int64_t used, uint32_t kind, std::string_view request) {
  if (quota < 0 || (kind != kPutField && kind != kTxnField && kind != kLeaseGrantField)) {
    return false;
  }
  // Every put inside takes at least two bytes of encoding, so this is never less than the cost.
  const uint64_t dearest = request.size() + kPutOverhead * (request.size() / 2 + 1);
  if (static_cast<uint64_t>(used) + dearest < static_cast<uint64_t>(quota)) {
    return false;
  }
  return OverQuota(quota, used, RequestCost(kind, request));
}

}  // namespace mainstay::server

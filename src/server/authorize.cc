#include "server/authorize.h"

namespace mainstay::server {

Error Authorizer::Check(const Identity& who, std::span<const Operation> operations) const {
  (void)who;
  (void)operations;
  return Error::kOk;
}

void Flatten(const mvcc::RangeRequest& request, std::vector<Operation>* out) {
  out->push_back({Access::kRead, request.key, request.range_end});
}

void Flatten(const mvcc::PutRequest& request, std::vector<Operation>* out) {
  out->push_back({Access::kWrite, request.key, {}});
  if (request.prev_kv) {
    out->push_back({Access::kRead, request.key, {}});
  }
}

void Flatten(const mvcc::DeleteRangeRequest& request, std::vector<Operation>* out) {
  out->push_back({Access::kWrite, request.key, request.range_end});
  if (request.prev_kv) {
    out->push_back({Access::kRead, request.key, request.range_end});
  }
}

namespace {

void FlattenOps(const std::vector<mvcc::Op>& ops, std::vector<Operation>* out) {
  for (const mvcc::Op& op : ops) {
    if (const auto* range = std::get_if<mvcc::RangeRequest>(&op.request)) {
      Flatten(*range, out);
    } else if (const auto* put = std::get_if<mvcc::PutRequest>(&op.request)) {
      Flatten(*put, out);
    } else if (const auto* erase = std::get_if<mvcc::DeleteRangeRequest>(&op.request)) {
      Flatten(*erase, out);
    } else if (const auto* txn = std::get_if<std::unique_ptr<mvcc::TxnRequest>>(&op.request)) {
      Flatten(**txn, out);
    }
  }
}

}  // namespace

void Flatten(const mvcc::TxnRequest& request, std::vector<Operation>* out) {
  for (const mvcc::Compare& compare : request.compare) {
    out->push_back({Access::kRead, compare.key, compare.range_end});
  }
  FlattenOps(request.success, out);
  FlattenOps(request.failure, out);
}

}  // namespace mainstay::server

#include "rpc/read_txn.h"

#include <compare>
#include <utility>

namespace mainstay::rpc {
namespace {

// What a compare reads: every key of its interval, values only where they are compared. Leases are
// not in the index, so they need whole records too.
mvcc::RangeRequest CompareRange(const mvcc::Compare& compare) {
  mvcc::RangeRequest range;
  range.key = compare.key;
  range.range_end = compare.range_end;
  range.keys_only = compare.target != mvcc::CompareTarget::kValue &&
                    compare.target != mvcc::CompareTarget::kLease;
  return range;
}

bool Matches(mvcc::CompareResult wanted, std::strong_ordering found) {
  switch (wanted) {
    case mvcc::CompareResult::kEqual:
      return found == 0;
    case mvcc::CompareResult::kGreater:
      return found > 0;
    case mvcc::CompareResult::kLess:
      return found < 0;
    case mvcc::CompareResult::kNotEqual:
      return found != 0;
  }
  return true;  // as etcd: an unknown operator holds
}

std::strong_ordering Order(const mvcc::Compare& compare, const mvcc::Record& record) {
  switch (compare.target) {
    case mvcc::CompareTarget::kVersion:
      return record.version <=> compare.number;
    case mvcc::CompareTarget::kCreate:
      return record.create_revision <=> compare.number;
    case mvcc::CompareTarget::kMod:
      return record.mod_revision <=> compare.number;
    case mvcc::CompareTarget::kLease:
      return record.lease.value() <=> compare.number;
    case mvcc::CompareTarget::kValue:
      return record.value <=> compare.value;
  }
  return std::strong_ordering::equal;  // as etcd: an unknown target is equal
}

}  // namespace

bool ReadTxn::AnswersWithoutDisk() const {
  for (const mvcc::Compare& compare : request.compare) {
    if (!view.AnswersWithoutDisk(CompareRange(compare))) {
      return false;
    }
  }
  for (const auto* branch : {&request.success, &request.failure}) {
    for (const mvcc::Op& op : *branch) {
      if (!view.AnswersWithoutDisk(std::get<mvcc::RangeRequest>(op.request))) {
        return false;
      }
    }
  }
  return true;
}

bool ReadTxn::Holds(const mvcc::Compare& compare) {
  StatusOr<ErrorOr<mvcc::RangeResult>> found = view.Range(CompareRange(compare));
  if (!found.ok()) {
    status = found.status();
    return false;
  }
  if (!found->ok()) {
    error = found->error();
    return false;
  }
  const std::vector<Buffer>& kvs = (**found).kvs;
  if (kvs.empty()) {
    // A value compare of a missing key fails whatever the operator; all else compares with zero.
    return compare.target != mvcc::CompareTarget::kValue &&
           Matches(compare.result, Order(compare, {}));
  }
  for (const Buffer& kv : kvs) {
    mvcc::Record record;
    if (!mvcc::DecodeRecord(kv.view(), &record)) {
      status = DataLoss("a stored record does not decode");
      return false;
    }
    if (!Matches(compare.result, Order(compare, record))) {
      return false;
    }
  }
  return true;
}

bool ReadTxn::Compares() {
  for (const mvcc::Compare& compare : request.compare) {
    if (!Holds(compare)) {
      return false;
    }
  }
  return true;
}

void ReadTxn::Run() {
  result.revision = view.revision();
  result.succeeded = Compares();
  if (!status.ok() || error != Error::kOk) {
    return;
  }
  for (const mvcc::Op& op : result.succeeded ? request.success : request.failure) {
    const auto& range = std::get<mvcc::RangeRequest>(op.request);
    // Inside a txn a negative revision does not mean "newest" (etcd's rule).
    if (range.revision < 0 && range.revision < view.compact_revision()) {
      error = Error::kCompacted;
      return;
    }
    StatusOr<ErrorOr<mvcc::RangeResult>> found = view.Range(range);
    if (!found.ok()) {
      status = found.status();
      return;
    }
    if (!found->ok()) {
      error = found->error();
      return;
    }
    result.record_bytes += mvcc::BytesOf((**found).kvs);
    if (result.record_bytes > answer_bytes_max) {
      result.responses.clear();  // it will not be sent
      return;
    }
    result.responses.push_back({*std::move(*found)});
  }
}

}  // namespace mainstay::rpc

// Transactions: every compare is judged on the state before the txn, then the operations on the way
// are validated on that same state, and only then does anything change.
#include <algorithm>

#include "common/check.h"
#include "mvcc/store_impl.h"

namespace mainstay::mvcc {

// Which branch each transaction takes, nested ones in the order in which they are met on the way.
struct Store::Impl::Path {
  bool succeeded = false;
  std::vector<std::unique_ptr<Path>> nested;
};

namespace {

template <class T>
bool Judge(CompareResult wanted, const T& a, const T& b) {
  switch (wanted) {
    case CompareResult::kEqual:
      return a == b;
    case CompareResult::kNotEqual:
      return a != b;
    case CompareResult::kGreater:
      return a > b;
    case CompareResult::kLess:
      return a < b;
  }
  return true;  // a number that no version defines: etcd lets it pass
}

}  // namespace

bool Store::Impl::HoldsFor(const Compare& compare, const KeyRecord* record) {
  switch (compare.target) {
    case CompareTarget::kVersion:
      return Judge(compare.result, record != nullptr ? record->newest.version : 0, compare.number);
    case CompareTarget::kCreate:
      return Judge(compare.result, record != nullptr ? record->newest.create : 0, compare.number);
    case CompareTarget::kMod:
      return Judge(compare.result, record != nullptr ? record->newest.mod : 0, compare.number);
    case CompareTarget::kLease:
      return Judge(compare.result, record != nullptr ? record->newest.lease : 0, compare.number);
    case CompareTarget::kValue: {
      if (record == nullptr) {
        return false;
      }
      const Buffer bytes = Record(record->key(), record->newest);
      mvcc::Record fields;
      MS_CHECK(DecodeRecord(bytes.view(), &fields));
      return Judge(compare.result, fields.value, compare.value);
    }
  }
  return Judge<int64_t>(compare.result, 0, 0);  // an unknown target compares as equal
}

bool Store::Impl::Holds(const Compare& compare) {
  const std::vector<const KeyRecord*> records = LiveRecords({compare.key, compare.range_end});
  if (records.empty()) {
    return HoldsFor(compare, nullptr);
  }
  return std::all_of(records.begin(), records.end(),
                     [&](const KeyRecord* r) { return HoldsFor(compare, r); });
}

bool Store::Impl::Evaluate(const TxnRequest& request, Path* path) {
  path->succeeded = std::all_of(request.compare.begin(), request.compare.end(),
                                [&](const Compare& c) { return Holds(c); });
  for (const Op& op : path->succeeded ? request.success : request.failure) {
    if (const auto* txn = std::get_if<std::unique_ptr<TxnRequest>>(&op.request)) {
      path->nested.push_back(std::make_unique<Path>());
      Evaluate(**txn, path->nested.back().get());
    }
  }
  return path->succeeded;
}

Error Store::Impl::Validate(const TxnRequest& request,
                            const Path& path,
                            const WriteContext& context) {
  size_t nested = 0;
  for (const Op& op : path.succeeded ? request.success : request.failure) {
    if (const auto* range = std::get_if<RangeRequest>(&op.request)) {
      if (range->revision == 0) {
        continue;
      }
      if (range->revision > revision) {
        return Error::kFutureRev;
      }
      if (range->revision < compact_revision) {
        return Error::kCompacted;
      }
    } else if (const auto* put = std::get_if<PutRequest>(&op.request)) {
      if (put->lease.value() != 0 && !context.leases.Exists(put->lease)) {
        return Error::kLeaseNotFound;
      }
      if (put->ignore_value || put->ignore_lease) {
        const KeyRecord* old = FindKey(tree.root(), put->key);
        if (old == nullptr || !old->live()) {
          return Error::kKeyNotFound;
        }
      }
    } else if (const auto* txn = std::get_if<std::unique_ptr<TxnRequest>>(&op.request)) {
      if (const Error error = Validate(**txn, *path.nested[nested++], context);
          error != Error::kOk) {
        return error;
      }
    }
  }
  return Error::kOk;
}

RangeResult Store::Impl::RangeIn(const Txn& txn, const RangeRequest& request) {
  ++counts.ranges;
  Version_ version;  // the state including the running batch; never published
  version.shared = shared;
  version.root = tree.root();
  version.revision = Seen(txn);
  version.compact_revision = compact_revision;
  const RecordReader read = [this](std::string_view key, const VersionInfo& v) -> StatusOr<Buffer> {
    return Record(key, v);
  };
  StatusOr<Selection> selection = Select(version, request, read);
  MS_CHECK_MSG(selection.ok(), selection.status().ToString());
  RangeResult out;
  out.count = selection->count;
  out.more = selection->more;
  out.revision = version.revision;
  for (const Selection::Item& item : selection->items) {
    out.kvs.push_back(request.keys_only ? WithoutValue(item, request)
                                        : Record(item.key->key(), *item.version));
  }
  return out;
}

void Store::Impl::Execute(
    Txn* txn, const TxnRequest& request, const Path& path, WriteContext& context, TxnResult* out) {
  out->succeeded = path.succeeded;
  size_t nested = 0;
  for (const Op& op : path.succeeded ? request.success : request.failure) {
    OpResult& result = out->responses.emplace_back();
    if (const auto* range = std::get_if<RangeRequest>(&op.request)) {
      result.result = RangeOfTxn(txn, *range);
    } else if (const auto* put = std::get_if<PutRequest>(&op.request)) {
      ErrorOr<PutResult> done = PutIn(txn, *put, context);
      MS_CHECK(done.ok());  // validated
      result.result = *std::move(done);
    } else if (const auto* remove = std::get_if<DeleteRangeRequest>(&op.request)) {
      DeleteResult done = DeleteRangeIn(txn, *remove, context);
      txn->record_bytes += BytesOf(done.prev_kvs);
      result.result = std::move(done);
    } else if (const auto* inner = std::get_if<std::unique_ptr<TxnRequest>>(&op.request)) {
      auto below = std::make_unique<TxnResult>();
      Execute(txn, **inner, *path.nested[nested++], context, below.get());
      result.result = std::move(below);
    }
  }
}

// A txn may name the whole store a hundred times. Its answer is refused above a limit, so what goes
// beyond need not be read either.
RangeResult Store::Impl::RangeOfTxn(Txn* txn, const RangeRequest& request) {
  RangeRequest range = request;
  range.count_only = range.count_only || txn->record_bytes > options.txn_answer_bytes_max;
  RangeResult found = RangeIn(*txn, range);
  txn->record_bytes += BytesOf(found.kvs);
  return found;
}

ErrorOr<TxnResult> Store::Txn(const TxnRequest& request, WriteContext& context) {
  Impl::Path path;
  impl_->Evaluate(request, &path);
  if (const Error error = impl_->Validate(request, path, context); error != Error::kOk) {
    return error;
  }
  Impl::Txn txn;
  TxnResult out;
  impl_->Execute(&txn, request, path, context, &out);
  impl_->Finish(&txn);
  out.revision = impl_->revision;
  out.record_bytes = txn.record_bytes;
  return out;
}

}  // namespace mainstay::mvcc

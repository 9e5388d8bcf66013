#include "mvcc/request.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/coding.h"

namespace mainstay::mvcc {
namespace {

bool DecodeOps(std::string_view wire, int depth, std::vector<Op>* out);

bool DecodeCompare(std::string_view wire, Compare* out) {
  CompareTarget held = CompareTarget::kVersion;  // which member of the union came last
  int64_t number = 0;
  std::string_view value;
  WireReader r(wire);
  while (r.Next()) {
    switch (r.field()) {
      case 1:
        out->result = static_cast<CompareResult>(r.varint());
        break;
      case 2:
        out->target = static_cast<CompareTarget>(r.varint());
        break;
      case 3:
        out->key = r.bytes();
        break;
      case 4:
      case 5:
      case 6:
        held = static_cast<CompareTarget>(r.field() - 4);
        number = r.i64();
        break;
      case 7:
        held = CompareTarget::kValue;
        value = r.bytes();
        break;
      case 8:
        held = CompareTarget::kLease;
        number = r.i64();
        break;
      case 64:
        out->range_end = r.bytes();
        break;
      default:
        break;
    }
  }
  // An operand of another target counts as zero, as an absent one does.
  if (held == out->target) {
    out->number = held == CompareTarget::kValue ? 0 : number;
    out->value = held == CompareTarget::kValue ? value : std::string_view();
  }
  return r.ok();
}

bool DecodeTxnAt(std::string_view wire, int depth, TxnRequest* out) {
  if (depth > kTxnDepthMax) {
    out->too_deep = true;
    return true;
  }
  WireReader r(wire);
  while (r.Next()) {
    if (r.field() == 1) {
      if (!DecodeCompare(r.bytes(), &out->compare.emplace_back())) {
        return false;
      }
    } else if (r.field() == 2 || r.field() == 3) {
      if (!DecodeOps(r.bytes(), depth, r.field() == 2 ? &out->success : &out->failure)) {
        return false;
      }
    }
  }
  return r.ok();
}

// One RequestOp, appended.
bool DecodeOps(std::string_view wire, int depth, std::vector<Op>* out) {
  Op& op = out->emplace_back();
  WireReader r(wire);
  while (r.Next()) {
    bool ok = true;
    switch (r.field()) {
      case 1:
        ok = DecodeRange(r.bytes(), &op.request.emplace<RangeRequest>());
        break;
      case 2:
        ok = DecodePut(r.bytes(), &op.request.emplace<PutRequest>());
        break;
      case 3:
        ok = DecodeDeleteRange(r.bytes(), &op.request.emplace<DeleteRangeRequest>());
        break;
      case 4: {
        auto nested = std::make_unique<TxnRequest>();
        ok = DecodeTxnAt(r.bytes(), depth + 1, nested.get());
        op.request = std::move(nested);
        break;
      }
      default:
        break;
    }
    if (!ok) {
      return false;
    }
  }
  return r.ok();
}

}  // namespace

bool DecodeRange(std::string_view wire, RangeRequest* out) {
  WireReader r(wire);
  while (r.Next()) {
    switch (r.field()) {
      case 1:
        out->key = r.bytes();
        break;
      case 2:
        out->range_end = r.bytes();
        break;
      case 3:
        out->limit = r.i64();
        break;
      case 4:
        out->revision = r.i64();
        break;
      case 5:
        out->sort_order = static_cast<SortOrder>(r.varint());
        break;
      case 6:
        out->sort_target = static_cast<SortTarget>(r.varint());
        break;
      case 7:
        out->serializable = r.varint() != 0;
        break;
      case 8:
        out->keys_only = r.varint() != 0;
        break;
      case 9:
        out->count_only = r.varint() != 0;
        break;
      case 10:
        out->min_mod_revision = r.i64();
        break;
      case 11:
        out->max_mod_revision = r.i64();
        break;
      case 12:
        out->min_create_revision = r.i64();
        break;
      case 13:
        out->max_create_revision = r.i64();
        break;
      default:
        break;
    }
  }
  return r.ok();
}

bool DecodePut(std::string_view wire, PutRequest* out) {
  WireReader r(wire);
  while (r.Next()) {
    switch (r.field()) {
      case 1:
        out->key = r.bytes();
        break;
      case 2:
        out->value = r.bytes();
        break;
      case 3:
        out->lease = LeaseId(r.i64());
        break;
      case 4:
        out->prev_kv = r.varint() != 0;
        break;
      case 5:
        out->ignore_value = r.varint() != 0;
        break;
      case 6:
        out->ignore_lease = r.varint() != 0;
        break;
      default:
        break;
    }
  }
  return r.ok();
}

bool DecodeDeleteRange(std::string_view wire, DeleteRangeRequest* out) {
  WireReader r(wire);
  while (r.Next()) {
    switch (r.field()) {
      case 1:
        out->key = r.bytes();
        break;
      case 2:
        out->range_end = r.bytes();
        break;
      case 3:
        out->prev_kv = r.varint() != 0;
        break;
      default:
        break;
    }
  }
  return r.ok();
}

bool DecodeTxn(std::string_view wire, TxnRequest* out) {
  return DecodeTxnAt(wire, 0, out);
}

bool DecodeCompaction(std::string_view wire, CompactionRequest* out) {
  WireReader r(wire);
  while (r.Next()) {
    if (r.field() == 1) {
      out->revision = r.i64();
    } else if (r.field() == 2) {
      out->physical = r.varint() != 0;
    }
  }
  return r.ok();
}

uint64_t BytesOf(const std::vector<Buffer>& records) {
  uint64_t bytes = 0;
  for (const Buffer& record : records) {
    bytes += record.size();
  }
  return bytes;
}

Error CheckRange(const RangeRequest& request) {
  if (request.key.empty()) {
    return Error::kEmptyKey;
  }
  const auto order = static_cast<uint32_t>(request.sort_order);
  const auto target = static_cast<uint32_t>(request.sort_target);
  return order > 2 || target > 4 ? Error::kInvalidSortOption : Error::kOk;
}

Error CheckPut(const PutRequest& request) {
  if (request.key.empty()) {
    return Error::kEmptyKey;
  }
  if (request.ignore_value && !request.value.empty()) {
    return Error::kValueProvided;
  }
  return request.ignore_lease && request.lease.value() != 0 ? Error::kLeaseProvided : Error::kOk;
}

Error CheckDeleteRange(const DeleteRangeRequest& request) {
  return request.key.empty() ? Error::kEmptyKey : Error::kOk;
}

namespace {

Error CheckOps(const TxnRequest& request, size_t ops_max);

Error CheckOp(const Op& op, size_t ops_max) {
  if (const auto* range = std::get_if<RangeRequest>(&op.request)) {
    return CheckRange(*range);
  }
  if (const auto* put = std::get_if<PutRequest>(&op.request)) {
    return CheckPut(*put);
  }
  if (const auto* remove = std::get_if<DeleteRangeRequest>(&op.request)) {
    return CheckDeleteRange(*remove);
  }
  if (const auto* txn = std::get_if<std::unique_ptr<TxnRequest>>(&op.request)) {
    return CheckOps(**txn, ops_max);
  }
  return Error::kKeyNotFound;
}

Error CheckOps(const TxnRequest& request, size_t ops_max) {
  const size_t ops =
      std::max({request.compare.size(), request.success.size(), request.failure.size()});
  if (ops > ops_max || request.too_deep) {
    return Error::kTooManyOps;
  }
  for (const Compare& compare : request.compare) {
    if (compare.key.empty()) {
      return Error::kEmptyKey;
    }
  }
  for (const std::vector<Op>* list : {&request.success, &request.failure}) {
    for (const Op& op : *list) {
      if (const Error error = CheckOp(op, ops_max - ops); error != Error::kOk) {
        return error;
      }
    }
  }
  return Error::kOk;
}

// What a list of operations puts and deletes. Deletes are taken literally: "\0" as an end is the
// one-byte key, so an open-ended delete is an empty interval here, as in etcd 3.7.1.
//
// A request of 1.5 MiB holds a hundred thousand operations, nested as deep as its author likes, and
// is checked on a loop: look-ups are logarithmic, and of two sets the smaller one is walked.
class Touched {
 public:
  void AddDelete(const DeleteRangeRequest& remove) {
    if (remove.range_end.empty() || remove.key < remove.range_end) {
      AddDelete(Gap{remove.key, remove.range_end, remove.range_end.empty()});
    }
  }
  // False if the key is put or deleted already.
  bool AddPut(std::string_view key) { return !Deletes(key) && puts_.insert(key).second; }
  // True if a key that `other` puts is put or deleted here.
  bool CollidesWithPutsOf(const Touched& other) const {
    const bool few = other.puts_.size() <= puts_.size();
    for (const std::string_view key : few ? other.puts_ : puts_) {
      if ((few ? puts_ : other.puts_).contains(key)) {
        return true;
      }
    }
    if (other.puts_.size() <= deletes_.size()) {
      return std::any_of(other.puts_.begin(), other.puts_.end(),
                         [this](std::string_view key) { return Deletes(key); });
    }
    return std::any_of(deletes_.begin(), deletes_.end(), [&other](const auto& gap) {
      const auto put = other.puts_.lower_bound(gap.first);
      return put != other.puts_.end() && gap.second.Holds(*put);
    });
  }
  void Take(Touched other) {
    if (other.puts_.size() > puts_.size()) {
      puts_.swap(other.puts_);
    }
    puts_.merge(other.puts_);
    if (other.deletes_.size() > deletes_.size()) {
      deletes_.swap(other.deletes_);
    }
    for (const auto& [key, gap] : other.deletes_) {
      AddDelete(gap);
    }
  }

 private:
  struct Gap {
    std::string_view key, end;
    bool single = false;
    bool Holds(std::string_view k) const { return single ? k == key : key <= k && k < end; }
    // Does not end before `other`, which begins at our key or behind it, does.
    bool Covers(const Gap& other) const {
      return single ? other.single && other.key == key
                    : (other.single ? other.key < end : other.end <= end);
    }
  };

  bool Deletes(std::string_view key) const {
    auto after = deletes_.upper_bound(key);
    return after != deletes_.begin() && std::prev(after)->second.Holds(key);
  }
  // Keeps gaps that no other one covers: then the last one that begins at or before a key is the
  // one that reaches farthest.
  void AddDelete(const Gap& gap) {
    auto at = deletes_.upper_bound(gap.key);
    if (at != deletes_.begin() && std::prev(at)->second.Covers(gap)) {
      return;
    }
    if (at != deletes_.begin() && std::prev(at)->first == gap.key) {
      --at;
    }
    while (at != deletes_.end() && gap.Covers(at->second)) {
      at = deletes_.erase(at);
    }
    deletes_.insert_or_assign(gap.key, gap);
  }

  std::set<std::string_view> puts_;
  std::map<std::string_view, Gap> deletes_;  // by key; no gap covers another
};

Error CheckDuplicates(const std::vector<Op>& ops, Touched* touched) {
  for (const Op& op : ops) {
    if (const auto* remove = std::get_if<DeleteRangeRequest>(&op.request)) {
      touched->AddDelete(*remove);
    }
  }
  // Nested transactions see the direct deletes of this list and the nested deletes before them.
  for (const Op& op : ops) {
    const auto* txn = std::get_if<std::unique_ptr<TxnRequest>>(&op.request);
    if (txn == nullptr) {
      continue;
    }
    Touched branches[2];
    for (int b = 0; b < 2; ++b) {
      if (const Error error =
              CheckDuplicates(b == 0 ? (*txn)->success : (*txn)->failure, &branches[b]);
          error != Error::kOk) {
        return error;
      }
      if (touched->CollidesWithPutsOf(branches[b])) {
        return Error::kDuplicateKey;
      }
    }
    for (Touched& branch : branches) {
      touched->Take(std::move(branch));
    }
  }
  for (const Op& op : ops) {
    if (const auto* put = std::get_if<PutRequest>(&op.request)) {
      if (!touched->AddPut(put->key)) {
        return Error::kDuplicateKey;
      }
    }
  }
  return Error::kOk;
}

}  // namespace

Error CheckTxn(const TxnRequest& request, size_t ops_max) {
  if (const Error error = CheckOps(request, ops_max); error != Error::kOk) {
    return error;
  }
  for (const std::vector<Op>* list : {&request.success, &request.failure}) {
    Touched touched;
    if (const Error error = CheckDuplicates(*list, &touched); error != Error::kOk) {
      return error;
    }
  }
  return Error::kOk;
}

bool IsReadOnly(const TxnRequest& request) {
  for (const std::vector<Op>* list : {&request.success, &request.failure}) {
    for (const Op& op : *list) {
      if (!std::holds_alternative<RangeRequest>(op.request)) {
        return false;
      }
    }
  }
  return true;
}

bool IsSerializable(const TxnRequest& request) {
  for (const std::vector<Op>* list : {&request.success, &request.failure}) {
    for (const Op& op : *list) {
      const auto* range = std::get_if<RangeRequest>(&op.request);
      if (range == nullptr || !range->serializable) {
        return false;
      }
    }
  }
  return true;
}

bool DecodeRecord(std::string_view wire, Record* out) {
  WireReader r(wire);
  while (r.Next()) {
    switch (r.field()) {
      case 1:
        out->key = r.bytes();
        break;
      case 2:
        out->create_revision = r.i64();
        break;
      case 3:
        out->mod_revision = r.i64();
        break;
      case 4:
        out->version = r.i64();
        break;
      case 5:
        out->value = r.bytes();
        break;
      case 6:
        out->lease = LeaseId(r.i64());
        break;
      default:
        break;
    }
  }
  return r.ok();
}

size_t EncodedSize(const Record& record) {
  return BytesFieldSize(1, record.key.size()) +
         VarintFieldSize(2, static_cast<uint64_t>(record.create_revision)) +
         VarintFieldSize(3, static_cast<uint64_t>(record.mod_revision)) +
         VarintFieldSize(4, static_cast<uint64_t>(record.version)) +
         BytesFieldSize(5, record.value.size()) +
         VarintFieldSize(6, static_cast<uint64_t>(record.lease.value()));
}

char* EncodeRecord(const Record& record, char* to) {
  to = PutBytesField(to, 1, record.key);
  to = PutVarintField(to, 2, static_cast<uint64_t>(record.create_revision));
  to = PutVarintField(to, 3, static_cast<uint64_t>(record.mod_revision));
  to = PutVarintField(to, 4, static_cast<uint64_t>(record.version));
  to = PutBytesField(to, 5, record.value);
  return PutVarintField(to, 6, static_cast<uint64_t>(record.lease.value()));
}

}  // namespace mainstay::mvcc

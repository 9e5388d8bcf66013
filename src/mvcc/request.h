// The requests and results of the store as plain structs. Requests are views into the bytes of a
// client's message or a log entry, which must outlive them; decoding copies nothing.
//
// Sources  etcdserverpb.{RangeRequest, PutRequest, DeleteRangeRequest, TxnRequest} for the fields.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "common/buffer.h"
#include "common/error.h"
#include "common/types.h"

namespace mainstay::mvcc {

enum class SortOrder : int32_t { kNone = 0, kAscend = 1, kDescend = 2 };
enum class SortTarget : int32_t { kKey = 0, kVersion = 1, kCreate = 2, kMod = 3, kValue = 4 };

struct RangeRequest {
  std::string_view key = {}, range_end = {};
  int64_t limit = 0;
  int64_t revision = 0;
  SortOrder sort_order =
      SortOrder::kNone;  // any number may come from the wire; CheckRange() refuses unknown ones
  SortTarget sort_target = SortTarget::kKey;
  bool serializable = false, keys_only = false, count_only = false;
  int64_t min_mod_revision = 0, max_mod_revision = 0, min_create_revision = 0,
          max_create_revision = 0;
  bool has_filters() const {
    return min_mod_revision != 0 || max_mod_revision != 0 || min_create_revision != 0 ||
           max_create_revision != 0;
  }
  // True if more than index order is asked for.
  bool sorts() const {
    return sort_order == SortOrder::kDescend ||
           (sort_order == SortOrder::kAscend && sort_target != SortTarget::kKey);
  }
};

struct PutRequest {
  std::string_view key = {}, value = {};
  LeaseId lease = {};
  bool prev_kv = false, ignore_value = false, ignore_lease = false;
};

struct DeleteRangeRequest {
  std::string_view key = {}, range_end = {};
  bool prev_kv = false;
};

enum class CompareResult : int32_t { kEqual = 0, kGreater = 1, kLess = 2, kNotEqual = 3 };
enum class CompareTarget : int32_t { kVersion = 0, kCreate = 1, kMod = 2, kValue = 3, kLease = 4 };

struct Compare {
  CompareResult result = CompareResult::kEqual;
  CompareTarget target = CompareTarget::kVersion;
  std::string_view key = {}, range_end = {};
  int64_t number = 0;           // operand of the target when the union holds that target; else 0
  std::string_view value = {};  // operand of kValue; else empty
};

struct TxnRequest;
struct Op {
  // monostate: a request without content, which etcd answers with "key not found".
  std::variant<std::monostate,
               RangeRequest,
               PutRequest,
               DeleteRangeRequest,
               std::unique_ptr<TxnRequest>>
      request;
};
struct TxnRequest {
  std::vector<Compare> compare;
  std::vector<Op> success, failure;
  bool too_deep = false;  // nested beyond kTxnDepthMax, hence not read
};

struct CompactionRequest {
  int64_t revision = 0;
  bool physical = false;
};

// As deep as etcd's default of 128 operations lets a txn nest: each level costs one at least.
inline constexpr int kTxnDepthMax = 128;
// False: malformed bytes.
bool DecodeRange(std::string_view wire, RangeRequest* out);
bool DecodePut(std::string_view wire, PutRequest* out);
bool DecodeDeleteRange(std::string_view wire, DeleteRangeRequest* out);
bool DecodeTxn(std::string_view wire, TxnRequest* out);
bool DecodeCompaction(std::string_view wire, CompactionRequest* out);

// etcd's checks before a request is taken (grpc-api 2.1 to 2.5), in its order. kOk, or what the
// client is told.
Error CheckRange(const RangeRequest& request);
Error CheckPut(const PutRequest& request);
Error CheckDeleteRange(const DeleteRangeRequest& request);
// Operation limit and depth, every operation, then duplicates and overlaps; etcd's open-ended
// deletes do not collide with puts.
Error CheckTxn(const TxnRequest& request, size_t ops_max);

// True if the txn writes nothing whatever happens: every operation of both lists is a range.
bool IsReadOnly(const TxnRequest& request);
// True if also every range of both lists is serializable.
bool IsSerializable(const TxnRequest& request);

// etcd's intervals: range_end empty = the one key, "\0" = all from key.
struct KeyRange {
  std::string_view key, end;
  bool single() const { return end.empty(); }
  bool open_ended() const { return end.size() == 1 && end[0] == '\0'; }
};

// ---- results
// -----------------------------------------------------------------------------------------------------
struct RangeResult {
  std::vector<Buffer> kvs;  // encoded mvccpb.KeyValue each
  bool more = false;
  int64_t count = 0;
  int64_t revision = 0;  // for the header
};
struct PutResult {
  int64_t revision = 0;
  Buffer prev_kv;  // empty: none
};
struct DeleteResult {
  int64_t revision = 0;
  int64_t deleted = 0;
  std::vector<Buffer> prev_kvs;
};
uint64_t BytesOf(const std::vector<Buffer>& records);
struct TxnResult;
struct OpResult {
  std::variant<RangeResult, PutResult, DeleteResult, std::unique_ptr<TxnResult>> result;
};
struct TxnResult {
  int64_t revision = 0;  // of the outer txn; nested headers are all zero
  bool succeeded = false;
  std::vector<OpResult> responses;
  // What the ranges and deletes of the whole txn found, at least: ranges only count once it is
  // above Store::Options::txn_answer_bytes_max.
  uint64_t record_bytes = 0;
};

// ---- records
// -----------------------------------------------------------------------------------------------------
// The fields of an encoded mvccpb.KeyValue.
struct Record {
  std::string_view key = {}, value = {};
  int64_t create_revision = 0, mod_revision = 0, version = 0;
  LeaseId lease = {};
};
bool DecodeRecord(std::string_view wire, Record* out);
size_t EncodedSize(const Record& record);
// Writes EncodedSize() bytes: byte for byte what etcd stores. Returns the end.
char* EncodeRecord(const Record& record, char* to);

}  // namespace mainstay::mvcc

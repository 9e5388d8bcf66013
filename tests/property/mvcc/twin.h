// A naive twin of mvcc::Store: every version of every key in a map, every question answered by a
// scan. Written from etcd's rules, not from the store's code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvcc/request.h"

namespace mainstay::mvcc {

struct TwinKv {
  std::string key, value;
  int64_t create = 0, mod = 0, version = 0, lease = 0;
  friend bool operator==(const TwinKv&, const TwinKv&) = default;
};

struct TwinRow {
  int64_t main = 0, sub = 0;
  bool tombstone = false;
  TwinKv kv;
};

struct TwinRange {
  std::vector<TwinKv> kvs;
  int64_t count = 0;
  bool more = false;
};

struct TwinTxn {
  bool succeeded = false;
  // One line for each operation, nested ones in brackets; comparable with Describe() of the store's
  // result.
  std::string text;
};

class Twin {
 public:
  // Each returns nothing where the store must answer an error.
  std::optional<std::string> Put(const PutRequest& request);
  std::string DeleteRange(const DeleteRangeRequest& request);
  std::optional<TwinTxn> Txn(const TxnRequest& request);
  void DeleteKeys(const std::vector<std::string>& keys);
  bool Compact(int64_t revision);

  int64_t revision() const { return revision_; }
  int64_t compacted() const { return compacted_; }
  std::optional<TwinRange> Range(const RangeRequest& request) const;
  // Rows in revision order that etcd would have in its `key` bucket after all compactions are done.
  std::vector<TwinRow> Rows() const;
  std::vector<TwinRow> RowsAt(int64_t main) const;
  std::optional<TwinKv> Get(const std::string& key, int64_t at) const;
  // What the change at this row replaced, if it was alive.
  std::optional<TwinKv> Before(const TwinRow& row) const;
  uint32_t Hash(int64_t at) const;
  int64_t LogicalBytes() const;
  std::vector<std::pair<std::string, int64_t>> LeasedKeys() const;
  bool LeaseExists(int64_t id) const { return id == 7 || id == 8; }

 private:
  struct Writing {
    int64_t main = 0;
    int64_t sub = 0;
  };
  TwinRange RangeAt(const RangeRequest& request, int64_t at) const;
  std::optional<TwinKv> Live(const std::string& key) const { return Get(key, revision_ + 1); }
  std::vector<TwinKv> LiveIn(KeyRange range, int64_t at) const;
  bool Holds(const Compare& compare) const;
  void Choose(const TxnRequest& request, std::vector<bool>* path) const;
  bool Allowed(const TxnRequest& request, const std::vector<bool>& path, size_t* at) const;
  std::string Run(const TxnRequest& request, const std::vector<bool>& path, size_t* at, Writing* w);
  std::string PutIn(const PutRequest& request, Writing* w);
  std::string DeleteIn(const DeleteRangeRequest& request, Writing* w);
  void Finish(const Writing& w) { revision_ += w.main != 0 ? 1 : 0; }

  std::map<std::string, std::vector<TwinRow>> keys_;  // oldest first
  int64_t revision_ = 1;
  int64_t compacted_ = -1;
};

std::string Describe(const TwinKv& kv);
std::string Describe(const TwinRange& range);
std::string EncodeTwin(const TwinKv& kv, bool tombstone);
std::string RevisionBytes(int64_t main, int64_t sub, bool tombstone);

}  // namespace mainstay::mvcc

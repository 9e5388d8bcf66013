// Goal: what a txn may hold is decided as etcd 3.7.1 decides it, at a cost that no request can
// drive up. Method: seeded txns against a naive twin; the largest request that a client may send.
#include "mvcc/request.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

#include "common/coding.h"

namespace mainstay::mvcc {
namespace {

Op PutOf(std::string_view key) {
  Op op;
  op.request.emplace<PutRequest>().key = key;
  return op;
}
Op DeleteOf(std::string_view key, std::string_view end = "") {
  Op op;
  DeleteRangeRequest& remove = op.request.emplace<DeleteRangeRequest>();
  remove.key = key;
  remove.range_end = end;
  return op;
}
Op TxnOf(TxnRequest txn) {
  Op op;
  op.request = std::make_unique<TxnRequest>(std::move(txn));
  return op;
}

// The rule, key by key: every put against every other put and every delete.
struct Twin {
  std::set<std::string_view> puts;
  std::vector<const DeleteRangeRequest*> deletes;

  bool Deletes(std::string_view key) const {
    for (const DeleteRangeRequest* d : deletes) {
      if (d->range_end.empty() ? d->key == key : d->key <= key && key < d->range_end) {
        return true;
      }
    }
    return false;
  }
  bool Collides(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      if (const auto* remove = std::get_if<DeleteRangeRequest>(&op.request)) {
        deletes.push_back(remove);
      }
    }
    for (const Op& op : ops) {
      const auto* txn = std::get_if<std::unique_ptr<TxnRequest>>(&op.request);
      if (txn == nullptr) {
        continue;
      }
      Twin branches[2];
      if (branches[0].Collides((*txn)->success) || branches[1].Collides((*txn)->failure)) {
        return true;
      }
      for (const Twin& branch : branches) {
        for (const std::string_view key : branch.puts) {
          if (puts.contains(key) || Deletes(key)) {
            return true;
          }
        }
      }
      for (const Twin& branch : branches) {
        puts.insert(branch.puts.begin(), branch.puts.end());
        deletes.insert(deletes.end(), branch.deletes.begin(), branch.deletes.end());
      }
    }
    for (const Op& op : ops) {
      const auto* put = std::get_if<PutRequest>(&op.request);
      if (put != nullptr && (Deletes(put->key) || !puts.insert(put->key).second)) {
        return true;
      }
    }
    return false;
  }
};

class RandomTxns {
 public:
  explicit RandomTxns(uint64_t seed) : random_(seed) {
    for (char c = 'a'; c <= 'z'; ++c) {
      keys_.emplace_back(1, c);
    }
  }
  std::vector<Op> Ops(int depth) {
    std::vector<Op> out;
    for (uint64_t n = Below(4); n > 0; --n) {
      const uint64_t kind = Below(depth > 0 ? 5 : 3);
      if (kind == 0) {
        out.push_back(PutOf(Key()));
      } else if (kind == 1) {
        out.push_back(DeleteOf(Key()));
      } else if (kind == 2) {
        out.push_back(DeleteOf(Key(), Below(8) == 0 ? std::string_view("\0", 1) : Key()));
      } else {
        TxnRequest txn;
        txn.success = Ops(depth - 1);
        txn.failure = Ops(depth - 1);
        out.push_back(TxnOf(std::move(txn)));
      }
    }
    return out;
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  std::string_view Key() { return keys_[Below(keys_.size())]; }
  std::mt19937_64 random_;
  std::vector<std::string> keys_;
};

TEST(CheckTxnTest, CollisionsAreFoundAsByTheTwin) {
  int collisions = 0;
  constexpr int kRuns = 20'000;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    RandomTxns random(seed);
    TxnRequest txn;
    txn.success = random.Ops(3);
    Twin twin;
    const bool expected = twin.Collides(txn.success);
    collisions += expected ? 1 : 0;
    ASSERT_EQ(CheckTxn(txn, 128), expected ? Error::kDuplicateKey : Error::kOk) << "seed " << seed;
  }
  EXPECT_GT(collisions, kRuns / 20);
  EXPECT_LT(collisions, kRuns - kRuns / 20);
}

// 60,000 puts beside 60,000 deletes, and 60,000 puts below 100 levels: about what 1.5 MiB hold. A
// check that compares all pairs would take minutes of a loop's time.
TEST(CheckTxnTest, TheLargestRequestIsCheckedQuickly) {
  std::deque<std::string> keys;
  const auto wide = [&keys](char first, const auto& op) {
    TxnRequest out;
    for (int i = 0; i < 120; ++i) {
      TxnRequest middle;
      for (int j = 0; j < 5; ++j) {
        TxnRequest inner;
        for (int k = 0; k < 100; ++k) {
          keys.push_back(first + std::to_string(keys.size()));
          inner.success.push_back(op(keys.back()));
        }
        middle.success.push_back(TxnOf(std::move(inner)));
      }
      out.success.push_back(TxnOf(std::move(middle)));
    }
    return out;
  };
  TxnRequest txn;
  txn.success.push_back(TxnOf(wide('d', [](std::string_view k) { return DeleteOf(k); })));
  txn.success.push_back(TxnOf(wide('p', PutOf)));
  EXPECT_EQ(CheckTxn(txn, 1000), Error::kOk);

  TxnRequest deep = wide('q', PutOf);
  for (int i = 0; i < 100; ++i) {
    TxnRequest outer;
    outer.success.push_back(TxnOf(std::move(deep)));
    deep = std::move(outer);
  }
  EXPECT_EQ(CheckTxn(deep, 1000), Error::kOk);
}

std::string Nested(int levels) {
  std::string txn;
  for (int i = 0; i < levels; ++i) {
    std::string op;
    AppendBytesField(&op, 4, txn);
    txn.clear();
    AppendBytesField(&txn, 2, op);
  }
  return txn;
}

// Each level costs an operation, so etcd's 128 allow 128 levels; real etcd 3.7.1 answers the same.
TEST(CheckTxnTest, NestingBeyondTheLimitIsTooManyOperations) {
  const auto check = [](int levels, size_t ops_max) {
    const std::string wire = Nested(levels);
    TxnRequest txn;
    EXPECT_TRUE(DecodeTxn(wire, &txn));
    return CheckTxn(txn, ops_max);
  };
  EXPECT_EQ(check(128, 128), Error::kOk);
  EXPECT_EQ(check(129, 128), Error::kTooManyOps);
  EXPECT_EQ(check(10'000, 128), Error::kTooManyOps);
  EXPECT_EQ(check(10'000, 1'000'000), Error::kTooManyOps);
}

}  // namespace
}  // namespace mainstay::mvcc

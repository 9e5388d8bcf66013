// Goal: responses that are put together by hand are the bytes that protobuf would write.
// Method: random results of every kind, nested txns and records on both sides of the copy/share
// border included, each built a second time with protobuf's classes; both serialisations must be
// equal. The seed is printed.
#include "rpc/encode.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "common/limits.h"
#include "proto/etcdserverpb/rpc.pb.h"

namespace mainstay::rpc {
namespace {

class EncodeTest : public ::testing::Test {
 protected:
  EncodeTest() { RecordProperty("seed", std::to_string(seed_)); }

  int64_t Number() {
    constexpr int64_t kSome[] = {0, 1, -1, 127, 128, 300, INT64_MAX, INT64_MIN};
    return kSome[random_() % std::size(kSome)];
  }
  bool Coin() { return random_() % 2 == 0; }

  Buffer Record(mvccpb::KeyValue* kv) {
    constexpr size_t kSizes[] = {0, 1, 100, kReferenceBytesMin - 30, kReferenceBytesMin, 20000};
    kv->set_key("k" + std::to_string(random_() % 1000));
    kv->set_create_revision(Number());
    kv->set_mod_revision(1 + static_cast<int64_t>(random_() % 1000));
    kv->set_version(Number());
    kv->set_lease(Number());
    kv->set_value(std::string(kSizes[random_() % std::size(kSizes)], 'v'));
    return Buffer::Copy(kv->SerializeAsString());
  }
  void RandomRange(mvcc::RangeResult* result, etcdserverpb::RangeResponse* wanted) {
    for (size_t n = random_() % 5; n > 0; --n) {
      result->kvs.push_back(Record(wanted->add_kvs()));
    }
    result->more = Coin();
    result->count = Number();
    result->revision = Number();
    wanted->set_more(result->more);
    wanted->set_count(result->count);
  }
  void RandomPut(mvcc::PutResult* result, etcdserverpb::PutResponse* wanted) {
    result->revision = Number();
    if (Coin()) {
      result->prev_kv = Record(wanted->mutable_prev_kv());
    }
  }
  void RandomDelete(mvcc::DeleteResult* result, etcdserverpb::DeleteRangeResponse* wanted) {
    result->revision = Number();
    result->deleted = Number();
    wanted->set_deleted(result->deleted);
    for (size_t n = random_() % 4; n > 0; --n) {
      result->prev_kvs.push_back(Record(wanted->add_prev_kvs()));
    }
  }
  void RandomTxn(int depth, mvcc::TxnResult* result, etcdserverpb::TxnResponse* wanted) {
    result->succeeded = Coin();
    wanted->set_succeeded(result->succeeded);
    for (size_t n = random_() % 4; n > 0; --n) {
      RandomOp(depth, result, wanted->add_responses());
    }
  }
  void RandomOp(int depth, mvcc::TxnResult* txn, etcdserverpb::ResponseOp* wanted) {
    switch (random_() % (depth > 0 ? 4 : 3)) {
      case 0: {
        mvcc::RangeResult range;
        RandomRange(&range, wanted->mutable_response_range());
        wanted->mutable_response_range()->mutable_header()->set_revision(range.revision);
        txn->responses.push_back({std::move(range)});
        break;
      }
      case 1: {
        mvcc::PutResult put;
        RandomPut(&put, wanted->mutable_response_put());
        wanted->mutable_response_put()->mutable_header()->set_revision(put.revision);
        txn->responses.push_back({std::move(put)});
        break;
      }
      case 2: {
        mvcc::DeleteResult del;
        RandomDelete(&del, wanted->mutable_response_delete_range());
        wanted->mutable_response_delete_range()->mutable_header()->set_revision(del.revision);
        txn->responses.push_back({std::move(del)});
        break;
      }
      default: {
        auto nested = std::make_unique<mvcc::TxnResult>();
        RandomTxn(depth - 1, nested.get(), wanted->mutable_response_txn());
        wanted->mutable_response_txn()->mutable_header();
        txn->responses.push_back({std::move(nested)});
      }
    }
  }
  Header RandomHeader(etcdserverpb::ResponseHeader* wanted) {
    const Header header{.cluster_id = static_cast<uint64_t>(Number()),
                        .member_id = static_cast<uint64_t>(Number()),
                        .revision = Number(),
                        .raft_term = random_() % 300};
    wanted->set_cluster_id(header.cluster_id);
    wanted->set_member_id(header.member_id);
    wanted->set_revision(header.revision);
    wanted->set_raft_term(header.raft_term);
    return header;
  }

  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  BufferArena arena_{4096};
};

TEST_F(EncodeTest, RangeEqualsProtobuf) {
  for (int i = 0; i < 300; ++i) {
    mvcc::RangeResult result;
    etcdserverpb::RangeResponse wanted;
    RandomRange(&result, &wanted);
    const Header header = RandomHeader(wanted.mutable_header());
    ASSERT_EQ(EncodeRange(header, result, &arena_).ToString(), wanted.SerializeAsString())
        << "seed " << seed_;
  }
}

TEST_F(EncodeTest, PutEqualsProtobuf) {
  for (int i = 0; i < 300; ++i) {
    mvcc::PutResult result;
    etcdserverpb::PutResponse wanted;
    RandomPut(&result, &wanted);
    const Header header = RandomHeader(wanted.mutable_header());
    ASSERT_EQ(EncodePut(header, result, &arena_).ToString(), wanted.SerializeAsString())
        << "seed " << seed_;
  }
}

TEST_F(EncodeTest, DeleteEqualsProtobuf) {
  for (int i = 0; i < 300; ++i) {
    mvcc::DeleteResult result;
    etcdserverpb::DeleteRangeResponse wanted;
    RandomDelete(&result, &wanted);
    const Header header = RandomHeader(wanted.mutable_header());
    ASSERT_EQ(EncodeDelete(header, result, &arena_).ToString(), wanted.SerializeAsString())
        << "seed " << seed_;
  }
}

TEST_F(EncodeTest, TxnWithNestedTxnsEqualsProtobuf) {
  for (int i = 0; i < 300; ++i) {
    mvcc::TxnResult result;
    etcdserverpb::TxnResponse wanted;
    RandomTxn(3, &result, &wanted);
    const Header header = RandomHeader(wanted.mutable_header());
    ASSERT_EQ(EncodeTxn(header, result, &arena_).ToString(), wanted.SerializeAsString())
        << "seed " << seed_;
  }
}

TEST_F(EncodeTest, BigRecordsAreSharedNotCopied) {
  mvcc::RangeResult result;
  const std::string value(kReferenceBytesMin * 2, 'x');
  result.kvs.push_back(Buffer::Copy(value));
  const BufferChain chain = EncodeRange({.cluster_id = 1}, result, &arena_);
  bool shared = false;
  for (const Buffer& part : chain) {
    shared = shared || part.data() == result.kvs[0].data();
  }
  EXPECT_TRUE(shared);
}

TEST_F(EncodeTest, AStreamedRangeIsHeadRecordsTail) {
  etcdserverpb::RangeResponse wanted;
  const Header header = RandomHeader(wanted.mutable_header());
  wanted.set_more(true);
  wanted.set_count(12);
  BufferChain body(EncodeRangeHead(header, &arena_));
  body.Append(EncodeRangeTail(true, 12, &arena_));
  EXPECT_EQ(body.ToString(), wanted.SerializeAsString());
  etcdserverpb::RangeStreamResponse wrapped;
  *wrapped.mutable_range_response() = wanted;
  EXPECT_EQ(WrapRangeStream(std::move(body), &arena_).ToString(), wrapped.SerializeAsString());
}

TEST_F(EncodeTest, LeaseEqualsProtobuf) {
  etcdserverpb::LeaseGrantResponse wanted;
  const Header header = RandomHeader(wanted.mutable_header());
  wanted.set_id(-5);
  wanted.set_ttl(60);
  EXPECT_EQ(EncodeLease(header, LeaseId(-5), 60, &arena_).ToString(), wanted.SerializeAsString());
}

}  // namespace
}  // namespace mainstay::rpc

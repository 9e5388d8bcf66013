// Goal: an entry's payload says what was put into it, in bytes that any protobuf library reads the
// same way, and the cost of a request follows etcd's price list. Method: encode by hand, decode
// with the generated class (and back); costs of literal requests.
#include "server/entry_codec.h"

#include <gtest/gtest.h>

#include "proto/etcdserverpb/raft_internal.pb.h"
#include "server/quota.h"
#include "server/request_ids.h"

namespace mainstay::server {
namespace {

using etcdserverpb::InternalRaftRequest;

EntryHeader SomeHeader() {
  return {.id = 77,
          .username = "ann",
          .auth_revision = 9,
          .client_address = "10.0.0.1:50000",
          .wall_time_ns = 123456789,
          .proposer = 0x8e9e05c52164694d};
}

std::string PutBytes(std::string key, std::string value) {
  etcdserverpb::PutRequest put;
  put.set_key(std::move(key));
  put.set_value(std::move(value));
  return put.SerializeAsString();
}

TEST(EntryCodecTest, ProtobufReadsWhatWeWrite) {
  const Buffer entry = EncodeEntry(SomeHeader(), 4, PutBytes("k", "v"));
  InternalRaftRequest request;
  ASSERT_TRUE(request.ParseFromArray(entry.data(), static_cast<int>(entry.size())));
  EXPECT_EQ(request.header().id(), 77u);
  EXPECT_EQ(request.header().username(), "ann");
  EXPECT_EQ(request.header().auth_revision(), 9u);
  EXPECT_EQ(request.put().key(), "k");
  EXPECT_EQ(request.put().value(), "v");
  EXPECT_EQ(request.mainstay_client_address(), "10.0.0.1:50000");
  EXPECT_EQ(request.mainstay_wall_time_ns(), 123456789);
  EXPECT_EQ(request.mainstay_proposer(), 0x8e9e05c52164694d);
  EXPECT_EQ(request.SerializeAsString(), entry.view());
}

TEST(EntryCodecTest, HighFieldsKeepAscendingOrder) {
  etcdserverpb::InternalRaftRequest expected;
  expected.mutable_header()->set_id(5);
  expected.mutable_cluster_version_set()->set_ver("3.7.0");
  const Buffer entry =
      EncodeEntry({.id = 5}, 1300, expected.cluster_version_set().SerializeAsString());
  EXPECT_EQ(expected.SerializeAsString(), entry.view());
}

TEST(EntryCodecTest, DecodesItsOwnBytes) {
  const std::string put = PutBytes("key", std::string(5000, 'x'));
  const Buffer entry = EncodeEntry(SomeHeader(), 4, put);
  EXPECT_EQ(entry.size(), EncodedEntrySize(SomeHeader(), 4, put));
  DecodedEntry out;
  ASSERT_TRUE(DecodeEntry(entry.view(), &out));
  EXPECT_EQ(out.kind, 4u);
  EXPECT_EQ(out.request, put);
  EXPECT_EQ(out.header.id, 77u);
  EXPECT_EQ(out.header.username, "ann");
  EXPECT_EQ(out.header.client_address, "10.0.0.1:50000");
  EXPECT_EQ(out.header.wall_time_ns, 123456789);
  EXPECT_EQ(PeekRequestId(entry.view()), 77u);
}

TEST(EntryCodecTest, AnEmptyRequestStillNamesItsCall) {
  const Buffer entry = EncodeEntry({.id = 1}, 10, "");
  DecodedEntry out;
  ASSERT_TRUE(DecodeEntry(entry.view(), &out));
  EXPECT_EQ(out.kind, 10u);
  EXPECT_TRUE(out.request.empty());
}

TEST(EntryCodecTest, ForeignEntryWithTheOldIdFieldIsRead) {
  InternalRaftRequest request;
  request.set_id(12);
  request.mutable_lease_revoke()->set_id(3);
  DecodedEntry out;
  const std::string bytes = request.SerializeAsString();
  ASSERT_TRUE(DecodeEntry(bytes, &out));
  EXPECT_EQ(out.header.id, 12u);
  EXPECT_EQ(out.kind, 9u);
  EXPECT_EQ(PeekRequestId(bytes), 12u);
}

TEST(EntryCodecTest, EveryTruncationIsRefusedOrReadSafely) {
  const Buffer entry = EncodeEntry(SomeHeader(), 4, PutBytes("k", "v"));
  for (size_t length = 0; length < entry.size(); ++length) {
    DecodedEntry out;
    const std::string copy(entry.view().substr(0, length));
    DecodeEntry(copy, &out);
    PeekRequestId(copy);
  }
  DecodedEntry out;
  EXPECT_FALSE(DecodeEntry(std::string("\x22\x7f"), &out));
}

TEST(QuotaTest, PricesFollowTheList) {
  EXPECT_EQ(RequestCost(4, PutBytes("abc", "12345")), 256u + 8);
  EXPECT_EQ(RequestCost(8, ""), 64u);
  EXPECT_EQ(RequestCost(5, PutBytes("abc", "")), 0u);

  etcdserverpb::TxnRequest inner;
  *inner.add_success()->mutable_request_put() = [] {
    etcdserverpb::PutRequest put;
    put.set_key("kk");
    put.set_value("vv");
    return put;
  }();
  etcdserverpb::TxnRequest txn;
  txn.add_success()->mutable_request_put()->set_key("a");
  txn.add_success()->mutable_request_delete_range()->set_key("zzzzzz");
  *txn.add_failure()->mutable_request_txn() = inner;
  EXPECT_EQ(RequestCost(6, txn.SerializeAsString()), 260u)
      << "the dearer branch, nested puts counted";
  txn.add_success()->mutable_request_put()->set_key("b");
  EXPECT_EQ(RequestCost(6, txn.SerializeAsString()), 514u);
}

TEST(QuotaTest, LimitIsReachedNotPassed) {
  EXPECT_FALSE(OverQuota(1000, 743, 256));
  EXPECT_TRUE(OverQuota(1000, 744, 256));
  EXPECT_FALSE(OverQuota(1000, 5000, 0)) << "free requests always pass";
  EXPECT_FALSE(OverQuota(-1, 1 << 30, 256)) << "negative quota is off";
}

TEST(QuotaTest, ShortcutAgreesWithThePriceList) {
  const std::string put = PutBytes("abc", std::string(1000, 'v'));
  for (int64_t used = 0; used < 100000; used += 101) {
    EXPECT_EQ(RequestOverQuota(100000, used, 4, put), OverQuota(100000, used, RequestCost(4, put)))
        << "used " << used;
  }
}

TEST(RequestIdsTest, CarryTheMemberAndNeverRepeat) {
  RequestIds ids(MemberId(0x1234), std::chrono::seconds(1700000000));
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t id = ids.Next();
    EXPECT_GT(id, last);
    EXPECT_EQ(id >> 48, 0x1234u);
    last = id;
  }
  RequestIds high(MemberId(0xFFFF), std::chrono::seconds(1700000000));
  EXPECT_GT(high.NextLease().value(), 0) << "lease ids are positive";
}

}  // namespace
}  // namespace mainstay::server

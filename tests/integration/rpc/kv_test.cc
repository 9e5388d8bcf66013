// Goal: etcdserverpb.KV over real gRPC behaves as etcd 3.7.1's: answers, headers, errors by text;
// and the cases C13, C15, C17, C19, C20, C53. Method: an in-process member and gRPC C++ stubs.
#include "tests/integration/rpc/client.h"

namespace mainstay::testing {
namespace {

using grpc::StatusCode;

const Outcome kEmptyKey{StatusCode::INVALID_ARGUMENT, "etcdserver: key is not provided"};
const Outcome kCompacted{StatusCode::OUT_OF_RANGE,
                         "etcdserver: mvcc: required revision has been compacted"};
const Outcome kFutureRev{StatusCode::OUT_OF_RANGE,
                         "etcdserver: mvcc: required revision is a future revision"};
const Outcome kDuplicateKey{StatusCode::INVALID_ARGUMENT,
                            "etcdserver: duplicate key given in txn request"};

class KvTest : public RpcTest {
 protected:
  std::vector<std::string> Keys(const std::string& key, const std::string& range_end) {
    std::vector<std::string> keys;
    const pb::RangeResponse response = Get(key, range_end);
    for (const auto& kv : response.kvs()) {
      keys.push_back(kv.key());
    }
    return keys;
  }
  // delete(key, end) and put(put_key) in one txn.
  Outcome DeleteAndPut(const std::string& key,
                       const std::string& end,
                       const std::string& put_key,
                       bool nested) {
    pb::TxnRequest txn;
    pb::TxnRequest* inner = nested ? txn.add_success()->mutable_request_txn() : &txn;
    auto* del = inner->add_success()->mutable_request_delete_range();
    del->set_key(key);
    del->set_range_end(end);
    inner->add_success()->mutable_request_put()->set_key(put_key);
    pb::TxnResponse response;
    return Txn(txn, &response);
  }
};

TEST_F(KvTest, AFreshStoreIsAtRevisionOneAndTheFirstWriteGetsTwo) {
  const pb::RangeResponse before = Get("a");
  EXPECT_EQ(before.header().revision(), 1);
  EXPECT_NE(before.header().cluster_id(), 0u);
  EXPECT_NE(before.header().member_id(), 0u);
  EXPECT_GE(before.header().raft_term(), 1u);
  EXPECT_EQ(Put("a", "1").header().revision(), 2);
  const pb::RangeResponse after = Get("a");
  ASSERT_EQ(after.kvs_size(), 1);
  EXPECT_EQ(after.kvs(0).value(), "1");
  EXPECT_EQ(after.kvs(0).create_revision(), 2);
  EXPECT_EQ(after.kvs(0).version(), 1);
  EXPECT_EQ(after.count(), 1);
}

TEST_F(KvTest, PutGivesThePreviousPairWhenAsked) {
  Put("a", "1");
  pb::PutRequest request;
  request.set_key("a");
  request.set_value("2");
  request.set_prev_kv(true);
  pb::PutResponse response;
  ASSERT_EQ(Call(*kv_, &pb::KV::Stub::Put, request, &response), kFine);
  EXPECT_EQ(response.prev_kv().value(), "1");
}

TEST_F(KvTest, ErrorsHaveEtcdsTexts) {
  pb::PutRequest put;
  pb::PutResponse put_response;
  EXPECT_EQ(Call(*kv_, &pb::KV::Stub::Put, put, &put_response), kEmptyKey);
  put.set_key("a");
  put.set_ignore_value(true);
  EXPECT_EQ(Call(*kv_, &pb::KV::Stub::Put, put, &put_response),
            (Outcome{StatusCode::INVALID_ARGUMENT, "etcdserver: key not found"}));
  put.set_value("x");
  EXPECT_EQ(Call(*kv_, &pb::KV::Stub::Put, put, &put_response),
            (Outcome{StatusCode::INVALID_ARGUMENT, "etcdserver: value is provided"}));
  put.set_ignore_value(false);
  put.set_lease(99);
  EXPECT_EQ(Call(*kv_, &pb::KV::Stub::Put, put, &put_response),
            (Outcome{StatusCode::NOT_FOUND, "etcdserver: requested lease not found"}));
  pb::RangeRequest range;
  pb::RangeResponse range_response;
  EXPECT_EQ(Range(range, &range_response), kEmptyKey);
  range.set_key("a");
  range.set_sort_order(static_cast<pb::RangeRequest::SortOrder>(9));
  EXPECT_EQ(Range(range, &range_response),
            (Outcome{StatusCode::INVALID_ARGUMENT, "etcdserver: invalid sort option"}));
  range.set_sort_order(pb::RangeRequest::NONE);
  range.set_revision(1000);
  EXPECT_EQ(Range(range, &range_response), kFutureRev);
  EXPECT_EQ(Compact(1000), kFutureRev);
  pb::TxnRequest txn;
  txn.add_success();
  pb::TxnResponse txn_response;
  EXPECT_EQ(Txn(txn, &txn_response),
            (Outcome{StatusCode::INVALID_ARGUMENT, "etcdserver: key not found"}));
  txn.Clear();
  for (int i = 0; i < 129; ++i) {
    txn.add_success()->mutable_request_put()->set_key("k" + std::to_string(i));
  }
  EXPECT_EQ(Txn(txn, &txn_response), (Outcome{StatusCode::INVALID_ARGUMENT,
                                              "etcdserver: too many operations in txn request"}));
}

TEST_F(KvTest, ARequestBeyondTheLimitIsRefusedByName) {
  pb::PutRequest put;
  put.set_key("a");
  put.set_value(std::string(1572864, 'x'));
  pb::PutResponse response;
  EXPECT_EQ(Call(*kv_, &pb::KV::Stub::Put, put, &response),
            (Outcome{StatusCode::INVALID_ARGUMENT, "etcdserver: request is too large"}));
  put.set_value(std::string(3 << 20, 'x'));
  EXPECT_EQ(Call(*kv_, &pb::KV::Stub::Put, put, &response).code, StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(KvTest, TheKubernetesTxnAnswersBothWays) {
  pb::TxnRequest create;
  auto* compare = create.add_compare();
  compare->set_key("/registry/pods/a");
  compare->set_target(pb::Compare::MOD);
  compare->set_mod_revision(0);
  auto* put = create.add_success()->mutable_request_put();
  put->set_key("/registry/pods/a");
  put->set_value("v1");
  create.add_failure()->mutable_request_range()->set_key("/registry/pods/a");
  pb::TxnResponse response;
  ASSERT_EQ(Txn(create, &response), kFine);
  EXPECT_TRUE(response.succeeded());
  EXPECT_EQ(response.header().revision(), 2);
  EXPECT_EQ(response.responses(0).response_put().header().revision(), 2);
  EXPECT_EQ(response.responses(0).response_put().header().cluster_id(), 0u);
  ASSERT_EQ(Txn(create, &response), kFine);
  EXPECT_FALSE(response.succeeded());
  EXPECT_EQ(response.header().revision(), 2);
  EXPECT_EQ(response.responses(0).response_range().kvs(0).value(), "v1");
}

TEST_F(KvTest, AReadOnlyTxnTakesNoRevision) {
  Put("a", "1");
  pb::TxnRequest txn;
  auto* compare = txn.add_compare();
  compare->set_key("a");
  compare->set_target(pb::Compare::VALUE);
  compare->set_value("1");
  txn.add_success()->mutable_request_range()->set_key("a");
  pb::TxnResponse response;
  ASSERT_EQ(Txn(txn, &response), kFine);
  EXPECT_TRUE(response.succeeded());
  EXPECT_EQ(response.header().revision(), 2);
  EXPECT_EQ(response.responses(0).response_range().kvs(0).value(), "1");
  txn.mutable_compare(0)->set_key("missing");
  txn.mutable_compare(0)->set_result(pb::Compare::NOT_EQUAL);
  ASSERT_EQ(Txn(txn, &response), kFine);
  EXPECT_FALSE(response.succeeded()) << "a value compare of a missing key is false";
  EXPECT_EQ(Get("a").header().revision(), 2);
}

TEST_F(KvTest, ABigRangeArrivesWhole) {
  const std::string value(100000, 'v');
  for (int i = 0; i < 30; ++i) {
    Put("k" + std::to_string(100 + i), value);
  }
  const pb::RangeResponse response = Get("k", "l");
  ASSERT_EQ(response.kvs_size(), 30);
  EXPECT_EQ(response.kvs(29).key(), "k129");
  EXPECT_EQ(response.kvs(29).value(), value);
  EXPECT_EQ(response.count(), 30);
}

TEST_F(KvTest, RangeStreamMergedEqualsRange) {
  for (int i = 0; i < 200; ++i) {
    Put("k" + std::to_string(1000 + i), std::string(3000, 'v'));
  }
  pb::RangeRequest request;
  request.set_key("k");
  request.set_range_end("l");
  request.set_limit(150);
  grpc::ClientContext context;
  SetDeadline(&context);
  auto reader = kv_->RangeStream(&context, request);
  pb::RangeResponse merged;
  pb::RangeStreamResponse chunk;
  int chunks = 0;
  while (reader->Read(&chunk)) {
    ++chunks;
    EXPECT_FALSE(merged.has_header()) << "only the last chunk has a header";
    merged.MergeFrom(chunk.range_response());
  }
  ASSERT_EQ(Of(reader->Finish()), kFine);
  pb::RangeResponse whole;
  ASSERT_EQ(Range(request, &whole), kFine);
  EXPECT_EQ(merged.SerializeAsString(), whole.SerializeAsString());
  EXPECT_GT(chunks, 1);
  EXPECT_TRUE(merged.more());
  EXPECT_EQ(merged.count(), 200);
}

TEST_F(KvTest, RangeStreamRefusesSortingAndFilters) {
  pb::RangeRequest request;
  request.set_key("k");
  request.set_sort_order(pb::RangeRequest::DESCEND);
  pb::RangeStreamResponse chunk;
  {
    grpc::ClientContext context;
    auto reader = kv_->RangeStream(&context, request);
    EXPECT_FALSE(reader->Read(&chunk));
    EXPECT_EQ(Of(reader->Finish()), (Outcome{StatusCode::UNIMPLEMENTED,
                                             "RangeStream does not support custom sort orders"}));
  }
  request.set_sort_order(pb::RangeRequest::NONE);
  request.set_min_mod_revision(1);
  grpc::ClientContext context;
  auto reader = kv_->RangeStream(&context, request);
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(Of(reader->Finish()),
            (Outcome{StatusCode::UNIMPLEMENTED, "RangeStream does not support revision filters"}));
}

TEST_F(KvTest, CompactionMovesTheWatermark) {
  for (int i = 0; i < 5; ++i) {
    Put("a", std::to_string(i));
  }
  ASSERT_EQ(Compact(4, /*physical=*/true), kFine);
  EXPECT_EQ(Compact(4), kCompacted);
  pb::RangeRequest request;
  request.set_key("a");
  request.set_revision(3);
  pb::RangeResponse response;
  EXPECT_EQ(Range(request, &response), kCompacted);
  request.set_revision(4);
  ASSERT_EQ(Range(request, &response), kFine);
  EXPECT_EQ(response.kvs(0).value(), "2");
  EXPECT_EQ(response.header().revision(), 6) << "the current revision, not the asked one";
}

TEST_F(KvTest, C13OpenEndedDeletesDoNotCollideFiniteOnesDo) {
  for (bool nested : {false, true}) {
    EXPECT_EQ(DeleteAndPut("a", "c", "b", nested), kDuplicateKey);
    EXPECT_EQ(DeleteAndPut("b", "", "b", nested), kDuplicateKey);
    EXPECT_EQ(DeleteAndPut("a", std::string(1, '\0'), "b", nested), kFine);
    EXPECT_EQ(DeleteAndPut("a", std::string(1, '\0'), "b", nested), kFine);
    EXPECT_EQ(Keys("b", ""), (std::vector<std::string>{"b"})) << "applied in order";
  }
}

TEST_F(KvTest, C15ARangeThatFailsKeepsThePutFromHappening) {
  for (int i = 0; i < 12; ++i) {
    Put("k", std::to_string(i));
  }
  ASSERT_EQ(Compact(10), kFine);
  for (int64_t revision : {int64_t{5}, int64_t{113}}) {
    pb::TxnRequest txn;
    auto* range = txn.add_success()->mutable_request_range();
    range->set_key("k");
    range->set_revision(revision);
    txn.add_success()->mutable_request_put()->set_key("m");
    pb::TxnResponse response;
    EXPECT_EQ(Txn(txn, &response), revision == 5 ? kCompacted : kFutureRev);
  }
  EXPECT_EQ(Get("m").count(), 0);
}

TEST_F(KvTest, C17CountIgnoresRevisionFilters) {
  Put("/k1", "");
  const int64_t second = Put("/k2", "").header().revision();
  pb::RangeRequest request;
  request.set_key("/k");
  request.set_range_end("/l");
  request.set_min_mod_revision(second);
  pb::RangeResponse response;
  ASSERT_EQ(Range(request, &response), kFine);
  ASSERT_EQ(response.kvs_size(), 1);
  EXPECT_EQ(response.kvs(0).key(), "/k2");
  EXPECT_EQ(response.count(), 2);
  request.set_count_only(true);
  ASSERT_EQ(Range(request, &response), kFine);
  EXPECT_EQ(response.count(), 2);
  EXPECT_EQ(response.kvs_size(), 0);
}

TEST_F(KvTest, C19PagesAtAFixedRevisionSkipAndRepeatNothing) {
  for (char c = 'a'; c < 'k'; ++c) {
    Put(std::string("/p/") + c, "");
  }
  const int64_t pinned = Get("/p/a").header().revision();
  std::string start = "/p/";
  std::string seen;
  int64_t left = 10;
  while (true) {
    pb::RangeRequest request;
    request.set_key(start);
    request.set_range_end("/p0");
    request.set_limit(3);
    request.set_revision(pinned);
    pb::RangeResponse page;
    ASSERT_EQ(Range(request, &page), kFine);
    EXPECT_EQ(page.count(), left);
    EXPECT_GE(page.header().revision(), pinned);
    for (const auto& kv : page.kvs()) {
      seen += kv.key().back();
    }
    left -= page.kvs_size();
    if (!page.more()) {
      break;
    }
    start = page.kvs(page.kvs_size() - 1).key() + '\0';
    Delete("/p/e");
    Put("/p/new", "");
  }
  EXPECT_EQ(seen, "abcdefghij");
}

TEST_F(KvTest, C20RangeEdges) {
  const std::string zero(1, '\0');
  const std::vector<std::string> keys = {"a", "a\xff", "b", "\xff", "\xff\xff"};
  for (const std::string& key : keys) {
    Put(key, "");
  }
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Keys("a\xff", "b"), (Strings{"a\xff"}));
  EXPECT_EQ(Keys("\xff", zero), (Strings{"\xff", "\xff\xff"}));
  EXPECT_EQ(Keys(zero, zero), keys);
  EXPECT_EQ(Keys("b", "a"), Strings{});
  EXPECT_EQ(Keys("a", "a"), Strings{});
  EXPECT_EQ(Keys("a", std::string("\0\1", 2)), Strings{});
  pb::DeleteRangeRequest del;
  pb::DeleteRangeResponse del_response;
  EXPECT_EQ(Call(*kv_, &pb::KV::Stub::DeleteRange, del, &del_response), kEmptyKey);
  pb::TxnRequest txn;
  txn.add_compare();
  pb::TxnResponse txn_response;
  EXPECT_EQ(Txn(txn, &txn_response), kEmptyKey);
}

TEST_F(KvTest, WhatWasAcknowledgedIsThereAfterARestart) {
  Put("a", "1");
  Put("b", "2");
  Delete("a");
  const int64_t revision = Get("b").header().revision();
  member_.Stop();
  member_.Start();
  Reconnect();
  const pb::RangeResponse response = Get("a", "c");
  EXPECT_EQ(response.header().revision(), revision);
  ASSERT_EQ(response.kvs_size(), 1);
  EXPECT_EQ(response.kvs(0).value(), "2");
  EXPECT_EQ(Put("c", "").header().revision(), revision + 1);
}

class SmallQuotaTest : public RpcTest {
 protected:
  static TestMember::Config Config() {
    TestMember::Config config = TestMember::DefaultConfig();
    config.server.quota_backend_bytes = 2 << 20;
    return config;
  }
  SmallQuotaTest() : RpcTest(Config()) {}
};

TEST_F(SmallQuotaTest, C53NoSpaceRefusesWritesOnlyAndCompactionWithDisarmEndsIt) {
  const Outcome no_space{StatusCode::RESOURCE_EXHAUSTED,
                         "etcdserver: mvcc: database space exceeded"};
  pb::PutRequest put;
  put.set_value(std::string(200000, 'x'));
  pb::PutResponse put_response;
  Outcome last = kFine;
  for (int i = 0; i < 40 && last == kFine; ++i) {
    put.set_key("k" + std::to_string(i));
    last = Call(*kv_, &pb::KV::Stub::Put, put, &put_response);
  }
  ASSERT_EQ(last, no_space);
  pb::LeaseGrantResponse lease;
  EXPECT_EQ(Grant(5, 60, &lease), no_space);
  EXPECT_GT(Get("k", "l").count(), 0);
  EXPECT_GT(Delete("k", "l"), 0);
  ASSERT_EQ(Compact(Get("k").header().revision(), /*physical=*/true), kFine);
  pb::AlarmRequest alarm;
  pb::AlarmResponse alarms;
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Alarm, alarm, &alarms), kFine);
  ASSERT_EQ(alarms.alarms_size(), 1);
  EXPECT_EQ(alarms.alarms(0).alarm(), pb::NOSPACE);
  alarm.set_action(pb::AlarmRequest::DEACTIVATE);
  alarm.set_alarm(pb::NOSPACE);
  alarm.set_memberid(alarms.alarms(0).memberid());
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Alarm, alarm, &alarms), kFine);
  put.set_key("again");
  put.set_value("x");
  EXPECT_EQ(Call(*kv_, &pb::KV::Stub::Put, put, &put_response), kFine);
}

}  // namespace
}  // namespace mainstay::testing

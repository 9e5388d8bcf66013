// Goal: every kind of request has its effect and its answer through the real log; alarms, quota and
// leases hold (grpc-api 2 to 5; cases C16, C22, C24, C25, C48, C53). Method: one member stepped by
// hand, crashed where the case asks for it.
#include <set>
#include <tuple>

#include "common/coding.h"
#include "tests/unit/server/harness.h"

namespace mainstay::server {
namespace {

using etcdserverpb::AlarmRequest;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class MemberRequestsTest : public MemberTest {};

TEST_F(MemberRequestsTest, DeleteRangeOfNothingTakesNoRevision) {
  Start();
  Put("a", "1");
  Reply none = Delete("zzz");
  EXPECT_EQ(none.revision, 2);
  EXPECT_EQ(std::get<mvcc::DeleteResult>(none.body).deleted, 0);
  Reply one = Delete("a");
  EXPECT_EQ(one.revision, 3);
  EXPECT_EQ(std::get<mvcc::DeleteResult>(one.body).deleted, 1);
}

TEST_F(MemberRequestsTest, TxnRunsItsBranchInOneRevision) {
  Start();
  Put("a", "1");
  etcdserverpb::TxnRequest txn;
  auto* compare = txn.add_compare();
  compare->set_key("a");
  compare->set_target(etcdserverpb::Compare::VALUE);
  compare->set_result(etcdserverpb::Compare::EQUAL);
  compare->set_value("1");
  for (const char* key : {"b", "c"}) {
    auto* put = txn.add_success()->mutable_request_put();
    put->set_key(key);
    put->set_value("x");
  }
  txn.add_failure()->mutable_request_delete_range()->set_key("a");
  const Reply reply = Do(RequestKind::kTxn, txn.SerializeAsString());
  EXPECT_EQ(reply.error, Error::kOk);
  EXPECT_TRUE(std::get<mvcc::TxnResult>(reply.body).succeeded);
  EXPECT_EQ(reply.revision, 3);
  EXPECT_EQ(Keys(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(Put("d", "").revision, 4);
}

TEST_F(MemberRequestsTest, PutToAnUnknownLeaseIsRefused) {
  Start();
  const Reply reply = Put("k", "v", 77);
  EXPECT_EQ(reply.error, Error::kLeaseNotFound);
  EXPECT_EQ(Revision(), 1);
}

TEST_F(MemberRequestsTest, RequestBeyondTheLimitIsRefusedByName) {
  options_.max_request_bytes = 1000;
  Start();
  Error refused = Error::kOk;
  Propose(RequestKind::kPut, PutBytes("k", std::string(1001, 'v')), &refused);
  EXPECT_EQ(refused, Error::kRequestTooLarge);
  EXPECT_EQ(Put("k", std::string(900, 'v')).error, Error::kOk);
}

// The answers of a real etcd 3.7.1 (etcd-files.md 3), which keeps what each compaction hashed.
TEST_F(MemberRequestsTest, HashAtACompactionIsTheOneOfBeforeIt) {
  Start();
  const auto hash = [&](int64_t revision) {
    const uint64_t call = next_call_++;
    EXPECT_EQ(server_->HashKv(revision, {&sink_, call, 0}), Error::kOk);
    Run();
    const auto result = std::get<HashKvResult>(Take(call).body);
    return std::tuple(result.hash, result.compact_revision, result.hash_revision);
  };
  using Answer = std::tuple<uint32_t, int64_t, int64_t>;
  ASSERT_EQ(Grant(60, 17).error, Error::kOk);
  Put("foo", "bar");
  Put("k", "v", 17);
  Delete("foo");
  ASSERT_EQ(Compact(3, true).error, Error::kOk);
  EXPECT_EQ(hash(4), Answer(1078105330u, 3, 4));
  EXPECT_EQ(hash(3), Answer(1497393236u, -1, 3));
  ASSERT_EQ(Compact(4, true).error, Error::kOk);
  EXPECT_EQ(hash(4), Answer(1078105330u, 3, 4));
  EXPECT_EQ(hash(3), Answer(1497393236u, -1, 3));
  EXPECT_EQ(hash(0), Answer(2881044257u, 4, 4));
  Put("z", "z");
  EXPECT_EQ(hash(5), Answer(2018980031u, 4, 5));
}

// A member that is killed again and again must not replay more at each start.
TEST_F(MemberRequestsTest, AStartThatReplayedMuchIsFollowedByAFlush) {
  Start();
  for (int i = 0; i < 1500; ++i) {
    Put("k" + std::to_string(i), "v");
  }
  const Index before = backend_->flushed_applied_index();
  CrashAndRestart();
  EXPECT_EQ(Get("k1499"), "v");  // and it is ready: no time has passed
  EXPECT_GE(backend_->flushed_applied_index().value(), before.value() + 1500);
}

TEST_F(MemberRequestsTest, UnknownRequestIsNotSkippedButStopsTheMember) {
  Start();
  Propose(static_cast<RequestKind>(1000), "");
  Run();
  EXPECT_NE(std::string(Message(fatal_)).find("request field 1000"), std::string::npos) << fatal_;
}

TEST_F(MemberRequestsTest, LinearizableReadWaitsForAnEntryOfTheTerm) {
  Start();
  EXPECT_TRUE(server_->ReadBarrierInline());
  EXPECT_EQ(server_->ReadBarrier({&sink_, 500, 0}), Error::kOk);
  Run();
  EXPECT_EQ(Take(500).error, Error::kOk);
  Crash();
  StatusOr<std::unique_ptr<Server>> opened = Open();
  ASSERT_TRUE(opened.ok());
  server_ = *std::move(opened);
  EXPECT_FALSE(server_->ReadBarrierInline()) << "replay is not done";
  server_->Start();
  Run();
  EXPECT_TRUE(server_->ReadBarrierInline());
}

TEST_F(MemberRequestsTest, StopAnswersWhatWaitsAndRefusesTheRest) {
  Start();
  const uint64_t call = Propose(RequestKind::kPut, PutBytes("k", "v"));
  server_->Stop();
  EXPECT_EQ(Take(call).error, Error::kOk) << "what was under way is finished";
  Error refused = Error::kOk;
  Propose(RequestKind::kPut, PutBytes("k", "v"), &refused);
  EXPECT_EQ(refused, Error::kStopped);
  EXPECT_EQ(server_->ReadBarrier({&sink_, 900, 0}), Error::kStopped);
}

// ---- compaction

TEST_F(MemberRequestsTest, CompactionErrorsAndPhysicalWait) {
  Start();
  for (int i = 0; i < 10; ++i) {
    Put("k", std::to_string(i));
  }
  EXPECT_EQ(Compact(100).error, Error::kFutureRev);
  EXPECT_EQ(Compact(5, true).error, Error::kOk);
  EXPECT_EQ(server_->View().compact_revision(), 5);
  EXPECT_EQ(Compact(5).error, Error::kCompacted);
  EXPECT_EQ(Compact(4, true).error, Error::kCompacted);
  EXPECT_EQ(Get("k"), "9");
}

TEST_F(MemberRequestsTest, PhysicalCompactionWaitsForViewsOfTheTimeBefore) {
  Start();
  for (int i = 0; i < 10; ++i) {
    Put("k", std::to_string(i));
  }
  std::optional<mvcc::ReadView> old = server_->View();
  const uint64_t call = Propose(RequestKind::kCompaction, CompactBytes(8, true));
  Run();
  Pass(seconds(2));
  const bool answered_early = sink_.replies.contains(call);
  StatusOr<Buffer> still = old->Get("k", 4);
  EXPECT_TRUE(still.ok()) << "an old view reads what it saw";
  old.reset();
  Pass(seconds(2));
  EXPECT_TRUE(answered_early || sink_.replies.contains(call));
  EXPECT_EQ(Take(call).error, Error::kOk);
}

// C16: revision does not go down when a crash hits a compaction whose newest revisions are deletes.
TEST_F(MemberRequestsTest, C16RevisionSurvivesACrashInCompaction) {
  Start();
  for (int i = 0; i < 300; ++i) {
    Put("k" + std::to_string(i), "v");
  }
  for (int i = 296; i < 300; ++i) {
    Delete("k" + std::to_string(i));
  }
  const int64_t revision = Revision();
  Propose(RequestKind::kCompaction, CompactBytes(revision));
  for (int i = 0; i < 3; ++i) {
    executor_.Step("raft");
    executor_.Step("wal");
    executor_.Step("raft");
    executor_.Step("apply");
  }
  CrashAndRestart();
  EXPECT_GE(Revision(), revision);
  EXPECT_EQ(Get("k0"), "v");
  EXPECT_EQ(Get("k299"), "<none>");
  EXPECT_EQ(Put("new", "v").revision, revision + 1);
}

// C22: deleted keys stay deleted over compactions at, below and above their tombstones, and over
// restarts.
TEST_F(MemberRequestsTest, C22DeletedKeysDoNotComeBack) {
  Start();
  std::set<std::string> model;
  std::vector<int64_t> marks;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "k" + std::to_string(1000 + i);
    Put(key, "v");
    const Reply gone = Delete(key);
    if (i % 20 == 0) {
      marks.push_back(gone.revision - 1);
      marks.push_back(gone.revision);
    }
    if (i % 3 == 0) {
      Put(key, "again");
      model.insert(key);
    }
  }
  for (const int64_t mark : marks) {
    EXPECT_EQ(Compact(mark, true).error, Error::kOk);
    if (mark % 3 == 0) {
      CrashAndRestart();
    }
    EXPECT_EQ(Keys(), std::vector<std::string>(model.begin(), model.end()))
        << "after compaction to " << mark;
  }
}

TEST_F(MemberRequestsTest, PeriodicCompactionGoesThroughTheLog) {
  options_.auto_compaction_mode = AutoCompactionMode::kPeriodic;
  options_.auto_compaction_retention = minutes(10);
  Start();
  for (int i = 0; i < 5; ++i) {
    Put("k", std::to_string(i));
  }
  Pass(minutes(12));
  EXPECT_EQ(server_->View().compact_revision(), 1) << "the revision of ten minutes before";
  Pass(minutes(11));
  EXPECT_EQ(server_->View().compact_revision(), 6);
}

// ---- leases

int64_t GrantedId(const Reply& reply) {
  return std::get<LeaseGrantResult>(reply.body).id.value();
}

// C24: an empty revoke takes no revision; one with keys takes exactly one.
TEST_F(MemberRequestsTest, C24RevokeTakesARevisionOnlyForKeys) {
  Start();
  const int64_t empty = GrantedId(Grant(60));
  EXPECT_GT(empty, 0);
  EXPECT_EQ(Revoke(empty).revision, 1);
  const int64_t lease = GrantedId(Grant(60));
  for (const char* key : {"a", "b", "c"}) {
    Put(key, "v", lease);
  }
  Delete("b");
  const int64_t before = Revision();
  EXPECT_EQ(Revoke(lease).revision, before + 1);
  EXPECT_TRUE(Keys().empty());
  EXPECT_EQ(Revoke(lease).error, Error::kLeaseNotFound);
}

// C25: negative ids live through restarts; limits and duplicates are told apart.
TEST_F(MemberRequestsTest, C25NegativeLeaseIdsSurviveARestart) {
  Start();
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(GrantedId(Grant(100, -1)), -1);
  EXPECT_EQ(GrantedId(Grant(100, lowest)), lowest);
  EXPECT_EQ(Grant(100, -1).error, Error::kLeaseExist);
  EXPECT_EQ(Grant(9'000'000'001, -1).error, Error::kLeaseTtlTooLarge);
  EXPECT_EQ(std::get<LeaseGrantResult>(Grant(0, 5).body).ttl_s, 2) << "raised to the minimum";
  EXPECT_EQ(Put("k", "v", -1).error, Error::kOk);
  CrashAndRestart();
  const std::optional<Reply> left = server_->LeaseTimeToLive(LeaseId(-1), true, {&sink_, 700, 0});
  ASSERT_TRUE(left.has_value());
  const auto& ttl = std::get<LeaseTimeToLiveResult>(left->body);
  EXPECT_EQ(ttl.granted_ttl_s, 100);
  EXPECT_EQ(ttl.keys, std::vector<std::string>{"k"});
  EXPECT_EQ(server_->Leases().size(), 3u);
  Pass(seconds(104));
  EXPECT_EQ(Get("k"), "<none>") << "it expires with its key";
  EXPECT_TRUE(server_->Leases().empty());
}

TEST_F(MemberRequestsTest, LeaseLivesAsLongAsItIsKeptAlive) {
  Start();
  const int64_t lease = GrantedId(Grant(5));
  Put("k", "v", lease);
  for (int i = 0; i < 10; ++i) {
    Pass(seconds(3));
    const std::optional<Reply> kept = server_->LeaseRenew(LeaseId(lease), {&sink_, 800, 0});
    ASSERT_TRUE(kept.has_value());
    EXPECT_EQ(std::get<LeaseRenewResult>(kept->body).ttl_s, 5);
  }
  EXPECT_EQ(Get("k"), "v");
  const int64_t before = Revision();
  Pass(seconds(8));
  EXPECT_EQ(Get("k"), "<none>");
  EXPECT_EQ(Revision(), before + 1);
  const std::optional<Reply> gone = server_->LeaseRenew(LeaseId(lease), {&sink_, 801, 0});
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->error, Error::kOk);
  EXPECT_EQ(std::get<LeaseRenewResult>(gone->body).ttl_s, 0);
}

TEST_F(MemberRequestsTest, UnknownLeaseHasNoTimeToLive) {
  Start();
  const std::optional<Reply> reply = server_->LeaseTimeToLive(LeaseId(42), false, {&sink_, 1, 0});
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->error, Error::kOk);
  EXPECT_EQ(std::get<LeaseTimeToLiveResult>(reply->body).ttl_s, -1);
}

// ---- alarms and quota

std::vector<AlarmMember> Alarmed(const Reply& reply) {
  return std::get<AlarmResult>(reply.body).alarms;
}

TEST_F(MemberRequestsTest, AlarmsAreReplicatedListedAndSurviveARestart) {
  Start();
  EXPECT_TRUE(Alarmed(AlarmCall(AlarmRequest::GET, 0, etcdserverpb::NONE)).empty());
  EXPECT_EQ(Alarmed(AlarmCall(AlarmRequest::ACTIVATE, 5, etcdserverpb::NOSPACE)).size(), 1u);
  EXPECT_TRUE(Alarmed(AlarmCall(AlarmRequest::ACTIVATE, 5, etcdserverpb::NONE)).empty());
  CrashAndRestart();
  EXPECT_EQ(Alarmed(AlarmCall(AlarmRequest::GET, 0, etcdserverpb::NOSPACE)),
            (std::vector<AlarmMember>{{MemberId(5), AlarmType::kNoSpace}}));
  EXPECT_TRUE(Alarmed(AlarmCall(AlarmRequest::GET, 0, etcdserverpb::CORRUPT)).empty());
  EXPECT_TRUE(Alarmed(AlarmCall(AlarmRequest::DEACTIVATE, 0, etcdserverpb::NOSPACE)).empty())
      << "member 0 is no wildcard on the server";
  EXPECT_EQ(Alarmed(AlarmCall(AlarmRequest::DEACTIVATE, 5, etcdserverpb::NOSPACE)).size(), 1u);
  EXPECT_EQ(Put("k", "v").error, Error::kOk);
}

TEST_F(MemberRequestsTest, CorruptAlarmRefusesChangesOfKeysAndLeases) {
  Start();
  Put("k", "v");
  const int64_t lease = GrantedId(Grant(100));
  AlarmCall(AlarmRequest::ACTIVATE, 0, etcdserverpb::CORRUPT);
  EXPECT_EQ(Put("k", "w").error, Error::kCorrupt);
  EXPECT_EQ(Delete("k").error, Error::kCorrupt);
  EXPECT_EQ(Do(RequestKind::kTxn, "").error, Error::kCorrupt);
  EXPECT_EQ(Compact(2).error, Error::kCorrupt);
  EXPECT_EQ(Grant(10).error, Error::kCorrupt);
  EXPECT_EQ(Revoke(lease).error, Error::kCorrupt);
  EXPECT_EQ(Get("k"), "v") << "reads go on";
  AlarmCall(AlarmRequest::DEACTIVATE, 0, etcdserverpb::CORRUPT);
  EXPECT_EQ(Put("k", "w").error, Error::kOk);
}

class QuotaMemberTest : public MemberTest {
 protected:
  // Fills the store until a put is refused; gives the refusal.
  Error Fill() {
    for (int i = 0; i < 1000; ++i) {
      const std::string bytes = PutBytes("fill" + std::to_string(i), std::string(10000, 'x'));
      if (const Error refused = server_->CheckQuota(RequestKind::kPut, bytes);
          refused != Error::kOk) {
        Run();
        return refused;
      }
      if (const Reply reply = Do(RequestKind::kPut, bytes); reply.error != Error::kOk) {
        return reply.error;
      }
    }
    return Error::kOk;
  }
};

// C53: with the alarm up, everything that frees space works; compaction and disarm make it writable
// again.
TEST_F(QuotaMemberTest, C53NoSpaceIsLeftByCompactionAndDisarm) {
  options_.quota_backend_bytes = 1 << 20;
  Start();
  const int64_t lease = GrantedId(Grant(1000));
  Put("leased", "v", lease);
  ASSERT_EQ(Fill(), Error::kNoSpace);
  const uint64_t self = server_->Header().member_id.value();
  EXPECT_EQ(server_->GetStatus().alarms,
            (std::vector<AlarmMember>{{MemberId(self), AlarmType::kNoSpace}}));

  etcdserverpb::TxnRequest deletes;
  deletes.add_success()->mutable_request_delete_range()->set_key("fill0");
  EXPECT_EQ(Do(RequestKind::kTxn, deletes.SerializeAsString()).error, Error::kOk)
      << "a txn of deletes costs nothing";
  EXPECT_EQ(Revoke(lease).error, Error::kOk);
  Error refused = Error::kOk;
  Propose(RequestKind::kPut, PutBytes("new", std::string(300000, 'v')), &refused);
  EXPECT_EQ(refused, Error::kNoSpace);
  EXPECT_EQ(Delete("fill", "film").error, Error::kOk);
  EXPECT_EQ(Compact(Revision(), true).error, Error::kOk);

  EXPECT_EQ(Put("new", "v").error, Error::kNoSpace) << "the alarm stands until it is disarmed";
  EXPECT_EQ(Alarmed(AlarmCall(AlarmRequest::DEACTIVATE, self, etcdserverpb::NOSPACE)).size(), 1u);
  EXPECT_EQ(Put("new", "v").error, Error::kOk);
}

TEST_F(QuotaMemberTest, C53AlarmIsTakenBackAfterAMinuteBelow) {
  options_.quota_backend_bytes = 1 << 20;
  Start();
  ASSERT_EQ(Fill(), Error::kNoSpace);
  Pass(minutes(3));
  EXPECT_FALSE(server_->GetStatus().alarms.empty()) << "it is still full";
  Delete("fill", "film");
  Compact(Revision(), true);
  EXPECT_FALSE(server_->GetStatus().alarms.empty()) << "an operator's ritual still finds it";
  Pass(seconds(70));
  EXPECT_TRUE(server_->GetStatus().alarms.empty());
  EXPECT_EQ(Put("new", "v").error, Error::kOk);
}

TEST_F(QuotaMemberTest, WriteThatCrossesTheQuotaIsAppliedAndStillAnsweredNoSpace) {
  options_.quota_backend_bytes = 1 << 20;
  Start();
  // All pass the check before the log, since none is applied yet; the later ones cross the limit at
  // apply.
  std::vector<uint64_t> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(
        Propose(RequestKind::kPut, PutBytes("k" + std::to_string(i), std::string(200000, 'x'))));
  }
  Run();
  int refused = 0;
  for (const uint64_t call : calls) {
    const Reply reply = Take(call);
    refused += reply.error == Error::kNoSpace ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(Keys().size(), 8u) << "all of them were applied";
  EXPECT_EQ(server_->GetStatus().alarms.size(), 1u);
}

// C48: reads of alarms move the applied index in the store as well, so a crash never leaves it
// behind the log's start.
TEST_F(MemberRequestsTest, C48AppliedIndexAdvancesForEveryKindOfEntry) {
  options_.snapshot_count = 10;
  options_.snapshot_catchup_entries = 5;
  Start();
  for (int i = 0; i < 100; ++i) {
    AlarmCall(AlarmRequest::GET, 0, etcdserverpb::NONE);
  }
  EXPECT_EQ(backend_->applied().index.value(), server_->GetStatus().raft_applied_index);
  Pass(minutes(3));
  EXPECT_GT(disk_.synced.compacted.index.value(), 50u) << "the log was released";
  CrashAndRestart();
  EXPECT_EQ(Put("k", "v").error, Error::kOk);
  EXPECT_EQ(Revision(), 2);
}

}  // namespace
}  // namespace mainstay::server

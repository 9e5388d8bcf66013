// Goal: rows and small requests are read and written byte for byte as etcd does, and damaged ones
// are named. Method: literal bytes.
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "proto/etcdserverpb/rpc.pb.h"
#include "proto/membershippb/membership.pb.h"
#include "server/alarms.h"
#include "server/conf_state_json.h"
#include "server/small_requests.h"

namespace mainstay::server {
namespace {

TEST(ConfStateJsonTest, IsWhatEtcd37Stores) {
  raft::ConfState state;
  state.voters = {MemberId(10276657743932975437u)};
  EXPECT_EQ(ConfStateToJson(state), "{\"voters\":[10276657743932975437]}");
  state.learners = {MemberId(1), MemberId(2)};
  state.auto_leave = true;
  EXPECT_EQ(ConfStateToJson(state),
            "{\"voters\":[10276657743932975437],\"learners\":[1,2],\"auto_leave\":true}");
  EXPECT_EQ(ConfStateToJson({}), "{}");
}

TEST(ConfStateJsonTest, ReadsWhatItWritesAndWhat36Wrote) {
  raft::ConfState state;
  state.voters = {MemberId(1), MemberId(2)};
  state.voters_outgoing = {MemberId(2), MemberId(3)};
  state.learners_next = {MemberId(3)};
  state.auto_leave = true;
  StatusOr<raft::ConfState> back = ConfStateFromJson(ConfStateToJson(state));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, state);
  back = ConfStateFromJson("{\"voters\":[7],\"learners\":null, \"auto_leave\":false}");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->voters, std::vector<MemberId>{MemberId(7)});
  EXPECT_TRUE(ConfStateFromJson("{}").ok());
}

TEST(ConfStateJsonTest, DamageIsDataLoss) {
  for (const char* bad : {"", "{", "{\"voters\":[1}", "{\"voters\":[1]} x", "{\"other\":[1]}", "[]",
                          "{\"voters\":[99999999999999999999]}"}) {
    EXPECT_EQ(ConfStateFromJson(bad).status().code(), absl::StatusCode::kDataLoss) << bad;
  }
}

TEST(AlarmsTest, RowsAreEncodedAlarmMembers) {
  MetricRegistry metrics;
  Alarms alarms(metrics);
  backend::WriteBatch batch;
  EXPECT_TRUE(alarms.Activate({MemberId(5), AlarmType::kNoSpace}, batch));
  EXPECT_FALSE(alarms.Activate({MemberId(5), AlarmType::kNoSpace}, batch)) << "it stands already";
  ASSERT_EQ(batch.count(), 1u);
  etcdserverpb::AlarmMember row;
  row.set_memberid(5);
  row.set_alarm(etcdserverpb::NOSPACE);
  EXPECT_EQ(batch.at(0).key, backend::StateKey("alarm", row.SerializeAsString()));
  EXPECT_TRUE(batch.at(0).value.empty());
  EXPECT_TRUE(alarms.no_space());
  EXPECT_FALSE(alarms.corrupt());
  Alarms loaded(metrics);
  EXPECT_TRUE(loaded.Load(row.SerializeAsString()).ok());
  EXPECT_EQ(loaded.Get(AlarmType::kNone), alarms.Get(AlarmType::kNone));
  EXPECT_FALSE(loaded.Load("\x08").ok());
}

TEST(AlarmsTest, LeaveWithTheirMember) {
  MetricRegistry metrics;
  Alarms alarms(metrics);
  backend::WriteBatch batch;
  alarms.Activate({MemberId(5), AlarmType::kNoSpace}, batch);
  alarms.Activate({MemberId(5), AlarmType::kCorrupt}, batch);
  alarms.Activate({MemberId(6), AlarmType::kNoSpace}, batch);
  alarms.DropMember(MemberId(5), batch);
  EXPECT_EQ(alarms.Get(AlarmType::kNone),
            (std::vector<AlarmMember>{{MemberId(6), AlarmType::kNoSpace}}));
  EXPECT_FALSE(alarms.corrupt());
  EXPECT_TRUE(alarms.no_space());
}

TEST(SmallRequestsTest, AgreeWithProtobuf) {
  etcdserverpb::LeaseGrantRequest grant;
  grant.set_ttl(-5);
  grant.set_id(-1);
  const auto lease = DecodeLeaseGrant(grant.SerializeAsString());
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->ttl_s, -5);
  EXPECT_EQ(lease->id, LeaseId(-1));

  membershippb::ClusterMemberAttrSetRequest attributes;
  attributes.set_member_id(9);
  attributes.mutable_member_attributes()->set_name("n");
  attributes.mutable_member_attributes()->add_client_urls("http://a:1");
  attributes.mutable_member_attributes()->add_client_urls("http://b:1");
  const auto member = DecodeMemberAttributes(attributes.SerializeAsString());
  ASSERT_TRUE(member.has_value());
  EXPECT_EQ(member->member, MemberId(9));
  EXPECT_EQ(member->name, "n");
  EXPECT_EQ(member->client_urls.size(), 2u);

  etcdserverpb::LeaseCheckpointRequest checkpoints;
  auto* one = checkpoints.add_checkpoints();
  one->set_id(3);
  one->set_remaining_ttl(44);
  const auto decoded = DecodeLeaseCheckpoint(checkpoints.SerializeAsString());
  ASSERT_TRUE(decoded.has_value());
  ASSERT_EQ(decoded->size(), 1u);
  EXPECT_EQ((*decoded)[0].remaining_ttl_seconds, 44);

  EXPECT_FALSE(DecodeAlarm("\x08\x07").has_value()) << "no such action";
  EXPECT_FALSE(DecodeLeaseRevoke("\x08").has_value()) << "cut off";
}

}  // namespace
}  // namespace mainstay::server

// Goal: answers print as etcdctl 3.7.1 prints them; --hex JSON is valid JSON (case C58).
// Method: responses built by hand, texts as a real etcdctl printed them.
#include "cli/printer.h"

#include <gtest/gtest.h>

#include "cli/json.h"
#include "cli/session.h"

namespace mainstay::cli {
namespace {

pb::RangeResponse OneKey() {
  pb::RangeResponse response;
  response.mutable_header()->set_cluster_id(7190699259710836122U);
  response.mutable_header()->set_member_id(0x596df94eb872a84a);
  response.mutable_header()->set_revision(3);
  response.mutable_header()->set_raft_term(17);
  mvccpb::KeyValue& kv = *response.add_kvs();
  kv.set_key("foo");
  kv.set_create_revision(2);
  kv.set_mod_revision(3);
  kv.set_version(2);
  kv.set_value("b<ar");
  kv.set_lease(255);
  response.set_count(1);
  return response;
}

TEST(PrinterTest, GetInAllFormats) {
  const pb::RangeResponse response = OneKey();
  EXPECT_EQ(Printer(Format::kSimple, false).Get(response).out, "foo\nb<ar\n");
  EXPECT_EQ(Printer(Format::kSimple, false, true).Get(response).out, "b<ar\n");
  EXPECT_EQ(Printer(Format::kSimple, true).Get(response).out,
            "\\x66\\x6f\\x6f\n\\x62\\x3c\\x61\\x72\n");
  EXPECT_EQ(
      Printer(Format::kJson, false).Get(response).out,
      "{\"header\":{\"cluster_id\":7190699259710836122,\"member_id\":6444080758334335050,"
      "\"revision\":3,\"raft_term\":17},\"kvs\":[{\"key\":\"Zm9v\",\"create_revision\":2,"
      "\"mod_revision\":3,\"version\":2,\"value\":\"Yjxhcg==\",\"lease\":255}],\"count\":1}\n");
  EXPECT_EQ(
      Printer(Format::kFields, true).Get(response).out,
      "\"ClusterID\" : 63ca7ee0f5ba8d9a\n\"MemberID\" : 596df94eb872a84a\n\"Revision\" : 3\n"
      "\"RaftTerm\" : 17\n\"Key\" : \"foo\"\n\"CreateRevision\" : 2\n\"ModRevision\" : 3\n"
      "\"Version\" : 2\n\"Value\" : \"b<ar\"\n\"Lease\" : 00000000000000ff\n\"More\" : false\n"
      "\"Count\" : 1\n");
  EXPECT_EQ(Printer(Format::kProtobuf, false).Get(response).out, response.SerializeAsString());
}

TEST(PrinterTest, NoTableForKeys) {
  const Printed printed = Printer(Format::kTable, false).Get(OneKey());
  EXPECT_EQ(printed.code, 4);
  EXPECT_EQ(printed.error, "table not supported as output format");
  EXPECT_EQ(printed.out, "");
}

TEST(PrinterTest, TxnJsonHasGosWrapper) {
  pb::TxnResponse response;
  response.set_succeeded(true);
  response.add_responses()->mutable_response_put()->mutable_header()->set_revision(8);
  EXPECT_EQ(Printer(Format::kJson, false).Txn(response).out,
            "{\"succeeded\":true,\"responses\":[{\"Response\":{\"response_put\":{\"header\":"
            "{\"revision\":8}}}}]}\n");
  EXPECT_EQ(Printer(Format::kSimple, false).Txn(response).out, "SUCCESS\n\nOK\n");
}

TEST(PrinterTest, HexIdsInJsonAreStringsAndTheTermIsANumber) {
  pb::MemberListResponse response;
  response.mutable_header()->set_cluster_id(255);
  response.mutable_header()->set_raft_term(17);
  pb::Member& member = *response.add_members();
  member.set_id(0xabcdef);
  member.add_peerurls("http://a");
  EXPECT_EQ(Printer(Format::kJson, true).MemberList(response).out,
            "{\"header\":{\"cluster_id\":\"ff\",\"member_id\":\"0\",\"raft_term\":17},\"members\":"
            "[{\"ID\":\"abcdef\",\"peerURLs\":[\"http://a\"]}]}\n");
}

TEST(PrinterTest, LeaseJsonIsFlat) {
  pb::LeaseTimeToLiveResponse response;
  response.mutable_header()->set_revision(3);
  response.set_id(291);
  response.set_ttl(-1);
  EXPECT_EQ(Printer(Format::kJson, false).LeaseTimeToLive(response, true).out,
            "{\"revision\":3,\"id\":291,\"ttl\":-1,\"granted-ttl\":0,\"keys\":null}\n");
  EXPECT_EQ(Printer(Format::kSimple, false).LeaseTimeToLive(response, true).out,
            "lease 0000000000000123 already expired\n");
  EXPECT_EQ(Printer(Format::kProtobuf, false).LeaseTimeToLive(response, true).out,
            response.header().SerializeAsString());
}

TEST(PrinterTest, WatchAnswers) {
  client::WatchAnswer answer;
  answer.header.set_revision(5);
  mvccpb::Event put;
  put.mutable_kv()->set_key("k");
  put.mutable_kv()->set_value("v");
  mvccpb::Event removal;
  removal.set_type(mvccpb::Event::DELETE);
  removal.mutable_kv()->set_key("k");
  *removal.mutable_prev_kv() = put.kv();
  answer.events = {put, removal};
  EXPECT_EQ(Printer(Format::kSimple, false).Watch(answer).out, "PUT\nk\nv\nDELETE\nk\nv\nk\n\n");
  EXPECT_EQ(
      Printer(Format::kJson, false).Watch(answer).out,
      "{\"Header\":{\"revision\":5},\"Events\":[{\"kv\":{\"key\":\"aw==\",\"value\":\"dg==\"}},"
      "{\"type\":1,\"kv\":{\"key\":\"aw==\"},\"prev_kv\":{\"key\":\"aw==\",\"value\":\"dg==\"}}],"
      "\"CompactRevision\":0,\"Canceled\":false,\"Created\":false,\"CancelReason\":\"\"}\n");
}

TEST(PrinterTest, StatusFieldsNameEachFieldOnce) {
  EndpointStatus endpoint{.endpoint = "e", .status = {}};
  endpoint.status.mutable_header()->set_raft_term(2);
  endpoint.status.set_raftterm(2);
  const std::string out = Printer(Format::kFields, false).Statuses({endpoint}).out;
  EXPECT_EQ(out.find("\"RaftTerm\""), out.rfind("\"RaftTerm\"")) << out;
}

TEST(PrinterTest, RolesNamePrefixes) {
  pb::AuthRoleGetResponse response;
  authpb::Permission& prefix = *response.add_perm();
  prefix.set_permtype(authpb::Permission::READWRITE);
  prefix.set_key("a/");
  prefix.set_range_end("a0");
  authpb::Permission& open = *response.add_perm();
  open.set_permtype(authpb::Permission::READ);
  open.set_key("b");
  open.set_range_end(std::string(1, '\0'));
  EXPECT_EQ(
      Printer(Format::kSimple, false).RoleGet("r", response).out,
      "Role r\nKV Read:\n\t[a/, a0) (prefix a/)\n\t[b, <open ended>\nKV Write:\n\t[a/, a0) (prefix "
      "a/)\n");
}

TEST(ErrorTextTest, KnownTextsStandAlone) {
  EXPECT_EQ(ErrorText(absl::NotFoundError("etcdserver: requested lease not found")),
            "etcdserver: requested lease not found");
  EXPECT_EQ(ErrorText(absl::UnknownError("boom")), "rpc error: code = Unknown desc = boom");
  EXPECT_EQ(ErrorText(absl::DeadlineExceededError("Deadline Exceeded")),
            "context deadline exceeded");
}

}  // namespace
}  // namespace mainstay::cli

// Goal: ids and JSON come out as etcd's, byte for byte.
// Method: the computed vectors of the reference page; rows as etcd writes them.
#include "membership/member.h"

#include <gtest/gtest.h>

#include "membership/json.h"

namespace mainstay::membership {
namespace {

using Urls = std::vector<std::string>;

TEST(MemberIdTest, BootstrapVectors) {
  const MemberId local = ComputeMemberId({"http://localhost:2380"}, "etcd-cluster");
  EXPECT_EQ(local.value(), 0x8e9e05c52164694dU);
  EXPECT_EQ(ComputeClusterId({local}).value(), 0xcdf818194e3a8c32U);

  std::vector<MemberId> ids;
  for (const char* url :
       {"http://127.0.0.1:12380", "http://127.0.0.1:22380", "http://127.0.0.1:32380"}) {
    ids.push_back(ComputeMemberId({url}, "etcd-cluster"));
  }
  EXPECT_EQ(ids[0].value(), 0xddd67b312462fd7bU);
  EXPECT_EQ(ids[1].value(), 0x9e737febb6b99eeeU);
  EXPECT_EQ(ids[2].value(), 0x0628170c800dbceeU);
  EXPECT_EQ(ComputeClusterId(ids).value(), 0x73841b4a9097c907U);

  ids.clear();
  for (const char* url :
       {"https://10.0.0.1:2380", "https://10.0.0.2:2380", "https://10.0.0.3:2380"}) {
    ids.push_back(ComputeMemberId({url}, "tkn"));
  }
  EXPECT_EQ(ids[0].value(), 0xeae56f10e4d75b91U);
  EXPECT_EQ(ids[1].value(), 0xaa992295444927aeU);
  EXPECT_EQ(ids[2].value(), 0xd94c59a955ae768eU);
  EXPECT_EQ(ComputeClusterId(ids).value(), 0xe33647110adabc7dU);
}

TEST(MemberIdTest, UrlOrderDoesNotMatterAndTimeDoes) {
  EXPECT_EQ(ComputeMemberId({"http://b:1", "http://a:1"}, "t"),
            ComputeMemberId({"http://a:1", "http://b:1"}, "t"));
  EXPECT_EQ(ComputeMemberId({"http://a:1"}, "", 1700000000),
            ComputeMemberId({"http://a:1"}, "1700000000"));
  EXPECT_NE(ComputeMemberId({"http://a:1"}, "", 1700000000),
            ComputeMemberId({"http://a:1"}, "", 1700000001));
}

TEST(MemberJsonTest, WritesWhatEtcdWrites) {
  Member member{.id = MemberId(0x8e9e05c52164694d), .peer_urls = {"http://localhost:2380"}};
  EXPECT_EQ(MemberToJson(member),
            R"({"id":10276657743932975437,"peerURLs":["http://localhost:2380"]})");
  member.is_learner = true;
  member.name = "default";
  member.client_urls = {"http://localhost:2379", "http://10.0.0.1:2379"};
  EXPECT_EQ(MemberToJson(member),
            R"({"id":10276657743932975437,"peerURLs":["http://localhost:2380"],"isLearner":true,)"
            R"("name":"default","clientURLs":["http://localhost:2379","http://10.0.0.1:2379"]})");
}

TEST(MemberJsonTest, EscapesAsGoDoes) {
  Member member{.id = MemberId(1)};
  member.name = std::string("a<b>&\"\\\n\x01\x7F\xFF", 11) + "é\u2028";
  const std::string json = MemberToJson(member);
  EXPECT_EQ(json,
            "{\"id\":1,\"peerURLs\":null,\"name\":\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\u0001\x7F"
            "\\ufffdé\\u2028\"}");
  // The byte that was no UTF-8 is gone for good; all else comes back.
  EXPECT_EQ(MemberFromJson(json)->name, "a<b>&\"\\\n\x01\x7F\uFFFDé\u2028");
}

TEST(MemberJsonTest, ReadsBackAnyOrderAndUnknownFields) {
  const auto member = MemberFromJson(
      R"( { "name" : "x", "later":{"a":[1,-2.5e3,null,"\ud83d\ude00"]}, "clientURLs":[], "id":7 , "peerURLs":["http:\/\/a:1"]} )");
  ASSERT_TRUE(member.ok());
  EXPECT_EQ(*member, (Member{.id = MemberId(7),
                             .peer_urls = {"http://a:1"},
                             .is_learner = false,
                             .name = "x",
                             .client_urls = {}}));
}

TEST(MemberJsonTest, MalformedTextIsRefused) {
  for (
      const char* bad :
      {"", "{", "[]", "{}x", R"({"id":})", R"({"id":-1})", R"({"id":18446744073709551616})",
       R"({"id":01})", R"({"id":1,})", R"({"id":1 "name":"a"})", R"({"name":"a)",
       R"({"name":"\x"})", R"({"name":"\u12g4"})", R"({"peerURLs":["a",]})", R"({"peerURLs":"a"})",
       R"({"isLearner":1})",
       R"({"x":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]})"}) {
    EXPECT_FALSE(MemberFromJson(bad).ok()) << bad;
  }
}

TEST(ChangeContextTest, PromotionCarriesOnlyTheId) {
  ChangeContext context{.member = {.id = MemberId(12)}, .is_promote = true};
  const std::string json = ChangeContextToJson(context);
  EXPECT_EQ(json, R"({"id":12,"peerURLs":null,"isPromote":true})");
  EXPECT_TRUE(ChangeContextFromJson(json)->is_promote);
  EXPECT_EQ(ChangeContextFromJson(json)->member.id, MemberId(12));
  context.is_promote = false;
  EXPECT_EQ(ChangeContextToJson(context), R"({"id":12,"peerURLs":null})");
}

}  // namespace
}  // namespace mainstay::membership

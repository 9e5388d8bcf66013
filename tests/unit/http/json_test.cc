// Goal: the gateway's JSON is grpc-gateway's: what it accepts, what it prints, and how a body is
// cut into documents. Method: examples, each as etcd 3.7.1 answered it; and every split of a body
// into two pieces.
#include "http/json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/query.h"
#include "proto/etcdserverpb/rpc.pb.h"
#include "rpc/method.h"

namespace mainstay::http {
namespace {

etcdserverpb::RangeRequest ParseRange(std::string_view json) {
  StatusOr<std::string> bytes = JsonToBytes("etcdserverpb.RangeRequest", json);
  EXPECT_TRUE(bytes.ok()) << json;
  etcdserverpb::RangeRequest request;
  EXPECT_TRUE(request.ParseFromString(bytes.ok() ? *bytes : "x"));
  return request;
}

TEST(JsonTest, AcceptsProtoNamesAndCamelCase) {
  EXPECT_EQ(ParseRange(R"({"key":"Zm9v","range_end":"AA==","sort_order":"DESCEND"})").range_end(),
            std::string(1, '\0'));
  EXPECT_EQ(ParseRange(R"({"rangeEnd":"AA==","sortOrder":2})").sort_order(),
            etcdserverpb::RangeRequest::DESCEND);
}

TEST(JsonTest, AcceptsNumbersAsTextAndAsNumbers) {
  EXPECT_EQ(ParseRange(R"({"limit":"2"})").limit(), 2);
  EXPECT_EQ(ParseRange(R"({"limit":2})").limit(), 2);
  EXPECT_EQ(ParseRange(R"({"revision":"-9223372036854775808"})").revision(), INT64_MIN);
}

TEST(JsonTest, AcceptsUrlSafeAndUnpaddedBase64) {
  EXPECT_EQ(ParseRange(R"({"key":"_-8="})").key(), "\xff\xef");
  EXPECT_EQ(ParseRange(R"({"key":"/+8"})").key(), "\xff\xef");
}

TEST(JsonTest, IgnoresUnknownFieldsAndEnumNames) {
  const auto request = ParseRange(R"({"key":"Zm9v","bogus":{"a":[1]},"sort_order":"NOPE"})");
  EXPECT_EQ(request.key(), "foo");
  EXPECT_EQ(request.sort_order(), etcdserverpb::RangeRequest::NONE);
}

TEST(JsonTest, EmptyTextIsTheEmptyMessage) {
  EXPECT_EQ(ParseRange("").ByteSizeLong(), 0u);
  EXPECT_EQ(ParseRange(" \n").ByteSizeLong(), 0u);
}

TEST(JsonTest, RefusesWhatIsNoJson) {
  EXPECT_FALSE(JsonToBytes("etcdserverpb.RangeRequest", R"({"key":)").ok());
  EXPECT_FALSE(JsonToBytes("etcdserverpb.RangeRequest", R"({"limit":"x"})").ok());
  EXPECT_FALSE(JsonToBytes("etcdserverpb.RangeRequest", "[]").ok());
}

TEST(JsonTest, PrintsProtoNamesWithoutDefaults) {
  etcdserverpb::RangeResponse response;
  response.mutable_header()->set_cluster_id(14841639068965178418u);
  mvccpb::KeyValue* kv = response.add_kvs();
  kv->set_key("foo");
  kv->set_create_revision(2);
  response.set_count(1);
  StatusOr<std::string> json =
      BytesToJson("etcdserverpb.RangeResponse", response.SerializeAsString());
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*json, R"({"header":{"cluster_id":"14841639068965178418"},)"
                   R"("kvs":[{"key":"Zm9v","create_revision":"2"}],"count":"1"})");
}

TEST(JsonTest, PrintsHashesAsNumbersAndEmptyMessagesAsObjects) {
  etcdserverpb::HashKVResponse hash;
  hash.set_hash(3305255506u);
  hash.set_compact_revision(-1);
  EXPECT_EQ(*BytesToJson("etcdserverpb.HashKVResponse", hash.SerializeAsString()),
            R"({"hash":3305255506,"compact_revision":"-1"})");
  etcdserverpb::StatusResponse status;
  status.mutable_downgradeinfo();
  EXPECT_EQ(*BytesToJson("etcdserverpb.StatusResponse", status.SerializeAsString()),
            R"({"downgradeInfo":{}})");
}

TEST(JsonTest, EveryMethodsMessagesAreKnown) {
  for (const rpc::Method& method : rpc::AllMethods()) {
    EXPECT_TRUE(JsonToBytes(method.request_type, "{}").ok()) << method.request_type;
    EXPECT_TRUE(BytesToJson(method.response_type, "").ok()) << method.response_type;
  }
}

TEST(JsonTest, ErrorsCarryCodeAndMessage) {
  EXPECT_EQ(StatusJson(rpc::Code::kInvalidArgument, "etcdserver: key is not provided"),
            R"({"code":3,"message":"etcdserver: key is not provided"})");
  EXPECT_EQ(HttpStatus(rpc::Code::kOutOfRange), 400);
  EXPECT_EQ(HttpStatus(rpc::Code::kCancelled), 499);
  EXPECT_EQ(HttpStatus(rpc::Code::kUnimplemented), 501);
  EXPECT_EQ(HttpStatus(rpc::Code::kUnavailable), 503);
  EXPECT_EQ(HttpStatus(rpc::Code::kDeadlineExceeded), 504);
}

TEST(DocumentSplitterTest, CutsABodyTheSameHoweverItArrives) {
  const std::string body = "  {\"a\":\"}\\\"{\"} {\"b\":[{}]}\n{}  ";
  const std::vector<std::string> wanted = {R"({"a":"}\"{"})", R"({"b":[{}]})", "{}"};
  for (size_t cut = 0; cut <= body.size(); ++cut) {
    DocumentSplitter splitter(1000);
    std::vector<std::string> found;
    for (const std::string& piece : {body.substr(0, cut), body.substr(cut)}) {
      splitter.Add(piece);
      while (std::optional<std::string> document = splitter.Next()) {
        found.push_back(*document);
      }
    }
    EXPECT_EQ(found, wanted) << "cut at " << cut;
    EXPECT_FALSE(splitter.pending());
  }
}

TEST(DocumentSplitterTest, TellsOfADocumentThatDidNotEnd) {
  DocumentSplitter splitter(8);
  splitter.Add("{\"a\":1");
  EXPECT_FALSE(splitter.Next().has_value());
  EXPECT_TRUE(splitter.pending());
  EXPECT_FALSE(splitter.too_long());
  splitter.Add("1111");
  EXPECT_TRUE(splitter.too_long());
}

TEST(QueryTest, DecodesNamesAndValues) {
  const Query query("exclude=NOSPACE&exclude=a%2Fb+c&verbose&=x&&z=");
  EXPECT_EQ(query.All("exclude"), (std::vector<std::string>{"NOSPACE", "a/b c"}));
  EXPECT_TRUE(query.Has("verbose"));
  EXPECT_FALSE(query.Has("exclud"));
  EXPECT_EQ(query.First("z"), "");
}

}  // namespace
}  // namespace mainstay::http

// Goal: URL lists are taken and refused as etcd does, with its texts.
// Method: a table of one URL and the start of its error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "membership/member.h"

namespace mainstay::membership {
namespace {

TEST(CheckUrlTest, Table) {
  const struct {
    const char* url;
    const char* error;  // nullptr = fine
  } kCases[] = {
      {"http://127.0.0.1:2380", nullptr},
      {"https://host.example:2379", nullptr},
      {"HTTP://host:1", nullptr},
      {"http://[::1]:2380", nullptr},
      {"http://user@host:80", nullptr},
      {"http://host:", nullptr},
      {"unix:///var/run/x.sock", nullptr},
      {"unixs://localhost:2379", nullptr},
      {"unix:/abs/path", nullptr},
      {"http://host", "URL address does not have the form \"host:port\": http://host"},
      {"http://::1:2380", "URL address does not have the form"},
      {"http://[::1]", "URL address does not have the form"},
      {"http://host:port", "URL address does not have the form"},
      {"http:host:1", "URL address does not have the form"},
      {"http://host:1/", "URL must not contain a path: http://host:1/"},
      {"http://host:1/x", "URL must not contain a path: http://host:1/x"},
      {"ftp://host:1", "URL scheme must be http, https, unix, or unixs: ftp://host:1"},
      {"localhost:2380", "URL scheme must be http, https, unix, or unixs: localhost:2380"},
      {"127.0.0.1:2380", "URL scheme must be http, https, unix, or unixs: "},
      {"", "URL scheme must be http, https, unix, or unixs: "},
      {"http://a b:1", "parse "},
  };
  for (const auto& c : kCases) {
    const Status status = CheckUrl(c.url);
    if (c.error == nullptr) {
      EXPECT_TRUE(status.ok()) << c.url << ": " << status;
    } else {
      EXPECT_THAT(std::string(Message(status)), testing::StartsWith(c.error)) << c.url;
    }
  }
}

TEST(ParseUrlsTest, TrimsAndSorts) {
  EXPECT_THAT(*ParseUrls({" http://b:1 ", "HTTPS://a:1"}),
              testing::ElementsAre("http://b:1", "https://a:1"));
  EXPECT_FALSE(ParseUrls({}).ok());
  EXPECT_FALSE(ParseUrls({"http://a:1", "nonsense"}).ok());
}

TEST(ParseInitialClusterTest, GroupsByName) {
  const auto parsed =
      ParseInitialCluster("b=http://10.0.0.2:2380,a=http://10.0.0.1:2380,,a=http://10.0.0.1:2381");
  ASSERT_TRUE(parsed.ok());
  EXPECT_THAT(
      *parsed,
      testing::ElementsAre(
          testing::Pair("a", testing::ElementsAre("http://10.0.0.1:2380", "http://10.0.0.1:2381")),
          testing::Pair("b", testing::ElementsAre("http://10.0.0.2:2380"))));
  EXPECT_TRUE(ParseInitialCluster("")->empty());
}

TEST(ParseInitialClusterTest, BadUrlIsNamed) {
  const auto parsed = ParseInitialCluster("a=http://10.0.0.1:2380,b=10.0.0.2");
  EXPECT_THAT(std::string(Message(parsed.status())), testing::HasSubstr("10.0.0.2"));
  EXPECT_FALSE(ParseInitialCluster("a").ok());
}

}  // namespace
}  // namespace mainstay::membership

// Goal: lines of `txn` are read as etcdctl reads them; lease comparisons, which make 3.7.1 panic,
// work (case C60). Method: lines with the outcome that a real etcdctl 3.7.1 showed.
#include "cli/txn_language.h"

#include <gtest/gtest.h>

#include "common/status.h"

namespace mainstay::cli {
namespace {

using Words = std::vector<std::string>;
using Compare = etcdserverpb::Compare;

TEST(SplitWordsTest, QuotesAndBlanks) {
  EXPECT_EQ(*SplitWords("put  k\tv"), (Words{"put", "k", "v"}));
  EXPECT_EQ(*SplitWords("put k 'a b'"), (Words{"put", "k", "a b"}));
  EXPECT_EQ(*SplitWords(R"(put k "a\tb\x00\"")"), (Words{"put", "k", std::string("a\tb\0\"", 5)}));
  EXPECT_EQ(*SplitWords("put k 'a\"b'"), (Words{"put", "k", "a\"b"}));
  EXPECT_EQ(*SplitWords("put k it's"), (Words{"put", "k", "it's"}));
  EXPECT_EQ(*SplitWords("put k \"\" ''"), (Words{"put", "k", "", ""}));
  EXPECT_EQ(*SplitWords("put k v\r"), (Words{"put", "k", "v"}));
  EXPECT_TRUE(SplitWords("   ")->empty());
}

TEST(SplitWordsTest, UnbalancedQuoteIsSkipped) {
  EXPECT_EQ(*SplitWords("put k 'a"), (Words{"put", "k", "a"}));
  EXPECT_EQ(*SplitWords("put k \"a"), (Words{"put", "k", "a"}));
  EXPECT_EQ(*SplitWords("'"), Words{});
}

TEST(SplitWordsTest, BadEscapeIsAnError) {
  EXPECT_EQ(Message(SplitWords(R"(put "\xzz" b)").status()), "invalid syntax");
}

TEST(ParseComparisonTest, EveryTargetAndOperator) {
  EXPECT_EQ(ParseComparison(R"(mod("k") > "5")")->mod_revision(), 5);
  EXPECT_EQ(ParseComparison(R"(m("k") > "5")")->target(), Compare::MOD);
  EXPECT_EQ(ParseComparison(R"(create("k") = "0")")->target(), Compare::CREATE);
  EXPECT_EQ(ParseComparison(R"(c("k") = "0")")->result(), Compare::EQUAL);
  EXPECT_EQ(ParseComparison(R"(version("k") < "-1")")->version(), -1);
  EXPECT_EQ(ParseComparison(R"(ver("k") != "1")")->result(), Compare::NOT_EQUAL);
  EXPECT_EQ(ParseComparison(R"(val("a b\n") < "x y")")->value(), "x y");
  EXPECT_EQ(ParseComparison(R"(value("a b\n") < "x y")")->key(), "a b\n");
  const auto lease = ParseComparison(R"(lease("k") = "3b36a231d6285f04")");
  EXPECT_EQ(lease->target(), Compare::LEASE);
  EXPECT_EQ(lease->lease(), 0x3b36a231d6285f04);
}

TEST(ParseComparisonTest, ErrorsAreMessages) {
  const auto error = [](std::string_view line) {
    return std::string(Message(ParseComparison(line).status()));
  };
  EXPECT_EQ(error("mod"), "malformed comparison: mod");
  EXPECT_EQ(error(R"(mod("k")> "0")"), R"(malformed comparison: mod("k")> "0"; got mod("k")  "")");
  EXPECT_EQ(error(R"(mod("k") >"0")"),
            R"(malformed comparison: mod("k") >"0"; got mod("k") >"0" "")");
  EXPECT_EQ(error(R"(x("k") > "0")"), R"(malformed comparison: x("k") > "0" (unknown target x))");
  EXPECT_EQ(error(R"(mod("k") > "x")"), R"(invalid txn compare request: mod("k") > "x")");
  EXPECT_EQ(error(R"(lease("k") > "zz")"), R"(invalid txn compare request: lease("k") > "zz")");
  EXPECT_EQ(error(R"(mod("k") ~ "1")"),
            R"(malformed comparison: mod("k") ~ "1" (unknown operator ~))");
}

}  // namespace
}  // namespace mainstay::cli

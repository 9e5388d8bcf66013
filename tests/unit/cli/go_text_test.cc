// Goal: text is read and written as Go does it, since scripts compare it.
// Method: values taken from Go's documentation of strconv, encoding/json and time, and from
// etcdctl 3.7.1's output.
#include "cli/go_text.h"

#include <gtest/gtest.h>

namespace mainstay::cli {
namespace {

using namespace std::chrono_literals;

TEST(GoQuoteTest, EscapesWhatGoEscapes) {
  EXPECT_EQ(GoQuote("plain"), "\"plain\"");
  EXPECT_EQ(GoQuote("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(GoQuote("\a\b\f\n\r\t\v"), R"("\a\b\f\n\r\t\v")");
  EXPECT_EQ(GoQuote(std::string("\0\x01\x7f", 3)), R"("\x00\x01\x7f")");
  EXPECT_EQ(GoQuote("é"), "\"é\"");
  EXPECT_EQ(GoQuote("\xff\xc3"), R"("\xff\xc3")");
  EXPECT_EQ(GoQuote("\u2028\u00a0"), R"("\u2028\u00a0")");
  EXPECT_EQ(GoQuote("\xF4\x8F\xBF\xBF"), R"("\U0010ffff")");
}

TEST(GoQuoteTest, UnquoteReversesQuote) {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(static_cast<char>(i));
  }
  all += "é\u2028\xF0\x9F\x98\x80";
  EXPECT_EQ(GoUnquote(GoQuote(all)), all);
}

TEST(GoQuoteTest, UnquoteRefusesWhatGoRefuses) {
  for (const char* bad : {"", "\"", "a", "\"a", R"("\xzz")", R"("\q")", R"("\400")", R"("\ud800")",
                          R"("a"b")", "'a'", R"("\)"}) {
    EXPECT_EQ(GoUnquote(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(GoUnquote("`a\\n`"), "a\\n");
  EXPECT_EQ(GoUnquote(R"("\101\x42\u0043")"), "ABC");
}

TEST(JsonStringTest, EscapesAsEncodingJson) {
  EXPECT_EQ(JsonString("a<b>&\"\\"), R"("a\u003cb\u003e\u0026\"\\")");
  EXPECT_EQ(JsonString("\b\f\n\r\t\x01"), R"("\b\f\n\r\t\u0001")");
  EXPECT_EQ(JsonString("\xff"
                       "é\u2029"),
            "\"\\ufffdé\\u2029\"");
}

TEST(Base64Test, PadsToFour) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64("\xff\xfe"), "//4=");
}

TEST(HexEscapedTest, TwoDigitsEach) {
  EXPECT_EQ(HexEscaped(std::string("a\0\xff", 3)), R"(\x61\x00\xff)");
}

TEST(GoParseIntTest, RangeAndSyntaxErrorsAreNamed) {
  EXPECT_EQ(GoParseInt("-9223372036854775808", 10).value, INT64_MIN);
  EXPECT_EQ(GoParseInt("7fffffffffffffff", 16).value, INT64_MAX);
  EXPECT_EQ(GoParseInt("+5", 10).value, 5);
  EXPECT_EQ(GoParseInt("x", 10).error, R"(strconv.ParseInt: parsing "x": invalid syntax)");
  EXPECT_EQ(GoParseInt("", 10).error, R"(strconv.ParseInt: parsing "": invalid syntax)");
  EXPECT_EQ(GoParseInt("9223372036854775808", 10).error,
            R"(strconv.ParseInt: parsing "9223372036854775808": value out of range)");
  EXPECT_EQ(GoParseUint("18446744073709551616", 10).error,
            R"(strconv.ParseUint: parsing "18446744073709551616": value out of range)");
}

TEST(GoParseDurationTest, UnitsAddUp) {
  EXPECT_EQ(GoParseDuration("1h2m3.5s").value, 1h + 2min + 3500ms);
  EXPECT_EQ(GoParseDuration("-1.5ms").value, -1500us);
  EXPECT_EQ(GoParseDuration("0").value, 0ns);
  EXPECT_EQ(GoParseDuration("7µs").value, 7us);
}

TEST(GoParseDurationTest, ErrorsAreGos) {
  EXPECT_EQ(GoParseDuration("5").error, R"(time: missing unit in duration "5")");
  EXPECT_EQ(GoParseDuration("5x").error, R"(time: unknown unit "x" in duration "5x")");
  EXPECT_EQ(GoParseDuration("").error, R"(time: invalid duration "")");
  EXPECT_EQ(GoParseDuration("s").error, R"(time: invalid duration "s")");
  EXPECT_EQ(GoParseDuration("1.2.3s").error, R"(time: invalid duration "1.2.3s")");
}

TEST(GoDurationTest, ShortestForm) {
  EXPECT_EQ(GoDuration(0ns), "0s");
  EXPECT_EQ(GoDuration(999ns), "999ns");
  EXPECT_EQ(GoDuration(1500ns), "1.5µs");
  EXPECT_EQ(GoDuration(4453380ns), "4.45338ms");
  EXPECT_EQ(GoDuration(1s), "1s");
  EXPECT_EQ(GoDuration(90s), "1m30s");
  EXPECT_EQ(GoDuration(3600s), "1h0m0s");
  EXPECT_EQ(GoDuration(-1500ms), "-1.5s");
}

TEST(HumanBytesTest, OneDecimalBelowTen) {
  EXPECT_EQ(HumanBytes(9), "9 B");
  EXPECT_EQ(HumanBytes(10), "10 B");
  EXPECT_EQ(HumanBytes(20480), "20 kB");
  EXPECT_EQ(HumanBytes(98304), "98 kB");
  EXPECT_EQ(HumanBytes(2147483648), "2.1 GB");
}

}  // namespace
}  // namespace mainstay::cli

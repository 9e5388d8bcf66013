// Goal: flags parse as pflag parses them, error texts included.
// Method: one set with a flag of each type; texts as etcdctl 3.7.1 prints them.
#include "cli/flags.h"

#include <gtest/gtest.h>

namespace mainstay::cli {
namespace {

const std::vector<FlagSpec>& Specs() {
  static const auto& specs =
      *new std::vector<FlagSpec>{{"write-out", 'w', FlagType::kString, "simple", "format"},
                                 {"interactive", 'i', FlagType::kBool, "false", "ask"},
                                 {"limit", 0, FlagType::kInt, "0", "count"},
                                 {"max", 0, FlagType::kUint, "128", "most"},
                                 {"wait", 0, FlagType::kDuration, "5s", "time"},
                                 {"endpoints", 0, FlagType::kStrings, "127.0.0.1:2379", "servers"}};
  return specs;
}

struct Result {
  FlagSet flags;
  std::string error;
  std::vector<std::string> args;
  std::optional<size_t> dash;
};

Result Parse(const std::vector<std::string>& args) {
  Result result;
  for (const FlagSpec& spec : Specs()) {
    result.flags.Add(spec);
  }
  result.error = result.flags.Parse(args, result.args, result.dash).value_or("");
  return result;
}

TEST(FlagSetTest, AllFormsOfAValue) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--write-out=json"},
                                               {"--write-out", "json"},
                                               {"-w", "json"},
                                               {"-wjson"},
                                               {"-w=json"},
                                               {"-iw", "json"},
                                               {"-iwjson"}}) {
    const Result result = Parse(args);
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.flags.String("write-out"), "json") << args[0];
    EXPECT_TRUE(result.flags.Changed("write-out"));
    EXPECT_TRUE(result.args.empty());
  }
}

TEST(FlagSetTest, FlagsStandBetweenArguments) {
  const Result result = Parse({"a", "--limit", "5", "b", "-i", "c"});
  EXPECT_EQ(result.args, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(result.flags.Int("limit"), 5);
  EXPECT_TRUE(result.flags.Bool("interactive"));
  EXPECT_FALSE(result.dash.has_value());
}

TEST(FlagSetTest, DoubleDashEndsFlags) {
  const Result result = Parse({"a", "--", "--limit", "-x"});
  EXPECT_EQ(result.args, (std::vector<std::string>{"a", "--limit", "-x"}));
  EXPECT_EQ(result.dash, 1U);
  EXPECT_EQ(result.flags.Int("limit"), 0);
}

TEST(FlagSetTest, ASingleDashIsAnArgument) {
  EXPECT_EQ(Parse({"-"}).args, std::vector<std::string>{"-"});
}

TEST(FlagSetTest, DefaultsHoldUntilSet) {
  const Result result = Parse({"--interactive=false"});
  EXPECT_EQ(result.flags.Uint("max"), 128U);
  EXPECT_EQ(result.flags.Duration("wait"), std::chrono::seconds(5));
  EXPECT_EQ(result.flags.Strings("endpoints"), std::vector<std::string>{"127.0.0.1:2379"});
  EXPECT_FALSE(result.flags.Bool("interactive"));
  EXPECT_TRUE(result.flags.Changed("interactive"));
  EXPECT_FALSE(result.flags.Changed("max"));
}

TEST(FlagSetTest, ListsReplaceTheDefaultAndThenGrow) {
  EXPECT_EQ(Parse({"--endpoints", "a,b", "--endpoints=c"}).flags.Strings("endpoints"),
            (std::vector<std::string>{"a", "b", "c"}));
}

TEST(FlagSetTest, ErrorTextsArePflags) {
  EXPECT_EQ(Parse({"--nosuch"}).error, "unknown flag: --nosuch");
  EXPECT_EQ(Parse({"--nosuch=1"}).error, "unknown flag: --nosuch");
  EXPECT_EQ(Parse({"-ix"}).error, "unknown shorthand flag: 'x' in -ix");
  EXPECT_EQ(Parse({"--limit"}).error, "flag needs an argument: --limit");
  EXPECT_EQ(Parse({"-w"}).error, "flag needs an argument: 'w' in -w");
  EXPECT_EQ(Parse({"---x"}).error, "bad flag syntax: ---x");
  EXPECT_EQ(
      Parse({"--limit=x"}).error,
      R"(invalid argument "x" for "--limit" flag: strconv.ParseInt: parsing "x": invalid syntax)");
  EXPECT_EQ(Parse({"--interactive=maybe"}).error,
            "invalid argument \"maybe\" for \"-i, --interactive\" flag: strconv.ParseBool: parsing "
            "\"maybe\": invalid syntax");
  EXPECT_EQ(Parse({"--wait", "5"}).error,
            R"(invalid argument "5" for "--wait" flag: time: missing unit in duration "5")");
}

TEST(FlagSetTest, HelpIsWanted) {
  EXPECT_TRUE(Parse({"a", "--help", "--nosuch"}).flags.help_wanted());
  EXPECT_TRUE(Parse({"-h"}).flags.help_wanted());
  EXPECT_FALSE(Parse({"--", "-h"}).flags.help_wanted());
}

TEST(FlagUsagesTest, AlignsAndNamesDefaults) {
  EXPECT_EQ(FlagUsages({Specs()[0], Specs()[1], Specs()[3]}),
            "  -i, --interactive        ask\n"
            "      --max uint           most (default 128)\n"
            "  -w, --write-out string   format (default \"simple\")\n");
}

}  // namespace
}  // namespace mainstay::cli

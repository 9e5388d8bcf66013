// Goal: argument lists find the command that cobra would find.
// Method: the real command tree, and small ones.
#include "cli/command.h"

#include <gtest/gtest.h>

#include <set>

#include "cli/commands.h"
#include "cli/completion.h"

namespace mainstay::cli {
namespace {

std::string PathOf(const std::vector<std::string>& args) {
  static const auto& root = *new Command(ControlRoot());
  const Found found = FindCommand(root, args);
  std::string out;
  for (size_t i = 1; i < found.path.size(); ++i) {
    out += (i == 1 ? "" : " ") + found.path[i]->name;
  }
  for (const std::string& rest : found.rest) {
    out += "|" + rest;
  }
  return out;
}

TEST(FindCommandTest, UniquePrefixesMatch) {
  EXPECT_EQ(PathOf({"compact", "5"}), "compaction|5");
  EXPECT_EQ(PathOf({"endpoint", "hash"}), "endpoint hashkv");
  EXPECT_EQ(PathOf({"snap", "save", "f"}), "snapshot save|f");
  EXPECT_EQ(PathOf({"mem", "list"}), "member list");
  EXPECT_EQ(PathOf({"le", "k", "1"}), "lease keep-alive|1");
}

TEST(FindCommandTest, AmbiguousPrefixesDoNot) {
  EXPECT_EQ(PathOf({"e"}), "|e");
  EXPECT_EQ(PathOf({"endpoint", "h"}), "endpoint|h");
}

TEST(FindCommandTest, FlagsBeforeTheCommandAreStepped) {
  EXPECT_EQ(PathOf({"-w", "json", "get", "a"}), "get|-w|json|a");
  EXPECT_EQ(PathOf({"--endpoints", "member", "member", "--hex", "list"}),
            "member list|--endpoints|member|--hex");
  EXPECT_EQ(PathOf({"--write-out=json", "get", "get"}), "get|--write-out=json|get");
  EXPECT_EQ(PathOf({"endpoint", "--cluster", "health"}), "endpoint health|--cluster");
}

TEST(FindCommandTest, NothingAfterTheDoubleDash) {
  EXPECT_EQ(PathOf({"--", "get"}), "|--|get");
}

TEST(CommandTreeTest, EveryCommandHasSummaryAndGroup) {
  const Command root = ControlRoot();
  std::set<std::string> names;
  const std::function<void(const Command&)> check = [&](const Command& command) {
    EXPECT_FALSE(command.summary.empty()) << command.name;
    EXPECT_TRUE(command.run || !command.subcommands.empty()) << command.name;
    for (const FlagSpec& flag : command.flags) {
      EXPECT_FALSE(flag.usage.empty()) << command.name << " --" << flag.name;
    }
    for (const Command& sub : command.subcommands) {
      check(sub);
    }
  };
  check(root);
  for (const Command& command : root.subcommands) {
    EXPECT_FALSE(command.group.empty()) << command.name;
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
  }
}

TEST(HelpTextTest, HasUsageCommandsAndHint) {
  const Command root = ControlRoot();
  const Found found = FindCommand(root, {"lease"});
  const std::string help = HelpText("etcdctl", found.path);
  EXPECT_NE(help.find("Usage:\n  etcdctl lease [command]\n\nAvailable Commands:\n  grant       "),
            std::string::npos)
      << help;
  EXPECT_TRUE(
      help.ends_with("Use \"etcdctl options\" for a list of global command-line options (applies "
                     "to all commands).\n"));
  EXPECT_EQ(help.find("--endpoints"), std::string::npos);
}

TEST(CompletionTest, KnowsCommandsAndFlagsOfEachShell) {
  const Command root = ControlRoot();
  for (const char* shell : {"bash", "zsh", "fish", "powershell"}) {
    const std::string script = CompletionScript("etcdctl", root, shell);
    EXPECT_NE(script.find("keep-alive"), std::string::npos) << shell;
    EXPECT_NE(script.find("--print-value-only"), std::string::npos) << shell;
  }
  EXPECT_EQ(CompletionScript("etcdctl", root, "csh"), "");
}

}  // namespace
}  // namespace mainstay::cli

// The command trees, and the small commands about the program itself.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/session.h"

namespace mainstay::cli {
namespace {

constexpr std::string_view kGroup = "Utility commands";

int RunVersion(Invocation& in) {
  Out(fmt::format("{} version: {}\nAPI version: {}\n", in.program, kVersion, kApiVersion));
  return kExitOk;
}

int RunOptions(Invocation& in) {
  Out("The following options can be passed to any command:\n\n");
  Out(FlagUsages(in.root->inherited_flags, true));
  return kExitOk;
}

int RunCompletion(Invocation& in) {
  const auto usage = [&](const std::string& text) {
    Fail(kExitError, text);
    Err(UsageText(in.program, {in.root, in.command}) + "\n");
    return kExitError;
  };
  if (in.args.size() != 1) {
    return usage(fmt::format("accepts 1 arg(s), received {}", in.args.size()));
  }
  const std::string script = CompletionScript(in.program, *in.root, in.args[0]);
  if (script.empty()) {
    return usage(fmt::format("invalid argument \"{}\" for \"{}\"", in.args[0], in.path));
  }
  Out(script);
  return kExitOk;
}

Command HelpCommand() {
  return {.name = "help",
          .arguments = "[command]",
          .summary = "Explains a command",
          .group = std::string(kGroup),
          .run = [](Invocation&) { return kExitOk; }};  // RunCommandLine() does it
}

}  // namespace

Command VersionCommand() {
  return {.name = "version",
          .summary = "Prints the version",
          .group = std::string(kGroup),
          .run = RunVersion};
}

Command OptionsCommand() {
  return {.name = "options",
          .summary = "Lists the flags that every command takes",
          .group = std::string(kGroup),
          .run = RunOptions};
}

Command CompletionCommand() {
  return {
      .name = "completion",
      .arguments = "[bash|zsh|fish|powershell]",
      .summary = "Prints a completion script for a shell",
      .description =
          "Prints a completion script for a shell. To load it in bash:\n\n  source <(mainstayctl "
          "completion bash)",
      .group = std::string(kGroup),
      .run = RunCompletion,
      .plain_usage_line = true};
}

Command ControlRoot() {
  return {
      .name = "mainstayctl",
      .summary = "Command line client of Mainstay and etcd",
      .inherited_flags = GlobalFlags(),
      .subcommands = {GetCommand(),        PutCommand(),       DeleteCommand(),  TxnCommand(),
                      CompactionCommand(), AlarmCommand(),     DefragCommand(),  EndpointCommand(),
                      MoveLeaderCommand(), WatchCommand(),     VersionCommand(), LeaseCommand(),
                      MemberCommand(),     SnapshotCommand(),  LockCommand(),    ElectCommand(),
                      AuthCommand(),       UserCommand(),      RoleCommand(),    CheckCommand(),
                      CompletionCommand(), DowngradeCommand(), OptionsCommand(), HelpCommand()}};
}

}  // namespace mainstay::cli

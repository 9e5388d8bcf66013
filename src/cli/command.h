// The command tree: what commands exist, how an argument list finds its command, and the help made
// from it. Behaves as spf13/cobra with prefix matching on: any unique prefix of a command's name
// will do.
//
// Threads  One.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"

namespace mainstay::cli {

// Exit codes, as etcdctl's.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitBadConnection = 2;
inline constexpr int kExitInvalidInput = 3;
inline constexpr int kExitBadFeature = 4;  // a known flag with a value it does not take
inline constexpr int kExitInterrupted = 5;
inline constexpr int kExitBadArguments = 128;

struct Invocation;

struct Command {
  std::string name{};
  std::string arguments{};    // what follows the name in the usage line
  std::string summary{};      // one line
  std::string description{};  // longer help; empty: the summary
  std::string group{};        // heading in the root's help
  std::vector<FlagSpec> flags{};
  std::vector<FlagSpec> inherited_flags{};  // also accepted by all commands below
  std::function<int(Invocation&)> run{};    // null: only a heading for its subcommands
  std::vector<Command> subcommands{};
  bool plain_usage_line = false;  // no "[flags]" in the usage line
};

// One run of one command.
struct Invocation {
  std::string program;  // "mainstayctl"
  const Command* root = nullptr;
  const Command* command = nullptr;
  std::string path;  // "mainstayctl lease grant"
  FlagSet flags;
  std::vector<FlagSpec> inherited;  // all flags that came from above
  std::vector<std::string> args;
  std::optional<size_t> dash;  // how many args stood before "--"
};

// Where an argument list leads.
struct Found {
  std::vector<const Command*> path;  // root first
  std::vector<std::string> rest;     // arguments without the command names
};
Found FindCommand(const Command& root, const std::vector<std::string>& args);

// The usage block, and the whole help text. `options_hint` is added as help's last line.
std::string UsageText(const std::string& program, const std::vector<const Command*>& path);
std::string HelpText(const std::string& program, const std::vector<const Command*>& path);

// Runs what `args` (without the program's name) ask for; returns the exit code.
int RunCommandLine(const std::string& program,
                   const Command& root,
                   const std::vector<std::string>& args);

// Prints "Error: text" to stderr and returns `code`.
int Fail(int code, std::string_view text);
void Out(std::string_view text);
void Err(std::string_view text);

}  // namespace mainstay::cli

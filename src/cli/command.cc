#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/go_text.h"

namespace mainstay::cli {
namespace {

// All flags the last command of `path` accepts, in the order declared; its own last.
std::vector<FlagSpec> InheritedFlags(const std::vector<const Command*>& path) {
  std::vector<FlagSpec> out;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    out.insert(out.end(), path[i]->inherited_flags.begin(), path[i]->inherited_flags.end());
  }
  return out;
}

std::vector<FlagSpec> OwnFlags(const std::vector<const Command*>& path) {
  std::vector<FlagSpec> out = path.back()->flags;
  out.insert(out.end(), path.back()->inherited_flags.begin(), path.back()->inherited_flags.end());
  return out;
}

std::string PathText(const std::string& program, const std::vector<const Command*>& path) {
  std::string out = program;
  for (size_t i = 1; i < path.size(); ++i) {
    out += " " + path[i]->name;
  }
  return out;
}

const Command* Match(const Command& parent, std::string_view name) {
  const Command* by_prefix = nullptr;
  int matches = 0;
  for (const Command& command : parent.subcommands) {
    if (command.name == name) {
      return &command;
    }
    if (std::string_view(command.name).starts_with(name)) {
      by_prefix = &command;
      ++matches;
    }
  }
  return matches == 1 ? by_prefix : nullptr;
}

// The place of the first argument that is no flag and no flag's value.
std::optional<size_t> FirstPositional(const FlagSet& flags, const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      return std::nullopt;
    }
    if (arg.starts_with('-') && arg.size() > 1) {
      i += flags.TakesNext(arg) ? 1 : 0;
    } else if (!arg.empty() && arg[0] != '-') {
      return i;
    }
  }
  return std::nullopt;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string Suggestions(const Command& root, std::string_view typed) {
  std::string names;
  for (const Command& command : root.subcommands) {
    if (EditDistance(typed, command.name) <= 2 ||
        std::string_view(command.name).starts_with(typed)) {
      names += "\t" + command.name + "\n";
    }
  }
  return names.empty() ? "" : "\n\nDid you mean this?\n" + names;
}

std::string CommandList(const Command& command) {
  size_t width = 11;
  for (const Command& sub : command.subcommands) {
    width = std::max(width, sub.name.size());
  }
  std::vector<std::string> groups;
  for (const Command& sub : command.subcommands) {
    if (std::find(groups.begin(), groups.end(), sub.group) == groups.end()) {
      groups.push_back(sub.group);
    }
  }
  std::string out;
  for (const std::string& group : groups) {
    out += "\n" + (group.empty() ? "Available Commands:" : group) + "\n";
    std::vector<const Command*> sorted;
    for (const Command& sub : command.subcommands) {
      if (sub.group == group) {
        sorted.push_back(&sub);
      }
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const Command* a, const Command* b) { return a->name < b->name; });
    for (const Command* sub : sorted) {
      out += fmt::format("  {:<{}} {}\n", sub->name, width, sub->summary);
    }
  }
  return out;
}

std::string UsageLine(const std::string& program, const std::vector<const Command*>& path) {
  const Command& command = *path.back();
  std::string line = PathText(program, path);
  if (!command.arguments.empty()) {
    line += " " + command.arguments;
  }
  return command.plain_usage_line ? line : line + " [flags]";
}

std::string OptionsHint(const std::string& program) {
  return fmt::format(
      "Use \"{} options\" for a list of global command-line options (applies to all commands).\n",
      program);
}

int PrintHelp(const std::string& program, const std::vector<const Command*>& path) {
  Out(HelpText(program, path));
  return kExitOk;
}

int UsageError(const std::string& program,
               const std::vector<const Command*>& path,
               std::string_view text) {
  Fail(kExitError, text);
  Err(UsageText(program, path) + "\n");
  return kExitError;
}

}  // namespace

Found FindCommand(const Command& root, const std::vector<std::string>& args) {
  Found found{.path = {&root}, .rest = args};
  FlagSet flags;
  while (true) {
    const Command& at = *found.path.back();
    for (const FlagSpec& flag : at.inherited_flags) {
      flags.Add(flag);
    }
    FlagSet here = flags;
    for (const FlagSpec& flag : at.flags) {
      here.Add(flag);
    }
    const std::optional<size_t> first = FirstPositional(here, found.rest);
    const Command* next = first.has_value() ? Match(at, found.rest[*first]) : nullptr;
    if (next == nullptr) {
      return found;
    }
    found.rest.erase(found.rest.begin() + static_cast<ptrdiff_t>(*first));
    found.path.push_back(next);
  }
}

std::string UsageText(const std::string& program, const std::vector<const Command*>& path) {
  const Command& command = *path.back();
  const std::string name = PathText(program, path);
  std::string out = "Usage:\n";
  if (command.run) {
    out += "  " + UsageLine(program, path) + "\n";
  }
  if (!command.subcommands.empty()) {
    out += "  " + name + " [command]\n" + CommandList(command);
  }
  std::vector<FlagSpec> own = OwnFlags(path);
  if (path.size() > 1) {
    const std::string help_usage = "help for " + command.name;
    own.push_back({.name = "help", .shorthand = 'h', .type = FlagType::kBool, .usage = help_usage});
    out += "\nFlags:\n" + FlagUsages(own);
  }
  if (const std::string inherited = FlagUsages(InheritedFlags(path)); !inherited.empty()) {
    out += "\nGlobal Flags:\n" + inherited;
  }
  if (!command.subcommands.empty()) {
    out +=
        fmt::format("\nUse \"{} [command] --help\" for more information about a command.\n", name);
  }
  return out;
}

std::string HelpText(const std::string& program, const std::vector<const Command*>& path) {
  const Command& command = *path.back();
  const std::string& text = command.description.empty() ? command.summary : command.description;
  return text + "\n\n" + UsageText(program, path) + OptionsHint(program);
}

namespace {

int RunHelp(const std::string& program,
            const Command& root,
            const std::vector<std::string>& topic) {
  const Found found = FindCommand(root, topic);
  if (found.path.size() == 1 && !topic.empty()) {
    std::string names;
    for (const std::string& word : topic) {
      names += (names.empty() ? "`" : " `") + word + "`";
    }
    Err(fmt::format("Unknown help topic [{}]\n", names) + UsageText(program, {&root}) + "\n");
    return kExitOk;
  }
  return PrintHelp(program, found.path);
}

}  // namespace

int RunCommandLine(const std::string& program,
                   const Command& root,
                   const std::vector<std::string>& args) {
  Found found = FindCommand(root, args);
  Invocation invocation;
  invocation.program = program;
  invocation.root = &root;
  invocation.command = found.path.back();
  invocation.path = PathText(program, found.path);
  invocation.inherited = InheritedFlags(found.path);
  const std::vector<FlagSpec> own = OwnFlags(found.path);
  for (const FlagSpec& flag : invocation.inherited) {
    invocation.flags.Add(flag);
  }
  for (const FlagSpec& flag : own) {
    invocation.flags.Add(flag);
  }
  if (const std::optional<std::string> error =
          invocation.flags.Parse(found.rest, invocation.args, invocation.dash)) {
    return UsageError(program, found.path, *error);
  }
  if (invocation.flags.help_wanted()) {
    return PrintHelp(program, found.path);
  }
  if (found.path.size() == 1 && !invocation.args.empty()) {
    const std::string& typed = invocation.args[0];
    Fail(kExitError, fmt::format("unknown command {} for \"{}\"{}", GoQuote(typed), program,
                                 Suggestions(root, typed)));
    Err(fmt::format("Run '{} --help' for usage.\n", program));
    return kExitError;
  }
  if (invocation.command->name == "help" && found.path.size() == 2) {
    return RunHelp(program, root, invocation.args);
  }
  if (!invocation.command->run) {
    return PrintHelp(program, found.path);
  }
  return invocation.command->run(invocation);
}

int Fail(int code, std::string_view text) {
  Err(fmt::format("Error: {}\n", text));
  return code;
}

void Out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Err(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace mainstay::cli

// The command line and the environment, by the rules of Go's flag package and etcd's use of it.
#include <algorithm>
#include <set>

#include "fmt/format.h"

#include "main/config.h"
#include "main/flag_table.h"

namespace mainstay::main {
namespace {

constexpr std::string_view kVersionText =
    "etcd Version: 3.7.1\nGit SHA: mainstay\nGo Version: none (Mainstay, C++20)\nGo OS/Arch: "
    "linux/{}\n";
#if defined(__x86_64__)
constexpr std::string_view kArch = "amd64";
#elif defined(__aarch64__)
constexpr std::string_view kArch = "arm64";
#else
constexpr std::string_view kArch = "unknown";
#endif

constexpr std::string_view kUsage =
    "Usage:\n\n"
    "  mainstay [flags]\n    Start a server.\n\n"
    "  mainstay --version\n    Show the version.\n\n"
    "  mainstay -h | --help\n    Show this help and every flag.\n\n"
    "  mainstay --config-file\n    Path of a configuration file. Other flags and the environment "
    "are then ignored.\n"
    "    Durations in the file are whole nanoseconds; heartbeat-interval and election-timeout are "
    "milliseconds.\n";

std::string AllFlags() {
  std::string out;
  std::string_view section;
  for (const FlagRow& row : FlagTable()) {
    if (row.section != section) {
      section = row.section;
      out += fmt::format("\n{}:\n", section);
    }
    out += fmt::format("  --{}\n    {}\n", row.name, row.help);
  }
  return out;
}

class Parser {
 public:
  Parser(const std::vector<std::string>& args, const std::vector<std::string>& environment)
      : args_(args), environment_(environment) {}

  ParseOutcome Run() {
    if (!Flags()) {
      return std::move(out_);
    }
    if (version_) {
      out_.to_stdout = fmt::format(fmt::runtime(kVersionText), kArch);
      return End(0);
    }
    if (positional_) {
      return Fail(fmt::format("\"{}\" is not a valid flag", *positional_));
    }
    const std::string file =
        !out_.config.config_file.empty() ? out_.config.config_file : FromEnvironment("CONFIG_FILE");
    if (!file.empty()) {
      return RunFile(file);
    }
    if (std::string error = Environment(); !error.empty()) {
      return Fail(std::move(error));
    }
    if (std::string error = Validate(&out_.config, &out_.notes); !error.empty()) {
      return Fail(std::move(error));
    }
    return std::move(out_);
  }

 private:
  ParseOutcome RunFile(const std::string& file) {
    Config from_file;
    from_file.config_file = file;
    if (std::string error = LoadConfigFile(file, &from_file); !error.empty()) {
      return Fail(std::move(error));
    }
    out_.notes.push_back(
        {false,
         "loaded server configuration, other configuration command line flags and environment "
         "variables will be ignored if provided",
         {{"path", file}}});
    out_.config = std::move(from_file);
    if (std::string error = Validate(&out_.config, &out_.notes); !error.empty()) {
      return Fail(std::move(error));
    }
    return std::move(out_);
  }

  bool Flags() {
    for (size_t i = 0; i < args_.size(); ++i) {
      std::string_view word = args_[i];
      if (word.size() < 2 || word[0] != '-') {
        positional_ = std::string(word);
        return true;
      }
      word.remove_prefix(word[1] == '-' ? 2 : 1);
      if (word.empty()) {  // "--" ends the flags
        if (i + 1 < args_.size()) {
          positional_ = args_[i + 1];
        }
        return true;
      }
      if (word[0] == '-' || word[0] == '=') {
        return BadUsage(fmt::format("bad flag syntax: {}", args_[i]));
      }
      const size_t equals = word.find('=');
      const std::string name(word.substr(0, equals));
      std::optional<std::string> value;
      if (equals != std::string_view::npos) {
        value = word.substr(equals + 1);
      }
      if (!One(name, std::move(value), &i)) {
        return false;
      }
    }
    return true;
  }

  // Handles one flag; takes the next word as its value where the flag needs one. False when the run
  // ends here.
  bool One(const std::string& name, std::optional<std::string> value, size_t* at) {
    if (name == "h" || name == "help") {
      out_.to_stderr = kUsage;
      out_.to_stdout = AllFlags();
      out_.exit_code = 0;
      return false;
    }
    if (name == "version") {
      const auto on = ParseGoBool(value.value_or("true"));
      if (!on) {
        return BadUsage(
            fmt::format("invalid boolean value \"{}\" for -version: parse error", *value));
      }
      version_ = *on;
      return true;
    }
    if (IsIgnoredFlag(name)) {
      return true;
    }
    std::string flag = name;
    const FlagRow* row = FindFlag(flag);
    const bool replaced = row == nullptr && !ReplaceExperimental(name, "").flag.empty();
    const std::string target = replaced ? ReplaceExperimental(name, "").flag : name;
    row = FindFlag(target);
    if (row == nullptr) {
      return BadUsage(fmt::format("flag provided but not defined: -{}", name));
    }
    const bool takes_word = !(row->is_bool || (replaced && target == "feature-gates"));
    if (!value) {
      if (!takes_word) {
        value = "true";
      } else if (*at + 1 < args_.size()) {
        value = args_[++*at];
      } else {
        return BadUsage(fmt::format("flag needs an argument: -{}", name));
      }
    }
    if (replaced) {
      out_.notes.push_back({true,
                            "this flag was removed in etcd 3.7; its present name is used",
                            {{"flag", name}, {"use", target}}});
      value = ReplaceExperimental(name, *value).value;
    }
    if (const std::string reason = row->set(out_.config, *value); !reason.empty()) {
      return BadUsage(
          row->is_bool
              ? fmt::format("invalid boolean value \"{}\" for -{}: {}", *value, name, reason)
              : fmt::format("invalid value \"{}\" for flag -{}: {}", *value, name, reason));
    }
    out_.config.set[target] = true;
    return true;
  }

  static std::string EnvironmentName(std::string_view flag) {
    std::string name = "ETCD_";
    for (const char c : flag) {
      name.push_back(c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
    }
    return name;
  }
  std::string FromEnvironment(std::string_view suffix) const {
    const std::string prefix = "ETCD_" + std::string(suffix) + "=";
    for (const std::string& entry : environment_) {
      if (entry.starts_with(prefix)) {
        return entry.substr(prefix.size());
      }
    }
    return {};
  }

  std::string Environment() {
    std::set<std::string> known = {"ETCD_VERSION", "ETCD_HELP", "ETCD_CONFIG_FILE",
                                   "ETCD_UNSUPPORTED_ARCH"};
    const Config from_flags = out_.config;
    for (const FlagRow& row : FlagTable()) {
      const std::string name = EnvironmentName(row.name);
      known.insert(name);
      const auto entry =
          std::find_if(environment_.begin(), environment_.end(),
                       [&](const std::string& e) { return e.starts_with(name + "="); });
      if (entry == environment_.end() || row.name == "config-file") {
        continue;
      }
      const std::string value = entry->substr(name.size() + 1);
      if (from_flags.was_set(std::string(row.name))) {
        return "conflicting environment variable is shadowed by corresponding command-line flag "
               "(either unset "
               "environment variable or disable flag)) : " +
               name;
      }
      if (value.empty()) {
        continue;
      }
      if (const std::string reason = row.set(out_.config, value); !reason.empty()) {
        return fmt::format("invalid value \"{}\" for {}: {}", value, name, reason);
      }
      out_.config.set[std::string(row.name)] = true;
      out_.notes.push_back({false,
                            "recognized and used environment variable",
                            {{"variable-name", name}, {"variable-value", value}}});
    }
    return OtherVariables(known);
  }

  // Warns of what no flag owns; the removed experimental spellings work as they do on the command
  // line.
  std::string OtherVariables(const std::set<std::string>& known) {
    for (const std::string& entry : environment_) {
      const size_t equals = entry.find('=');
      const std::string name = entry.substr(0, equals);
      if (!name.starts_with("ETCD_") || known.contains(name) || equals == std::string::npos) {
        continue;
      }
      std::string flag;
      for (const char c : name.substr(5)) {
        flag.push_back(c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
      }
      if (const Replacement now = ReplaceExperimental(flag, entry.substr(equals + 1));
          !now.flag.empty()) {
        if (const std::string reason = FindFlag(now.flag)->set(out_.config, now.value);
            !reason.empty()) {
          return fmt::format("invalid value \"{}\" for {}: {}", now.value, name, reason);
        }
        out_.notes.push_back({true,
                              "this variable was removed in etcd 3.7; its present name is used",
                              {{"variable-name", name}, {"use", EnvironmentName(now.flag)}}});
        continue;
      }
      if (IsIgnoredFlag(flag)) {
        continue;
      }
      out_.notes.push_back(
          {true, "unrecognized environment variable", {{"environment-variable", entry}}});
    }
    return {};
  }

  bool BadUsage(std::string text) {
    out_.to_stderr = std::move(text) + "\n" + std::string(kUsage);
    out_.exit_code = 2;
    return false;
  }
  ParseOutcome Fail(std::string error) {
    out_.notes.push_back({true, "failed to verify flags", {{"error", std::move(error)}}});
    return End(1);
  }
  ParseOutcome End(int code) {
    out_.exit_code = code;
    return std::move(out_);
  }

  const std::vector<std::string>& args_;
  const std::vector<std::string>& environment_;
  ParseOutcome out_;
  bool version_ = false;
  std::optional<std::string> positional_;
};

}  // namespace

ParseOutcome ParseCommandLine(const std::vector<std::string>& args,
                              const std::vector<std::string>& environment) {
  return Parser(args, environment).Run();
}

}  // namespace mainstay::main

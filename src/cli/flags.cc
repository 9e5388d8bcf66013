#include "cli/flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/go_text.h"

namespace mainstay::cli {
namespace {

std::string_view TypeName(FlagType type) {
  switch (type) {
    case FlagType::kBool:
      return "";
    case FlagType::kString:
      return "string";
    case FlagType::kInt:
      return "int";
    case FlagType::kUint:
      return "uint";
    case FlagType::kDuration:
      return "duration";
    case FlagType::kStrings:
      return "strings";
  }
  return "";
}

std::string DefaultNote(const FlagSpec& flag) {
  const bool zero = flag.initial.empty() || flag.initial == "false" ||
                    (flag.initial == "0" && flag.type != FlagType::kString);
  if (zero) {
    return "";
  }
  if (flag.type == FlagType::kString) {
    return fmt::format(" (default {})", GoQuote(flag.initial));
  }
  if (flag.type == FlagType::kStrings) {
    return fmt::format(" (default [{}])", flag.initial);
  }
  return fmt::format(" (default {})", flag.initial);
}

// Go's error for a value that does not parse, or empty.
std::string CheckValue(FlagType type, std::string_view value) {
  switch (type) {
    case FlagType::kBool:
      return GoParseBool(value).error;
    case FlagType::kInt:
      return GoParseInt(value, 10).error;
    case FlagType::kUint:
      return GoParseUint(value, 10).error;
    case FlagType::kDuration:
      return GoParseDuration(value).error;
    case FlagType::kString:
    case FlagType::kStrings:
      return "";
  }
  return "";
}

}  // namespace

void FlagSet::Add(const FlagSpec& spec) {
  values_[std::string(spec.name)] = Value{&spec, std::string(spec.initial)};
}

const FlagSet::Value* FlagSet::Short(char shorthand) const {
  for (const auto& [name, value] : values_) {
    if (value.spec->shorthand == shorthand) {
      return &value;
    }
  }
  return nullptr;
}

bool FlagSet::TakesNext(std::string_view arg) const {
  if (arg.find('=') != std::string_view::npos) {
    return false;
  }
  if (arg.starts_with("--")) {
    const auto it = values_.find(arg.substr(2));
    return it == values_.end() ? arg != "--help" : it->second.spec->type != FlagType::kBool;
  }
  if (arg.size() != 2) {
    return false;
  }
  const Value* value = Short(arg[1]);
  return value == nullptr ? arg != "-h" : value->spec->type != FlagType::kBool;
}

std::optional<std::string> FlagSet::Set(std::string_view name, std::string_view text) {
  Value& value = values_.at(std::string(name));
  const std::string error = CheckValue(value.spec->type, text);
  if (!error.empty()) {
    const std::string shown = value.spec->shorthand != 0
                                  ? fmt::format("-{}, --{}", value.spec->shorthand, name)
                                  : fmt::format("--{}", name);
    return fmt::format("invalid argument {} for \"{}\" flag: {}", GoQuote(text), shown, error);
  }
  if (value.spec->type == FlagType::kStrings && value.changed) {
    value.text += ",";
    value.text += text;
  } else {
    value.text = text;
  }
  value.changed = true;
  return std::nullopt;
}

std::optional<std::string> FlagSet::ParseLong(const std::vector<std::string>& args, size_t& i) {
  const std::string_view arg = args[i];
  std::string_view name = arg.substr(2);
  if (name.starts_with('-') || name.starts_with('=')) {
    return fmt::format("bad flag syntax: {}", arg);
  }
  const size_t equals = name.find('=');
  std::optional<std::string_view> text;
  if (equals != std::string_view::npos) {
    text = name.substr(equals + 1);
    name = name.substr(0, equals);
  }
  const auto it = values_.find(name);
  if (it == values_.end()) {
    if (name == "help") {
      help_wanted_ = true;
      return std::nullopt;
    }
    return fmt::format("unknown flag: --{}", name);
  }
  if (!text.has_value()) {
    if (it->second.spec->type == FlagType::kBool) {
      text = "true";
    } else if (i + 1 < args.size()) {
      text = args[++i];
    } else {
      return fmt::format("flag needs an argument: --{}", name);
    }
  }
  return Set(name, *text);
}

std::optional<std::string> FlagSet::ParseShort(const std::vector<std::string>& args, size_t& i) {
  const std::string_view group = std::string_view(args[i]).substr(1);
  for (size_t at = 0; at < group.size(); ++at) {
    const Value* value = Short(group[at]);
    if (value == nullptr) {
      if (group[at] == 'h') {
        help_wanted_ = true;
        return std::nullopt;
      }
      return fmt::format("unknown shorthand flag: '{}' in -{}", group[at], group);
    }
    const std::string name(value->spec->name);
    std::string_view rest = group.substr(at + 1);
    if (rest.size() > 1 && rest.starts_with('=')) {
      return Set(name, rest.substr(1));
    }
    if (value->spec->type == FlagType::kBool) {
      if (auto error = Set(name, "true")) {
        return error;
      }
      continue;
    }
    if (!rest.empty()) {
      return Set(name, rest);
    }
    if (i + 1 == args.size()) {
      return fmt::format("flag needs an argument: '{}' in -{}", group[at], group);
    }
    return Set(name, args[++i]);
  }
  return std::nullopt;
}

std::optional<std::string> FlagSet::Parse(const std::vector<std::string>& args,
                                          std::vector<std::string>& positional,
                                          std::optional<size_t>& dash) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      dash = positional.size();
      positional.insert(positional.end(), args.begin() + static_cast<ptrdiff_t>(i) + 1, args.end());
      return std::nullopt;
    }
    std::optional<std::string> error;
    if (arg.starts_with("--")) {
      error = ParseLong(args, i);
    } else if (arg.size() > 1 && arg[0] == '-') {
      error = ParseShort(args, i);
    } else {
      positional.push_back(arg);
    }
    if (error.has_value() || help_wanted_) {
      return error;
    }
  }
  return std::nullopt;
}

bool FlagSet::Bool(std::string_view name) const {
  return GoParseBool(String(name)).value;
}
const std::string& FlagSet::String(std::string_view name) const {
  return values_.at(std::string(name)).text;
}
int64_t FlagSet::Int(std::string_view name) const {
  return GoParseInt(String(name), 10).value;
}
uint64_t FlagSet::Uint(std::string_view name) const {
  return GoParseUint(String(name), 10).value;
}
std::chrono::nanoseconds FlagSet::Duration(std::string_view name) const {
  return GoParseDuration(String(name)).value;
}

std::vector<std::string> FlagSet::Strings(std::string_view name) const {
  std::vector<std::string> out;
  std::string_view text = String(name);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    out.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

std::string FlagUsages(const std::vector<FlagSpec>& flags, bool with_hidden) {
  std::vector<FlagSpec> sorted;
  for (const FlagSpec& flag : flags) {
    if (with_hidden || !flag.hidden) {
      sorted.push_back(flag);
    }
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const FlagSpec& a, const FlagSpec& b) { return a.name < b.name; });
  std::vector<std::string> heads;
  size_t width = 0;
  for (const FlagSpec& flag : sorted) {
    std::string head = flag.shorthand != 0 ? fmt::format("  -{}, --{}", flag.shorthand, flag.name)
                                           : fmt::format("      --{}", flag.name);
    if (const std::string_view type = TypeName(flag.type); !type.empty()) {
      head += fmt::format(" {}", type);
    }
    width = std::max(width, head.size());
    heads.push_back(std::move(head));
  }
  std::string out;
  for (size_t i = 0; i < sorted.size(); ++i) {
    out += fmt::format("{:<{}}   {}{}\n", heads[i], width, sorted[i].usage, DefaultNote(sorted[i]));
  }
  return out;
}

}  // namespace mainstay::cli

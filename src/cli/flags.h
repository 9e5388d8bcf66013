// Flags as spf13/pflag parses them: "--x=v", "--x v", "-w json", "-wjson", "--bool", "--" ends
// them, and they may stand between positional arguments. Error texts are pflag's, since scripts and
// eyes know them.
//
// Threads  One.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mainstay::cli {

enum class FlagType { kBool, kString, kInt, kUint, kDuration, kStrings };

// A flag as a command declares it. `initial` is also what help shows as the default.
struct FlagSpec {
  std::string_view name{};
  char shorthand = 0;
  FlagType type = FlagType::kString;
  std::string_view initial{};
  std::string_view usage{};
  bool hidden = false;  // accepted, but not listed in a command's help
};

class FlagSet {
 public:
  // `spec` must outlive the set.
  void Add(const FlagSpec& spec);
  bool Has(std::string_view name) const { return values_.contains(name); }

  // Parses all of `args`. On success `positional` holds what is no flag, and `dash` how many of
  // those stood before
  // "--" (nullopt: no "--"). Returns pflag's error text otherwise; "help" on -h/--help is reported
  // as help_wanted.
  std::optional<std::string> Parse(const std::vector<std::string>& args,
                                   std::vector<std::string>& positional,
                                   std::optional<size_t>& dash);
  // Sets one flag from text; an error text if the value does not parse.
  std::optional<std::string> Set(std::string_view name, std::string_view value);

  bool help_wanted() const { return help_wanted_; }
  bool Changed(std::string_view name) const { return values_.at(std::string(name)).changed; }
  // REQUIRES: the flag was added, with that type.
  bool Bool(std::string_view name) const;
  const std::string& String(std::string_view name) const;
  int64_t Int(std::string_view name) const;
  uint64_t Uint(std::string_view name) const;
  std::chrono::nanoseconds Duration(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;

  // Whether `arg` ("--x" or "-x") is a flag that takes the next argument as its value.
  bool TakesNext(std::string_view arg) const;

 private:
  struct Value {
    const FlagSpec* spec;
    std::string text;
    bool changed = false;
  };
  const Value* Short(char shorthand) const;
  std::optional<std::string> ParseLong(const std::vector<std::string>& args, size_t& i);
  std::optional<std::string> ParseShort(const std::vector<std::string>& args, size_t& i);

  std::map<std::string, Value, std::less<>> values_;
  bool help_wanted_ = false;
};

// The aligned list of flags as help prints it, sorted by name; hidden ones only if `with_hidden`.
std::string FlagUsages(const std::vector<FlagSpec>& flags, bool with_hidden = false);

}  // namespace mainstay::cli

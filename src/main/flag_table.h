// The table of flags: name, how its value is read, where it goes, what help says. The environment
// and the configuration file use the same rows.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "main/config.h"

namespace mainstay::main {

struct FlagRow {
  std::string_view section;
  std::string_view name;
  bool is_bool = false;
  // Stores the value. Empty, or the reason as etcd prints it after "invalid value ...: ".
  std::function<std::string(Config&, std::string_view)> set;
  std::string_view help;
};

const std::vector<FlagRow>& FlagTable();
const FlagRow* FindFlag(std::string_view name);
// Accepted and without effect, as in etcd.
bool IsIgnoredFlag(std::string_view name);
// The flag of 3.7 that a removed --experimental-* name stands for now, with the value translated;
// empty if none.
struct Replacement {
  std::string flag;
  std::string value;
};
Replacement ReplaceExperimental(std::string_view name, std::string_view value);

}  // namespace mainstay::main

// mainstayutl. Under the name etcdutl (a link) it calls itself that.
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

int main(int argc, char** argv) {
  std::string_view name = argc > 0 ? argv[0] : "mainstayutl";
  name = name.substr(name.rfind('/') + 1);
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  return mainstay::cli::RunCommandLine(name == "etcdutl" ? "etcdutl" : "mainstayutl",
                                       mainstay::cli::UtilityRoot(), args);
}

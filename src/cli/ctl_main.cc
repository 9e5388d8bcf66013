// mainstayctl. Under the name etcdctl (a link) it calls itself that.
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE,
              SIG_IGN);  // a server that goes away is an error to report, not a silent death
  std::string_view name = argc > 0 ? argv[0] : "mainstayctl";
  name = name.substr(name.rfind('/') + 1);
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  return mainstay::cli::RunCommandLine(name == "etcdctl" ? "etcdctl" : "mainstayctl",
                                       mainstay::cli::ControlRoot(), args);
}

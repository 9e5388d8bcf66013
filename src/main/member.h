// Member: builds one member out of its parts, runs it until a signal or a fatal error, and takes it
// apart again.
#pragma once

#include "main/config.h"

namespace mainstay::main {

// Returns the process's exit code; a signal after readiness ends the process by that signal, as
// etcd does.
int RunMember(const Config& config, const std::vector<std::string>& command_line);

}  // namespace mainstay::main

// Completion scripts made from the command tree: names of commands and flags.
#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"

namespace mainstay::cli {

// `shell` is bash, zsh, fish or powershell; empty for any other.
std::string CompletionScript(const std::string& program,
                             const Command& root,
                             std::string_view shell);

}  // namespace mainstay::cli

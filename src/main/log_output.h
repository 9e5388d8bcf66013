// Where log lines go: --log-outputs, --log-rotation-config-json. A thread of its own writes;
// callers never wait.
//
// Threads  Write(): any. Lines beyond the queue's bound push out the oldest ones; the loss is
// counted in a line.
#pragma once

#include <memory>

#include "common/log.h"
#include "common/status.h"
#include "main/config.h"

namespace mainstay::main {

// REQUIRES: Validate() passed. Errors: a file that cannot be opened, a malformed rotation setting.
StatusOr<std::unique_ptr<LogSink>> OpenLogOutputs(const Config& config);

// Empty, or why the text is no log level.
std::string SetLogLevelByName(const std::string& name);

}  // namespace mainstay::main

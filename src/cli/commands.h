// The commands of mainstayctl, by subject. Each function makes one command with all below it.
#pragma once

#include "cli/command.h"

namespace mainstay::cli {

Command GetCommand();
Command PutCommand();
Command DeleteCommand();
Command TxnCommand();
Command CompactionCommand();
Command WatchCommand();
Command LeaseCommand();
Command EndpointCommand();
Command MemberCommand();
Command AlarmCommand();
Command DefragCommand();
Command MoveLeaderCommand();
Command DowngradeCommand();
Command SnapshotCommand();
Command SnapshotStatusCommand();
Command AuthCommand();
Command UserCommand();
Command RoleCommand();
Command LockCommand();
Command ElectCommand();
Command CheckCommand();
Command VersionCommand();
Command OptionsCommand();
Command CompletionCommand();

// The whole tree of mainstayctl, and that of mainstayutl.
Command ControlRoot();
Command UtilityRoot();

inline constexpr std::string_view kVersion = "3.7.1";
inline constexpr std::string_view kApiVersion = "3.7";

}  // namespace mainstay::cli

// get, put and del: arguments and flags to requests. `txn` reads the same words, so they stand
// apart from the commands.
//
// Errors  An exit code after printing; 0 = the request is complete.
// Threads One.
#pragma once

#include <vector>

#include "cli/command.h"
#include "proto/etcdserverpb/rpc.pb.h"

namespace mainstay::cli {

const std::vector<FlagSpec>& GetFlags();
const std::vector<FlagSpec>& PutFlags();
const std::vector<FlagSpec>& DeleteFlags();

int MakeGet(const FlagSet& flags,
            const std::vector<std::string>& args,
            etcdserverpb::RangeRequest& request);
// A value that is not among `args` is read from standard input if `use_stdin`.
int MakePut(const FlagSet& flags,
            const std::vector<std::string>& args,
            bool use_stdin,
            etcdserverpb::PutRequest& request);
int MakeDelete(const FlagSet& flags,
               const std::vector<std::string>& args,
               etcdserverpb::DeleteRangeRequest& request);

// "l" or "s"; sets `serializable`.
int ParseConsistency(const std::string& text, bool& serializable);

}  // namespace mainstay::cli

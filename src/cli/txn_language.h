// The lines of `txn` and of interactive `watch`: words with quotes, and comparisons.
//
// Threads  Any; all functions are pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/etcdserverpb/rpc.pb.h"

namespace mainstay::cli {

// Splits a line into words. "double quotes" take Go's escapes, 'single quotes' take none; a quote
// that is not closed is skipped. InvalidArgument "invalid syntax" for a bad escape.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line);

// One comparison: target("key") OP "value", where target is ver|version, c|create, m|mod, val|value
// or lease, OP is =, !=, < or >, and a lease is hexadecimal. InvalidArgument with the text to show
// otherwise.
absl::StatusOr<etcdserverpb::Compare> ParseComparison(std::string_view line);

}  // namespace mainstay::cli

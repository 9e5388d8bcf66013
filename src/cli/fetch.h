// One page over plaintext HTTP/1.1: the metrics that `check datascale` reads.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace mainstay::cli {

// The body of GET `path` from `host_port` ("127.0.0.1:2379"). Waits at most 5 s; at most 16 MiB.
absl::StatusOr<std::string> FetchPlaintext(const std::string& host_port, const std::string& path);

}  // namespace mainstay::cli

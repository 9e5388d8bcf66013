// The one table of what a client is told: the gRPC code and the exact text of every Error.
//
// etcd's clients map errors by text (its Go client keeps a table of them), so the text is the
// contract; the code drives retries.
//
// Threads  Pure functions; any.
// Sources  grpc-api 6.1, 6.2.
#pragma once

#include <string_view>

#include "common/error.h"
#include "rpc/status.h"

namespace mainstay::rpc {

Code ErrorCode(Error error);
// Empty for kOk.
std::string_view ErrorText(Error error);
GrpcStatus ToStatus(Error error);

}  // namespace mainstay::rpc

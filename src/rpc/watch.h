// etcdserverpb.Watch: a bidirectional stream on top of watch::Hub.
//
// Sources  grpc-api 3.
#pragma once

#include <memory>

#include "rpc/call.h"

namespace mainstay::rpc {

std::unique_ptr<StreamHandler> Watch(const CallPtr& call);

}  // namespace mainstay::rpc

// etcdserverpb.Lease.
//
// Sources  grpc-api 4.
#pragma once

#include <memory>

#include "common/buffer.h"
#include "rpc/call.h"

namespace mainstay::rpc::lease_service {

void Grant(const CallPtr& call, Buffer request);
void Revoke(const CallPtr& call, Buffer request);
std::unique_ptr<StreamHandler> KeepAlive(const CallPtr& call);
void TimeToLive(const CallPtr& call, Buffer request);
void Leases(const CallPtr& call, Buffer request);

}  // namespace mainstay::rpc::lease_service

// grpc.health.v1.Health and server reflection (v1 and v1alpha).
#pragma once

#include <memory>

#include "common/buffer.h"
#include "rpc/call.h"

namespace mainstay::rpc {

// The empty service name has a status, SERVING from the start; any other is unknown, as in etcd.
void HealthCheck(const CallPtr& call, Buffer request);
std::unique_ptr<StreamHandler> HealthWatch(const CallPtr& call);
void HealthList(const CallPtr& call, Buffer request);

// Not in etcd. Lets grpcurl and the like find out what is here.
std::unique_ptr<StreamHandler> ReflectionV1(const CallPtr& call);
std::unique_ptr<StreamHandler> ReflectionV1Alpha(const CallPtr& call);

}  // namespace mainstay::rpc

// etcdserverpb.Maintenance, and MemberList of etcdserverpb.Cluster.
//
// Sources  grpc-api 5.1, 5.2, 5.4.
#pragma once

#include <memory>

#include "common/buffer.h"
#include "rpc/call.h"

namespace mainstay::rpc::maintenance {

void Alarm(const CallPtr& call, Buffer request);
void Status(const CallPtr& call, Buffer request);
void Defragment(const CallPtr& call, Buffer request);
void Hash(const CallPtr& call, Buffer request);
void HashKv(const CallPtr& call, Buffer request);
std::unique_ptr<StreamHandler> Snapshot(const CallPtr& call);
void MoveLeader(const CallPtr& call, Buffer request);
void Downgrade(const CallPtr& call, Buffer request);

void MemberList(const CallPtr& call, Buffer request);

// Auth while it is off: these two have a true answer.
void AuthStatus(const CallPtr& call, Buffer request);
void Authenticate(const CallPtr& call, Buffer request);

}  // namespace mainstay::rpc::maintenance

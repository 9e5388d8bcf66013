// etcdserverpb.KV.
//
// Sources  grpc-api 2.
#pragma once

#include <memory>

#include "common/buffer.h"
#include "rpc/call.h"

namespace mainstay::rpc::kv {

void Range(const CallPtr& call, Buffer request);
std::unique_ptr<StreamHandler> RangeStream(const CallPtr& call);
void Put(const CallPtr& call, Buffer request);
void DeleteRange(const CallPtr& call, Buffer request);
void Txn(const CallPtr& call, Buffer request);
void Compact(const CallPtr& call, Buffer request);

}  // namespace mainstay::rpc::kv

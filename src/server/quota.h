// What a request may add to the store, by etcd's price list (grpc-api 5.3), against
// --quota-backend-bytes.
//
// Threads  Any.
#pragma once

#include <cstdint>
#include <string_view>

namespace mainstay::server {

// Put = 256 + key + value; LeaseGrant = 64; Txn = the dearer branch's puts, nested ones counted;
// all else 0. `kind` is a field number of InternalRaftRequest; `request` the encoded message.
// Malformed bytes cost what was read.
uint64_t RequestCost(uint32_t kind, std::string_view request);

// True if a request of that cost does not fit. `quota` < 0 = no quota.
inline bool OverQuota(int64_t quota, int64_t used, uint64_t cost) {
  return quota >= 0 && cost > 0 &&
         static_cast<uint64_t>(used) + cost >= static_cast<uint64_t>(quota);
}

// OverQuota() without looking at `request` where even the dearest reading of it fits.
bool RequestOverQuota(int64_t quota, int64_t used, uint32_t kind, std::string_view request);

}  // namespace mainstay::server

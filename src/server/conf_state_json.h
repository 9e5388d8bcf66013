// Bucket "meta", key "confState": raftpb.ConfState as etcd 3.7 stores it, JSON with zero values
// left out.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "raft/types.h"

namespace mainstay::server {

inline constexpr std::string_view kMetaBucket = "meta";
inline constexpr std::string_view kConfStateKey = "confState";
inline constexpr std::string_view kStorageVersionKey = "storageVersion";

std::string ConfStateToJson(const raft::ConfState& state);
// DataLoss for anything else than such an object; unknown keys are refused, since they could hide a
// voter.
StatusOr<raft::ConfState> ConfStateFromJson(std::string_view json);

}  // namespace mainstay::server

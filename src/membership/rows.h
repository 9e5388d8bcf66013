// Names of the buckets and keys that membership owns (docs/on-disk-format.md).
#pragma once

#include <string_view>

#include "backend/backend.h"

namespace mainstay::membership {

inline constexpr std::string_view kMembersBucket = "members";
inline constexpr std::string_view kRemovedBucket = "members_removed";
inline constexpr std::string_view kClusterBucket = "cluster";
inline constexpr std::string_view kClusterVersionKey = "clusterVersion";
inline constexpr std::string_view kDowngradeKey = "downgrade";

}  // namespace mainstay::membership

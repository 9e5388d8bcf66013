// Every limit that is no flag, in one place: what bounds it, and what happens at the bound stands
// where it is used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mainstay {

// Proposals that the raft thread has not drained yet; beyond it Error::kTooManyRequests.
inline constexpr size_t kProposalsPendingMax = 65536;
// Committed entries that are not applied yet; beyond it proposals get Error::kTooManyRequests
// (etcd's number).
inline constexpr uint64_t kApplyLagMax = 5000;
// Read requests that wait for one read barrier; beyond it Error::kTooManyRequests.
inline constexpr size_t kReadsPendingMax = 262144;
// etcd adds this to --max-request-bytes for gRPC's receive limit.
inline constexpr size_t kGrpcOverheadBytes = 512 << 10;
// Bytes at and above which a Buffer is referenced in an output queue instead of copied into it.
inline constexpr size_t kReferenceBytesMin = 4096;

}  // namespace mainstay

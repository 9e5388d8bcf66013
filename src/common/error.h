// Error: every failure that an API client can be told of. Names follow etcd's (ErrGRPCxxx without
// the prefix). The gRPC code and the exact text of each stand in one table, src/rpc/errors.cc.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "common/check.h"

namespace mainstay {

enum class Error : uint8_t {
  kOk = 0,
  kEmptyKey,
  kKeyNotFound,
  kValueProvided,
  kLeaseProvided,
  kTooManyOps,
  kDuplicateKey,
  kInvalidClientApiVersion,
  kInvalidSortOption,
  kCompacted,
  kFutureRev,
  kNoSpace,
  kLeaseNotFound,
  kLeaseExist,
  kLeaseTtlTooLarge,
  kWatchCanceled,
  kMemberExist,
  kPeerUrlExist,
  kMemberNotEnoughStarted,
  kMemberBadUrls,
  kMemberNotFound,
  kMemberNotLearner,
  kLearnerNotReady,
  kTooManyLearners,
  kClusterIdMismatch,
  kRequestTooLarge,
  kTooManyRequests,
  kRootUserNotExist,
  kRootRoleNotExist,
  kUserAlreadyExist,
  kUserEmpty,
  kUserNotFound,
  kRoleAlreadyExist,
  kRoleNotFound,
  kRoleEmpty,
  kAuthFailed,
  kPermissionNotGiven,
  kPermissionDenied,
  kRoleNotGranted,
  kPermissionNotGranted,
  kAuthNotEnabled,
  kInvalidAuthToken,
  kInvalidAuthMgmt,
  kAuthOldRevision,
  kNoLeader,
  kNotLeader,
  kLeaderChanged,
  kNotCapable,
  kStopped,
  kTimeout,
  kTimeoutDueToLeaderFail,
  kTimeoutDueToConnectionLost,
  kTimeoutWaitAppliedIndex,
  kUnhealthy,
  kCorrupt,
  kNotSupportedForLearner,
  kBadLeaderTransferee,
  kWrongDowngradeVersionFormat,
  kInvalidDowngradeTargetVersion,
  kClusterVersionUnavailable,
  kDowngradeInProcess,
  kNoInflightDowngrade,
  kCanceled,
  kDeadlineExceeded,
  // Texts that etcd sends without a declared constant.
  kContextDeadlineExceeded,  // DeadlineExceeded "context deadline exceeded"
  kProposalDropped,          // Unknown "raft proposal dropped"
  kNotPrimaryLessor,         // Unknown "not a primary lessor"
  kLeaderTransferTimeout,  // Unknown "etcdserver: request timed out, leader transfer took too long"
  kUnknownMethod,          // Unknown "etcdserver: unknown method"
  kRangeStreamSortOrder,   // Unimplemented "RangeStream does not support custom sort orders"
  kRangeStreamFilters,     // Unimplemented "RangeStream does not support revision filters"
  // Mainstay's own.
  kInternal,     // Internal, the text goes with it in the log
  kOverloaded,   // ResourceExhausted: a memory or queue budget is used up
  kUnknownEnum,  // InvalidArgument: an enum value that no version defines
  kCount,
};

// A value or the Error that kept it from being made.
template <class T>
class [[nodiscard]] ErrorOr {
 public:
  ErrorOr(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}       // NOLINT: as absl::StatusOr
  ErrorOr(Error error) : state_(std::in_place_index<1>, error) {  // NOLINT: as absl::StatusOr
    MS_CHECK(error != Error::kOk);
  }
  bool ok() const { return state_.index() == 0; }
  Error error() const { return ok() ? Error::kOk : std::get<1>(state_); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace mainstay

#include "rpc/errors.h"

#include <array>

#include "common/check.h"

namespace mainstay::rpc {
namespace {

struct Row {
  Error error;
  Code code;
  std::string_view text;
};

// In the order of the enum; ErrorRow() relies on it and checks it.
constexpr Row kRows[] = {
    {Error::kOk, Code::kOk, ""},
    {Error::kEmptyKey, Code::kInvalidArgument, "etcdserver: key is not provided"},
    {Error::kKeyNotFound, Code::kInvalidArgument, "etcdserver: key not found"},
    {Error::kValueProvided, Code::kInvalidArgument, "etcdserver: value is provided"},
    {Error::kLeaseProvided, Code::kInvalidArgument, "etcdserver: lease is provided"},
    {Error::kTooManyOps, Code::kInvalidArgument, "etcdserver: too many operations in txn request"},
    {Error::kDuplicateKey, Code::kInvalidArgument,
     "etcdserver: duplicate key given in txn request"},
    {Error::kInvalidClientApiVersion, Code::kInvalidArgument,
     "etcdserver: invalid client api version"},
    {Error::kInvalidSortOption, Code::kInvalidArgument, "etcdserver: invalid sort option"},
    {Error::kCompacted, Code::kOutOfRange,
     "etcdserver: mvcc: required revision has been compacted"},
    {Error::kFutureRev, Code::kOutOfRange,
     "etcdserver: mvcc: required revision is a future revision"},
    {Error::kNoSpace, Code::kResourceExhausted, "etcdserver: mvcc: database space exceeded"},
    {Error::kLeaseNotFound, Code::kNotFound, "etcdserver: requested lease not found"},
    {Error::kLeaseExist, Code::kFailedPrecondition, "etcdserver: lease already exists"},
    {Error::kLeaseTtlTooLarge, Code::kOutOfRange, "etcdserver: too large lease TTL"},
    {Error::kWatchCanceled, Code::kCancelled, "etcdserver: watch canceled"},
    {Error::kMemberExist, Code::kFailedPrecondition, "etcdserver: member ID already exist"},
    {Error::kPeerUrlExist, Code::kFailedPrecondition, "etcdserver: Peer URLs already exists"},
    {Error::kMemberNotEnoughStarted, Code::kFailedPrecondition,
     "etcdserver: re-configuration failed due to not enough started members"},
    {Error::kMemberBadUrls, Code::kInvalidArgument, "etcdserver: given member URLs are invalid"},
    {Error::kMemberNotFound, Code::kNotFound, "etcdserver: member not found"},
    {Error::kMemberNotLearner, Code::kFailedPrecondition,
     "etcdserver: can only promote a learner member"},
    {Error::kLearnerNotReady, Code::kFailedPrecondition,
     "etcdserver: can only promote a learner member which is in sync with leader"},
    {Error::kTooManyLearners, Code::kFailedPrecondition,
     "etcdserver: too many learner members in cluster"},
    {Error::kClusterIdMismatch, Code::kFailedPrecondition, "etcdserver: cluster ID mismatch"},
    {Error::kRequestTooLarge, Code::kInvalidArgument, "etcdserver: request is too large"},
    {Error::kTooManyRequests, Code::kResourceExhausted, "etcdserver: too many requests"},
    {Error::kRootUserNotExist, Code::kFailedPrecondition, "etcdserver: root user does not exist"},
    {Error::kRootRoleNotExist, Code::kFailedPrecondition,
     "etcdserver: root user does not have root role"},
    {Error::kUserAlreadyExist, Code::kFailedPrecondition, "etcdserver: user name already exists"},
    {Error::kUserEmpty, Code::kInvalidArgument, "etcdserver: user name is empty"},
    {Error::kUserNotFound, Code::kFailedPrecondition, "etcdserver: user name not found"},
    {Error::kRoleAlreadyExist, Code::kFailedPrecondition, "etcdserver: role name already exists"},
    {Error::kRoleNotFound, Code::kFailedPrecondition, "etcdserver: role name not found"},
    {Error::kRoleEmpty, Code::kInvalidArgument, "etcdserver: role name is empty"},
    {Error::kAuthFailed, Code::kInvalidArgument,
     "etcdserver: authentication failed, invalid user ID or password"},
    {Error::kPermissionNotGiven, Code::kInvalidArgument, "etcdserver: permission not given"},
    {Error::kPermissionDenied, Code::kPermissionDenied, "etcdserver: permission denied"},
    {Error::kRoleNotGranted, Code::kFailedPrecondition,
     "etcdserver: role is not granted to the user"},
    {Error::kPermissionNotGranted, Code::kFailedPrecondition,
     "etcdserver: permission is not granted to the role"},
    {Error::kAuthNotEnabled, Code::kFailedPrecondition,
     "etcdserver: authentication is not enabled"},
    {Error::kInvalidAuthToken, Code::kUnauthenticated, "etcdserver: invalid auth token"},
    {Error::kInvalidAuthMgmt, Code::kInvalidArgument, "etcdserver: invalid auth management"},
    {Error::kAuthOldRevision, Code::kInvalidArgument, "etcdserver: revision of auth store is old"},
    {Error::kNoLeader, Code::kUnavailable, "etcdserver: no leader"},
    {Error::kNotLeader, Code::kFailedPrecondition, "etcdserver: not leader"},
    {Error::kLeaderChanged, Code::kUnavailable, "etcdserver: leader changed"},
    {Error::kNotCapable, Code::kFailedPrecondition, "etcdserver: not capable"},
    {Error::kStopped, Code::kUnavailable, "etcdserver: server stopped"},
    {Error::kTimeout, Code::kUnavailable, "etcdserver: request timed out"},
    {Error::kTimeoutDueToLeaderFail, Code::kUnavailable,
     "etcdserver: request timed out, possibly due to previous leader failure"},
    {Error::kTimeoutDueToConnectionLost, Code::kUnavailable,
     "etcdserver: request timed out, possibly due to connection lost"},
    {Error::kTimeoutWaitAppliedIndex, Code::kUnavailable,
     "etcdserver: request timed out, waiting for the applied index took too long"},
    {Error::kUnhealthy, Code::kUnavailable, "etcdserver: unhealthy cluster"},
    {Error::kCorrupt, Code::kDataLoss, "etcdserver: corrupt cluster"},
    {Error::kNotSupportedForLearner, Code::kFailedPrecondition,
     "etcdserver: rpc not supported for learner"},
    {Error::kBadLeaderTransferee, Code::kFailedPrecondition, "etcdserver: bad leader transferee"},
    {Error::kWrongDowngradeVersionFormat, Code::kInvalidArgument,
     "etcdserver: wrong downgrade target version format"},
    {Error::kInvalidDowngradeTargetVersion, Code::kInvalidArgument,
     "etcdserver: invalid downgrade target version"},
    {Error::kClusterVersionUnavailable, Code::kFailedPrecondition,
     "etcdserver: cluster version not found during downgrade"},
    {Error::kDowngradeInProcess, Code::kFailedPrecondition,
     "etcdserver: cluster has a downgrade job in progress"},
    {Error::kNoInflightDowngrade, Code::kFailedPrecondition,
     "etcdserver: no inflight downgrade job"},
    {Error::kCanceled, Code::kCancelled, "etcdserver: request canceled"},
    {Error::kDeadlineExceeded, Code::kDeadlineExceeded, "etcdserver: context deadline exceeded"},
    {Error::kContextDeadlineExceeded, Code::kDeadlineExceeded, "context deadline exceeded"},
    {Error::kProposalDropped, Code::kUnknown, "raft proposal dropped"},
    {Error::kNotPrimaryLessor, Code::kUnknown, "not a primary lessor"},
    {Error::kLeaderTransferTimeout, Code::kUnknown,
     "etcdserver: request timed out, leader transfer took too long"},
    {Error::kUnknownMethod, Code::kUnknown, "etcdserver: unknown method"},
    {Error::kRangeStreamSortOrder, Code::kUnimplemented,
     "RangeStream does not support custom sort orders"},
    {Error::kRangeStreamFilters, Code::kUnimplemented,
     "RangeStream does not support revision filters"},
    {Error::kInternal, Code::kInternal, "mainstay: internal error, see the server's log"},
    {Error::kOverloaded, Code::kResourceExhausted,
     "mainstay: overloaded, a memory or queue budget is used up"},
    {Error::kUnknownEnum, Code::kInvalidArgument,
     "mainstay: an enum field holds a number that is not defined"},
};
static_assert(std::size(kRows) == static_cast<size_t>(Error::kCount));

constexpr bool RowsInOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].error != static_cast<Error>(i)) {
      return false;
    }
  }
  return true;
}
static_assert(RowsInOrder(), "kRows follows the order of enum class Error");

const Row& ErrorRow(Error error) {
  const auto i = static_cast<size_t>(error);
  MS_CHECK_LT(i, std::size(kRows));
  return kRows[i];
}

constexpr std::array<std::string_view, kCodeCount> kCodeNames = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

}  // namespace

std::string_view CodeName(Code code) {
  const auto i = static_cast<size_t>(code);
  MS_CHECK_LT(i, kCodeNames.size());
  return kCodeNames[i];
}

Code ErrorCode(Error error) {
  return ErrorRow(error).code;
}

std::string_view ErrorText(Error error) {
  return ErrorRow(error).text;
}

GrpcStatus ToStatus(Error error) {
  const Row& row = ErrorRow(error);
  return {row.code, std::string(row.text)};
}

}  // namespace mainstay::rpc

// Goal: what a client is told is etcd's text and code, letter by letter.
// Method: a golden list taken from the reference of etcd 3.7.1 (grpc-api 6.1 and 6.2), not from the
// table under test.
#include "rpc/errors.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace mainstay::rpc {
namespace {

struct Golden {
  Error error;
  std::string_view code;
  std::string_view text;
};

// clang-format off
constexpr Golden kGolden[] = {
    {Error::kEmptyKey, "InvalidArgument", "etcdserver: key is not provided"},
    {Error::kKeyNotFound, "InvalidArgument", "etcdserver: key not found"},
    {Error::kValueProvided, "InvalidArgument", "etcdserver: value is provided"},
    {Error::kLeaseProvided, "InvalidArgument", "etcdserver: lease is provided"},
    {Error::kTooManyOps, "InvalidArgument", "etcdserver: too many operations in txn request"},
    {Error::kDuplicateKey, "InvalidArgument", "etcdserver: duplicate key given in txn request"},
    {Error::kInvalidClientApiVersion, "InvalidArgument", "etcdserver: invalid client api version"},
    {Error::kInvalidSortOption, "InvalidArgument", "etcdserver: invalid sort option"},
    {Error::kCompacted, "OutOfRange", "etcdserver: mvcc: required revision has been compacted"},
    {Error::kFutureRev, "OutOfRange", "etcdserver: mvcc: required revision is a future revision"},
    {Error::kNoSpace, "ResourceExhausted", "etcdserver: mvcc: database space exceeded"},
    {Error::kLeaseNotFound, "NotFound", "etcdserver: requested lease not found"},
    {Error::kLeaseExist, "FailedPrecondition", "etcdserver: lease already exists"},
    {Error::kLeaseTtlTooLarge, "OutOfRange", "etcdserver: too large lease TTL"},
    {Error::kWatchCanceled, "Canceled", "etcdserver: watch canceled"},
    {Error::kMemberExist, "FailedPrecondition", "etcdserver: member ID already exist"},
    {Error::kPeerUrlExist, "FailedPrecondition", "etcdserver: Peer URLs already exists"},
    {Error::kMemberNotEnoughStarted, "FailedPrecondition", "etcdserver: re-configuration failed due to not enough started members"},
    {Error::kMemberBadUrls, "InvalidArgument", "etcdserver: given member URLs are invalid"},
    {Error::kMemberNotFound, "NotFound", "etcdserver: member not found"},
    {Error::kMemberNotLearner, "FailedPrecondition", "etcdserver: can only promote a learner member"},
    {Error::kLearnerNotReady, "FailedPrecondition", "etcdserver: can only promote a learner member which is in sync with leader"},
    {Error::kTooManyLearners, "FailedPrecondition", "etcdserver: too many learner members in cluster"},
    {Error::kClusterIdMismatch, "FailedPrecondition", "etcdserver: cluster ID mismatch"},
    {Error::kRequestTooLarge, "InvalidArgument", "etcdserver: request is too large"},
    {Error::kTooManyRequests, "ResourceExhausted", "etcdserver: too many requests"},
    {Error::kRootUserNotExist, "FailedPrecondition", "etcdserver: root user does not exist"},
    {Error::kRootRoleNotExist, "FailedPrecondition", "etcdserver: root user does not have root role"},
    {Error::kUserAlreadyExist, "FailedPrecondition", "etcdserver: user name already exists"},
    {Error::kUserEmpty, "InvalidArgument", "etcdserver: user name is empty"},
    {Error::kUserNotFound, "FailedPrecondition", "etcdserver: user name not found"},
    {Error::kRoleAlreadyExist, "FailedPrecondition", "etcdserver: role name already exists"},
    {Error::kRoleNotFound, "FailedPrecondition", "etcdserver: role name not found"},
    {Error::kRoleEmpty, "InvalidArgument", "etcdserver: role name is empty"},
    {Error::kAuthFailed, "InvalidArgument", "etcdserver: authentication failed, invalid user ID or password"},
    {Error::kPermissionNotGiven, "InvalidArgument", "etcdserver: permission not given"},
    {Error::kPermissionDenied, "PermissionDenied", "etcdserver: permission denied"},
    {Error::kRoleNotGranted, "FailedPrecondition", "etcdserver: role is not granted to the user"},
    {Error::kPermissionNotGranted, "FailedPrecondition", "etcdserver: permission is not granted to the role"},
    {Error::kAuthNotEnabled, "FailedPrecondition", "etcdserver: authentication is not enabled"},
    {Error::kInvalidAuthToken, "Unauthenticated", "etcdserver: invalid auth token"},
    {Error::kInvalidAuthMgmt, "InvalidArgument", "etcdserver: invalid auth management"},
    {Error::kAuthOldRevision, "InvalidArgument", "etcdserver: revision of auth store is old"},
    {Error::kNoLeader, "Unavailable", "etcdserver: no leader"},
    {Error::kNotLeader, "FailedPrecondition", "etcdserver: not leader"},
    {Error::kLeaderChanged, "Unavailable", "etcdserver: leader changed"},
    {Error::kNotCapable, "FailedPrecondition", "etcdserver: not capable"},
    {Error::kStopped, "Unavailable", "etcdserver: server stopped"},
    {Error::kTimeout, "Unavailable", "etcdserver: request timed out"},
    {Error::kTimeoutDueToLeaderFail, "Unavailable", "etcdserver: request timed out, possibly due to previous leader failure"},
    {Error::kTimeoutDueToConnectionLost, "Unavailable", "etcdserver: request timed out, possibly due to connection lost"},
    {Error::kTimeoutWaitAppliedIndex, "Unavailable", "etcdserver: request timed out, waiting for the applied index took too long"},
    {Error::kUnhealthy, "Unavailable", "etcdserver: unhealthy cluster"},
    {Error::kCorrupt, "DataLoss", "etcdserver: corrupt cluster"},
    {Error::kNotSupportedForLearner, "FailedPrecondition", "etcdserver: rpc not supported for learner"},
    {Error::kBadLeaderTransferee, "FailedPrecondition", "etcdserver: bad leader transferee"},
    {Error::kWrongDowngradeVersionFormat, "InvalidArgument", "etcdserver: wrong downgrade target version format"},
    {Error::kInvalidDowngradeTargetVersion, "InvalidArgument", "etcdserver: invalid downgrade target version"},
    {Error::kClusterVersionUnavailable, "FailedPrecondition", "etcdserver: cluster version not found during downgrade"},
    {Error::kDowngradeInProcess, "FailedPrecondition", "etcdserver: cluster has a downgrade job in progress"},
    {Error::kNoInflightDowngrade, "FailedPrecondition", "etcdserver: no inflight downgrade job"},
    {Error::kCanceled, "Canceled", "etcdserver: request canceled"},
    {Error::kDeadlineExceeded, "DeadlineExceeded", "etcdserver: context deadline exceeded"},
    {Error::kContextDeadlineExceeded, "DeadlineExceeded", "context deadline exceeded"},
    {Error::kProposalDropped, "Unknown", "raft proposal dropped"},
    {Error::kNotPrimaryLessor, "Unknown", "not a primary lessor"},
    {Error::kLeaderTransferTimeout, "Unknown", "etcdserver: request timed out, leader transfer took too long"},
    {Error::kUnknownMethod, "Unknown", "etcdserver: unknown method"},
    {Error::kRangeStreamSortOrder, "Unimplemented", "RangeStream does not support custom sort orders"},
    {Error::kRangeStreamFilters, "Unimplemented", "RangeStream does not support revision filters"},
};
// clang-format on

TEST(ErrorsTest, EveryDeclaredErrorHasEtcdsCodeAndText) {
  for (const Golden& golden : kGolden) {
    EXPECT_EQ(ErrorText(golden.error), golden.text);
    EXPECT_EQ(CodeName(ErrorCode(golden.error)), golden.code) << golden.text;
  }
}

TEST(ErrorsTest, WhatTheListLacksIsOursAndSaysSo) {
  std::set<Error> listed;
  for (const Golden& golden : kGolden) {
    listed.insert(golden.error);
  }
  for (int i = 1; i < static_cast<int>(Error::kCount); ++i) {
    const Error error = static_cast<Error>(i);
    if (!listed.contains(error)) {
      EXPECT_EQ(ErrorText(error).substr(0, 10), "mainstay: ");
    }
  }
}

TEST(ErrorsTest, NoTwoErrorsShareAText) {
  std::set<std::string_view> texts;
  for (int i = 0; i < static_cast<int>(Error::kCount); ++i) {
    EXPECT_TRUE(texts.insert(ErrorText(static_cast<Error>(i))).second);
  }
}

TEST(ErrorsTest, OkIsOk) {
  EXPECT_TRUE(ToStatus(Error::kOk).ok());
  EXPECT_EQ(CodeName(Code::kOk), "OK");
  EXPECT_EQ(CodeName(Code::kCancelled), "Canceled");
}

}  // namespace
}  // namespace mainstay::rpc

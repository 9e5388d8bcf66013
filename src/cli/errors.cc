// How Go's etcd client words an error.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/session.h"
#include "common/status.h"

namespace mainstay::cli {
namespace {

// The texts that Go's client knows as errors of their own; it prints them without code. Sorted.
constexpr auto kKnownTexts = std::to_array<std::string_view>({
    "etcdserver: Peer URLs already exists",
    "etcdserver: authentication failed, invalid user ID or password",
    "etcdserver: authentication is not enabled",
    "etcdserver: bad leader transferee",
    "etcdserver: can only promote a learner member",
    "etcdserver: can only promote a learner member which is in sync with leader",
    "etcdserver: cluster ID mismatch",
    "etcdserver: cluster has a downgrade job in progress",
    "etcdserver: cluster version not found during downgrade",
    "etcdserver: corrupt cluster",
    "etcdserver: duplicate key given in txn request",
    "etcdserver: given member URLs are invalid",
    "etcdserver: invalid auth management",
    "etcdserver: invalid auth token",
    "etcdserver: invalid downgrade target version",
    "etcdserver: invalid sort option",
    "etcdserver: key is not provided",
    "etcdserver: key not found",
    "etcdserver: leader changed",
    "etcdserver: lease already exists",
    "etcdserver: lease is provided",
    "etcdserver: member ID already exist",
    "etcdserver: member not found",
    "etcdserver: mvcc: database space exceeded",
    "etcdserver: mvcc: required revision has been compacted",
    "etcdserver: mvcc: required revision is a future revision",
    "etcdserver: no inflight downgrade job",
    "etcdserver: no leader",
    "etcdserver: not capable",
    "etcdserver: not leader",
    "etcdserver: permission denied",
    "etcdserver: permission is not granted to the role",
    "etcdserver: re-configuration failed due to not enough started members",
    "etcdserver: request is too large",
    "etcdserver: request timed out",
    "etcdserver: request timed out, possibly due to connection lost",
    "etcdserver: request timed out, possibly due to previous leader failure",
    "etcdserver: requested lease not found",
    "etcdserver: revision of auth store is old",
    "etcdserver: role is not granted to the user",
    "etcdserver: role name already exists",
    "etcdserver: role name is empty",
    "etcdserver: role name not found",
    "etcdserver: root user does not exist",
    "etcdserver: root user does not have root role",
    "etcdserver: rpc not supported for learner",
    "etcdserver: server stopped",
    "etcdserver: too large lease TTL",
    "etcdserver: too many learner members in cluster",
    "etcdserver: too many operations in txn request",
    "etcdserver: too many requests",
    "etcdserver: unhealthy cluster",
    "etcdserver: user name already exists",
    "etcdserver: user name is empty",
    "etcdserver: user name not found",
    "etcdserver: value is provided",
    "etcdserver: wrong downgrade target version format",
});

constexpr std::string_view kCodeNames[] = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

}  // namespace

std::string ErrorText(const absl::Status& status) {
  const std::string text(Message(status));
  if (std::binary_search(kKnownTexts.begin(), kKnownTexts.end(), std::string_view(text))) {
    return text;
  }
  if (text.starts_with("etcdclient: ")) {
    return text;  // our own side refused; there is no server's code
  }
  if (status.code() == absl::StatusCode::kDeadlineExceeded) {
    return "context deadline exceeded";
  }
  if (status.code() == absl::StatusCode::kCancelled) {
    return "context canceled";
  }
  return fmt::format("rpc error: code = {} desc = {}",
                     kCodeNames[std::min<size_t>(static_cast<size_t>(status.code()), 16)], text);
}

}  // namespace mainstay::cli

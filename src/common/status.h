// absl::Status for the world's errors (disk, network, foreign bytes), and the bridge over Debian's
// Abseil, whose string_view is its own type. What an API client may see is an Error (error.h), not
// a Status.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mainstay {

using absl::Status;
using absl::StatusOr;

inline absl::string_view ToAbsl(std::string_view s) {
  return {s.data(), s.size()};
}
inline std::string_view FromAbsl(absl::string_view s) {
  return {s.data(), s.size()};
}

inline Status DataLoss(std::string_view text) {
  return absl::DataLossError(ToAbsl(text));
}
inline Status Internal(std::string_view text) {
  return absl::InternalError(ToAbsl(text));
}
inline Status InvalidArgument(std::string_view text) {
  return absl::InvalidArgumentError(ToAbsl(text));
}
inline Status NotFound(std::string_view text) {
  return absl::NotFoundError(ToAbsl(text));
}
inline Status Unavailable(std::string_view text) {
  return absl::UnavailableError(ToAbsl(text));
}
inline Status FailedPrecondition(std::string_view text) {
  return absl::FailedPreconditionError(ToAbsl(text));
}
inline Status ResourceExhausted(std::string_view text) {
  return absl::ResourceExhaustedError(ToAbsl(text));
}
inline std::string_view Message(const Status& s) {
  return FromAbsl(s.message());
}

// The failed system call as a Status: "open /x: Permission denied". ENOENT is NotFound, ENOSPC and
// EDQUOT are ResourceExhausted, EEXIST is AlreadyExists, all else Internal.
Status ErrnoStatus(std::string_view what, int errno_value);

}  // namespace mainstay

#define MS_STATUS_CONCAT_INNER(a, b) a##b
#define MS_STATUS_CONCAT(a, b) MS_STATUS_CONCAT_INNER(a, b)

#define MS_RETURN_IF_ERROR(expr)           \
  do {                                     \
    ::mainstay::Status ms_status = (expr); \
    if (!ms_status.ok()) [[unlikely]] {    \
      return ms_status;                    \
    }                                      \
  } while (false)

#define MS_ASSIGN_OR_RETURN(lhs, expr) \
  MS_ASSIGN_OR_RETURN_INNER(MS_STATUS_CONCAT(ms_or_, __LINE__), lhs, expr)
#define MS_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) [[unlikely]] {                   \
    return std::move(tmp).status();               \
  }                                               \
  lhs = std::move(tmp).value()

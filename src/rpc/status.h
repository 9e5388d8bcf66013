// GrpcStatus: how a call ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace mainstay::rpc {

// The codes of gRPC, with its numbers.
enum class Code : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};
inline constexpr int kCodeCount = 17;

// "OK", "Canceled", "InvalidArgument": as metrics' label grpc_code spells it.
std::string_view CodeName(Code code);

struct GrpcStatus {
  Code code = Code::kOk;
  std::string message;

  bool ok() const { return code == Code::kOk; }
  static GrpcStatus Ok() { return {}; }
};

}  // namespace mainstay::rpc

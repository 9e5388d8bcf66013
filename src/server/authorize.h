// Who may do what: one decision over a flat list of operations, asked before proposing and again at
// apply.
//
// Threads  Any.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "mvcc/request.h"

namespace mainstay::server {

enum class Access : uint8_t {
  kRead,           // keys of [key, range_end)
  kWrite,          // keys of [key, range_end)
  kAdmin,          // role root
  kAuthenticated,  // anybody with a name
};

struct Operation {
  Access access = Access::kRead;
  std::string_view key = {};
  std::string_view range_end = {};
};

struct Identity {
  std::string_view username;
  uint64_t auth_revision = 0;
};

class Authorizer {
 public:
  // False while authentication is off: Check() then allows everything, and nobody need flatten a
  // request for it.
  bool enabled() const { return false; }
  // kOk, kPermissionDenied, kAuthOldRevision, kUserEmpty.
  Error Check(const Identity& who, std::span<const Operation> operations) const;
};

// The operations that a request consists of, as grpc-api 2.3 to 2.5 say: a txn's compares and both
// branches count, at every depth. Views point into the request.
void Flatten(const mvcc::RangeRequest& request, std::vector<Operation>* out);
void Flatten(const mvcc::PutRequest& request, std::vector<Operation>* out);
void Flatten(const mvcc::DeleteRangeRequest& request, std::vector<Operation>* out);
void Flatten(const mvcc::TxnRequest& request, std::vector<Operation>* out);

}  // namespace mainstay::server

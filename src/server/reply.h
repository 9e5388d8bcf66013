// What the server answers and how the answer finds its way back: ReplyTo names a slot of the
// caller, ReplySink is the small interface through which the caller gets it. No closure per
// request: a put costs two integers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/types.h"
#include "mvcc/request.h"
#include "server/reply_to.h"

namespace mainstay::server {

// ---- bodies
struct LeaseGrantResult {
  LeaseId id;
  int64_t ttl_s = 0;  // after raising to the minimum
};
struct LeaseRenewResult {
  int64_t ttl_s = 0;  // granted TTL; 0 if the lease is not there (no error: grpc-api 4.3)
};
struct LeaseTimeToLiveResult {
  int64_t ttl_s = -1;  // remaining whole seconds; -1 if the lease is not there
  int64_t granted_ttl_s = 0;
  std::vector<std::string> keys;  // only if asked for
};
// etcdserverpb.AlarmType.
enum class AlarmType : uint8_t { kNone = 0, kNoSpace = 1, kCorrupt = 2 };
struct AlarmMember {
  MemberId member;
  AlarmType type = AlarmType::kNone;
  auto operator<=>(const AlarmMember&) const = default;
};
struct AlarmResult {
  std::vector<AlarmMember> alarms;
};
struct HashResult {
  uint32_t hash = 0;
};
struct HashKvResult {
  uint32_t hash = 0;
  int64_t compact_revision = 0;
  int64_t hash_revision = 0;
};
struct DowngradeResult {
  std::string version;  // "3.7"
};

using ReplyBody =
    std::variant<std::monostate,  // compact, lease revoke, defragment, read barrier, ...
                 mvcc::PutResult,
                 mvcc::DeleteResult,
                 mvcc::TxnResult,
                 LeaseGrantResult,
                 LeaseRenewResult,
                 LeaseTimeToLiveResult,
                 AlarmResult,
                 HashResult,
                 HashKvResult,
                 DowngradeResult>;

// One answer. Encoding it into a response message is rpc's work, on the loop's thread.
struct Reply {
  Error error = Error::kOk;
  int64_t revision =
      0;  // for the header: of the write, or current where the table in grpc-api 2.0 says so
  uint64_t raft_term = 0;  // term of the last applied entry when the answer was made
  ReplyBody body;
};

// Receives answers.
// Threads  Deliver(), Flush(): "apply", "raft", "timer" and bg-N, at the same time. Neither may
// block.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // `a` and `b` as given in ReplyTo. Called exactly once for each request that was taken, never for
  // a refused one.
  virtual void Deliver(uint64_t a, uint64_t b, Reply&& reply) = 0;
  // No more answers of this batch: wake whoever waits, once.
  virtual void Flush() = 0;
};

}  // namespace mainstay::server

// What a client asks to be written: its own request bytes, who it is, and where the answer goes.
#pragma once

#include <cstdint>
#include <string>

#include "common/buffer.h"
#include "env/clock.h"
#include "server/reply_to.h"

namespace mainstay::server {

// Field numbers of etcdserverpb.InternalRaftRequest that clients' calls propose.
enum class RequestKind : uint32_t {
  kPut = 4,
  kDeleteRange = 5,
  kTxn = 6,
  kCompaction = 7,
  kLeaseGrant = 8,
  kLeaseRevoke = 9,
  kAlarm = 10,
  kLeaseCheckpoint = 11,
  kClusterVersionSet = 1300,
  kClusterMemberAttrSet = 1301,
  kDowngradeInfoSet = 1302,
};

// Who asks. Travels in the entry: apply checks it again.
struct RequestInfo {
  std::string username;  // empty = anonymous
  uint64_t auth_revision = 0;
  std::string client_address;  // "ip:port", for audit
};

struct Proposal {
  RequestKind kind = RequestKind::kPut;
  // The client's request message as received; validated by rpc (grpc-api check order) but not
  // rewritten. A LeaseGrant with ID 0 gets its id here; nothing else is changed.
  Buffer request;
  RequestInfo info;
  // When the server gives up; MonoTime{0} = now + request_timeout(). A caller with a shorter
  // deadline of its own answers its client itself and drops the late reply.
  MonoTime deadline{0};
  ReplyTo reply_to;
};

}  // namespace mainstay::server

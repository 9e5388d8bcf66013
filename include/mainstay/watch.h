// mainstay::client::Watch: one watch that survives lost connections.
//
// Role        Made by Client::StartWatch(). Delivers every event of a key range once, in revision
// order. Invariants  I1 after a lost stream the watch is created again at the revision after the
// last one
//             delivered.  I2 fragments of one revision are joined before delivery.
// Threads     Next() from one thread at a time; RequestProgress() and Cancel() from any.
// Errors      The last answer says why the watch ended: `canceled` with compact_revision, or the
// status. Limits      At most `pending_max` answers wait; beyond that the stream is not read, and
// the server holds
//             back.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "proto/etcdserverpb/rpc.pb.h"

namespace mainstay::client {

class Transport;

struct WatchOptions {
  std::string key;
  std::string range_end = {};  // as in RangeRequest
  int64_t start_revision = 0;  // 0: from the next change on
  bool prev_kv = false;
  bool progress_notify = false;
  bool no_put = false;
  bool no_delete = false;
  bool fragment = false;
  bool require_leader = false;  // end with Unavailable when the member has no leader
  size_t pending_max = 1024;
};

struct WatchAnswer {
  etcdserverpb::ResponseHeader header;
  std::vector<mvccpb::Event> events;
  int64_t compact_revision = 0;  // with canceled: what was asked for is compacted up to here
  bool canceled = false;         // the last answer
  std::string cancel_reason;     // the server's text
  absl::Status status;           // with canceled: why, as an error
  // "Nothing up to header.revision() is missing."
  bool IsProgress() const { return !canceled && events.empty(); }
};

class Watch {
 public:
  Watch(std::shared_ptr<Transport> transport, WatchOptions options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // The next answer; nullopt after the last one, after Cancel(), or when `timeout` passes (zero: no
  // timeout; done() tells which).
  std::optional<WatchAnswer> Next(std::chrono::nanoseconds timeout = {});
  bool done() const;
  // Asks the server for a progress answer.
  void RequestProgress();
  void Cancel();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainstay::client

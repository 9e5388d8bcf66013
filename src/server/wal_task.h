// server::WalTask: writes the log. Everything that arrived while the last sync ran is written and
// synced together.
//
// Role        Fed by RaftDriver; tells it what is durable.
// Invariants  I1 a number is reported as persisted only after the sync behind it returned OK.
//             I2 items are written in the order in which they came.
// Threads     RunOnce(): "wal".
// Errors      A failed write or sync is fatal and never tried again: what the disk has then is
// unknown.
#pragma once

#include <vector>

#include "common/metrics.h"
#include "env/clock.h"
#include "env/executor.h"
#include "server/durable_log.h"
#include "server/queues.h"
#include "server/shared_state.h"

namespace mainstay::server {

class WalTask : public Task {
 public:
  struct Params {
    SharedState& shared;
    WalQueue& inbox;
    DurableLog& log;
  };
  explicit WalTask(Params params) : p_(params) {}
  bool RunOnce() override;

 private:
  Status Write(const WalItem& item, bool* must_sync);

  Params p_;
  std::vector<WalItem> popped_;
};

}  // namespace mainstay::server

// A read-only transaction, evaluated on one view: it never goes through the log.
//
// Threads  One at a time: the loop, or the pool.
// Sources  grpc-api 2.5: compares on the state before, ranges of the branch taken.
#pragma once

#include "common/buffer.h"
#include "common/error.h"
#include "common/status.h"
#include "mvcc/request.h"
#include "mvcc/store.h"

namespace mainstay::rpc {

struct ReadTxn {
  Buffer bytes;  // what `request` points into
  mvcc::TxnRequest request;
  mvcc::ReadView view;
  uint64_t answer_bytes_max = 0;  // beyond it Run() reads no further

  // ---- after Run()
  mvcc::TxnResult result;
  Error error = Error::kOk;
  Status status;

  // True if a loop may call Run() itself.
  bool AnswersWithoutDisk() const;
  // REQUIRES: IsReadOnly(request), CheckTxn() said kOk, `view` is set.
  void Run();

 private:
  bool Compares();
  bool Holds(const mvcc::Compare& compare);
};

}  // namespace mainstay::rpc

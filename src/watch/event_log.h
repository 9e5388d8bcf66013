// EventLog: the newest revisions' events, shared by all shards, bounded in bytes. LoggedBatch: the
// events of one revision, each encoded once per form for all who send it.
//
// Threads  EventLog: Append(), Reset(): "apply"; the rest: any. LoggedBatch: any.
// Limits   `bytes_max`: beyond it the oldest revisions leave; whoever still needs them reads
// history.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/buffer.h"
#include "common/mutex.h"
#include "mvcc/event.h"

namespace mainstay::watch {

// One event as a field of WatchResponse (tag 11, length, mvccpb.Event). Small ones are one Buffer;
// big records are referenced between the bytes around them.
struct EncodedEvent {
  Buffer bytes;      // everything, or the bytes around the records one after the other
  size_t size = 0;   // on the wire
  size_t split = 0;  // > 0: of `bytes`, so many come before the record, the rest before prev_kv

  void AppendTo(const mvcc::Event& event, BufferChain* out) const;
};

EncodedEvent EncodeEvent(const mvcc::Event& event, bool with_prev_kv);

class LoggedBatch {
 public:
  explicit LoggedBatch(mvcc::EventBatch batch);
  LoggedBatch(const LoggedBatch&) = delete;
  LoggedBatch& operator=(const LoggedBatch&) = delete;

  int64_t revision() const { return batch_.revision; }
  const std::vector<mvcc::Event>& events() const { return batch_.events; }
  size_t bytes() const { return bytes_; }
  EncodedEvent Encoded(size_t event, bool with_prev_kv) const;

 private:
  const mvcc::EventBatch batch_;
  size_t bytes_ = 0;
  mutable Mutex mu_;
  mutable std::vector<EncodedEvent> plain_ ABSL_GUARDED_BY(mu_);
  mutable std::vector<EncodedEvent> with_prev_ ABSL_GUARDED_BY(mu_);
};

using BatchList = std::vector<std::shared_ptr<const LoggedBatch>>;

class EventLog {
 public:
  EventLog(size_t bytes_max, int64_t revision) : bytes_max_(bytes_max), revision_(revision) {}

  // The next revisions. REQUIRES: they follow the last one without a gap and end at `revision`.
  void Append(std::vector<mvcc::EventBatch> batches, int64_t revision);
  // Forgets everything; the next revision will be `revision` + 1.
  void Reset(int64_t revision);

  int64_t revision() const;
  // Revisions > `after`, at most `count_max`, stopping after the one that reaches `bytes_max`.
  // False (and nothing) if the log no longer holds all of them; `*base` is then the revision before
  // the first one it holds.
  bool ReadAfter(
      int64_t after, size_t count_max, size_t bytes_max, BatchList* out, int64_t* base) const;

 private:
  const size_t bytes_max_;
  mutable Mutex mu_;
  int64_t revision_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::shared_ptr<const LoggedBatch>> batches_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mainstay::watch

// watch::Hub: delivers every change once, in order, to every watcher that asked for it, or says
// that it cannot.
//
// Role        apply hands it each revision's events (Publish); rpc opens one stream per gRPC Watch
//             call and passes the client's requests on; the hub answers with encoded WatchResponse
//             bodies through the stream's sink, so one ordered queue carries created and cancelled
//             answers, events and progress.
// Invariants  I1 of a synced watcher, every event up to its shard's `seen` revision was posted.
//             I2 an unsynced watcher's cursor names the first revision that it may still need.
//             I3 per watcher, event revisions strictly grow over messages; a revision is never
//             split
//                (but over fragments).
//             I4 a progress message with revision R follows every event <= R that it speaks for.
// Threads     Publish(), Reset(): "apply". OpenStream(), Create(), Cancel(), Progress(),
//             CloseStream(), OnDrained(): any thread; per stream in the order of the calls if they
//             come from one thread. Shards run on "watch-N" (Start) or wherever RunShard() is
//             called from (tests, simulator). History is read on the WorkPool, or in the shard
//             without one.
// Ownership   Borrows what Params names; all of it outlives the hub, and `history` also outlives
// the
//             pool. A shard shares the sink until the stream is closed.
// Errors      A stream whose history cannot be read, or whose requests pile up, ends by
//             StreamSink::Fail(). Nothing else fails.
// Limits      The log: `log_bytes_max`. Posted and unwritten bytes of a stream: `stream_bytes_max`
//             plus one message; beyond it the stream is only a cursor per watcher. Unhandled
//             requests of a stream: `stream_requests_max`, then Fail(kTooManyRequests).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/buffer.h"
#include "common/error.h"
#include "common/metrics.h"
#include "env/clock.h"
#include "env/executor.h"
#include "env/random.h"
#include "mvcc/event.h"
#include "watch/history.h"

namespace mainstay::watch {

class Shard;

// The constant and slowly changing parts of a ResponseHeader. Any thread; must not block.
class HeaderSource {
 public:
  virtual ~HeaderSource() = default;
  virtual uint64_t cluster_id() const = 0;
  virtual uint64_t member_id() const = 0;
  virtual uint64_t raft_term() const = 0;
};

// One gRPC Watch call as the hub sees it. Implemented by rpc. Called by the stream's shard only.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // Takes one encoded etcdserverpb.WatchResponse, to be sent after all earlier ones. Must not block
  // and must not call the hub before it returns. Every byte of it is given back through
  // OnDrained() once it has left the server's memory (or can never leave it).
  virtual void Send(BufferChain body) = 0;
  // One more request of the stream was run. The caller may bound with it what it hands over.
  virtual void Took() {}
  // The stream cannot go on; nothing follows. rpc ends the call with `error` and calls
  // CloseStream().
  virtual void Fail(Error error) = 0;
};

struct StreamId {
  uint32_t shard = 0;
  uint64_t number = 0;
  friend bool operator==(const StreamId&, const StreamId&) = default;
};

struct StreamOptions {
  // A fragmenting watcher's messages stay below this, a single larger event excepted:
  // --max-request-bytes + 512 KiB.
  size_t fragment_bytes = (1536 << 10) + (512 << 10);
};

// etcdserverpb.WatchCreateRequest, and the verdict of the permission check.
struct CreateRequest {
  std::string key = {};        // as sent: empty means the smallest key
  std::string range_end = {};  // as sent: empty = single key, one zero byte = to the end
  int64_t start_revision = 0;
  bool progress_notify = false;
  bool no_put = false;
  bool no_delete = false;
  bool prev_kv = false;
  int64_t watch_id = 0;
  bool fragment = false;
  // Not empty: the create is refused with this cancel_reason.
  std::string refused = {};
};

struct HubOptions {
  int shards = 1;
  // --watch-progress-notify-interval: 0 = 10 minutes, at least 100 ms; up to a tenth is added,
  // drawn once per stream.
  std::chrono::nanoseconds progress_interval = std::chrono::minutes(10);
  size_t log_bytes_max = 16 << 20;
  size_t stream_bytes_max = 1 << 20;
  // With many streams each one's share shrinks, down to 64 KiB, so that all stay near this.
  size_t all_streams_bytes_max = 512 << 20;
  size_t stream_requests_max = 1000;
  size_t inbox_max = 65536;
  // One catch-up step reads at most so much history.
  int64_t chunk_revisions_max = 1000;
  size_t chunk_bytes_max = 1 << 20;
};

class Hub {
 public:
  struct Params {
    HubOptions options;
    HeaderSource& header;
    HistorySource& history;
    Clock& clock;
    Random& random;  // used during construction only: seeds each shard
    MetricRegistry& metrics;
    WorkPool* pool = nullptr;  // null: shards read history themselves
    int64_t revision = 1;      // the store's revision now
  };
  explicit Hub(Params params);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;
  ~Hub();

  // Starts "watch-N" for each shard. Without it the owner calls RunShard().
  void Start(Executor& executor);
  int shard_count() const;
  // The Task of one shard, for executors that tests and the simulator own.
  Task& shard_task(int shard);

  // ---- apply
  // Events of the revisions after the last published one, in order, without a gap. REQUIRES: the
  // last batch's revision == `revision`. To be called before anybody can read or be told of
  // `revision`, so that a watch created afterwards starts after it.
  void Publish(std::vector<mvcc::EventBatch> batches, int64_t revision);
  // The store was replaced (a snapshot from the leader): its revision is `revision` now, and the
  // history source answers from the new store. All watchers continue from their cursors.
  void Reset(int64_t revision);

  // ---- rpc
  // Nullopt: too many requests are waiting (end the call with kTooManyRequests).
  std::optional<StreamId> OpenStream(std::shared_ptr<StreamSink> sink, StreamOptions options = {});
  // False: not taken, the shard's inbox is full; end the call with kTooManyRequests.
  [[nodiscard]] bool Create(StreamId stream, CreateRequest request);
  [[nodiscard]] bool Cancel(StreamId stream, int64_t watch_id);
  [[nodiscard]] bool Progress(StreamId stream);
  // Never refused. The sink may be called until the shard has seen this.
  void CloseStream(StreamId stream);
  // `bytes` more of what was sent have left. Never refused.
  void OnDrained(StreamId stream, size_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainstay::watch

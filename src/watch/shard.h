// Shard: a share of the streams, all their watchers, and the thread that serves them. Private to
// src/watch; hub.h has the contract.
//
// Threads  Inbox: any. Everything else: the shard's task ("watch-N").
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"

#include "common/queue.h"
#include "env/executor.h"
#include "env/random.h"
#include "watch/event_log.h"
#include "watch/history.h"
#include "watch/hub.h"
#include "watch/key_index.h"
#include "watch/response.h"

namespace mainstay::watch {

// Live numbers behind the gauges. Each adds and takes off what it counts, on the shard's thread, so
// none goes below zero; shared with the registry's callbacks, which outlive the hub.
struct Stats {
  std::atomic<int64_t> streams{0};
  std::atomic<int64_t> watchers{0};
  std::atomic<int64_t> slow_watchers{0};
  std::atomic<int64_t> pending_events{0};
  std::atomic<int64_t> events{0};
};

namespace message {
struct Open {
  uint64_t stream;
  std::shared_ptr<StreamSink> sink;
  StreamOptions options;
};
struct Create {
  uint64_t stream;
  CreateRequest request;
};
struct Cancel {
  uint64_t stream;
  int64_t watch_id;
};
struct Progress {
  uint64_t stream;
};
struct Close {
  uint64_t stream;
};
struct Drained {
  uint64_t stream;
  size_t bytes;
};
struct History {
  HistorySource::Request request;
  Error error = Error::kOk;
  HistoryChunk chunk;
};
}  // namespace message
using Message = std::variant<message::Open,
                             message::Create,
                             message::Cancel,
                             message::Progress,
                             message::Close,
                             message::Drained,
                             message::History>;

// Where other threads leave work for a shard. Outlives the shard in the hands of a pool job.
class Inbox {
 public:
  explicit Inbox(size_t count_max) : queue_(count_max) {}
  [[nodiscard]] bool TryPush(Message message);
  void Push(Message message);  // never refuses: bounded by what was admitted before
  bool PopAll(std::vector<Message>* out) { return queue_.PopAll(out); }
  void Wake();
  // Null: nobody to wake (not started, or stopped).
  void SetHandle(TaskHandle* handle);

 private:
  BoundedQueue<Message> queue_;
  Mutex mu_;
  TaskHandle* handle_ ABSL_GUARDED_BY(mu_) = nullptr;
};

struct Watcher;

struct Stream {
  uint64_t number = 0;
  std::shared_ptr<StreamSink> sink;
  StreamOptions options;
  int64_t next_id = 0;
  absl::btree_map<int64_t, std::unique_ptr<Watcher>> watchers;  // dead ones too, until cancelled
  absl::btree_set<int64_t> unsynced;                            // ids
  std::multiset<int64_t> future_starts;  // start revisions that the store had not reached
  size_t live_watchers = 0;              // not dead
  size_t unwritten_bytes = 0;
  std::deque<std::pair<size_t, size_t>> posted;  // bytes and events of each message not yet drained
  bool blocked = false;                          // no credit: nothing is sent, cursors stay
  bool failed = false;                           // Fail() was called: nothing is sent any more
  int64_t sent_revision = 0;     // the highest of any event, bookmark or created answer posted
  int64_t progress_from = 0;     // the revision seen when the pending manual progress was asked for
  std::deque<Message> deferred;  // requests that came while blocked
  MonoTime next_tick = kNever;
  std::chrono::nanoseconds tick_interval{};
};

struct Watcher {
  enum class State : uint8_t {
    kSynced,    // fed live; its next revision is max(cursor, seen + 1)
    kUnsynced,  // its next revision is `cursor`, below seen + 1
    kDead,      // cancelled as compacted; only the id is still taken
  };
  Stream* stream = nullptr;
  int64_t id = 0;
  KeyRange range;
  size_t index_slot = 0;
  bool progress_notify = false;
  bool no_put = false;
  bool no_delete = false;
  bool prev_kv = false;
  bool fragment = false;
  State state = State::kSynced;
  bool runnable = false;  // stands in behind_ and turns_
  bool sent_since_tick = false;
  int64_t start_revision = 0;  // as asked; 0 = from now
  int64_t cursor = 0;
  uint64_t turn = 0;
  bool in_future_starts = false;
  // While events are offered and flushed, never kept over a RunOnce():
  std::vector<EventRef> pending;  // matched and not yet sent
  size_t pending_bytes = 0;
  bool touched = false;
  bool lacks_prev = false;  // `held` because a predecessor is not at hand
  int64_t held = 0;         // 0, or the first revision that could not be sent
  // The log's copy of this revision has no predecessor: read it from history.
  int64_t log_lacks_prev_at = 0;
};

class Shard : public Task {
 public:
  struct Params {
    const HubOptions& options;
    HeaderSource& header;
    HistorySource& history;
    const EventLog& log;
    Clock& clock;
    WorkPool* pool;
    std::shared_ptr<Stats> stats;
    uint64_t seed;
    int64_t revision;
  };
  explicit Shard(Params params);
  ~Shard() override;

  bool RunOnce() override;
  MonoTime NextWake() const override;

  const std::shared_ptr<Inbox>& inbox() { return inbox_; }
  // Streams that were opened and not yet forgotten; counted by the opener so that Publish() may
  // skip shards without any.
  std::atomic<int64_t>& open_streams() { return open_streams_; }

 private:
  // ---- requests (shard.cc)
  void Handle(Message message);
  void HandleOpen(message::Open message);
  void HandleCreate(Stream& stream, CreateRequest request);
  void Place(Watcher& watcher);
  void HandleCancel(Stream& stream, int64_t watch_id);
  void HandleClose(uint64_t number);
  void HandleDrained(const message::Drained& message);
  // Runs a request now, or keeps it until the stream has credit.
  void HandleRequest(uint64_t number, Message message);
  void RunRequest(Stream& stream, Message message);
  void RefuseCreate(Stream& stream, std::string_view reason);
  Stream* Find(uint64_t number);
  void RemoveWatcher(Watcher& watcher);
  void DropWatchers(Stream& stream);
  void FailStream(Stream& stream, Error error);

  // ---- sending (shard.cc)
  Header MakeHeader(int64_t revision) const;
  void Post(Stream& stream, BufferChain body, size_t events);
  void PostHead(Stream& stream, const ResponseHead& head);
  // Takes the stream's credit away or gives it back.
  void UpdateBlocked(Stream& stream);
  size_t StreamBytesMax() const;

  // ---- live events (shard.cc)
  bool DrainLog();
  void LoseTrack(int64_t base);
  void Offer(Watcher& watcher, const LoggedBatch& batch, uint32_t event);
  // Sends what was offered, or sets `held`.
  void FlushTouched();
  void FlushWatcher(Watcher& watcher);
  void Touch(Watcher& watcher);
  void SettleLive();

  // ---- catching up (shard_catch_up.cc)
  void MakeUnsynced(Watcher& watcher, int64_t cursor);
  void MakeSynced(Watcher& watcher);
  // REQUIRES: unsynced. Tells the client that its next revision is gone.
  void MakeDead(Watcher& watcher, int64_t compact_revision);
  void SetRunnable(Watcher& watcher, bool runnable);
  void Advance(Watcher& watcher, int64_t cursor);
  bool CatchUp();
  bool ReadLog(const Watcher& leader);
  void ReadHistory(const Watcher& leader);
  void HandleHistory(message::History message);
  void HandleHistoryError(const message::History& message);
  bool DeliverChunk();
  void DeliverTo(const std::vector<Watcher*>& group);
  void SettleCaughtUp(Watcher& watcher);

  // ---- progress (shard_catch_up.cc)
  // The bookmark that a stream may be given now: every event up to it was posted. Nullopt: wait.
  std::optional<int64_t> Bookmark(const Stream& stream) const;
  void PostProgress(Stream& stream, int64_t watch_id, int64_t revision);
  bool ReachedStart(const Watcher& watcher) const;
  bool AnswerProgress();
  bool RunTimers();

  const HubOptions& options_;
  HeaderSource& header_;
  HistorySource& history_;
  const EventLog& log_;
  Clock& clock_;
  WorkPool* const pool_;
  const std::shared_ptr<Stats> stats_;
  const std::shared_ptr<Inbox> inbox_;
  std::atomic<int64_t> open_streams_{0};

  SeededRandom random_;
  BufferArena arena_{4096};  // small blocks: one unsent message must not hold many sent ones
  std::vector<Message> messages_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Stream>> streams_;
  KeyIndex<Watcher> index_;  // all but dead watchers
  int64_t seen_;             // every revision up to here was offered to synced watchers
  std::vector<Watcher*> touched_;
  // Of catch-up messages: the store's revision when their batch was read. Live ones bear the
  // revision of their last event.
  std::optional<int64_t> flush_revision_;
  BatchList batches_;

  // Runnable unsynced watchers, by (cursor, turn) and by least recent turn.
  absl::btree_map<std::pair<int64_t, uint64_t>, Watcher*> behind_;
  absl::btree_map<uint64_t, Watcher*> turns_;
  uint64_t next_turn_ = 1;
  bool reading_ = false;  // a read is on its way through the pool
  MonoTime retry_at_ = MonoTime::zero();
  struct Chunk {
    int64_t from = 0;
    int64_t last = 0;
    bool from_history = false;
    bool prev_kv = false;  // read with predecessors
    BatchList batches;
  };
  std::optional<Chunk> chunk_;  // read, and not yet given to all who wait for it

  std::set<uint64_t> progress_wanted_;                    // stream numbers
  absl::btree_set<std::pair<MonoTime, uint64_t>> ticks_;  // one per stream
};

}  // namespace mainstay::watch

// Requests, sending and live events of a shard. Catching up and progress: shard_catch_up.cc.
#include "watch/shard.h"

#include <algorithm>

#include "common/check.h"

namespace mainstay::watch {
namespace {

// One pass over the log takes at most so much before it sends.
constexpr size_t kDrainBatchesMax = 256;
constexpr size_t kDrainBytesMax = 4 << 20;
// A watcher's message is cut at the next revision once it has so many bytes.
constexpr size_t kMessageBytesMax = 1 << 20;
constexpr size_t kStreamBytesMin = 64 << 10;
constexpr std::chrono::nanoseconds kProgressDefault = std::chrono::minutes(10);
constexpr std::chrono::nanoseconds kProgressMin = std::chrono::milliseconds(100);

// etcd's texts.
constexpr std::string_view kCompactedText =
    "etcdserver: mvcc: required revision has been compacted";
constexpr std::string_view kEmptyRangeText = "mvcc: watcher range is empty";
constexpr std::string_view kDuplicateText = "mvcc: duplicate watch ID provided on the WatchStream";

// False: the range is empty. The bytes as sent become what they mean.
bool ToRange(CreateRequest* request, KeyRange* out) {
  static const std::string kZero(1, '\0');
  out->key = request->key.empty() ? kZero : std::move(request->key);
  if (request->range_end.empty()) {
    out->kind = KeyRange::Kind::kSingle;
  } else if (request->range_end == kZero) {
    out->kind = KeyRange::Kind::kFromKey;
  } else {
    out->kind = KeyRange::Kind::kHalfOpen;
    out->end = std::move(request->range_end);
    return out->key < out->end;
  }
  return true;
}

}  // namespace

bool Inbox::TryPush(Message message) {
  const auto result = queue_.TryPush(std::move(message));
  if (result == BoundedQueue<Message>::PushResult::kPushedFirst) {
    Wake();
  }
  return result != BoundedQueue<Message>::PushResult::kFull;
}

void Inbox::Push(Message message) {
  if (queue_.Push(std::move(message)) == BoundedQueue<Message>::PushResult::kPushedFirst) {
    Wake();
  }
}

void Inbox::Wake() {
  MutexLock lock(mu_);
  if (handle_ != nullptr) {
    handle_->Wake();
  }
}

void Inbox::SetHandle(TaskHandle* handle) {
  MutexLock lock(mu_);
  handle_ = handle;
}

Shard::Shard(Params params)
    : options_(params.options),
      header_(params.header),
      history_(params.history),
      log_(params.log),
      clock_(params.clock),
      pool_(params.pool),
      stats_(std::move(params.stats)),
      inbox_(std::make_shared<Inbox>(params.options.inbox_max)),
      random_(params.seed),
      seen_(params.revision) {}

Shard::~Shard() {
  while (!streams_.empty()) {
    HandleClose(streams_.begin()->first);
  }
}

bool Shard::RunOnce() {
  bool did = inbox_->PopAll(&messages_);
  // The log is read after the inbox: a request sees at least the revision that its sender saw.
  did |= DrainLog();
  for (Message& message : messages_) {
    Handle(std::move(message));
  }
  messages_.clear();
  did |= RunTimers();
  did |= CatchUp();
  did |= AnswerProgress();
  return did;
}

MonoTime Shard::NextWake() const {
  MonoTime out = ticks_.empty() ? kNever : ticks_.begin()->first;
  if (!turns_.empty() && !reading_) {
    out = std::min(out, retry_at_);
  }
  return out;
}

// ---- requests

void Shard::Handle(Message message) {
  if (auto* open = std::get_if<message::Open>(&message)) {
    HandleOpen(std::move(*open));
  } else if (const auto* close = std::get_if<message::Close>(&message)) {
    HandleClose(close->stream);
  } else if (const auto* drained = std::get_if<message::Drained>(&message)) {
    HandleDrained(*drained);
  } else if (auto* history = std::get_if<message::History>(&message)) {
    HandleHistory(std::move(*history));
  } else if (const auto* create = std::get_if<message::Create>(&message)) {
    const uint64_t number = create->stream;
    HandleRequest(number, std::move(message));
  } else if (const auto* cancel = std::get_if<message::Cancel>(&message)) {
    HandleRequest(cancel->stream, std::move(message));
  } else if (const auto* progress = std::get_if<message::Progress>(&message)) {
    HandleRequest(progress->stream, std::move(message));
  }
}

Stream* Shard::Find(uint64_t number) {
  const auto at = streams_.find(number);
  return at == streams_.end() ? nullptr : at->second.get();
}

void Shard::HandleOpen(message::Open message) {
  auto stream = std::make_unique<Stream>();
  stream->number = message.stream;
  stream->sink = std::move(message.sink);
  stream->options = message.options;
  const auto asked = options_.progress_interval;
  const std::chrono::nanoseconds interval =
      asked.count() == 0 ? kProgressDefault : std::max(asked, kProgressMin);
  const auto tenth = static_cast<uint64_t>(interval.count() / 10);
  stream->tick_interval = interval + std::chrono::nanoseconds(random_.Below(tenth + 1));
  stream->next_tick = clock_.Now() + stream->tick_interval;
  ticks_.emplace(stream->next_tick, stream->number);
  ++stats_->streams;
  streams_[message.stream] = std::move(stream);
}

void Shard::HandleRequest(uint64_t number, Message message) {
  Stream* stream = Find(number);
  if (stream == nullptr || stream->failed) {
    return;
  }
  if (!stream->blocked && stream->deferred.empty()) {
    RunRequest(*stream, std::move(message));
    return;
  }
  stream->deferred.push_back(std::move(message));
  if (stream->deferred.size() > options_.stream_requests_max) {
    FailStream(*stream, Error::kTooManyRequests);
  }
}

void Shard::RunRequest(Stream& stream, Message message) {
  if (auto* create = std::get_if<message::Create>(&message)) {
    HandleCreate(stream, std::move(create->request));
  } else if (const auto* cancel = std::get_if<message::Cancel>(&message)) {
    HandleCancel(stream, cancel->watch_id);
  } else {
    if (progress_wanted_.insert(stream.number).second) {
      stream.progress_from = seen_;
    }
  }
  stream.sink->Took();
}

void Shard::RefuseCreate(Stream& stream, std::string_view reason) {
  PostHead(stream, {.header = MakeHeader(seen_),
                    .watch_id = -1,
                    .created = true,
                    .canceled = true,
                    .cancel_reason = reason});
}

void Shard::HandleCreate(Stream& stream, CreateRequest request) {
  if (!request.refused.empty()) {
    RefuseCreate(stream, request.refused);
    return;
  }
  if (request.start_revision < 0) {
    RefuseCreate(stream, kCompactedText);
    return;
  }
  KeyRange range;
  if (!ToRange(&request, &range)) {
    RefuseCreate(stream, kEmptyRangeText);
    return;
  }
  int64_t id = request.watch_id;
  if (id == 0) {
    while (stream.watchers.contains(stream.next_id)) {
      ++stream.next_id;
    }
    id = stream.next_id++;
  } else if (stream.watchers.contains(id)) {
    RefuseCreate(stream, kDuplicateText);
    return;
  }
  auto owned = std::make_unique<Watcher>();
  Watcher& watcher = *owned;
  watcher.stream = &stream;
  watcher.id = id;
  watcher.range = std::move(range);
  watcher.progress_notify = request.progress_notify;
  watcher.no_put = request.no_put;
  watcher.no_delete = request.no_delete;
  watcher.prev_kv = request.prev_kv;
  watcher.fragment = request.fragment;
  watcher.start_revision = request.start_revision;
  stream.watchers.emplace(id, std::move(owned));
  ++stream.live_watchers;
  ++stats_->watchers;
  index_.Add(watcher.range, &watcher, &watcher.index_slot);
  PostHead(stream, {.header = MakeHeader(seen_), .watch_id = id, .created = true});
  Place(watcher);
}

// Where a new watcher starts: live, from history, or nowhere.
void Shard::Place(Watcher& watcher) {
  const int64_t start = watcher.start_revision;
  watcher.stream->sent_revision = seen_;
  // A store begins at revision 1, without an event.
  watcher.cursor = start == 0 ? seen_ + 1 : std::max<int64_t>(start, 2);
  if (start > seen_) {
    watcher.stream->future_starts.insert(start);
    watcher.in_future_starts = true;
  }
  const int64_t compacted = history_.compacted_revision();
  const bool gone = start != 0 && start <= seen_ && start < compacted;
  if (gone || watcher.cursor <= seen_) {
    MakeUnsynced(watcher, std::min(watcher.cursor, seen_));
  }
  if (gone) {
    MakeDead(watcher, compacted);
  }
}

void Shard::HandleCancel(Stream& stream, int64_t watch_id) {
  const auto at = stream.watchers.find(watch_id);
  if (at == stream.watchers.end()) {
    return;  // etcd gives no answer either
  }
  RemoveWatcher(*at->second);
  PostHead(stream, {.header = MakeHeader(seen_), .watch_id = watch_id, .canceled = true});
}

void Shard::HandleClose(uint64_t number) {
  Stream* stream = Find(number);
  if (stream == nullptr) {
    return;
  }
  DropWatchers(*stream);
  for (const auto& [bytes, events] : stream->posted) {
    stats_->pending_events -= static_cast<int64_t>(events);
  }
  ticks_.erase({stream->next_tick, number});
  progress_wanted_.erase(number);
  --stats_->streams;
  --open_streams_;
  streams_.erase(number);
}

void Shard::HandleDrained(const message::Drained& message) {
  Stream* stream = Find(message.stream);
  if (stream == nullptr) {
    return;
  }
  MS_CHECK_LE(message.bytes, stream->unwritten_bytes);
  stream->unwritten_bytes -= message.bytes;
  size_t left = message.bytes;
  while (left > 0) {
    auto& [bytes, events] = stream->posted.front();
    const size_t part = std::min(bytes, left);
    bytes -= part;
    left -= part;
    if (bytes == 0) {
      stats_->pending_events -= static_cast<int64_t>(events);
      stream->posted.pop_front();
    }
  }
  UpdateBlocked(*stream);
  while (!stream->blocked && !stream->failed && !stream->deferred.empty()) {
    Message request = std::move(stream->deferred.front());
    stream->deferred.pop_front();
    RunRequest(*stream, std::move(request));
  }
}

void Shard::RemoveWatcher(Watcher& watcher) {
  Stream& stream = *watcher.stream;
  if (watcher.state != Watcher::State::kDead) {
    if (watcher.state == Watcher::State::kUnsynced) {
      MakeSynced(watcher);
    }
    index_.Remove(watcher.range, watcher.index_slot);
    --stream.live_watchers;
    if (watcher.in_future_starts) {
      stream.future_starts.erase(stream.future_starts.find(watcher.start_revision));
    }
  }
  --stats_->watchers;
  stream.watchers.erase(watcher.id);
}

void Shard::DropWatchers(Stream& stream) {
  while (!stream.watchers.empty()) {
    RemoveWatcher(*stream.watchers.begin()->second);
  }
}

void Shard::FailStream(Stream& stream, Error error) {
  DropWatchers(stream);
  stream.deferred.clear();
  stream.failed = true;
  stream.sink->Fail(error);
}

// ---- sending

Header Shard::MakeHeader(int64_t revision) const {
  return {header_.cluster_id(), header_.member_id(), revision, header_.raft_term()};
}

size_t Shard::StreamBytesMax() const {
  const auto streams = static_cast<size_t>(std::max<int64_t>(1, stats_->streams.load()));
  return std::min(options_.stream_bytes_max,
                  std::max(kStreamBytesMin, options_.all_streams_bytes_max / streams));
}

void Shard::Post(Stream& stream, BufferChain body, size_t events) {
  stream.unwritten_bytes += body.size();
  stream.posted.emplace_back(body.size(), events);
  stats_->pending_events += static_cast<int64_t>(events);
  stats_->events += static_cast<int64_t>(events);
  stream.sink->Send(std::move(body));
  UpdateBlocked(stream);
}

void Shard::PostHead(Stream& stream, const ResponseHead& head) {
  Post(stream, BufferChain(EncodeHead(head, &arena_)), 0);
}

void Shard::UpdateBlocked(Stream& stream) {
  const size_t max = StreamBytesMax();
  // Given back only at half: a stream at its limit must not flip with every byte.
  const bool blocked = stream.unwritten_bytes >= (stream.blocked ? max / 2 + 1 : max);
  if (blocked == stream.blocked) {
    return;
  }
  stream.blocked = blocked;
  for (const int64_t id : stream.unsynced) {
    SetRunnable(*stream.watchers.at(id), !blocked);
  }
}

// ---- live events

bool Shard::DrainLog() {
  const int64_t target = log_.revision();
  if (seen_ >= target) {
    return false;
  }
  if (index_.size() == 0) {
    seen_ = target;
    return true;
  }
  flush_revision_.reset();
  while (seen_ < target) {
    int64_t base = 0;
    if (!log_.ReadAfter(seen_, kDrainBatchesMax, kDrainBytesMax, &batches_, &base)) {
      LoseTrack(base);
      continue;
    }
    MS_CHECK(!batches_.empty());
    for (const auto& batch : batches_) {
      for (uint32_t i = 0; i < batch->events().size(); ++i) {
        index_.ForEach(batch->events()[i].key, [&](Watcher* watcher) {
          if (watcher->state == Watcher::State::kSynced) {
            Offer(*watcher, *batch, i);
          }
        });
      }
    }
    seen_ = batches_.back()->revision();
    SettleLive();
  }
  batches_.clear();
  return true;
}

// The log no longer goes back to where this shard was: whoever was fed live reads history now.
void Shard::LoseTrack(int64_t base) {
  const int64_t next = seen_ + 1;
  seen_ = base;
  for (auto& [number, stream] : streams_) {
    for (auto& [id, watcher] : stream->watchers) {
      if (watcher->state == Watcher::State::kSynced && watcher->cursor <= base) {
        MakeUnsynced(*watcher, std::max(watcher->cursor, next));
      }
    }
  }
}

void Shard::Touch(Watcher& watcher) {
  if (!watcher.touched) {
    watcher.touched = true;
    touched_.push_back(&watcher);
  }
}

void Shard::Offer(Watcher& watcher, const LoggedBatch& batch, uint32_t event) {
  const mvcc::Event& e = batch.events()[event];
  const bool is_put = e.type == mvcc::Event::Type::kPut;
  if (watcher.held != 0 || batch.revision() < watcher.cursor ||
      (is_put ? watcher.no_put : watcher.no_delete)) {
    return;
  }
  Touch(watcher);
  if (watcher.prev_kv && !e.is_create && e.prev_kv.empty()) {
    // A revision goes out whole or not at all.
    while (!watcher.pending.empty() && watcher.pending.back().batch == &batch) {
      watcher.pending.pop_back();
    }
    watcher.held = batch.revision();
    watcher.lacks_prev = true;
    return;
  }
  if (watcher.pending_bytes >= kMessageBytesMax && watcher.pending.back().batch != &batch) {
    FlushWatcher(watcher);
    if (watcher.held != 0) {
      return;
    }
  }
  watcher.pending.push_back({&batch, event});
  watcher.pending_bytes += e.kv.size() + (watcher.prev_kv ? e.prev_kv.size() : 0);
}

void Shard::FlushTouched() {
  // By revision, so that a stream's headers do not step back from one watcher to the next.
  std::stable_sort(touched_.begin(), touched_.end(), [](const Watcher* a, const Watcher* b) {
    const auto last = [](const Watcher* w) {
      return w->pending.empty() ? 0 : w->pending.back().batch->revision();
    };
    return last(a) < last(b);
  });
  for (Watcher* watcher : touched_) {
    FlushWatcher(*watcher);
  }
}

void Shard::FlushWatcher(Watcher& watcher) {
  if (watcher.pending.empty()) {
    return;
  }
  Stream& stream = *watcher.stream;
  if (stream.blocked) {
    watcher.held = watcher.pending.front().batch->revision();
    watcher.lacks_prev = false;
  } else {
    const int64_t last = watcher.pending.back().batch->revision();
    const ResponseHead head{.header = MakeHeader(flush_revision_.value_or(last)),
                            .watch_id = watcher.id};
    EventMessages messages(head, watcher.prev_kv,
                           watcher.fragment ? stream.options.fragment_bytes : 0, &arena_);
    messages.Build(watcher.pending,
                   [&](BufferChain body, size_t events) { Post(stream, std::move(body), events); });
    watcher.sent_since_tick = true;
    stream.sent_revision = std::max(stream.sent_revision, last);
  }
  watcher.pending.clear();
  watcher.pending_bytes = 0;
}

void Shard::SettleLive() {
  FlushTouched();
  for (Watcher* watcher : touched_) {
    watcher->touched = false;
    if (watcher->held != 0) {
      watcher->log_lacks_prev_at = watcher->lacks_prev ? watcher->held : 0;
      MakeUnsynced(*watcher, std::exchange(watcher->held, 0));
      watcher->lacks_prev = false;
    }
  }
  touched_.clear();
}

}  // namespace mainstay::watch

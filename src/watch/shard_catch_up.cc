// Catching up from the log or from history, and progress, of a shard.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/log.h"
#include "watch/shard.h"

namespace mainstay::watch {
namespace {

// Watchers that one step serves; more wait for the next step with the same chunk.
constexpr size_t kGroupMax = 1024;
// Up to so many are matched one by one; beyond, an index is cheaper.
constexpr size_t kPlainMatchMax = 8;
// Streams with more unsynced watchers get their bookmark when all are synced.
constexpr size_t kBookmarkScanMax = 64;
constexpr auto kRetry = std::chrono::milliseconds(10);

}  // namespace

// ---- states

void Shard::SetRunnable(Watcher& watcher, bool runnable) {
  if (watcher.runnable == runnable) {
    return;
  }
  watcher.runnable = runnable;
  if (runnable) {
    watcher.turn = next_turn_++;
    behind_.emplace(std::pair(watcher.cursor, watcher.turn), &watcher);
    turns_.emplace(watcher.turn, &watcher);
  } else {
    behind_.erase({watcher.cursor, watcher.turn});
    turns_.erase(watcher.turn);
  }
}

void Shard::MakeUnsynced(Watcher& watcher, int64_t cursor) {
  MS_CHECK(watcher.state == Watcher::State::kSynced);
  MS_CHECK_LE(cursor, seen_);
  watcher.state = Watcher::State::kUnsynced;
  watcher.cursor = cursor;
  watcher.stream->unsynced.insert(watcher.id);
  ++stats_->slow_watchers;
  SetRunnable(watcher, !watcher.stream->blocked);
}

void Shard::MakeSynced(Watcher& watcher) {
  MS_CHECK(watcher.state == Watcher::State::kUnsynced);
  SetRunnable(watcher, false);
  watcher.state = Watcher::State::kSynced;
  watcher.stream->unsynced.erase(watcher.id);
  --stats_->slow_watchers;
}

void Shard::MakeDead(Watcher& watcher, int64_t compact_revision) {
  MakeSynced(watcher);
  index_.Remove(watcher.range, watcher.index_slot);
  watcher.state = Watcher::State::kDead;
  Stream& stream = *watcher.stream;
  --stream.live_watchers;
  if (watcher.in_future_starts) {
    stream.future_starts.erase(stream.future_starts.find(watcher.start_revision));
  }
  // Revision 0 in the header is etcd's way; clients look at compact_revision.
  PostHead(stream, {.header = MakeHeader(0),
                    .watch_id = watcher.id,
                    .canceled = true,
                    .compact_revision = compact_revision});
}

void Shard::Advance(Watcher& watcher, int64_t cursor) {
  SetRunnable(watcher, false);
  watcher.cursor = cursor;
  if (cursor > seen_) {
    MakeSynced(watcher);
  } else {
    SetRunnable(watcher, !watcher.stream->blocked);
  }
}

// ---- catching up

bool Shard::CatchUp() {
  if (chunk_.has_value()) {
    return DeliverChunk();
  }
  if (reading_ || turns_.empty() || clock_.Now() < retry_at_) {
    return false;
  }
  // Whoever waited longest leads; others whose cursor falls into the same chunk ride along. One
  // watcher far behind can so not hold up those who are nearly there.
  Watcher& leader = *turns_.begin()->second;
  if (!ReadLog(leader)) {
    if (leader.cursor < history_.compacted_revision()) {
      MakeDead(leader, history_.compacted_revision());
      return true;
    }
    ReadHistory(leader);
  }
  return true;
}

bool Shard::ReadLog(const Watcher& leader) {
  if (leader.log_lacks_prev_at == leader.cursor) {
    return false;
  }
  Chunk chunk;
  int64_t base = 0;
  if (!log_.ReadAfter(leader.cursor - 1, static_cast<size_t>(options_.chunk_revisions_max),
                      options_.chunk_bytes_max, &chunk.batches, &base)) {
    return false;
  }
  // What this shard has not offered live yet is not for catching up either.
  while (!chunk.batches.empty() && chunk.batches.back()->revision() > seen_) {
    chunk.batches.pop_back();
  }
  MS_CHECK(!chunk.batches.empty());
  chunk.from = leader.cursor;
  chunk.last = chunk.batches.back()->revision();
  chunk_ = std::move(chunk);
  DeliverChunk();
  return true;
}

void Shard::ReadHistory(const Watcher& leader) {
  message::History job;
  job.request = {.from = leader.cursor,
                 .to = std::min(leader.cursor + options_.chunk_revisions_max - 1, seen_),
                 .bytes_max = options_.chunk_bytes_max,
                 .prev_kv = leader.prev_kv};
  auto work = [&source = history_](message::History* out) {
    ErrorOr<HistoryChunk> read = source.Read(out->request);
    if (read.ok()) {
      out->chunk = *std::move(read);
    } else {
      out->error = read.error();
    }
  };
  if (pool_ == nullptr) {
    work(&job);
    HandleHistory(std::move(job));
    return;
  }
  reading_ = pool_->TrySubmit([work, job = std::move(job), inbox = inbox_]() mutable {
    work(&job);
    inbox->Push(std::move(job));
  });
  if (!reading_) {
    retry_at_ = clock_.Now() + kRetry;  // the pool is full
  }
}

void Shard::HandleHistory(message::History message) {
  reading_ = false;
  if (message.error != Error::kOk) {
    HandleHistoryError(message);
    return;
  }
  if (message.chunk.last_revision < message.request.from) {
    retry_at_ = clock_.Now() + kRetry;  // the store does not show that revision yet
    return;
  }
  Chunk chunk{.from = message.request.from,
              .last = std::min(message.chunk.last_revision, seen_),
              .from_history = true,
              .prev_kv = message.request.prev_kv,
              .batches = {}};
  for (mvcc::EventBatch& batch : message.chunk.batches) {
    MS_CHECK_LE(chunk.from, batch.revision);
    if (batch.revision <= chunk.last) {
      chunk.batches.push_back(std::make_shared<const LoggedBatch>(std::move(batch)));
    }
  }
  chunk_ = std::move(chunk);
  DeliverChunk();
}

void Shard::HandleHistoryError(const message::History& message) {
  if (message.error == Error::kCompacted) {
    const int64_t compacted = history_.compacted_revision();
    retry_at_ = clock_.Now() + kRetry;
    while (!behind_.empty() && behind_.begin()->first.first < compacted) {
      MakeDead(*behind_.begin()->second, compacted);
    }
    return;
  }
  MS_LOG(kError, "failed to read history for watchers; ending their streams")
      .Num("from-revision", message.request.from)
      .Num("to-revision", message.request.to)
      .Num("error", static_cast<int64_t>(message.error));
  std::set<uint64_t> streams;
  for (auto at = behind_.lower_bound({message.request.from, 0});
       at != behind_.end() && at->first.first <= message.request.to; ++at) {
    streams.insert(at->second->stream->number);
  }
  for (const uint64_t number : streams) {
    FailStream(*Find(number), message.error);
  }
}

bool Shard::DeliverChunk() {
  std::vector<Watcher*> group;
  for (auto at = behind_.lower_bound({chunk_->from, 0});
       at != behind_.end() && at->first.first <= chunk_->last && group.size() < kGroupMax; ++at) {
    const Watcher& watcher = *at->second;
    const bool fits = chunk_->from_history ? chunk_->prev_kv || !watcher.prev_kv
                                           : watcher.log_lacks_prev_at != watcher.cursor;
    if (fits) {
      group.push_back(at->second);
    }
  }
  if (group.empty()) {
    chunk_.reset();
    return true;
  }
  DeliverTo(group);
  return true;
}

void Shard::DeliverTo(const std::vector<Watcher*>& group) {
  flush_revision_ = seen_;
  KeyIndex<Watcher> index;
  const bool plain = group.size() <= kPlainMatchMax;
  for (Watcher* watcher : group) {
    if (!plain) {
      index.Add(watcher->range, watcher, nullptr);
    }
  }
  for (const auto& batch : chunk_->batches) {
    for (uint32_t i = 0; i < batch->events().size(); ++i) {
      const std::string_view key = batch->events()[i].key;
      if (!plain) {
        index.ForEach(key, [&](Watcher* watcher) { Offer(*watcher, *batch, i); });
        continue;
      }
      for (Watcher* watcher : group) {
        if (watcher->range.Contains(key)) {
          Offer(*watcher, *batch, i);
        }
      }
    }
  }
  FlushTouched();
  touched_.clear();
  for (Watcher* watcher : group) {
    SettleCaughtUp(*watcher);
  }
}

void Shard::SettleCaughtUp(Watcher& watcher) {
  watcher.touched = false;
  const int64_t held = std::exchange(watcher.held, 0);
  const bool lacks_prev = std::exchange(watcher.lacks_prev, false);
  watcher.log_lacks_prev_at = lacks_prev ? held : 0;
  Advance(watcher, held != 0 ? held : chunk_->last + 1);
  if (lacks_prev && chunk_->from_history && !watcher.stream->blocked) {
    // The predecessor was compacted away, which happens only at the compacted revision itself.
    // Naming the next one lets a client that resumes from there go on.
    MakeDead(watcher, held + 1);
  }
}

// ---- progress

bool Shard::ReachedStart(const Watcher& watcher) const {
  return watcher.start_revision <= seen_;
}

std::optional<int64_t> Shard::Bookmark(const Stream& stream) const {
  if (stream.blocked || stream.unsynced.size() > kBookmarkScanMax) {
    return std::nullopt;
  }
  int64_t covered = seen_;
  for (const int64_t id : stream.unsynced) {
    covered = std::min(covered, stream.watchers.at(id)->cursor - 1);
  }
  if (!stream.future_starts.empty() && *stream.future_starts.rbegin() > covered) {
    return std::nullopt;
  }
  // With all synced, `covered` is the newest revision. But under steady writes a watcher may hop
  // between synced and unsynced without end; what counts for the asker then is the revision of the
  // time when it asked. Clients resume from a bookmark, so it must not be below what they have.
  const bool enough = covered >= stream.progress_from && covered >= stream.sent_revision;
  return enough ? std::optional(covered) : std::nullopt;
}

void Shard::PostProgress(Stream& stream, int64_t watch_id, int64_t revision) {
  stream.sent_revision = std::max(stream.sent_revision, revision);
  PostHead(stream, {.header = MakeHeader(revision), .watch_id = watch_id});
}

bool Shard::AnswerProgress() {
  bool did = false;
  for (auto at = progress_wanted_.begin(); at != progress_wanted_.end();) {
    Stream& stream = *Find(*at);
    const bool nobody = stream.failed || stream.live_watchers == 0;
    const std::optional<int64_t> bookmark = Bookmark(stream);
    if (!nobody && !bookmark.has_value()) {
      ++at;
      continue;
    }
    at = progress_wanted_.erase(at);
    did = true;
    if (!nobody) {
      PostProgress(stream, -1, *bookmark);
    }
  }
  return did;
}

bool Shard::RunTimers() {
  const MonoTime now = clock_.Now();
  bool did = false;
  while (!ticks_.empty() && ticks_.begin()->first <= now) {
    did = true;
    Stream& stream = *Find(ticks_.begin()->second);
    ticks_.erase(ticks_.begin());
    stream.next_tick =
        std::max(stream.next_tick + stream.tick_interval, now + stream.tick_interval / 2);
    ticks_.emplace(stream.next_tick, stream.number);
    for (const auto& [id, watcher] : stream.watchers) {
      if (!watcher->progress_notify || watcher->state != Watcher::State::kSynced) {
        continue;
      }
      if (!watcher->sent_since_tick && !stream.blocked && ReachedStart(*watcher)) {
        PostProgress(stream, id, seen_);
      }
      watcher->sent_since_tick = false;
    }
  }
  return did;
}

}  // namespace mainstay::watch

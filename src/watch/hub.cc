#include "watch/hub.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "common/check.h"
#include "watch/event_log.h"
#include "watch/shard.h"

namespace mainstay::watch {

struct Hub::Impl {
  Impl(const HubOptions& o, int64_t revision) : options(o), log(o.log_bytes_max, revision) {}

  Inbox& inbox(StreamId stream) {
    MS_CHECK_LT(stream.shard, shards.size());
    return *shards[stream.shard]->inbox();
  }
  void WakeBusyShards() {
    for (const auto& shard : shards) {
      if (shard->open_streams() > 0) {
        shard->inbox()->Wake();
      }
    }
  }

  bool AnyStreamOpen() const {
    return std::any_of(shards.begin(), shards.end(),
                       [](const auto& shard) { return shard->open_streams() > 0; });
  }

  const HubOptions options;
  EventLog log;
  const std::shared_ptr<Stats> stats = std::make_shared<Stats>();
  std::vector<std::unique_ptr<Shard>> shards;
  std::vector<std::unique_ptr<TaskHandle>> handles;
  std::atomic<uint64_t> next_stream{0};
};

namespace {

void AddMetrics(MetricRegistry& metrics, const std::shared_ptr<Stats>& stats) {
  const auto read = [&stats](std::atomic<int64_t> Stats::*field) {
    return [stats, field] { return static_cast<double>((stats.get()->*field).load()); };
  };
  metrics.AddGaugeFn("etcd_debugging_mvcc_watch_stream_total", "Total number of watch streams.",
                     read(&Stats::streams));
  metrics.AddGaugeFn("etcd_debugging_mvcc_watcher_total", "Total number of watchers.",
                     read(&Stats::watchers));
  metrics.AddGaugeFn("etcd_debugging_mvcc_slow_watcher_total",
                     "Total number of unsynced slow watchers.", read(&Stats::slow_watchers));
  metrics.AddGaugeFn("etcd_debugging_mvcc_pending_events_total",
                     "Total number of pending events to be sent.", read(&Stats::pending_events));
  metrics.AddCounterFn("etcd_debugging_mvcc_events_total",
                       "Total number of events sent by this member.", read(&Stats::events));
}

}  // namespace

Hub::Hub(Params params) : impl_(std::make_unique<Impl>(params.options, params.revision)) {
  MS_CHECK_GT(params.options.shards, 0);
  AddMetrics(params.metrics, impl_->stats);
  for (int i = 0; i < params.options.shards; ++i) {
    impl_->shards.push_back(std::make_unique<Shard>(Shard::Params{.options = impl_->options,
                                                                  .header = params.header,
                                                                  .history = params.history,
                                                                  .log = impl_->log,
                                                                  .clock = params.clock,
                                                                  .pool = params.pool,
                                                                  .stats = impl_->stats,
                                                                  .seed = params.random.Next64(),
                                                                  .revision = params.revision}));
  }
}

Hub::~Hub() {
  // A pool job may still hold an inbox: it must find nobody to wake.
  for (const auto& shard : impl_->shards) {
    shard->inbox()->SetHandle(nullptr);
  }
  impl_->handles.clear();
}

void Hub::Start(Executor& executor) {
  MS_CHECK(impl_->handles.empty());
  for (size_t i = 0; i < impl_->shards.size(); ++i) {
    Shard& shard = *impl_->shards[i];
    impl_->handles.push_back(executor.Start("watch-" + std::to_string(i), shard));
    shard.inbox()->SetHandle(impl_->handles.back().get());
    impl_->handles.back()->Wake();  // for what came before the handle was known
  }
}

int Hub::shard_count() const {
  return static_cast<int>(impl_->shards.size());
}

Task& Hub::shard_task(int shard) {
  return *impl_->shards.at(static_cast<size_t>(shard));
}

void Hub::Publish(std::vector<mvcc::EventBatch> batches, int64_t revision) {
  if (impl_->AnyStreamOpen()) {
    impl_->log.Append(std::move(batches), revision);
  } else {
    // Who opens a stream later, or right now, is behind this revision and reads it from history.
    impl_->log.Reset(revision);
  }
  impl_->WakeBusyShards();
}

void Hub::Reset(int64_t revision) {
  impl_->log.Reset(revision);
  impl_->WakeBusyShards();
}

std::optional<StreamId> Hub::OpenStream(std::shared_ptr<StreamSink> sink, StreamOptions options) {
  const uint64_t number = impl_->next_stream.fetch_add(1);
  const StreamId id{static_cast<uint32_t>(number % impl_->shards.size()), number};
  // Counted before it is pushed: a revision published after this call wakes the shard.
  Shard& shard = *impl_->shards[id.shard];
  ++shard.open_streams();
  if (!shard.inbox()->TryPush(message::Open{number, std::move(sink), options})) {
    --shard.open_streams();
    return std::nullopt;
  }
  return id;
}

bool Hub::Create(StreamId stream, CreateRequest request) {
  return impl_->inbox(stream).TryPush(message::Create{stream.number, std::move(request)});
}

bool Hub::Cancel(StreamId stream, int64_t watch_id) {
  return impl_->inbox(stream).TryPush(message::Cancel{stream.number, watch_id});
}

bool Hub::Progress(StreamId stream) {
  return impl_->inbox(stream).TryPush(message::Progress{stream.number});
}

void Hub::CloseStream(StreamId stream) {
  impl_->inbox(stream).Push(message::Close{stream.number});
}

void Hub::OnDrained(StreamId stream, size_t bytes) {
  if (bytes > 0) {
    impl_->inbox(stream).Push(message::Drained{stream.number, bytes});
  }
}

}  // namespace mainstay::watch

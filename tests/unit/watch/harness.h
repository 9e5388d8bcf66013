// A hub on a fake clock over a naive store: a list of revisions. Streams collect decoded answers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/metrics.h"
#include "env/clock.h"
#include "env/executor.h"
#include "env/random.h"
#include "proto/etcdserverpb/rpc.pb.h"
#include "watch/history.h"
#include "watch/hub.h"

namespace mainstay::watch {

using etcdserverpb::WatchResponse;

class FakeClock : public Clock {
 public:
  MonoTime Now() const override { return now; }
  WallTime WallNow() const override { return now; }
  MonoTime now = std::chrono::seconds(100);
};

class FakeHeader : public HeaderSource {
 public:
  uint64_t cluster_id() const override { return 0xc1; }
  uint64_t member_id() const override { return 0x8e9e05c52164694d; }
  uint64_t raft_term() const override { return 7; }
};

// One change of a revision to be written.
struct Op {
  std::string key;
  std::optional<std::string> value;  // nullopt = delete
};

// Every revision there ever was. Compaction only moves the mark, and takes from reads what etcd's
// would: revisions below it, and the predecessors of changes at it.
class FakeStore : public HistorySource {
 public:
  // The batch of the next revision, recorded as history. Deletes of missing keys are left out; no
  // change at all gives no batch.
  std::optional<mvcc::EventBatch> Write(const std::vector<Op>& ops, bool with_prev = true) {
    mvcc::EventBatch batch;
    batch.revision = revision_ + 1;
    for (const Op& op : ops) {
      AddEvent(op, &batch);
    }
    if (batch.events.empty()) {
      return std::nullopt;
    }
    ++revision_;
    history_.push_back(batch);
    if (!with_prev) {
      for (mvcc::Event& event : batch.events) {
        event.prev_kv = {};
      }
    }
    return batch;
  }
  void Compact(int64_t revision) { compacted_ = revision; }
  int64_t revision() const { return revision_; }
  const std::vector<mvcc::EventBatch>& history() const { return history_; }
  void set_visible(int64_t revision) { visible_ = revision; }
  int reads = 0;
  Error fail = Error::kOk;

  ErrorOr<HistoryChunk> Read(const Request& request) override {
    ++reads;
    if (fail != Error::kOk) {
      return fail;
    }
    if (request.from < compacted_) {
      return Error::kCompacted;
    }
    HistoryChunk out;
    size_t bytes = 0;
    const int64_t to = std::min({request.to, revision_, visible_});
    out.last_revision = request.from - 1;
    for (int64_t r = request.from; r <= to && bytes < request.bytes_max; ++r) {
      mvcc::EventBatch batch = history_[static_cast<size_t>(r - 2)];
      for (mvcc::Event& event : batch.events) {
        bytes += event.kv.size();
        if (!request.prev_kv || r == compacted_) {
          event.prev_kv = {};
        }
      }
      out.batches.push_back(std::move(batch));
      out.last_revision = r;
    }
    return out;
  }
  int64_t compacted_revision() const override { return compacted_; }

 private:
  struct Live {
    int64_t create_revision;
    int64_t version;
    Buffer kv;
    int64_t mod_revision;
  };
  void AddEvent(const Op& op, mvcc::EventBatch* batch) {
    const auto at = live_.find(op.key);
    if (at == live_.end() && !op.value.has_value()) {
      return;
    }
    mvccpb::KeyValue kv;
    kv.set_key(op.key);
    kv.set_mod_revision(batch->revision);
    mvcc::Event event;
    event.is_create = at == live_.end();
    event.type = op.value.has_value() ? mvcc::Event::Type::kPut : mvcc::Event::Type::kDelete;
    if (op.value.has_value()) {
      kv.set_value(*op.value);
      kv.set_version(event.is_create ? 1 : at->second.version + 1);
      kv.set_create_revision(event.is_create ? batch->revision : at->second.create_revision);
    }
    if (!event.is_create) {
      event.prev_kv = at->second.kv;
      event.prev_revision = at->second.mod_revision;
    }
    event.kv = Buffer::Copy(kv.SerializeAsString());
    // The key stands behind its tag and length.
    event.key = event.kv.view().substr(event.kv.view().find(op.key, 1), op.key.size());
    if (op.value.has_value()) {
      live_[op.key] = {kv.create_revision(), kv.version(), event.kv, batch->revision};
    } else {
      live_.erase(at);
    }
    batch->events.push_back(std::move(event));
  }

  int64_t revision_ = 1;
  int64_t visible_ = INT64_MAX;
  int64_t compacted_ = 0;
  std::map<std::string, Live> live_;
  std::vector<mvcc::EventBatch> history_;  // [i] is revision i + 2
};

class TestSink : public StreamSink {
 public:
  void Send(BufferChain body) override {
    const std::string bytes = body.ToString();
    WatchResponse response;
    ASSERT_TRUE(response.ParseFromString(bytes));
    // Canonical: what protobuf itself would write.
    EXPECT_EQ(response.SerializeAsString(), bytes);
    sizes.push_back(bytes.size());
    unwritten += bytes.size();
    all_bytes += bytes.size();
    responses.push_back(std::move(response));
  }
  void Fail(Error error) override { failed = error; }

  std::deque<WatchResponse> responses;
  std::vector<size_t> sizes;
  size_t unwritten = 0;
  size_t all_bytes = 0;
  Error failed = Error::kOk;
};

// A pool whose work runs when the test says so.
class FakePool : public WorkPool {
 public:
  bool TrySubmit(absl::AnyInvocable<void()> work) override {
    if (full) {
      return false;
    }
    pending.push_back(std::move(work));
    return true;
  }
  bool RunOne() {
    if (pending.empty()) {
      return false;
    }
    absl::AnyInvocable<void()> work = std::move(pending.front());
    pending.pop_front();
    work();
    return true;
  }
  std::deque<absl::AnyInvocable<void()>> pending;
  bool full = false;
};

class HubFixture : public testing::Test {
 protected:
  struct TestStream {
    StreamId id;
    std::shared_ptr<TestSink> sink = std::make_shared<TestSink>();
    bool slow = false;  // drained only by Drain()
  };

  void Start(HubOptions options = {}, WorkPool* pool = nullptr) {
    hub_ = nullptr;
    registry_ = std::make_unique<MetricRegistry>();
    hub_ = std::make_unique<Hub>(Hub::Params{.options = options,
                                             .header = header_,
                                             .history = store_,
                                             .clock = clock_,
                                             .random = random_,
                                             .metrics = *registry_,
                                             .pool = pool,
                                             .revision = store_.revision()});
  }
  TestStream& Open(StreamOptions options = {}) {
    auto stream = std::make_unique<TestStream>();
    stream->id = *hub_->OpenStream(stream->sink, options);
    streams_.push_back(std::move(stream));
    return *streams_.back();
  }
  void Create(TestStream& stream, CreateRequest request) {
    ASSERT_TRUE(hub_->Create(stream.id, std::move(request)));
  }
  void Cancel(TestStream& stream, int64_t id) { ASSERT_TRUE(hub_->Cancel(stream.id, id)); }
  void Progress(TestStream& stream) { ASSERT_TRUE(hub_->Progress(stream.id)); }
  void Write(const std::vector<Op>& ops) {
    if (auto batch = store_.Write(ops, live_prev_)) {
      const int64_t revision = batch->revision;
      std::vector<mvcc::EventBatch> batches;
      batches.push_back(*std::move(batch));
      hub_->Publish(std::move(batches), revision);
    }
  }
  void Put(const std::string& key, const std::string& value = "v") { Write({{key, value}}); }
  void Delete(const std::string& key) { Write({{key, std::nullopt}}); }
  // Runs shards until nothing is ready; what was sent to quick streams drains at once.
  void Run() {
    bool did = true;
    while (did) {
      did = false;
      for (int i = 0; i < hub_->shard_count(); ++i) {
        did |= hub_->shard_task(i).RunOnce();
      }
      for (const auto& stream : streams_) {
        if (!stream->slow) {
          did |= Drain(*stream);
        }
      }
    }
  }
  bool Drain(TestStream& stream) {
    const size_t bytes = std::exchange(stream.sink->unwritten, 0);
    hub_->OnDrained(stream.id, bytes);
    return bytes > 0;
  }
  void Advance(std::chrono::nanoseconds by) { clock_.now += by; }
  // The next answer of a stream; fails the test if there is none.
  WatchResponse Next(TestStream& stream) {
    if (stream.sink->responses.empty()) {
      ADD_FAILURE() << "no answer";
      return {};
    }
    WatchResponse out = std::move(stream.sink->responses.front());
    stream.sink->responses.pop_front();
    return out;
  }
  bool Quiet(const TestStream& stream) { return stream.sink->responses.empty(); }
  // Skips the created answer.
  void CreateOk(TestStream& stream, CreateRequest request) {
    Create(stream, std::move(request));
    Run();
    EXPECT_TRUE(Next(stream).created());
  }
  double Metric(const std::string& name) {
    const std::string text = registry_->RenderText();
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1e9 : std::stod(text.substr(at + name.size() + 2));
  }

  FakeClock clock_;
  FakeHeader header_;
  FakeStore store_;
  SeededRandom random_{42};
  bool live_prev_ = true;
  std::unique_ptr<MetricRegistry> registry_;
  std::unique_ptr<Hub> hub_;
  std::vector<std::unique_ptr<TestStream>> streams_;
};

inline bool IsProgress(const WatchResponse& r) {
  return r.events_size() == 0 && !r.created() && !r.canceled() && r.compact_revision() == 0 &&
         r.header().revision() != 0;
}

// "PUT k@5" / "DEL k@6" of each event.
inline std::vector<std::string> Events(const WatchResponse& r) {
  std::vector<std::string> out;
  for (const auto& e : r.events()) {
    out.push_back((e.type() == mvccpb::Event::PUT ? "PUT " : "DEL ") + e.kv().key() + "@" +
                  std::to_string(e.kv().mod_revision()));
  }
  return out;
}

inline std::string ToEnd() {
  return std::string(1, '\0');
}

}  // namespace mainstay::watch

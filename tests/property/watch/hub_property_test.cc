// Goal: under random writers, slow readers, compactions, cancels, store replacements and any
// interleaving of shards and reads, each watch is ordered, unique, gap-free and atomic, its prev_kv
// and bookmarks are true, and it ends only by a compaction that justifies it.
// Method: a naive twin per watch: the list of all revisions. One seed = one run; a failure prints
// it.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/unit/watch/harness.h"
#include "watch/key_index.h"

namespace mainstay::watch {
namespace {

struct TwinWatch {
  CreateRequest request;
  KeyRange range;
  int64_t next = 0;  // first revision not yet covered by what was delivered
  bool dead = false;
  int64_t open_fragment = 0;  // events already seen of the revision `next` in earlier fragments
  int64_t bookmark = 0;
};

class HubProperty : public HubFixture {
 public:
  void TestBody() override {}
  void RunSeed(uint64_t seed);

 private:
  struct Answer {
    bool created = false;
    int64_t id = 0;
    CreateRequest request;
  };
  struct Client {
    TestStream* stream = nullptr;
    std::set<int64_t> ids;  // taken at the hub once all requests so far were handled
    int64_t next_id = 0;
    std::deque<Answer> answers;            // still to come, in order
    std::map<int64_t, TwinWatch> watches;  // created and not cancelled, as far as answers came
  };

  void Step();
  void RandomCreate(Client& client);
  void RandomCancel(Client& client);
  void RandomWrite();
  void Replace();
  void OpenClient();
  void CloseClient(size_t i);
  void Read(Client& client);
  void OnAnswer(Client& client, const WatchResponse& r);
  void OnEvents(TwinWatch& watch, const WatchResponse& r);
  void OnBookmark(TwinWatch& watch, int64_t revision);
  void CheckEvent(const TwinWatch& watch, const mvccpb::Event& got, const mvcc::Event& want);
  std::vector<const mvcc::Event*> Matching(const TwinWatch& watch, int64_t revision) const;
  void Settle();

  std::string RandomKey() { return std::string(1, static_cast<char>('a' + rng_->Below(12))); }

  std::unique_ptr<SeededRandom> rng_;
  FakePool pool_;
  bool with_pool_ = false;
  std::vector<std::unique_ptr<Client>> clients_;
  int64_t events_seen_ = 0;
};

KeyRange RangeOf(const CreateRequest& request) {
  const std::string key = request.key.empty() ? ToEnd() : request.key;
  if (request.range_end.empty()) {
    return {KeyRange::Kind::kSingle, key, ""};
  }
  if (request.range_end == ToEnd()) {
    return {KeyRange::Kind::kFromKey, key, ""};
  }
  return {KeyRange::Kind::kHalfOpen, key, request.range_end};
}

void HubProperty::OpenClient() {
  auto client = std::make_unique<Client>();
  client->stream = &Open({.fragment_bytes = 200 + rng_->Below(2000)});
  client->stream->slow = true;  // drained by steps
  clients_.push_back(std::move(client));
}

void HubProperty::CloseClient(size_t i) {
  hub_->CloseStream(clients_[i]->stream->id);
  clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
}

void HubProperty::RandomCreate(Client& client) {
  CreateRequest request;
  request.key = rng_->Below(10) == 0 ? "" : RandomKey();
  if (rng_->Below(2) == 0) {
    request.range_end = rng_->Below(3) == 0 ? ToEnd() : RandomKey();
  }
  const int64_t now = store_.revision();
  switch (rng_->Below(5)) {
    case 0:
      request.start_revision =
          1 + static_cast<int64_t>(rng_->Below(static_cast<uint64_t>(now) + 5));
      break;
    case 1:
      request.start_revision = std::max<int64_t>(1, now - static_cast<int64_t>(rng_->Below(30)));
      break;
    case 2:
      request.start_revision = rng_->Below(20) == 0 ? -1 : now + 1;
      break;
    default:
      break;
  }
  request.progress_notify = rng_->Below(2) == 0;
  request.no_put = rng_->Below(8) == 0;
  request.no_delete = rng_->Below(8) == 0;
  request.prev_kv = rng_->Below(2) == 0;
  request.fragment = rng_->Below(2) == 0;
  request.watch_id = rng_->Below(4) == 0 ? static_cast<int64_t>(rng_->Below(20)) : 0;

  Answer answer{.created = true, .id = request.watch_id, .request = request};
  const bool empty = !request.range_end.empty() && request.range_end != ToEnd() &&
                     (request.key.empty() ? ToEnd() : request.key) >= request.range_end;
  if (request.start_revision < 0 || empty || client.ids.contains(request.watch_id)) {
    answer.id = request.watch_id == 0 && request.start_revision >= 0 && !empty ? 0 : -1;
  }
  if (answer.id == 0) {
    while (client.ids.contains(client.next_id)) {
      ++client.next_id;
    }
    answer.id = client.next_id++;
  }
  if (answer.id >= 0) {
    client.ids.insert(answer.id);
  }
  client.answers.push_back(std::move(answer));
  Create(*client.stream, std::move(request));
}

void HubProperty::RandomCancel(Client& client) {
  const auto id = static_cast<int64_t>(rng_->Below(30));
  if (client.ids.erase(id) > 0) {
    client.answers.push_back({.created = false, .id = id, .request = {}});
  }
  Cancel(*client.stream, id);
}

void HubProperty::RandomWrite() {
  std::vector<Op> ops;
  std::set<std::string> used;
  for (uint64_t i = 0, n = 1 + rng_->Below(4); i < n; ++i) {
    const std::string key = RandomKey();
    if (used.insert(key).second) {
      ops.push_back({key, rng_->Below(3) == 0 ? std::nullopt
                                              : std::optional(std::string(rng_->Below(300), 'v'))});
    }
  }
  live_prev_ = rng_->Below(2) == 0;
  Write(ops);
}

// A snapshot from the leader: revisions that were never published here.
void HubProperty::Replace() {
  for (int i = 0; i < 20; ++i) {
    store_.Write({{RandomKey(), "s"}});
  }
  hub_->Reset(store_.revision());
}

void HubProperty::Step() {
  if (clients_.empty()) {
    OpenClient();
  }
  const size_t i = rng_->Below(clients_.size());
  Client& client = *clients_[i];
  switch (rng_->Below(40)) {
    case 0:
      if (clients_.size() < 5) {
        OpenClient();
      }
      break;
    case 1:
      if (rng_->Below(6) == 0) {
        CloseClient(i);
      }
      break;
    case 2:
    case 3:
    case 4:
      if (client.ids.size() < 20 && client.answers.size() < 50) {
        RandomCreate(client);
      }
      break;
    case 5:
      RandomCancel(client);
      break;
    case 6:
      Progress(*client.stream);
      break;
    case 7:
      if (rng_->Below(4) == 0) {
        const int64_t low = std::max<int64_t>(store_.compacted_revision(), 1);
        store_.Compact(low + static_cast<int64_t>(
                                 rng_->Below(static_cast<uint64_t>(store_.revision() - low) + 1)));
      }
      break;
    case 8:
      Advance(std::chrono::milliseconds(rng_->Below(200)));
      break;
    case 9:
      if (rng_->Below(30) == 0) {
        Replace();
      }
      break;
    case 10:
    case 11:
    case 12:
      pool_.RunOne();
      break;
    case 13:
    case 14:
    case 15:
      Read(client);
      break;
    case 16:
      pool_.full = rng_->Below(4) == 0;
      break;
    case 17:
    case 18:
    case 19:
    case 20:
    case 21:
      hub_->shard_task(static_cast<int>(rng_->Below(2))).RunOnce();
      break;
    default:
      RandomWrite();
  }
}

void HubProperty::Read(Client& client) {
  while (!Quiet(*client.stream) && !HasFailure()) {
    OnAnswer(client, Next(*client.stream));
  }
  Drain(*client.stream);
}

void HubProperty::OnAnswer(Client& client, const WatchResponse& r) {
  if (r.compact_revision() > 0) {
    TwinWatch& watch = client.watches.at(r.watch_id());
    ASSERT_TRUE(r.canceled() && !r.created());
    ASSERT_EQ(r.header().revision(), 0);
    ASSERT_FALSE(watch.dead);
    ASSERT_EQ(watch.open_fragment, 0);
    // Only what a compaction took may be missed; a prev_kv watch may also fail exactly at it.
    ASSERT_LE(r.compact_revision(), store_.compacted_revision() + (watch.request.prev_kv ? 1 : 0));
    ASSERT_LT(watch.next, r.compact_revision());
    watch.dead = true;
    return;
  }
  ASSERT_GT(r.header().revision(), 0);
  if (r.created() || r.canceled()) {
    ASSERT_FALSE(client.answers.empty());
    const Answer want = std::move(client.answers.front());
    client.answers.pop_front();
    ASSERT_EQ(r.created(), want.created);
    ASSERT_EQ(r.watch_id(), want.id);
    ASSERT_EQ(r.canceled(), !want.created || want.id == -1);
    if (!r.created()) {
      client.watches.erase(want.id);
    } else if (want.id >= 0) {
      TwinWatch watch;
      watch.request = want.request;
      watch.range = RangeOf(want.request);
      watch.next = want.request.start_revision == 0 ? r.header().revision() + 1
                                                    : want.request.start_revision;
      client.watches[want.id] = std::move(watch);
    }
    return;
  }
  if (r.events_size() > 0) {
    OnEvents(client.watches.at(r.watch_id()), r);
    return;
  }
  ASSERT_TRUE(IsProgress(r));
  if (r.watch_id() >= 0) {
    ASSERT_TRUE(client.watches.at(r.watch_id()).request.progress_notify);
    OnBookmark(client.watches.at(r.watch_id()), r.header().revision());
    return;
  }
  for (auto& [id, watch] : client.watches) {
    if (!watch.dead) {
      OnBookmark(watch, r.header().revision());
    }
  }
}

std::vector<const mvcc::Event*> HubProperty::Matching(const TwinWatch& watch,
                                                      int64_t revision) const {
  std::vector<const mvcc::Event*> out;
  if (revision < 2 || revision > store_.revision()) {
    return out;
  }
  for (const mvcc::Event& e : store_.history()[static_cast<size_t>(revision - 2)].events) {
    const bool is_put = e.type == mvcc::Event::Type::kPut;
    if (watch.range.Contains(e.key) && !(is_put ? watch.request.no_put : watch.request.no_delete)) {
      out.push_back(&e);
    }
  }
  return out;
}

void HubProperty::CheckEvent(const TwinWatch& watch,
                             const mvccpb::Event& got,
                             const mvcc::Event& want) {
  ASSERT_EQ(got.kv().SerializeAsString(), want.kv.view());
  ASSERT_EQ(static_cast<int>(got.type()), static_cast<int>(want.type));
  ASSERT_EQ(got.has_prev_kv(), watch.request.prev_kv && !want.is_create);
  if (got.has_prev_kv()) {
    ASSERT_EQ(got.prev_kv().SerializeAsString(), want.prev_kv.view());
  }
}

void HubProperty::OnEvents(TwinWatch& watch, const WatchResponse& r) {
  ASSERT_FALSE(watch.dead);
  ASSERT_TRUE(!r.fragment() || watch.request.fragment);
  ASSERT_GE(r.header().revision(), r.events(r.events_size() - 1).kv().mod_revision());
  int i = 0;
  while (i < r.events_size()) {
    const int64_t revision = r.events(i).kv().mod_revision();
    ASSERT_GE(revision, watch.next);
    ASSERT_GT(revision, watch.bookmark);
    // Nothing between was skipped.
    for (; watch.next < revision; ++watch.next) {
      ASSERT_EQ(watch.open_fragment, 0);
      ASSERT_TRUE(Matching(watch, watch.next).empty()) << "gap at " << watch.next;
    }
    const auto want = Matching(watch, revision);
    auto at = static_cast<size_t>(watch.open_fragment);
    for (; at < want.size() && i < r.events_size(); ++at, ++i) {
      CheckEvent(watch, r.events(i), *want[at]);
      ++events_seen_;
    }
    if (at == want.size()) {
      watch.open_fragment = 0;
      ++watch.next;
    } else {
      ASSERT_TRUE(r.fragment()) << "revision " << revision << " was split";
      watch.open_fragment = static_cast<int64_t>(at);
    }
  }
}

void HubProperty::OnBookmark(TwinWatch& watch, int64_t revision) {
  ASSERT_FALSE(watch.dead);
  ASSERT_EQ(watch.open_fragment, 0);
  ASSERT_GE(revision, watch.bookmark) << "bookmarks go back";
  ASSERT_GE(revision, watch.request.start_revision) << "it still waits for its start";
  for (; watch.next <= revision; ++watch.next) {
    ASSERT_TRUE(Matching(watch, watch.next).empty()) << "bookmark " << revision;
  }
  watch.bookmark = revision;
}

// Everybody reads, all work runs; then nothing may be missing.
void HubProperty::Settle() {
  pool_.full = false;
  bool did = true;
  while (did && !HasFailure()) {
    Advance(std::chrono::milliseconds(11));
    did = pool_.RunOne();
    for (int i = 0; i < hub_->shard_count(); ++i) {
      did |= hub_->shard_task(i).RunOnce();
    }
    for (const auto& client : clients_) {
      did |= client->stream->sink->unwritten > 0;
      Read(*client);
    }
  }
  for (const auto& client : clients_) {
    ASSERT_EQ(client->stream->sink->failed, Error::kOk);
    ASSERT_TRUE(client->answers.empty());
    for (auto& [id, watch] : client->watches) {
      for (; !watch.dead && watch.next <= store_.revision(); ++watch.next) {
        ASSERT_TRUE(Matching(watch, watch.next).empty()) << "missing " << watch.next;
      }
    }
    Progress(*client->stream);
  }
}

void HubProperty::RunSeed(uint64_t seed) {
  rng_ = std::make_unique<SeededRandom>(seed);
  with_pool_ = rng_->Below(2) == 0;
  Start({.shards = 2,
         .progress_interval = std::chrono::milliseconds(100 + rng_->Below(1000)),
         .log_bytes_max = rng_->Below(4) == 0 ? 0 : rng_->Below(20'000),
         .stream_bytes_max = 500 + rng_->Below(20'000),
         .chunk_revisions_max = 1 + static_cast<int64_t>(rng_->Below(30)),
         .chunk_bytes_max = 1 + rng_->Below(3000)},
        with_pool_ ? &pool_ : nullptr);
  for (int i = 0; i < 2500 && !HasFailure(); ++i) {
    Step();
  }
  Settle();
  while (!clients_.empty()) {
    CloseClient(0);
  }
  for (int i = 0; i < 2; ++i) {
    hub_->shard_task(0).RunOnce();
    hub_->shard_task(1).RunOnce();
  }
  for (const char* name :
       {"watcher_total", "watch_stream_total", "slow_watcher_total", "pending_events_total"}) {
    EXPECT_EQ(Metric(std::string("etcd_debugging_mvcc_") + name), 0) << name;
  }
  EXPECT_GT(events_seen_, 0);
  hub_ = nullptr;
  pool_.pending.clear();
}

TEST(HubPropertyTest, EveryWatchSeesExactlyItsEvents) {
  const char* fixed = std::getenv("MAINSTAY_SEED");
  const uint64_t base = fixed != nullptr ? std::stoull(fixed) : SystemRandom().Next64();
  for (uint64_t run = 0; run < (fixed != nullptr ? 1 : 40); ++run) {
    SCOPED_TRACE(testing::Message() << "repeat with MAINSTAY_SEED=" << base + run);
    HubProperty property;
    property.RunSeed(base + run);
    if (testing::Test::HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace mainstay::watch

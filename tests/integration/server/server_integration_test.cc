// Goal: the real thing: four threads, RocksDB, the log on a real disk. Acknowledged writes survive
// restarts; concurrent writers each get a revision of their own. Method: a member in the test's own
// temporary folder; the test waits for answers, never for time.
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "backend/backend.h"
#include "proto/etcdserverpb/rpc.pb.h"
#include "server/server.h"

namespace mainstay::server {
namespace {

using std::chrono::seconds;

class WaitingSink : public ReplySink {
 public:
  void Deliver(uint64_t a, uint64_t, Reply&& reply) override {
    std::lock_guard lock(mu_);
    replies_[a] = std::move(reply);
  }
  void Flush() override { changed_.notify_all(); }
  Reply Wait(uint64_t call) {
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, seconds(60), [&] { return replies_.contains(call); });
    EXPECT_TRUE(replies_.contains(call)) << "call " << call << " was never answered";
    Reply reply = std::move(replies_[call]);
    replies_.erase(call);
    return reply;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::map<uint64_t, Reply> replies_;
};

class ServerIntegrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/mainstay_server_integration_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
            std::to_string(::getpid());
    ASSERT_TRUE(PosixFileSystem().RemoveTree(root_).ok());
    options_.data_dir = root_;
    options_.initial_cluster = {{"default", {"http://127.0.0.1:2380"}}};
    options_.advertise_client_urls = {"http://127.0.0.1:2379"};
    options_.wal_segment_bytes = 4 << 20;
  }
  void TearDown() override {
    server_.reset();
    EXPECT_TRUE(PosixFileSystem().RemoveTree(root_).ok());
  }
  void Start() {
    metrics_ = std::make_unique<MetricRegistry>();
    Environment env{SystemClock(),
                    PosixFileSystem(),
                    SystemRandom(),
                    *executor_,
                    *pool_,
                    *metrics_,
                    [](const std::string& dir) -> StatusOr<std::unique_ptr<backend::Backend>> {
                      return backend::OpenRocks(dir, {});
                    }};
    StatusOr<std::unique_ptr<Server>> opened = Server::Open(options_, env);
    ASSERT_TRUE(opened.ok()) << opened.status();
    server_ = *std::move(opened);
    server_->OnFatal([](const Status& status) { FAIL() << status; });
    std::mutex mu;
    std::condition_variable ready;
    bool is_ready = false;
    server_->OnReady([&] {
      std::lock_guard lock(mu);
      is_ready = true;
      ready.notify_all();
    });
    server_->Start();
    std::unique_lock lock(mu);
    ASSERT_TRUE(ready.wait_for(lock, seconds(60), [&] { return is_ready; }));
  }
  void Stop() {
    server_->Stop();
    server_.reset();
  }
  Reply Put(uint64_t call, const std::string& key, const std::string& value) {
    etcdserverpb::PutRequest put;
    put.set_key(key);
    put.set_value(value);
    Proposal proposal;
    proposal.kind = RequestKind::kPut;
    proposal.request = Buffer::Copy(put.SerializeAsString());
    proposal.reply_to = {&sink_, call, 0};
    EXPECT_EQ(server_->Propose(std::move(proposal)), Error::kOk);
    return sink_.Wait(call);
  }
  std::string Get(const std::string& key) {
    const mvcc::ReadView view = server_->View();
    StatusOr<Buffer> record = view.Get(key, view.revision());
    mvcc::Record decoded;
    if (!record.ok() || record->empty() || !mvcc::DecodeRecord(record->view(), &decoded)) {
      return "<none>";
    }
    return std::string(decoded.value);
  }

  std::string root_;
  Options options_;
  std::unique_ptr<Executor> executor_ = NewThreadExecutor(SystemClock());
  std::unique_ptr<WorkPool> pool_ = NewThreadPool("bg", 2, 1000);
  std::unique_ptr<MetricRegistry> metrics_;
  WaitingSink sink_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerIntegrationTest, WritesSurviveRestarts) {
  for (int round = 0; round < 3; ++round) {
    Start();
    EXPECT_EQ(server_->View().revision(), 1 + 50 * round);
    for (int i = 0; i < 50; ++i) {
      const Reply reply =
          Put(static_cast<uint64_t>(i), "k" + std::to_string(i), "r" + std::to_string(round));
      ASSERT_EQ(reply.error, Error::kOk);
    }
    Stop();
  }
  Start();
  EXPECT_EQ(server_->View().revision(), 151);
  EXPECT_EQ(Get("k0"), "r2");
  EXPECT_EQ(Get("k49"), "r2");
  EXPECT_TRUE(server_->ReadBarrierInline());
}

TEST_F(ServerIntegrationTest, ConcurrentWritersGetRevisionsOfTheirOwn) {
  Start();
  constexpr int kWriters = 6;
  constexpr int kPuts = 300;
  std::vector<std::vector<int64_t>> revisions(kWriters);
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < kPuts; ++i) {
        const Reply reply =
            Put(static_cast<uint64_t>(w * 100000 + i), "w" + std::to_string(w), std::to_string(i));
        revisions[static_cast<size_t>(w)].push_back(reply.revision);
        EXPECT_GE(server_->View().revision(), reply.revision)
            << "an answer is visible before it is sent";
      }
    });
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  std::set<int64_t> all;
  for (const std::vector<int64_t>& own : revisions) {
    for (size_t i = 1; i < own.size(); ++i) {
      EXPECT_LT(own[i - 1], own[i]);
    }
    all.insert(own.begin(), own.end());
  }
  EXPECT_EQ(all.size(), static_cast<size_t>(kWriters) * kPuts);
  EXPECT_EQ(*all.rbegin(), 1 + kWriters * kPuts);
}

TEST_F(ServerIntegrationTest, LogIsReleasedBehindTheFlushedStore) {
  options_.snapshot_count = 100;
  options_.snapshot_catchup_entries = 10;
  options_.wal_segment_bytes = 256 << 10;
  for (int round = 0; round < 3; ++round) {
    Start();
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(Put(static_cast<uint64_t>(i), "k", std::string(4000, 'v')).error, Error::kOk);
    }
    Stop();
  }
  Start();
  EXPECT_EQ(server_->View().revision(), 601);
  EXPECT_EQ(Put(1, "k", "last").revision, 602);
  EXPECT_EQ(Get("k"), "last");
}

}  // namespace
}  // namespace mainstay::server

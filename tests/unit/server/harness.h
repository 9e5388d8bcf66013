// One member stepped by hand: no threads, no time of its own, a log and a store in memory that can
// crash.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "proto/etcdserverpb/rpc.pb.h"
#include "server/member.h"
#include "server/server.h"
#include "tests/support/manual_executor.h"
#include "tests/unit/server/memory_log.h"

namespace mainstay::server {

class TestSink : public ReplySink {
 public:
  void Deliver(uint64_t a, uint64_t, Reply&& reply) override {
    EXPECT_FALSE(replies.contains(a)) << "answered twice: " << a;
    replies[a] = std::move(reply);
    order.push_back(a);
  }
  void Flush() override { ++flushes; }
  std::map<uint64_t, Reply> replies;
  std::vector<uint64_t> order;
  int flushes = 0;
};

class MemberTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/mainstay_member_test_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
            std::to_string(::getpid());
    ASSERT_TRUE(PosixFileSystem().RemoveTree(root_).ok());
    options_.data_dir = root_;
    options_.name = "m1";
    options_.initial_cluster = {{"m1", {"http://127.0.0.1:2380"}}};
    options_.advertise_client_urls = {"http://127.0.0.1:2379"};
  }
  void TearDown() override {
    if (server_ != nullptr) {
      Stop();
    }
    EXPECT_TRUE(PosixFileSystem().RemoveTree(root_).ok());
  }

  StatusOr<std::unique_ptr<Server>> Open() {
    metrics_ = std::make_unique<MetricRegistry>();
    Environment env{clock_,
                    PosixFileSystem(),
                    random_,
                    executor_,
                    pool_,
                    *metrics_,
                    [this](const std::string& dir) -> StatusOr<std::unique_ptr<backend::Backend>> {
                      MS_RETURN_IF_ERROR(PosixFileSystem().MakeDirs(dir));
                      auto made =
                          next_backend_ ? std::move(next_backend_) : backend::NewMemoryBackend();
                      backend_ = made.get();
                      return made;
                    }};
    return OpenWithLog(
        options_, env,
        [this](const std::string& dir, std::optional<LogIdentity> create,
               raft::EntryId) -> StatusOr<RecoveredLog> {
          if (create) {
            MS_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), dir + "/0-0.wal", "x"));
            disk_.written.identity = *create;
          }
          RecoveredLog out;
          out.log = std::make_unique<MemoryLog>(disk_);
          out.member = disk_.written.identity->member;
          out.cluster = disk_.written.identity->cluster;
          out.hard_state = disk_.written.state;
          out.compacted = disk_.written.compacted;
          out.entries = disk_.written.entries;
          return out;
        });
  }
  void Start() {
    StatusOr<std::unique_ptr<Server>> opened = Open();
    ASSERT_TRUE(opened.ok()) << opened.status();
    server_ = *std::move(opened);
    server_->OnFatal([this](const Status& status) { fatal_ = status; });
    server_->Start();
    Run();
  }
  // Runs every task until nothing is to be done at this moment.
  void Run() {
    do {
      executor_.RunUntilIdle();
    } while (pool_.Run());
  }
  void Pass(std::chrono::nanoseconds span) {
    executor_.RunFor(clock_, span);
    Run();
  }
  void Stop() {
    server_->Stop();
    next_backend_ = backend_->AfterCrash();  // flushed by Stop(): nothing is lost
    server_.reset();
  }
  // kill -9 and power loss: what was not synced or flushed is gone.
  void Crash() {
    next_backend_ = backend_->AfterCrash();
    LogDisk kept = disk_;
    kept.Crash();
    server_->Stop();
    server_.reset();
    disk_ = kept;
  }
  void CrashAndRestart() {
    Crash();
    Start();
  }

  uint64_t Propose(RequestKind kind, const std::string& bytes, Error* refused = nullptr) {
    const uint64_t call = next_call_++;
    Proposal proposal;
    proposal.kind = kind;
    proposal.request = Buffer::Copy(bytes);
    proposal.reply_to = {&sink_, call, 0};
    const Error outcome = server_->Propose(std::move(proposal));
    if (refused != nullptr) {
      *refused = outcome;
    } else {
      EXPECT_EQ(outcome, Error::kOk);
    }
    return call;
  }
  Reply Take(uint64_t call) {
    EXPECT_TRUE(sink_.replies.contains(call)) << "no answer to call " << call;
    Reply reply = std::move(sink_.replies[call]);
    sink_.replies.erase(call);
    return reply;
  }
  Reply Do(RequestKind kind, const std::string& bytes) {
    const uint64_t call = Propose(kind, bytes);
    Run();
    return Take(call);
  }
  static std::string PutBytes(std::string key, std::string value, int64_t lease = 0) {
    etcdserverpb::PutRequest put;
    put.set_key(std::move(key));
    put.set_value(std::move(value));
    put.set_lease(lease);
    return put.SerializeAsString();
  }
  static std::string DeleteBytes(std::string key, std::string end = "") {
    etcdserverpb::DeleteRangeRequest request;
    request.set_key(std::move(key));
    request.set_range_end(std::move(end));
    return request.SerializeAsString();
  }
  Reply Put(std::string key, std::string value, int64_t lease = 0) {
    return Do(RequestKind::kPut, PutBytes(std::move(key), std::move(value), lease));
  }
  Reply Delete(std::string key, std::string end = "") {
    return Do(RequestKind::kDeleteRange, DeleteBytes(std::move(key), std::move(end)));
  }
  Reply Grant(int64_t ttl, int64_t id = 0) {
    etcdserverpb::LeaseGrantRequest request;
    request.set_ttl(ttl);
    request.set_id(id);
    return Do(RequestKind::kLeaseGrant, request.SerializeAsString());
  }
  Reply Revoke(int64_t id) {
    etcdserverpb::LeaseRevokeRequest request;
    request.set_id(id);
    return Do(RequestKind::kLeaseRevoke, request.SerializeAsString());
  }
  static std::string CompactBytes(int64_t revision, bool physical = false) {
    etcdserverpb::CompactionRequest request;
    request.set_revision(revision);
    request.set_physical(physical);
    return request.SerializeAsString();
  }
  Reply Compact(int64_t revision, bool physical = false) {
    const uint64_t call = Propose(RequestKind::kCompaction, CompactBytes(revision, physical));
    Run();
    Pass(std::chrono::seconds(1));
    return Take(call);
  }
  Reply AlarmCall(etcdserverpb::AlarmRequest::AlarmAction action,
                  uint64_t member,
                  etcdserverpb::AlarmType type) {
    etcdserverpb::AlarmRequest request;
    request.set_action(action);
    request.set_memberid(member);
    request.set_alarm(type);
    return Do(RequestKind::kAlarm, request.SerializeAsString());
  }
  // The value, or "<none>".
  std::string Get(const std::string& key, int64_t at = 0) {
    const mvcc::ReadView view = server_->View();
    StatusOr<Buffer> record = view.Get(key, at == 0 ? view.revision() : at);
    EXPECT_TRUE(record.ok()) << record.status();
    mvcc::Record decoded;
    if (record->empty()) {
      return "<none>";
    }
    EXPECT_TRUE(mvcc::DecodeRecord(record->view(), &decoded));
    return std::string(decoded.value);
  }
  int64_t Revision() { return server_->View().revision(); }
  std::vector<std::string> Keys() {
    mvcc::RangeRequest all;
    all.key = std::string_view("\0", 1);
    all.range_end = std::string_view("\0", 1);
    auto result = server_->View().Range(all);
    EXPECT_TRUE(result.ok() && result->ok());
    std::vector<std::string> keys;
    for (const Buffer& kv : (*result)->kvs) {
      mvcc::Record record;
      EXPECT_TRUE(mvcc::DecodeRecord(kv.view(), &record));
      keys.emplace_back(record.key);
    }
    return keys;
  }
  Member& member() { return static_cast<Member&>(*server_); }

  std::string root_;
  Options options_;
  testing::FakeClock clock_;
  SeededRandom random_{1};
  testing::ManualExecutor executor_;
  testing::ManualPool pool_;
  std::unique_ptr<MetricRegistry> metrics_;
  LogDisk disk_;
  std::unique_ptr<backend::MemoryBackend> next_backend_;
  backend::MemoryBackend* backend_ = nullptr;
  TestSink sink_;
  uint64_t next_call_ = 1;
  Status fatal_;
  std::unique_ptr<Server> server_;
};

}  // namespace mainstay::server

// Goal: the log gives whole runs of revisions or says that it cannot, and stays within its bytes;
// events are encoded once per form.
// Method: synthetic batches.
#include "watch/event_log.h"

#include <gtest/gtest.h>

#include "proto/mvccpb/kv.pb.h"
#include "tests/unit/watch/harness.h"

namespace mainstay::watch {
namespace {

std::vector<mvcc::EventBatch> Batches(FakeStore* store, int count, size_t value_bytes = 10) {
  std::vector<mvcc::EventBatch> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(*store->Write({{"k", std::string(value_bytes, 'v')}}));
  }
  return out;
}

TEST(EventLogTest, ReadsRunsFromAnyRevisionItHolds) {
  FakeStore store;
  EventLog log(1 << 20, 1);
  log.Append(Batches(&store, 10), 11);
  EXPECT_EQ(log.revision(), 11);
  BatchList out;
  int64_t base = 0;
  ASSERT_TRUE(log.ReadAfter(1, 100, SIZE_MAX, &out, &base));
  EXPECT_EQ(out.size(), 10U);
  ASSERT_TRUE(log.ReadAfter(5, 3, SIZE_MAX, &out, &base));
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[0]->revision(), 6);
  ASSERT_TRUE(log.ReadAfter(5, 100, 1, &out, &base));
  EXPECT_EQ(out.size(), 1U) << "at least one";
  ASSERT_TRUE(log.ReadAfter(11, 100, 1, &out, &base));
  EXPECT_TRUE(out.empty());
}

TEST(EventLogTest, OldestLeaveAndTheGapIsTold) {
  FakeStore store;
  EventLog log(5000, 1);
  log.Append(Batches(&store, 100, 1000), 101);
  BatchList out;
  int64_t base = 0;
  EXPECT_FALSE(log.ReadAfter(1, 100, SIZE_MAX, &out, &base));
  EXPECT_GT(base, 90);
  EXPECT_TRUE(log.ReadAfter(base, 100, SIZE_MAX, &out, &base));
  EXPECT_EQ(out.back()->revision(), 101);
  log.Reset(500);
  EXPECT_FALSE(log.ReadAfter(101, 100, SIZE_MAX, &out, &base));
  EXPECT_EQ(base, 500);
}

TEST(EventLogDeathTest, AGapIsABug) {
  FakeStore store;
  EventLog log(5000, 7);
  EXPECT_DEATH(log.Append(Batches(&store, 1), 2), "revision");
}

TEST(LoggedBatchTest, EncodesEachFormOnce) {
  FakeStore store;
  store.Write({{"k", "one"}});
  const LoggedBatch batch(*store.Write({{"k", "two"}}));
  const EncodedEvent plain = batch.Encoded(0, false);
  EXPECT_EQ(batch.Encoded(0, false).bytes.data(), plain.bytes.data());
  const EncodedEvent prev = batch.Encoded(0, true);
  EXPECT_EQ(batch.Encoded(0, true).bytes.data(), prev.bytes.data());
  EXPECT_NE(prev.bytes.data(), plain.bytes.data());
  const LoggedBatch create(*store.Write({{"new", "x"}}));
  EXPECT_EQ(create.Encoded(0, true).bytes.data(), create.Encoded(0, false).bytes.data());
}

}  // namespace
}  // namespace mainstay::watch

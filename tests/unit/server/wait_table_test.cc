// Goal: a waiter leaves exactly once: by its id or at its deadline, whichever is first, and memory
// follows the waiters. Method: literal cases, and a seeded run against a plain list.
#include "server/wait_table.h"

#include <gtest/gtest.h>

#include <map>

#include "env/random.h"

namespace mainstay::server {
namespace {

Waiter At(uint64_t id, int64_t deadline) {
  Waiter w;
  w.id = id;
  w.deadline = MonoTime{deadline};
  return w;
}

TEST(WaitTableTest, TakenOnce) {
  WaitTable table;
  table.Add(At(1, 10));
  EXPECT_EQ(table.Take(1)->id, 1u);
  EXPECT_FALSE(table.Take(1).has_value());
  EXPECT_EQ(table.next_deadline(), kNever);
  std::vector<Waiter> expired;
  table.TakeExpired(MonoTime{100}, &expired);
  EXPECT_TRUE(expired.empty());
}

TEST(WaitTableTest, ExpiresInDeadlineOrderWhateverTheOrderOfArrival) {
  WaitTable table;
  table.Add(At(1, 30));
  table.Add(At(2, 10));
  table.Add(At(3, 40));
  table.Add(At(4, 20));
  Waiter patient = At(5, 0);
  patient.deadline = kNever;
  table.Add(patient);
  EXPECT_EQ(table.next_deadline(), MonoTime{10});
  std::vector<Waiter> expired;
  table.TakeExpired(MonoTime{30}, &expired);
  ASSERT_EQ(expired.size(), 3u);
  EXPECT_EQ(expired[0].id, 2u);
  EXPECT_EQ(expired[1].id, 4u);
  EXPECT_EQ(expired[2].id, 1u);
  EXPECT_EQ(table.size(), 2u);
  std::vector<Waiter> rest;
  table.TakeAll(&rest);
  EXPECT_EQ(rest.size(), 2u);
  EXPECT_EQ(table.size(), 0u);
}

TEST(WaitTableTest, AgreesWithAPlainListOverRandomRuns) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    WaitTable table;
    std::map<uint64_t, int64_t> model;
    int64_t now = 0;
    for (int step = 0; step < 2000; ++step) {
      now += static_cast<int64_t>(random.Below(3));
      const uint64_t id = random.Below(200) + 1;
      if (random.Below(2) == 0) {
        if (!model.contains(id)) {
          const int64_t deadline = now + 50 + (random.Below(5) == 0 ? -40 : 0);
          table.Add(At(id, deadline));
          model[id] = deadline;
        }
      } else {
        EXPECT_EQ(table.Take(id).has_value(), model.erase(id) == 1);
      }
      std::vector<Waiter> expired;
      table.TakeExpired(MonoTime{now}, &expired);
      for (const Waiter& w : expired) {
        ASSERT_TRUE(model.contains(w.id));
        EXPECT_LE(model[w.id], now);
        model.erase(w.id);
      }
      for (const auto& [left, deadline] : model) {
        EXPECT_GT(deadline, now) << left;
      }
      EXPECT_EQ(table.size(), model.size());
    }
  }
}

}  // namespace
}  // namespace mainstay::server

// Goal: the index finds exactly the ranges that contain a key, and stays quick with 100,000.
// Method: random adds and removals against a plain list; a worst case for an unbalanced tree.
#include "watch/key_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>

namespace mainstay::watch {
namespace {

struct Item {
  KeyRange range;
  size_t slot = 0;
};

std::vector<const Item*> Found(const KeyIndex<Item>& index, std::string_view key) {
  std::vector<const Item*> out;
  index.ForEach(key, [&](Item* item) { out.push_back(item); });
  std::sort(out.begin(), out.end());
  return out;
}

TEST(KeyIndexTest, RandomRangesEqualAPlainList) {
  const uint64_t seed = SystemRandom().Next64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SeededRandom random(seed);
  const auto key = [&] {
    std::string out(random.Below(4), '\0');
    for (char& c : out) {
      c = static_cast<char>("\0a\xFF"[random.Below(3)]);
    }
    return out;
  };
  KeyIndex<Item> index;
  std::vector<std::unique_ptr<Item>> items;
  for (int step = 0; step < 20'000; ++step) {
    if (items.empty() || random.Below(5) < (step < 10'000 ? 3U : 2U)) {
      auto item = std::make_unique<Item>();
      item->range = {static_cast<KeyRange::Kind>(random.Below(3)), key(), key()};
      index.Add(item->range, item.get(), &item->slot);
      items.push_back(std::move(item));
    } else {
      std::swap(items[random.Below(items.size())], items.back());
      index.Remove(items.back()->range, items.back()->slot);
      items.pop_back();
    }
    ASSERT_EQ(index.size(), items.size());
    if (step % 20 == 0) {
      const std::string k = key();
      std::vector<const Item*> want;
      for (const auto& item : items) {
        if (item->range.Contains(k)) {
          want.push_back(item.get());
        }
      }
      std::sort(want.begin(), want.end());
      ASSERT_EQ(Found(index, k), want);
    }
  }
}

TEST(KeyIndexTest, HundredThousandRangesStayLogarithmic) {
  KeyIndex<Item> index;
  std::vector<Item> items(100'000);
  for (size_t i = 0; i < items.size(); ++i) {
    // Ascending starts: a plain binary tree would be a list of 100,000.
    const std::string start = "registry/" + std::to_string(1'000'000 + 2 * i);
    const std::string end = "registry/" + std::to_string(1'000'000 + 2 * i + 1);
    items[i].range = {KeyRange::Kind::kHalfOpen, start, end};
    index.Add(items[i].range, &items[i], &items[i].slot);
  }
  size_t found = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < items.size(); ++i) {
    found += Found(index, items[i].range.key).size();
  }
  const auto each = (std::chrono::steady_clock::now() - begin) / items.size();
  EXPECT_EQ(found, items.size());
  EXPECT_LT(each, std::chrono::microseconds(500)) << "a walk over all would take milliseconds";
  for (Item& item : items) {
    index.Remove(item.range, item.slot);
  }
  EXPECT_EQ(index.size(), 0U);
}

}  // namespace
}  // namespace mainstay::watch

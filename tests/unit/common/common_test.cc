// Goal: the bottom layer's small pieces do what their headers say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/buffer.h"
#include "common/coding.h"
#include "common/crc32c.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/queue.h"

namespace mainstay {
namespace {

TEST(Crc32cTest, KnownAnswer) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c("key"), 0x40A4756Du);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, CombineEqualsConcatenation) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    std::string a(random() % 300, 'x');
    std::string b(random() % 300, 'y');
    for (char& c : a) {
      c = static_cast<char>(random());
    }
    for (char& c : b) {
      c = static_cast<char>(random());
    }
    EXPECT_EQ(Crc32cCombine(Crc32c(a), Crc32c(b), b.size()), Crc32c(a + b));
  }
}

TEST(VarintTest, SizeIsWhatIsWritten) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const uint64_t v : {uint64_t{1} << bit, (uint64_t{1} << bit) - 1, ~uint64_t{0} >> bit}) {
      char out[kVarintMax];
      EXPECT_EQ(static_cast<size_t>(PutVarint(out, v) - out), VarintSize(v)) << v;
    }
  }
}

TEST(WireReaderTest, ReadsFieldsAndRefusesTornOnes) {
  std::string message;
  AppendVarintField(&message, 3, 300);
  AppendBytesField(&message, 5, "abc");
  WireReader r(message);
  ASSERT_TRUE(r.Next());
  EXPECT_EQ(r.field(), 3u);
  EXPECT_EQ(r.varint(), 300u);
  ASSERT_TRUE(r.Next());
  EXPECT_EQ(r.bytes(), "abc");
  EXPECT_FALSE(r.Next());
  EXPECT_TRUE(r.ok());
  for (size_t cut = 1; cut < message.size(); ++cut) {
    WireReader torn(std::string_view(message).substr(0, cut));
    while (torn.Next()) {
    }
    EXPECT_EQ(torn.ok(), cut == 3) << cut;  // 3 = the end of the first field
  }
}

TEST(BufferTest, SlicesShareTheOwner) {
  Buffer all = Buffer::Copy("hello world");
  Buffer part = all.Slice(6, 5);
  all = Buffer();
  EXPECT_EQ(part.view(), "world");
}

TEST(BufferArenaTest, SlicesOutliveTheArena) {
  std::vector<Buffer> kept;
  {
    BufferArena arena(64);
    for (int i = 0; i < 100; ++i) {
      kept.push_back(arena.Copy("value " + std::to_string(i)));
    }
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(kept[static_cast<size_t>(i)].view(), "value " + std::to_string(i));
  }
}

TEST(BufferChainTest, FlattenKeepsOrder) {
  BufferChain chain;
  chain.Append(Buffer::Copy("b"));
  chain.Append(Buffer::Static("c"));
  chain.Prepend(Buffer::Copy("a"));
  EXPECT_EQ(chain.size(), 3u);
  EXPECT_EQ(chain.Flatten().view(), "abc");
}

TEST(GoDurationTest, PrintsAsGo) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(GoDuration(nanoseconds(0)), "0s");
  EXPECT_EQ(GoDuration(nanoseconds(1)), "1ns");
  EXPECT_EQ(GoDuration(nanoseconds(1500)), "1.5µs");
  EXPECT_EQ(GoDuration(std::chrono::milliseconds(300)), "300ms");
  EXPECT_EQ(GoDuration(std::chrono::milliseconds(1500)), "1.5s");
  EXPECT_EQ(GoDuration(std::chrono::minutes(90)), "1h30m0s");
  EXPECT_EQ(GoDuration(-std::chrono::seconds(2)), "-2s");
}

TEST(JsonStringTest, EscapesAndRepairs) {
  std::string out;
  AppendJsonString(&out, "a\"\\\n\x01é\xff");
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\u0001é\\ufffd\"");
}

TEST(MetricsTest, TextFormat) {
  MetricRegistry registry;
  registry.AddCounter("b_total", "counts", {{"x", "1"}}).Add(2);
  registry.AddHistogram("a_seconds", "times", {0.5, 1}).Observe(0.7);
  EXPECT_EQ(registry.RenderText(),
            "# HELP a_seconds times\n# TYPE a_seconds histogram\n"
            "a_seconds_bucket{le=\"0.5\"} 0\na_seconds_bucket{le=\"1\"} "
            "1\na_seconds_bucket{le=\"+Inf\"} 1\n"
            "a_seconds_sum 0.7\na_seconds_count 1\n"
            "# HELP b_total counts\n# TYPE b_total counter\nb_total{x=\"1\"} 2\n");
}

TEST(MetricsTest, NumbersAsPrometheusPrintsThem) {
  MetricRegistry registry;
  Gauge& gauge = registry.AddGauge("g", "h");
  for (const auto& [value, text] :
       std::vector<std::pair<double, std::string>>{{2147483648.0, "2.147483648e+09"},
                                                   {999999, "999999"},
                                                   {1e6, "1e+06"},
                                                   {-1, "-1"},
                                                   {0.25, "0.25"},
                                                   {0.0001, "0.0001"},
                                                   {0.00001, "1e-05"},
                                                   {0, "0"}}) {
    gauge.Set(value);
    EXPECT_THAT(registry.RenderText(), testing::EndsWith("\ng " + text + "\n"));
  }
}

TEST(BoundedQueueTest, RefusesWhenFullAndKeepsOrder) {
  using Result = BoundedQueue<int>::PushResult;
  BoundedQueue<int> queue(2);
  EXPECT_EQ(queue.TryPush(1), Result::kPushedFirst);
  EXPECT_EQ(queue.TryPush(2), Result::kPushed);
  EXPECT_EQ(queue.TryPush(3), Result::kFull);
  std::vector<int> out;
  EXPECT_TRUE(queue.PopAll(&out));
  EXPECT_THAT(out, testing::ElementsAre(1, 2));
  EXPECT_FALSE(queue.PopAll(&out));
}

}  // namespace
}  // namespace mainstay

// Goal: tables look like etcdctl 3.7.1's, or like 3.6's when asked.
// Method: `member list -w table` as a real 3.7.1 printed it.
#include "cli/table.h"

#include <gtest/gtest.h>

namespace mainstay::cli {
namespace {

TEST(RenderTableTest, HeadsCentredCellsRight) {
  EXPECT_EQ(RenderTable({"ID", "Is Learner", "hash_rev"}, {{"8e9e05", "false", "12345678901"}},
                        TableStyle::kUnicode),
            "┌────────┬────────────┬─────────────┐\n"
            "│   ID   │ IS LEARNER │  HASH REV   │\n"
            "├────────┼────────────┼─────────────┤\n"
            "│ 8e9e05 │      false │ 12345678901 │\n"
            "└────────┴────────────┴─────────────┘\n");
}

TEST(RenderTableTest, AsciiForScriptsThatSplitOnBars) {
  EXPECT_EQ(RenderTable({"a", "b"}, {{"1", " trimmed "}}, TableStyle::kAscii),
            "+---+---------+\n"
            "| A |    B    |\n"
            "+---+---------+\n"
            "| 1 | trimmed |\n"
            "+---+---------+\n");
}

TEST(RenderTableTest, WidthCountsCharactersNotBytes) {
  EXPECT_EQ(RenderTable({"took"}, {{"4.5µs"}}, TableStyle::kAscii),
            "+-------+\n| TOOK  |\n+-------+\n| 4.5µs |\n+-------+\n");
}

}  // namespace
}  // namespace mainstay::cli

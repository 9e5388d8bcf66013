// Goal: what the writer writes is a bbolt database that the reader understands, and the reader
// survives every damage. Method: seeded random trees written and read back; images cut and with
// flipped bits, which must be refused or read as
//         they were where the bit does not matter. All on the disk in memory.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "env/random.h"
#include "snapshot/bolt_format.h"
#include "snapshot/bolt_reader.h"
#include "snapshot/bolt_writer.h"
#include "tests/sim/disk.h"

namespace mainstay::snapshot {
namespace {

using Tree = std::map<std::string, std::map<std::string, std::string>>;

constexpr char kPath[] = "/snap/db";

std::string Write(const Tree& tree) {
  sim::Disk disk;
  EXPECT_TRUE(disk.MakeDirs("/snap").ok());
  const std::unique_ptr<File> file = disk.Open(kPath, OpenMode::kCreate).value();
  BoltWriter writer(*file);
  for (const auto& [name, pairs] : tree) {
    writer.BeginBucket(name);
    for (const auto& [key, value] : pairs) {
      EXPECT_TRUE(writer.Add(key, value).ok());
    }
    EXPECT_TRUE(writer.EndBucket().ok());
  }
  EXPECT_TRUE(writer.Finish().ok());
  std::string image = disk.Content(kPath);
  EXPECT_EQ(image.size(), writer.image_bytes());
  return image;
}

StatusOr<Tree> Read(const std::string& image) {
  sim::Disk disk;
  disk.SetContent(kPath, image);
  const std::unique_ptr<File> file = disk.Open(kPath, OpenMode::kRead).value();
  MS_ASSIGN_OR_RETURN(BoltReader reader, BoltReader::Open(*file));
  Tree out;
  MS_RETURN_IF_ERROR(reader.Walk(
      [&](std::string_view bucket) {
        out[std::string(bucket)];
        return absl::OkStatus();
      },
      [&](std::string_view bucket, std::string_view key, std::string_view value) {
        out[std::string(bucket)][std::string(key)] = value;
        return absl::OkStatus();
      }));
  return out;
}

std::string RandomText(SeededRandom& random, size_t bytes) {
  std::string out(bytes, '\0');
  for (char& c : out) {
    c = static_cast<char>(random.Next64());
  }
  return out;
}

Tree RandomTree(uint64_t seed) {
  SeededRandom random(seed);
  Tree out;
  for (const char* name : {"alarm", "auth", "key", "lease", "meta"}) {
    auto& pairs = out[name];
    constexpr uint64_t kSizes[] = {0, 3, 40, 400, 4000};
    const uint64_t count = kSizes[random.Below(5)];
    for (uint64_t i = 0; i < count; ++i) {
      const size_t key_bytes = 1 + random.Below(random.Below(20) == 0 ? 2000 : 30);
      const size_t value_bytes = random.Below(random.Below(50) == 0 ? 20000 : 100);
      pairs[RandomText(random, key_bytes)] = RandomText(random, value_bytes);
    }
  }
  return out;
}

TEST(BoltTest, WhatIsWrittenIsRead) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    const Tree tree = RandomTree(seed);
    const StatusOr<Tree> read = Read(Write(tree));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_TRUE(*read == tree);
  }
}

TEST(BoltTest, EqualContentHasEqualBytes) {
  EXPECT_EQ(Write(RandomTree(3)), Write(RandomTree(3)));
}

TEST(BoltTest, EmptyBucketsAreThere) {
  const Tree tree = {{"a", {}}, {"b", {}}};
  EXPECT_EQ(Read(Write(tree)).value(), tree);
}

TEST(BoltTest, ACutImageIsRefused) {
  const std::string image = Write(RandomTree(4));
  for (size_t cut = 0; cut < image.size(); cut += 997) {
    EXPECT_FALSE(Read(image.substr(0, cut)).ok()) << cut;
  }
}

// The newer meta page is taken; without it the other one, which says the same.
TEST(BoltTest, EitherMetaPageIsEnough) {
  const Tree tree = RandomTree(5);
  for (const size_t page : {size_t{0}, size_t{1}}) {
    std::string image = Write(tree);
    std::fill_n(image.begin() + static_cast<ptrdiff_t>(page * kPageBytes), 100, '\0');
    EXPECT_TRUE(Read(image).value() == tree) << page;
  }
  std::string neither = Write(tree);
  std::fill_n(neither.begin(), 2 * kPageBytes, '\0');
  EXPECT_TRUE(absl::IsInvalidArgument(Read(neither).status()));
}

TEST(BoltTest, AFlippedBitNeverMakesTheReaderMisbehave) {
  const Tree tree = {{"key", {{"a", "1"}, {"b", std::string(9000, 'x')}, {"c", "3"}}},
                     {"meta", {{"m", "n"}}}};
  const std::string image = Write(tree);
  int refused = 0;
  for (size_t bit = 0; bit < image.size() * 8; bit += 3) {
    std::string damaged = image;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    refused += Read(damaged).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 300);
}

// A page that is its own child, or used twice, would make a trusting reader loop.
TEST(BoltTest, ACycleIsRefused) {
  const std::string image = Write(RandomTree(6));
  int branches = 0;
  for (size_t at = 2 * kPageBytes; at < image.size(); at += kPageBytes) {
    uint16_t flags;
    uint64_t id;
    std::memcpy(&id, image.data() + at, 8);
    std::memcpy(&flags, image.data() + at + 8, 2);
    if (flags != kBranchPage || id != at / kPageBytes) {
      continue;
    }
    ++branches;
    std::string damaged = image;
    std::memcpy(damaged.data() + at + kHeaderBytes + 8, &id, 8);
    const Status status = Read(damaged).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status.ToString();
  }
  EXPECT_GT(branches, 0);
}

}  // namespace
}  // namespace mainstay::snapshot

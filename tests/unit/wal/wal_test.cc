// Goal: the log is etcd's byte for byte, and what was synced is found again whatever happened to
// the rest.
#include "wal/wal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "common/coding.h"
#include "common/crc32c.h"
#include "wal/record.h"

namespace mainstay::wal {
namespace {

using testing::HasSubstr;

raft::Entry MakeEntry(uint64_t term, uint64_t index, std::string_view data) {
  return {Term(term), Index(index), raft::EntryType::kNormal, Buffer::Copy(data)};
}

class WalTest : public testing::Test {
 protected:
  WalTest() {
    std::string name = testing::TempDir() + "mainstay-wal-XXXXXX";
    dir_ = mkdtemp(name.data());
  }
  ~WalTest() override { std::filesystem::remove_all(dir_); }
  std::unique_ptr<Writer> Make(Options options = {.segment_bytes = 64 << 10}) {
    options_ = options;
    return Writer::Create(fs_, dir_, {MemberId(0x1234), ClusterId(0x5678)}, options).value();
  }
  StatusOr<Recovered> Again(Index after = Index(0)) { return Recover(fs_, dir_, after, options_); }
  std::string Only() {
    const std::vector<std::string> names = fs_.List(dir_).value();
    for (const std::string& name : names) {
      if (name.ends_with(".wal")) {
        return dir_ + "/" + name;
      }
    }
    return {};
  }
  FileSystem& fs_ = PosixFileSystem();
  std::string dir_;
  Options options_;
};

TEST(WalFrameTest, HeadOfTheFirstSegmentIsEtcds) {
  std::string out;
  AppendFrame(&out, kCrc, 0, {}, false);
  EXPECT_EQ(Hex(out),
            "0400000000000084"
            "08041000"
            "00000000");
  out.clear();
  // metadata of a real 3.4.23: crc 0x0d... is the checksum of its 20 bytes
  const std::string metadata =
      EncodeMetadata({MemberId(0x8e9e05c52164694d), ClusterId(0xcdf818194e3a8c32)});
  EXPECT_EQ(metadata.size(), 22u - 0u);
  AppendFrame(&out, kMetadata, Crc32c(metadata), metadata, true);
  EXPECT_EQ(out.size() % 8, 0u);
  EXPECT_EQ(Hex(EncodeSnapshot({})), "08001000");
}

TEST_F(WalTest, WhatWasSyncedIsFound) {
  {
    auto writer = Make();
    for (uint64_t i = 1; i <= 10; ++i) {
      const raft::Entry entry = MakeEntry(1, i, "data " + std::to_string(i));
      ASSERT_TRUE(
          writer->Append({&entry, 1}, raft::HardState{Term(1), MemberId(7), Index(i)}).ok());
    }
    ASSERT_TRUE(writer->Sync().ok());
  }
  auto found = Again();
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->metadata.member, MemberId(0x1234));
  EXPECT_EQ(found->hard_state, (raft::HardState{Term(1), MemberId(7), Index(10)}));
  ASSERT_EQ(found->entries.size(), 10u);
  EXPECT_EQ(found->entries[9].data.view(), "data 10");
  const raft::Entry more = MakeEntry(2, 11, "more");
  ASSERT_TRUE(found->writer->Append({&more, 1}, std::nullopt).ok());
  ASSERT_TRUE(found->writer->Sync().ok());
  found->writer = nullptr;
  auto again = Again(Index(9));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  ASSERT_EQ(again->entries.size(), 2u);
  EXPECT_EQ(again->before, (raft::EntryId{Term(1), Index(9)}));
}

TEST_F(WalTest, ALaterEntryReplacesItsIndexAndAllBehind) {
  {
    auto writer = Make();
    const raft::Entry first[] = {MakeEntry(1, 1, "a"), MakeEntry(1, 2, "b"), MakeEntry(1, 3, "c")};
    ASSERT_TRUE(writer->Append(first, std::nullopt).ok());
    const raft::Entry second = MakeEntry(2, 2, "B");
    ASSERT_TRUE(writer->Append({&second, 1}, std::nullopt).ok());
    ASSERT_TRUE(writer->Sync().ok());
  }
  auto found = Again();
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->entries.size(), 2u);
  EXPECT_EQ(found->entries[1].data.view(), "B");
}

TEST_F(WalTest, SegmentsAreCutReadAcrossAndReleased) {
  {
    auto writer = Make({.segment_bytes = 8 << 10});
    for (uint64_t i = 1; i <= 100; ++i) {
      const raft::Entry entry = MakeEntry(1, i, std::string(1000, 'x'));
      ASSERT_TRUE(
          writer->Append({&entry, 1}, raft::HardState{Term(1), MemberId(7), Index(i)}).ok());
      ASSERT_TRUE(writer->Sync().ok());
      if (i == 50) {
        writer->PrepareNext();
        EXPECT_FALSE(writer->wants_next());
      }
    }
    EXPECT_EQ(ReadEntries(fs_, dir_, Index(20), Index(40), 1 << 20)->size(), 20u);
    EXPECT_EQ(ReadEntries(fs_, dir_, Index(20), Index(40), 5000)->size(), 4u);
    ASSERT_TRUE(writer->Release(Index(60)).ok());
    EXPECT_TRUE(absl::IsNotFound(ReadEntries(fs_, dir_, Index(1), Index(5), 100).status()));
    EXPECT_EQ(ReadEntries(fs_, dir_, Index(60), Index(61), 100)->size(), 1u);
  }
  auto found = Again(Index(70));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->entries.size(), 30u);
  EXPECT_EQ(found->hard_state.commit, Index(100));
}

TEST_F(WalTest, ATornTailIsCutOffAtEveryByte) {
  std::string whole;
  uint64_t begin = 0;
  {
    auto writer = Make();
    const raft::Entry first = MakeEntry(1, 1, "acknowledged");
    ASSERT_TRUE(writer->Append({&first, 1}, raft::HardState{Term(1), MemberId(7), Index(1)}).ok());
    ASSERT_TRUE(writer->Sync().ok());
    const std::string before = ReadWholeFile(fs_, Only(), 1 << 20).value();
    const raft::Entry second = MakeEntry(1, 2, std::string(1500, 'y'));
    ASSERT_TRUE(writer->Append({&second, 1}, std::nullopt).ok());
    ASSERT_TRUE(writer->Sync().ok());
    whole = ReadWholeFile(fs_, Only(), 1 << 20).value();
    while (before[begin] == whole[begin]) {
      ++begin;
    }
  }
  const std::string path = Only();
  for (uint64_t cut = begin; cut < begin + 1500; cut += 7) {
    std::filesystem::remove_all(path + ".broken");
    ASSERT_TRUE(WriteFileAtomically(fs_, path, whole.substr(0, cut)).ok());
    auto found = Again();
    ASSERT_TRUE(found.ok()) << cut << found.status().ToString();
    ASSERT_EQ(found->entries.size(), 1u) << cut;
    EXPECT_EQ(found->entries[0].data.view(), "acknowledged");
    const raft::Entry next = MakeEntry(1, 2, "next");
    ASSERT_TRUE(found->writer->Append({&next, 1}, std::nullopt).ok());
    ASSERT_TRUE(found->writer->Sync().ok());
    found->writer = nullptr;
    ASSERT_EQ(Again()->entries.size(), 2u) << cut;
  }
}

TEST_F(WalTest, ALostSectorIsATornTail) {
  {
    auto writer = Make();
    const raft::Entry entry = MakeEntry(1, 1, std::string(3000, 'y'));
    ASSERT_TRUE(writer->Append({&entry, 1}, std::nullopt).ok());
    ASSERT_TRUE(writer->Sync().ok());
  }
  std::string bytes = ReadWholeFile(fs_, Only(), 1 << 20).value();
  std::fill_n(bytes.begin() + 1024, 512, '\0');
  ASSERT_TRUE(WriteFileAtomically(fs_, Only(), bytes).ok());
  auto found = Again();
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE(found->entries.empty());
}

TEST_F(WalTest, AFlippedBitIsRefused) {
  {
    auto writer = Make();
    for (uint64_t i = 1; i <= 5; ++i) {
      const raft::Entry entry = MakeEntry(1, i, "some payload");
      ASSERT_TRUE(writer->Append({&entry, 1}, std::nullopt).ok());
    }
    ASSERT_TRUE(writer->Sync().ok());
  }
  std::string bytes = ReadWholeFile(fs_, Only(), 1 << 20).value();
  const size_t at = bytes.find("some payload");
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(fs_, Only(), bytes).ok());
  const Status status = Again().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("at offset"));
}

TEST_F(WalTest, AMissingSegmentIsRefused) {
  {
    auto writer = Make({.segment_bytes = 4 << 10});
    for (uint64_t i = 1; i <= 20; ++i) {
      const raft::Entry entry = MakeEntry(1, i, std::string(1000, 'x'));
      ASSERT_TRUE(writer->Append({&entry, 1}, std::nullopt).ok());
      ASSERT_TRUE(writer->Sync().ok());
    }
  }
  const auto names = fs_.List(dir_).value();
  ASSERT_GT(names.size(), 3u);
  ASSERT_TRUE(fs_.Remove(dir_ + "/" + names[1]).ok());
  EXPECT_TRUE(absl::IsDataLoss(Again().status()));
}

TEST_F(WalTest, SnapshotRecordsCount) {
  {
    auto writer = Make();
    const raft::Entry entry = MakeEntry(3, 1, "x");
    ASSERT_TRUE(writer->Append({&entry, 1}, raft::HardState{Term(3), MemberId(7), Index(1)}).ok());
    raft::SnapshotMeta meta;
    meta.index = Index(1);
    meta.term = Term(3);
    meta.conf_state.voters = {MemberId(7)};
    ASSERT_TRUE(writer->SaveSnapshot(meta).ok());
    meta.index = Index(9);  // beyond the commit index: as if never written
    ASSERT_TRUE(writer->SaveSnapshot(meta).ok());
    ASSERT_TRUE(writer->Sync().ok());
  }
  auto found = Again();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->snapshot.index, Index(1));
  EXPECT_EQ(found->snapshot.conf_state.voters.size(), 1u);
}

}  // namespace
}  // namespace mainstay::wal

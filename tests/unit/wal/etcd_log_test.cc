// Goal: a log that etcd wrote is read, and what is read and written again has the same bytes.
// Method: the segment of an etcd 3.7.1 member after its first start and three puts, without the
// zeros behind it.
#include <gtest/gtest.h>

#include "common/coding.h"
#include "raft/codec.h"
#include "tests/sim/disk.h"
#include "wal/record.h"
#include "wal/wal.h"

namespace mainstay::wal {
namespace {

constexpr char kSegment[] =
    "040000000000008408041000000000001f00000000000081080110c6caa0cd051a150881a585aefec696db12"
    "10c584fdf78091d2b1a201000d000000000000830805109984d6201a04080010000000006b00000000000085"
    "080210e6df9e8c0a1a61080110011801225910001881a585aefec696db12224b7b226964223a313334383336"
    "343333343536383339353339332c227065657255524c73223a5b22687474703a2f2f3132372e302e302e313a"
    "3233393138225d2c226e616d65223a226e227d00000000001000000000000000080310b8d8eda70d1a060801"
    "100018011800000000000000080310feb4f7d3031a0e08021081a585aefec696db1218010e00000000000082"
    "080210b990e8ae061a041002180200004700000000000081080210a2b8f5880d1a3d100218032237a2060a08"
    "81c4e4d7a6c6e8c052aa51270881a585aefec696db12121b0a016e1216687474703a2f2f3132372e302e302e"
    "313a3233393137001800000000000000080310b2e8aeb2071a0e08021081a585aefec696db12180327000000"
    "00000081080210f2c8fd8e0a1a1d100218042217a2060a0882c4e4d7a6c6e8c052a251070a05332e372e3000"
    "1800000000000000080310efc8dd8d061a0e08021081a585aefec696db1218042c00000000000084080210b1"
    "a0e2f3071a2210021805221c220d0a026b31120776616c75652d31a2060a0883c4e4d7a6c6e8c05200000000"
    "1800000000000000080310e69eee93011a0e08021081a585aefec696db1218052c00000000000084080210ba"
    "c1c8a5051a2210021806221c220d0a026b32120776616c75652d32a2060a0884c4e4d7a6c6e8c05200000000"
    "1800000000000000080310b5ef99e50a1a0e08021081a585aefec696db1218062c00000000000084080210f6"
    "ac82c8051a2210021807221c220d0a026b33120776616c75652d33a2060a0885c4e4d7a6c6e8c05200000000"
    "1800000000000000080310c7b193af021a0e08021081a585aefec696db121807";

constexpr char kDir[] = "/wal";
constexpr char kPath[] = "/wal/0000000000000000-0000000000000000.wal";

TEST(EtcdLogTest, IsRecovered) {
  sim::Disk disk;
  disk.SetContent(kPath, *Unhex(kSegment));
  auto found = Recover(disk, kDir, Index(0), {.segment_bytes = 4096});
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->metadata.member.value(), 1348364334568395393u);
  ASSERT_EQ(found->entries.size(), 7u);
  EXPECT_EQ(found->entries[0].type, raft::EntryType::kConfChange);
  EXPECT_EQ(found->entries[6].index, Index(7));
  EXPECT_NE(found->entries[6].data.view().find("value-3"), std::string_view::npos);
  EXPECT_EQ(found->hard_state, (raft::HardState{Term(2), found->metadata.member, Index(7)}));
}

TEST(EtcdLogTest, WrittenAgainHasTheSameBytes) {
  const std::string segment = *Unhex(kSegment);
  sim::Disk source;
  source.SetContent(kPath, segment);
  const Metadata metadata = Recover(source, kDir, Index(0), {.segment_bytes = 4096})->metadata;
  sim::Disk disk;
  ASSERT_TRUE(disk.MakeDirs(kDir).ok());
  auto writer = Writer::Create(disk, kDir, metadata, {.segment_bytes = 4096}).value();
  uint32_t crc = 0;
  FrameView frame;
  for (uint64_t offset = 0; offset < segment.size(); offset = frame.end) {
    ASSERT_EQ(ReadFrame(segment, offset, &crc, &frame), FrameResult::kFrame);
    if (frame.type == kEntry) {
      const raft::Entry entry = raft::DecodeEntry(Buffer::Copy(frame.data)).value();
      ASSERT_TRUE(writer->Append({&entry, 1}, std::nullopt).ok());
    } else if (frame.type == kState) {
      ASSERT_TRUE(writer->Append({}, raft::DecodeHardState(frame.data).value()).ok());
    }
  }
  ASSERT_TRUE(writer->Sync().ok());
  EXPECT_EQ(Hex(disk.Content(kPath).substr(0, segment.size())), Hex(segment));
}

}  // namespace
}  // namespace mainstay::wal

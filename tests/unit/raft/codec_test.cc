// Goal: raftpb's bytes are those of etcd, in both directions, and foreign bytes never do harm.
// Method: bytes found in the files of etcd 3.4.23 and 3.7.1; round trips; every truncation and
// every changed byte of a message decodes or is refused.
#include "raft/codec.h"

#include <gtest/gtest.h>

#include "common/coding.h"
#include "common/limits.h"

namespace mainstay::raft {
namespace {

std::string FromHex(std::string_view hex) {
  return *Unhex(hex);
}
Buffer Bytes(std::string_view hex) {
  return Buffer::Copy(FromHex(hex));
}

template <class T, class Append>
std::string HexOf(const T& value, Append append) {
  std::string out;
  append(&out, value);
  return Hex(out);
}

TEST(EntryCodecTest, WritesTheBytesOfEtcd37) {
  // The empty entry of a new leader, and a put of a=b, from an etcd 3.7.1 log.
  const Entry empty{.term = Term(2), .index = Index(2)};
  EXPECT_EQ(HexOf(empty, AppendEntry), "10021802");
  const std::string put = FromHex("22060a0161120162a2060b0883bee7ed99c6a8a38701");
  const Entry entry{.term = Term(2), .index = Index(5), .data = Buffer::Copy(put)};
  EXPECT_EQ(HexOf(entry, AppendEntry),
            "100218052216"
            "22060a0161120162a2060b0883bee7ed99c6a8a38701");
  EXPECT_EQ(EntrySize(entry), 28u);
  EXPECT_EQ(EncodeEntry(entry).view(), FromHex("100218052216").append(put));
}

TEST(EntryCodecTest, ReadsTheOlderFormThatWritesZeros) {
  const StatusOr<Entry> entry = DecodeEntry(Bytes("0800100118022200"));
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(*entry, (Entry{.term = Term(1), .index = Index(2)}));
}

TEST(EntryCodecTest, PayloadIsASliceOfTheInput) {
  const Buffer bytes = Bytes("10021805220161");
  const StatusOr<Entry> entry = DecodeEntry(bytes);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->data.view(), "a");
  EXPECT_EQ(entry->data.data(), bytes.data() + 6);
}

TEST(HardStateCodecTest, WritesAllFieldsAsEtcd37Does) {
  EXPECT_EQ(HexOf(HardState{.term = Term(1), .commit = Index(1)}, AppendHardState), "080110001801");
  const HardState voted{.term = Term(2), .vote = MemberId(0x8ff9c7e5ccbfbfc6), .commit = Index(3)};
  std::string bytes;
  AppendHardState(&bytes, voted);
  const StatusOr<HardState> back = DecodeHardState(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, voted);
}

TEST(ConfChangeCodecTest, WritesTheBytesOfEtcd37) {
  // Bootstrap: no id, type 0 written. At run time: an id, type 3 (learner).
  const ConfChange first{.node_id = MemberId(0x66), .context = Buffer::Static("{}")};
  EXPECT_EQ(HexOf(first, AppendConfChange), "1000186622027b7d");
  const ConfChange learner{
      .id = 4, .type = ConfChangeType::kAddLearnerNode, .node_id = MemberId(0x66)};
  EXPECT_EQ(HexOf(learner, AppendConfChange), "080410031866");
  const StatusOr<ConfChange> back = DecodeConfChange(EncodeConfChange(first));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, first);
}

TEST(ConfChangeCodecTest, ReadsBothKindsOfEntry) {
  const ConfChange v1{.id = 1, .type = ConfChangeType::kRemoveNode, .node_id = MemberId(7)};
  const StatusOr<ConfChangeV2> from_v1 =
      DecodeChangeOf({.type = EntryType::kConfChange, .data = EncodeConfChange(v1)});
  ASSERT_TRUE(from_v1.ok());
  EXPECT_EQ(*from_v1, ToV2(v1));
  const ConfChangeV2 v2{.transition = ConfChangeTransition::kJointExplicit,
                        .changes = {{ConfChangeType::kAddNode, MemberId(1)},
                                    {ConfChangeType::kAddLearnerNode, MemberId(2)}},
                        .context = Buffer::Static("why")};
  const StatusOr<ConfChangeV2> from_v2 =
      DecodeChangeOf({.type = EntryType::kConfChangeV2, .data = EncodeConfChangeV2(v2)});
  ASSERT_TRUE(from_v2.ok());
  EXPECT_EQ(*from_v2, v2);
  // The entry that leaves a joint configuration has no bytes at all.
  const StatusOr<ConfChangeV2> leave = DecodeChangeOf({.type = EntryType::kConfChangeV2});
  ASSERT_TRUE(leave.ok());
  EXPECT_TRUE(leave->leaves_joint());
}

TEST(ConfStateCodecTest, RoundTripsAndReadsPackedLists) {
  const ConfState state{.voters = {MemberId(1), MemberId(300)},
                        .learners = {MemberId(4)},
                        .voters_outgoing = {MemberId(1)},
                        .learners_next = {MemberId(2)},
                        .auto_leave = true};
  EXPECT_EQ(HexOf(state, AppendConfState), "080108ac021004180120022801");
  const StatusOr<ConfState> back = DecodeConfState(FromHex("080108ac021004180120022801"));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, state);
  const StatusOr<ConfState> packed = DecodeConfState(FromHex("0a0301ac021004180120022801"));
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(*packed, state);
  EXPECT_FALSE(DecodeConfState(FromHex("0a0201ac")).ok());
}

Message FullMessage() {
  Message message;
  message.type = MessageType::kApp;
  message.to = MemberId(~0ull);
  message.from = MemberId(2);
  message.term = Term(3);
  message.log_term = Term(300);
  message.index = Index(5);
  message.entries = {{.term = Term(3), .index = Index(6), .data = Buffer::Static("x")},
                     {.term = Term(3), .index = Index(7), .type = EntryType::kConfChange}};
  message.commit = Index(4);
  message.snapshot = Snapshot{
      .meta = {.conf_state = {.voters = {MemberId(1)}}, .index = Index(9), .term = Term(2)},
      .data = Buffer::Static("snap")};
  message.reject = true;
  message.reject_hint = Index(8);
  message.context = Buffer::Static("ctx");
  return message;
}

TEST(MessageCodecTest, RoundTripsEveryField) {
  std::string bytes;
  AppendMessage(&bytes, FullMessage());
  EXPECT_EQ(Hex(bytes),
            "0803"                                  // type
            "10ffffffffffffffffff01"                // to
            "1802"                                  // from
            "2003"                                  // term
            "28ac02"                                // logTerm
            "3005"                                  // index
            "3a0710031806220178"                    // entries
            "3a06080110031807"                      //
            "4004"                                  // commit
            "4a100a04736e617012080a02080110091802"  // snapshot
            "5001"                                  // reject
            "5808"                                  // rejectHint
            "6203637478");                          // context
  const StatusOr<Message> back = DecodeMessage(Buffer::Copy(bytes));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, FullMessage());
}

TEST(MessageCodecTest, BigPayloadsAreReferencedSmallOnesJoined) {
  Message message = FullMessage();
  const Buffer big = Buffer::Copy(std::string(kReferenceBytesMin, 'b'));
  message.entries[0].data = big;
  const BufferChain chain = EncodeMessage(message);
  ASSERT_EQ(chain.part_count(), 3u);
  EXPECT_EQ((chain.begin() + 1)->data(), big.data());
  std::string flat;
  AppendMessage(&flat, message);
  EXPECT_EQ(chain.ToString(), flat);
  EXPECT_EQ(*DecodeMessage(chain.Flatten()), message);
}

TEST(MessageCodecTest, UnknownFieldsAreSkippedUnknownTypesRefused) {
  EXPECT_TRUE(DecodeMessage(Bytes("0803680172026869")).ok());  // 13 and 14 are local to etcd
  EXPECT_FALSE(DecodeMessage(Bytes("0813")).ok());             // 19: a storage message
  EXPECT_FALSE(DecodeMessage(Bytes("0a0103")).ok());           // type as bytes
  EXPECT_FALSE(DecodeEntry(Bytes("0803")).ok());               // entry type 3
}

TEST(MessageCodecTest, DamagedBytesAreRefusedOrReadButDoNoHarm) {
  std::string bytes;
  AppendMessage(&bytes, FullMessage());
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    const StatusOr<Message> decoded = DecodeMessage(Buffer::Copy({bytes.data(), cut}));
    EXPECT_TRUE(!decoded.ok() || *decoded != FullMessage());
  }
  for (size_t place = 0; place < bytes.size(); ++place) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = bytes;
      damaged[place] = static_cast<char>(value);
      const StatusOr<Message> decoded = DecodeMessage(Buffer::Copy(damaged));
      if (decoded.ok()) {
        // What was understood can be written and understood again.
        std::string again;
        AppendMessage(&again, *decoded);
        EXPECT_EQ(*DecodeMessage(Buffer::Copy(again)), *decoded);
      } else {
        EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
      }
    }
  }
}

TEST(SnapshotCodecTest, RoundTrips) {
  std::string bytes;
  AppendSnapshot(&bytes, *FullMessage().snapshot);
  const StatusOr<Snapshot> back = DecodeSnapshot(Buffer::Copy(bytes));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, *FullMessage().snapshot);
  std::string meta;
  AppendSnapshotMeta(&meta, back->meta);
  EXPECT_EQ(*DecodeSnapshotMeta(meta), back->meta);
}

}  // namespace
}  // namespace mainstay::raft

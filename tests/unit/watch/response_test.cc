// Goal: assembled bodies are the bytes that protobuf would write, and pieces follow etcd's greedy
// rule.
// Method: protobuf as oracle; a naive greedy splitter over protobuf's sizes.
#include "watch/response.h"

#include <gtest/gtest.h>

#include "tests/unit/watch/harness.h"

namespace mainstay::watch {
namespace {

TEST(ResponseTest, HeadEqualsProtobuf) {
  const uint64_t seed = SystemRandom().Next64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SeededRandom random(seed);
  const auto number = [&] {
    return random.Below(3) == 0 ? 0 : random.Next64() >> random.Below(64);
  };
  BufferArena arena(256);
  for (int i = 0; i < 2000; ++i) {
    const std::string reason(random.Below(300), 'r');
    const ResponseHead head{
        .header = {number(), number(), static_cast<int64_t>(number()), number()},
        .watch_id = static_cast<int64_t>(number()),
        .created = random.Below(2) == 0,
        .canceled = random.Below(2) == 0,
        .compact_revision = static_cast<int64_t>(number()),
        .cancel_reason = reason,
        .fragment = random.Below(2) == 0};
    WatchResponse want;
    want.mutable_header()->set_cluster_id(head.header.cluster_id);
    want.mutable_header()->set_member_id(head.header.member_id);
    want.mutable_header()->set_revision(head.header.revision);
    want.mutable_header()->set_raft_term(head.header.raft_term);
    want.set_watch_id(head.watch_id);
    want.set_created(head.created);
    want.set_canceled(head.canceled);
    want.set_compact_revision(head.compact_revision);
    want.set_cancel_reason(reason);
    want.set_fragment(head.fragment);
    const Buffer got = EncodeHead(head, &arena);
    ASSERT_EQ(got.view(), want.SerializeAsString());
    ASSERT_EQ(HeadSize(head), got.size());
  }
}

// etcd's rule on whole protobuf messages.
std::vector<size_t> NaivePieces(const WatchResponse& whole, size_t limit) {
  std::vector<size_t> out;
  if (whole.ByteSizeLong() < limit || whole.events_size() < 2) {
    return {static_cast<size_t>(whole.events_size())};
  }
  int next = 0;
  while (next < whole.events_size()) {
    WatchResponse piece = whole;
    piece.clear_events();
    piece.set_fragment(true);
    while (next < whole.events_size()) {
      *piece.add_events() = whole.events(next);
      if (piece.events_size() > 1 && piece.ByteSizeLong() >= limit) {
        piece.mutable_events()->RemoveLast();
        break;
      }
      ++next;
    }
    out.push_back(static_cast<size_t>(piece.events_size()));
  }
  return out;
}

TEST(ResponseTest, PiecesFollowTheGreedyRule) {
  const uint64_t seed = SystemRandom().Next64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SeededRandom random(seed);
  BufferArena arena;
  for (int round = 0; round < 300; ++round) {
    FakeStore store;
    std::vector<Op> ops;
    for (uint64_t i = 0, n = 1 + random.Below(20); i < n; ++i) {
      ops.push_back(
          {"k" + std::to_string(i), std::string(random.Below(1 << random.Below(14)), 'v')});
    }
    const LoggedBatch batch(*store.Write(ops));
    std::vector<EventRef> refs;
    for (uint32_t i = 0; i < ops.size(); ++i) {
      refs.push_back({&batch, i});
    }
    const ResponseHead head{.header = {1, 2, 3, 4}, .watch_id = 9};
    WatchResponse whole;
    EventMessages(head, true, 0, &arena).Build(refs, [&](BufferChain body, size_t events) {
      EXPECT_EQ(events, refs.size());
      ASSERT_TRUE(whole.ParseFromString(body.ToString()));
    });
    const size_t limit = 1 + random.Below(whole.ByteSizeLong() + 100);
    std::vector<size_t> pieces;
    WatchResponse joined;
    EventMessages(head, true, limit, &arena).Build(refs, [&](BufferChain body, size_t events) {
      WatchResponse piece;
      ASSERT_TRUE(piece.ParseFromString(body.ToString()));
      EXPECT_EQ(piece.SerializeAsString(), body.ToString());
      pieces.push_back(events);
      joined.MergeFrom(piece);
      EXPECT_EQ(piece.fragment(), joined.events_size() < whole.events_size());
    });
    ASSERT_EQ(pieces, NaivePieces(whole, limit)) << "limit " << limit;
    joined.set_fragment(false);
    ASSERT_EQ(joined.SerializeAsString(), whole.SerializeAsString());
  }
}

}  // namespace
}  // namespace mainstay::watch

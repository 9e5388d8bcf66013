#include "watch/response.h"

#include "common/check.h"
#include "common/coding.h"

namespace mainstay::watch {
namespace {

constexpr uint32_t kHeader = 1;
constexpr uint32_t kWatchId = 2;
constexpr uint32_t kCreated = 3;
constexpr uint32_t kCanceled = 4;
constexpr uint32_t kCompactRevision = 5;
constexpr uint32_t kCancelReason = 6;
constexpr uint32_t kFragment = 7;

size_t HeaderSize(const Header& h) {
  return VarintFieldSize(1, h.cluster_id) + VarintFieldSize(2, h.member_id) +
         VarintFieldSize(3, static_cast<uint64_t>(h.revision)) + VarintFieldSize(4, h.raft_term);
}

}  // namespace

size_t HeadSize(const ResponseHead& head) {
  const size_t header = HeaderSize(head.header);
  return 1 + VarintSize(header) + header +
         VarintFieldSize(kWatchId, static_cast<uint64_t>(head.watch_id)) +
         VarintFieldSize(kCreated, head.created) + VarintFieldSize(kCanceled, head.canceled) +
         VarintFieldSize(kCompactRevision, static_cast<uint64_t>(head.compact_revision)) +
         BytesFieldSize(kCancelReason, head.cancel_reason.size()) +
         VarintFieldSize(kFragment, head.fragment);
}

Buffer EncodeHead(const ResponseHead& head, BufferArena* arena) {
  const size_t size = HeadSize(head);
  char* const start = arena->Reserve(size);
  char* at = PutBytesHead(start, kHeader, HeaderSize(head.header));
  at = PutVarintField(at, 1, head.header.cluster_id);
  at = PutVarintField(at, 2, head.header.member_id);
  at = PutVarintField(at, 3, static_cast<uint64_t>(head.header.revision));
  at = PutVarintField(at, 4, head.header.raft_term);
  at = PutVarintField(at, kWatchId, static_cast<uint64_t>(head.watch_id));
  at = PutVarintField(at, kCreated, head.created);
  at = PutVarintField(at, kCanceled, head.canceled);
  at = PutVarintField(at, kCompactRevision, static_cast<uint64_t>(head.compact_revision));
  at = PutBytesField(at, kCancelReason, head.cancel_reason);
  at = PutVarintField(at, kFragment, head.fragment);
  MS_CHECK_EQ(static_cast<size_t>(at - start), size);
  return arena->Commit(size);
}

void EventMessages::Encode(const std::vector<EventRef>& events) {
  encoded_.clear();
  size_t size = HeadSize(head_);
  for (const EventRef& ref : events) {
    encoded_.push_back(ref.batch->Encoded(ref.event, with_prev_kv_));
    size += encoded_.back().size;
  }
  split_ = fragment_bytes_ > 0 && events.size() >= 2 && size >= fragment_bytes_;
}

size_t EventMessages::PieceEnd(size_t from) const {
  if (!split_) {
    return encoded_.size();
  }
  ResponseHead head = head_;
  head.fragment = true;
  size_t size = HeadSize(head);
  size_t to = from;
  while (to < encoded_.size()) {
    size += encoded_[to].size;
    if (to > from && size >= fragment_bytes_) {
      break;
    }
    ++to;
  }
  return to;
}

BufferChain EventMessages::Piece(const std::vector<EventRef>& events, size_t from, size_t to) {
  head_.fragment = to < events.size();
  BufferChain out(EncodeHead(head_, arena_));
  for (size_t i = from; i < to; ++i) {
    encoded_[i].AppendTo(events[i].batch->events()[events[i].event], &out);
  }
  return out;
}

}  // namespace mainstay::watch

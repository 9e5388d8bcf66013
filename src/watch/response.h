// Bodies of etcdserverpb.WatchResponse, assembled from a few head bytes and encoded events.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/buffer.h"
#include "watch/event_log.h"

namespace mainstay::watch {

struct Header {
  uint64_t cluster_id = 0;
  uint64_t member_id = 0;
  int64_t revision = 0;
  uint64_t raft_term = 0;
};

struct ResponseHead {
  Header header;
  int64_t watch_id = 0;
  bool created = false;
  bool canceled = false;
  int64_t compact_revision = 0;
  std::string_view cancel_reason = {};
  bool fragment = false;
};

// Size of the encoded head.
size_t HeadSize(const ResponseHead& head);
// The head alone. `arena` gives the bytes.
Buffer EncodeHead(const ResponseHead& head, BufferArena* arena);

// One event of a message to be: a place in a batch that stays alive meanwhile.
struct EventRef {
  const LoggedBatch* batch = nullptr;
  uint32_t event = 0;
};

// The messages that carry `events` (not empty): one; or, with `fragment_bytes` > 0 and a message of
// that size or more and two events or more, the greedy split: each piece below it, a single larger
// event excepted, all but the last marked `fragment`. Calls `send(BufferChain, event count)`.
class EventMessages {
 public:
  EventMessages(ResponseHead head, bool with_prev_kv, size_t fragment_bytes, BufferArena* arena)
      : head_(head), with_prev_kv_(with_prev_kv), fragment_bytes_(fragment_bytes), arena_(arena) {}

  template <class Send>
  void Build(const std::vector<EventRef>& events, Send send) {
    Encode(events);
    size_t from = 0;
    while (from < events.size()) {
      const size_t to = PieceEnd(from);
      send(Piece(events, from, to), to - from);
      from = to;
    }
  }

 private:
  void Encode(const std::vector<EventRef>& events);
  size_t PieceEnd(size_t from) const;
  BufferChain Piece(const std::vector<EventRef>& events, size_t from, size_t to);

  ResponseHead head_;
  const bool with_prev_kv_;
  const size_t fragment_bytes_;
  BufferArena* const arena_;
  std::vector<EncodedEvent> encoded_;
  bool split_ = false;
};

}  // namespace mainstay::watch

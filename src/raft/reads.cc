#include "raft/reads.h"

#include <utility>

#include "common/check.h"
#include "common/coding.h"

namespace mainstay::raft {

bool ReadRounds::AddRemote(RemoteRead read, size_t count_max) {
  if (remotes_.size() >= count_max) {
    return false;
  }
  remotes_.push_back(std::move(read));
  return true;
}

const ReadRound& ReadRounds::Start(Index index) {
  MS_CHECK(!round_);
  round_.emplace();
  round_->id = next_id_++;
  round_->index = index;
  round_->tokens = std::exchange(tokens_, {});
  round_->remotes = std::exchange(remotes_, {});
  return *round_;
}

const ReadRound& ReadRounds::Restart() {
  MS_CHECK(round_);
  round_->id = next_id_++;
  round_->age_ticks = 0;
  // What waits may as well come along: the answer will be newer than its question either way.
  round_->tokens.insert(round_->tokens.end(), tokens_.begin(), tokens_.end());
  tokens_.clear();
  return *round_;
}

bool ReadRounds::IsOpen(const Buffer& context) const {
  return round_ && context == ContextOf(round_->id);
}

bool ReadRounds::Ack(MemberId from, const Buffer& context) {
  if (!IsOpen(context)) {
    return false;
  }
  round_->acks[from] = true;
  return true;
}

ReadRound ReadRounds::Finish() {
  MS_CHECK(round_);
  ReadRound done = std::move(*round_);
  round_.reset();
  return done;
}

std::vector<uint64_t> ReadRounds::Abandon() {
  std::vector<uint64_t> tokens = std::exchange(tokens_, {});
  if (round_) {
    tokens.insert(tokens.begin(), round_->tokens.begin(), round_->tokens.end());
    round_.reset();
  }
  remotes_.clear();
  return tokens;
}

Buffer ReadRounds::ContextOf(uint64_t id) {
  char bytes[8];
  StoreBE64(bytes, id);
  return Buffer::Copy({bytes, sizeof bytes});
}

}  // namespace mainstay::raft

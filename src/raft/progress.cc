#include "raft/progress.h"

#include <algorithm>

#include "common/check.h"

namespace mainstay::raft {

void InflightWindow::Add(Index last, size_t bytes) {
  MS_CHECK(!full());
  MS_CHECK(items_.empty() || items_.back().last < last);
  items_.push_back({last, bytes});
  bytes_ += bytes;
}

void InflightWindow::FreeUpTo(Index last) {
  while (!items_.empty() && items_.front().last <= last) {
    bytes_ -= items_.front().bytes;
    items_.pop_front();
  }
}

void InflightWindow::Clear() {
  items_.clear();
  bytes_ = 0;
}

size_t InflightWindow::bytes_free() const {
  if (full()) {
    return 0;
  }
  return bytes_max_ == 0 ? ~size_t{0} : bytes_max_ - bytes_;
}

const char* ProgressStateName(ProgressState state) {
  switch (state) {
    case ProgressState::kProbe:
      return "probe";
    case ProgressState::kReplicate:
      return "replicate";
    case ProgressState::kSnapshot:
      return "snapshot";
  }
  return "?";
}

void Progress::Enter(ProgressState state) {
  state_ = state;
  paused_ = false;
  pending_snapshot_ = Index(0);
  window_.Clear();
}

void Progress::BecomeProbe() {
  // After a snapshot that may have arrived, probing starts right behind it.
  const Index behind_snapshot = pending_snapshot_.Next();
  const bool from_snapshot = state_ == ProgressState::kSnapshot;
  Enter(ProgressState::kProbe);
  next_ = from_snapshot ? std::max(match_.Next(), behind_snapshot) : match_.Next();
  commit_sent_ = std::min(commit_sent_, match_);
}

void Progress::BecomeReplicate() {
  Enter(ProgressState::kReplicate);
  next_ = match_.Next();
}

void Progress::BecomeSnapshot(Index snapshot_index) {
  Enter(ProgressState::kSnapshot);
  pending_snapshot_ = snapshot_index;
  next_ = std::max(match_, snapshot_index).Next();
}

bool Progress::MaybeUpdate(Index index) {
  if (index <= match_) {
    return false;
  }
  match_ = index;
  next_ = std::max(next_, index.Next());
  paused_ = false;
  window_.FreeUpTo(index);
  return true;
}

bool Progress::MaybeDecrease(Index rejected, Index hint) {
  if (state_ == ProgressState::kReplicate) {
    // Entries up to match are known to be there, so this refusal is of an older append.
    if (rejected <= match_) {
      return false;
    }
    next_ = match_.Next();
    commit_sent_ = std::min(commit_sent_, match_);
    return true;
  }
  // While probing there is one append out, and it went after next - 1.
  if (next_.Prev() != rejected) {
    return false;
  }
  next_ = std::max(std::min(rejected, hint.Next()), match_.Next());
  commit_sent_ = std::min(commit_sent_, match_);
  paused_ = false;
  return true;
}

void Progress::Sent(size_t count, size_t bytes, Index commit) {
  MS_CHECK(!paused());
  const Index last = next_.Prev() + count;
  commit_sent_ = std::max(commit_sent_, std::min(commit, last));
  if (state_ == ProgressState::kProbe) {
    paused_ = true;
    return;
  }
  if (count > 0) {
    next_ = last.Next();
    window_.Add(last, bytes);
  }
  // Full: nothing more goes, save an empty append after each heartbeat's answer, which finds out
  // about losses.
  paused_ = window_.full();
}

void Progress::SnapshotFailed() {
  pending_snapshot_ = Index(0);
  BecomeProbe();
}

void Progress::CheckInvariants() const {
  MS_CHECK(match_ < next_);
  MS_CHECK(state_ == ProgressState::kReplicate || window_.empty());
  if (!window_.empty()) {
    MS_CHECK(window_.first() > match_);
    MS_CHECK(window_.last() < next_);
  }
  MS_CHECK((state_ == ProgressState::kSnapshot) == (pending_snapshot_ != Index(0)));
}

}  // namespace mainstay::raft

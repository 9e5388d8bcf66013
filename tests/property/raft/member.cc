#include "tests/property/raft/member.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/coding.h"
#include "raft/codec.h"
#include "raft/conf_change.h"

namespace mainstay::raft {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = (a ^ b * 0x9E3779B97F4A7C15) + 0x632BE59BD9B4E019;
  z = (z ^ z >> 29) * 0xBF58476D1CE4E5B9;
  return z ^ z >> 32;
}

// Appends `entries` to `log`, replacing from the first index that is there already.
void Overwrite(const EntryId& compacted,
               const std::vector<Entry>& entries,
               std::vector<Entry>* log) {
  for (const Entry& entry : entries) {
    MS_CHECK_GT(entry.index, compacted.index);
    const uint64_t place = entry.index - compacted.index.Next();
    MS_CHECK(place <= log->size());
    log->resize(place);
    log->push_back(entry);
  }
}

// Cuts everything up to `index` off the front.
void CutFront(Index index, EntryId* compacted, std::vector<Entry>* log) {
  if (index <= compacted->index) {
    return;
  }
  const uint64_t count = index - compacted->index;
  MS_CHECK(count <= log->size());
  *compacted = (*log)[count - 1].id();
  log->erase(log->begin(), log->begin() + static_cast<ptrdiff_t>(count));
}

}  // namespace

uint64_t HashOf(uint64_t before, const Entry& entry) {
  uint64_t h = Mix(before, entry.term.value());
  h = Mix(h, entry.index.value());
  h = Mix(h, static_cast<uint64_t>(entry.type));
  for (const char c : entry.data.view()) {
    h = Mix(h, static_cast<unsigned char>(c));
  }
  return h;
}

TestMember::TestMember(const Options& options, const ConfState& conf) : options_(options) {
  store_.conf = conf;
  flushed_ = store_;
}

void TestMember::SetDisk(const HardState& hard, std::vector<Entry> entries) {
  MS_CHECK(!up());
  disk_hard_ = hard;
  disk_log_ = std::move(entries);
}

void TestMember::Start(uint64_t seed, bool omit_applied) {
  MS_CHECK(!up());
  store_ = flushed_;
  const Index end = disk_compacted_.index + disk_log_.size();
  if (!HasDurably(store_.applied) || store_.applied.index > end) {
    // The store is ahead of the log (a snapshot installed, or applied before persisted): it stands
    // for the log.
    disk_compacted_ = store_.applied;
    disk_log_.clear();
  }
  view_compacted_ = disk_compacted_;
  view_ = disk_log_;
  InitialState initial{.hard_state = disk_hard_,
                       .conf_state = store_.conf,
                       .compacted = disk_compacted_,
                       .entries = disk_log_,
                       .applied = store_.applied.index};
  if (omit_applied && store_.applied.index > disk_compacted_.index) {
    EntryId front = disk_compacted_;
    const Index cut = store_.applied.index;
    Term before{0};
    for (const Entry& entry : disk_log_) {
      if (entry.index <= cut && (initial.term_starts.empty() || entry.term != before)) {
        initial.term_starts.push_back(entry.id());
        before = entry.term;
      }
    }
    CutFront(cut, &front, &initial.entries);
    if (initial.entries.empty()) {
      // Recovery always hands over the last entry.
      initial.entries.push_back(disk_log_.back());
      if (initial.term_starts.back().index == disk_log_.back().index) {
        initial.term_starts.pop_back();
      }
    }
  }
  options_.seed = seed;
  core_ = std::make_unique<Core>(options_, std::move(initial));
}

void TestMember::Crash(size_t writes_kept) {
  for (size_t i = 0; i < writes_kept && i < writes_.size(); ++i) {
    WriteToDisk(writes_[i]);
  }
  core_.reset();
  writes_.clear();
  apply_queue_.clear();
  log_requests_.clear();
  snapshot_requests_.clear();
}

std::vector<Message> TestMember::Pump() {
  Output out = core_->TakeOutput();
  core_->CheckInvariants();
  MS_CHECK(!core_->HasOutput());
  if (out.snapshot) {
    view_compacted_ = out.snapshot->meta.id();
    view_.clear();
  }
  Overwrite(view_compacted_, out.entries, &view_);
  written.insert(written.end(), out.entries.begin(), out.entries.end());
  if (out.persist_seq != 0) {
    writes_.push_back({.seq = out.persist_seq,
                       .snapshot = std::move(out.snapshot),
                       .entries = std::move(out.entries),
                       .hard_state = out.hard_state});
  }
  apply_queue_.insert(apply_queue_.end(), out.committed.begin(), out.committed.end());
  log_requests_.insert(log_requests_.end(), out.log_requests.begin(), out.log_requests.end());
  snapshot_requests_.insert(snapshot_requests_.end(), out.snapshot_requests.begin(),
                            out.snapshot_requests.end());
  reads.insert(reads.end(), out.reads.begin(), out.reads.end());
  if (out.soft_state) {
    soft_states.push_back(*out.soft_state);
  }
  return std::move(out.messages);
}

void TestMember::WriteToDisk(const Write& write) {
  if (write.snapshot) {
    InstallSnapshot(*write.snapshot);
    disk_compacted_ = write.snapshot->meta.id();
    disk_log_.clear();
  }
  Overwrite(disk_compacted_, write.entries, &disk_log_);
  if (write.hard_state) {
    disk_hard_ = *write.hard_state;
  }
}

void TestMember::InstallSnapshot(const Snapshot& snapshot) {
  store_ = {.applied = snapshot.meta.id(),
            .conf = snapshot.meta.conf_state,
            .hash = LoadLE<uint64_t>(snapshot.data.data())};
  flushed_ = store_;
}

bool TestMember::PersistOne() {
  if (writes_.empty()) {
    return false;
  }
  const Write write = std::move(writes_.front());
  writes_.pop_front();
  WriteToDisk(write);
  core_->Persisted(write.seq);
  if (write.snapshot) {
    core_->AppliedTo(write.snapshot->meta.index);
  }
  core_->CheckInvariants();
  return true;
}

bool TestMember::ApplyOne() {
  if (apply_queue_.empty()) {
    return false;
  }
  // What follows a snapshot waits until the store has it.
  const Entry entry = apply_queue_.front();
  if (entry.index > store_.applied.index.Next()) {
    return false;
  }
  apply_queue_.pop_front();
  if (entry.index <= store_.applied.index) {
    return true;
  }
  store_.hash = HashOf(store_.hash, entry);
  if (entry.is_conf_change()) {
    const StatusOr<ConfChangeV2> change = DecodeChangeOf(entry);
    MS_CHECK(change.ok());
    const StatusOr<ConfState> conf = ChangeConfState(store_.conf, *change);
    const StatusOr<ConfState> core_conf = core_->ApplyConfChange(entry.index, *change);
    if (core_->GetStatus().compacted.index <= entry.index) {
      MS_CHECK_EQ(conf.ok(), core_conf.ok());
      MS_CHECK(!conf.ok() || *conf == *core_conf);
    }
    // Refused by the rules: every member refuses it alike, which the hash shows.
    store_.hash = Mix(store_.hash, conf.ok() ? 1 : 2);
    if (conf.ok()) {
      store_.conf = *conf;
    }
  }
  store_.applied = entry.id();
  core_->AppliedTo(entry.index);
  core_->CheckInvariants();
  applied.push_back(entry);
  return true;
}

bool TestMember::AnswerLogRequest() {
  if (log_requests_.empty()) {
    return false;
  }
  const LogRequest request = log_requests_.front();
  log_requests_.pop_front();
  MS_CHECK(request.first < request.end);
  std::vector<Entry> entries;
  size_t bytes = 0;
  for (const Entry& entry : disk_log_) {
    if (entry.index < request.first || entry.index >= request.end) {
      continue;
    }
    bytes += entry.data.size();
    if (!entries.empty() && bytes > request.bytes_max) {
      break;
    }
    entries.push_back(entry);
  }
  if (!entries.empty() && entries.front().index != request.first) {
    entries.clear();
  }
  core_->LogRead(request, std::move(entries));
  core_->CheckInvariants();
  return true;
}

bool TestMember::AnswerSnapshotRequest(bool ok) {
  if (snapshot_requests_.empty()) {
    return false;
  }
  const MemberId to = snapshot_requests_.front();
  snapshot_requests_.pop_front();
  if (!ok || store_.applied.index == Index(0)) {
    core_->ReportSnapshot(to, false);
    return true;
  }
  char hash[8];
  StoreLE(hash, store_.hash);
  core_->SendSnapshot(to, {.meta = {.conf_state = store_.conf,
                                    .index = store_.applied.index,
                                    .term = store_.applied.term},
                           .data = Buffer::Copy({hash, sizeof hash})});
  core_->CheckInvariants();
  return true;
}

void TestMember::Compact(Index index) {
  index = std::min(index, flushed_.applied.index);
  // Nothing may be cut that the disk's own log does not reach.
  index = std::min(index, disk_compacted_.index + disk_log_.size());
  if (index <= disk_compacted_.index || index <= view_compacted_.index) {
    return;
  }
  CutFront(index, &disk_compacted_, &disk_log_);
  CutFront(index, &view_compacted_, &view_);
  core_->CompactLog(index);
  core_->CheckInvariants();
}

bool TestMember::HasDurably(EntryId id) const {
  if (id.index <= disk_compacted_.index) {
    return id.index < disk_compacted_.index || id == disk_compacted_;
  }
  const uint64_t place = id.index - disk_compacted_.index.Next();
  return place < disk_log_.size() && disk_log_[place].id() == id;
}

std::optional<Term> TestMember::ViewTermAt(Index index) const {
  if (index == view_compacted_.index) {
    return view_compacted_.term;
  }
  if (index < view_compacted_.index || index - view_compacted_.index > view_.size()) {
    return std::nullopt;
  }
  return view_[index - view_compacted_.index.Next()].term;
}

}  // namespace mainstay::raft

#include "raft/log.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace mainstay::raft {

Log::Log(const Options& options, InitialState* initial)
    : tail_bytes_max_(options.tail_bytes_max),
      apply_bytes_max_(options.apply_bytes_max),
      apply_before_persisted_(options.apply_before_persisted),
      compacted_(initial->compacted),
      term_runs_(initial->term_starts.begin(), initial->term_starts.end()),
      last_(initial->compacted.index),
      committed_(std::max(initial->hard_state.commit, initial->applied)),
      handed_(initial->applied),
      applied_(initial->applied) {
  if (!initial->entries.empty()) {
    last_ = initial->entries.front().index.Prev();
  }
  MS_CHECK_MSG(last_ >= compacted_.index, "entries reach below what is compacted");
  MS_CHECK_MSG((last_ == compacted_.index) == term_runs_.empty(), "term_starts do not fit entries");
  MS_CHECK_MSG(initial->applied >= compacted_.index, "applied below what is compacted");
  MS_CHECK_MSG(initial->applied >= last_, "entries do not reach back to applied");
  for (Entry& entry : initial->entries) {
    MS_CHECK_EQ(entry.index, last_.Next());
    Push(std::move(entry));
  }
  MS_CHECK_MSG(committed_ <= last_, "the log ends before the commit index: entries are lost");
  uncommitted_bytes_ = 0;
  for (Index i = committed_.Next(); i <= last_; i = i.Next()) {
    uncommitted_bytes_ += At(i).data.size();
  }
  persisted_ = staged_ = last_;
  Trim();
  CheckInvariants();
}

std::optional<Term> Log::TermAt(Index index) const {
  if (index < compacted_.index || index > last_) {
    return std::nullopt;
  }
  // The last run that starts at or before `index`; appends ask for the end, so look there first.
  if (!term_runs_.empty() && term_runs_.back().index <= index) {
    return term_runs_.back().term;
  }
  const auto after = std::upper_bound(term_runs_.begin(), term_runs_.end(), index,
                                      [](Index i, const EntryId& run) { return i < run.index; });
  return after == term_runs_.begin() ? compacted_.term : std::prev(after)->term;
}

bool Log::IsUpToDate(EntryId other) const {
  const EntryId mine = last_id();
  return other.term > mine.term || (other.term == mine.term && other.index >= mine.index);
}

EntryId Log::LastNotAbove(Index index, Term term) const {
  index = std::min(index, last_);
  for (auto run = term_runs_.rbegin(); run != term_runs_.rend(); ++run) {
    if (run->index > index) {
      continue;
    }
    if (run->term <= term) {
      return {run->term, index};
    }
    index = run->index.Prev();
  }
  if (index < compacted_.index) {
    return {Term(0), index};
  }
  if (compacted_.term <= term || index == Index(0)) {
    return {compacted_.term, index};
  }
  return {Term(0), index.Prev()};
}

const Entry& Log::At(Index index) const {
  MS_CHECK(index >= memory_begin() && index <= last_);
  return entries_[index - memory_begin()];
}

void Log::Push(Entry&& entry) {
  const Term before = *TermAt(last_);
  MS_CHECK_MSG(entry.term >= before, "a term falls along the log");
  last_ = last_.Next();
  if (entry.term != before || term_runs_.empty()) {
    term_runs_.push_back({entry.term, last_});
  }
  if (entry.is_conf_change() && last_ > applied_) {
    conf_changes_.push_back(last_);
  }
  tail_bytes_ += entry.cost_bytes();
  uncommitted_bytes_ += entry.data.size();
  entries_.push_back(std::move(entry));
}

void Log::Append(std::vector<Entry>&& entries) {
  for (Entry& entry : entries) {
    entry.index = last_.Next();
    Push(std::move(entry));
  }
}

bool Log::MaybeAppend(EntryId previous, std::vector<Entry>&& entries) {
  if (!Matches(previous)) {
    return false;
  }
  Index index = previous.index;
  size_t known = 0;
  while (known < entries.size() && Matches({entries[known].term, index.Next()})) {
    ++known;
    index = index.Next();
  }
  if (known == entries.size()) {
    return true;
  }
  if (index.Next() <= last_) {
    TruncateFrom(index.Next());
  }
  for (; known < entries.size(); ++known) {
    MS_CHECK_EQ(entries[known].index, last_.Next());
    Push(std::move(entries[known]));
  }
  return true;
}

void Log::TruncateFrom(Index index) {
  MS_CHECK_MSG(index > committed_, "a committed entry would be overwritten");
  const Index keep = index.Prev();
  while (last_ > keep) {
    tail_bytes_ -= entries_.back().cost_bytes();
    uncommitted_bytes_ -= entries_.back().data.size();
    entries_.pop_back();
    last_ = last_.Prev();
  }
  while (!term_runs_.empty() && term_runs_.back().index > keep) {
    term_runs_.pop_back();
  }
  while (!conf_changes_.empty() && conf_changes_.back() > keep) {
    conf_changes_.pop_back();
  }
  // Writes in flight hold entries that are gone: of them only those kept count when they come back.
  // What replaces the rest is in a later write, so no acknowledgement of an old entry can stand for
  // a new one at the same index.
  staged_ = std::min(staged_, keep);
  persisted_ = std::min(persisted_, keep);
  for (Write& write : writes_) {
    write.last = std::min(write.last, keep);
  }
}

bool Log::CommitTo(Index index) {
  if (index <= committed_) {
    return false;
  }
  MS_CHECK_MSG(index <= last_, "told to commit what this log has lost");
  for (Index i = committed_.Next(); i <= index; i = i.Next()) {
    uncommitted_bytes_ -= At(i).data.size();
  }
  committed_ = index;
  return true;
}

void Log::Restore(const SnapshotMeta& meta) {
  MS_CHECK_GT(meta.index, committed_);
  compacted_ = meta.id();
  term_runs_.clear();
  entries_.clear();
  conf_changes_.clear();
  tail_bytes_ = 0;
  uncommitted_bytes_ = 0;
  last_ = committed_ = handed_ = persisted_ = staged_ = meta.index;
  for (Write& write : writes_) {
    write.last = meta.index;
  }
  handed_out_.clear();
  handed_bytes_ = 0;
}

std::vector<Entry> Log::TakeUnstaged() {
  std::vector<Entry> out;
  if (has_unstaged()) {
    const auto from = entries_.begin() + static_cast<ptrdiff_t>(staged_.Next() - memory_begin());
    out.assign(from, entries_.end());
    staged_ = last_;
  }
  return out;
}

void Log::Persisted(uint64_t seq) {
  while (!writes_.empty() && writes_.front().seq <= seq) {
    persisted_ = std::max(persisted_, writes_.front().last);
    writes_.pop_front();
  }
}

void Log::Trim() {
  const Index may_go = std::min(committed_, persisted_);
  while (tail_bytes_ > tail_bytes_max_ && !entries_.empty() && memory_begin() <= may_go) {
    tail_bytes_ -= entries_.front().cost_bytes();
    entries_.pop_front();
  }
}

Index Log::ApplyLimit() const {
  return apply_before_persisted_ ? committed_ : std::min(committed_, persisted_);
}

Index Log::HandableTo() const {
  return handed_.Next() < memory_begin() ? handed_ : std::max(handed_, ApplyLimit());
}

size_t Log::budget_left() const {
  return handed_bytes_ >= apply_bytes_max_ ? 0 : apply_bytes_max_ - handed_bytes_;
}

void Log::NoteHanded(Index last, size_t bytes) {
  handed_ = last;
  handed_bytes_ += bytes;
  handed_out_.push_back({last, bytes});
}

std::vector<Entry> Log::TakeCommitted() {
  std::vector<Entry> out;
  const Index limit = HandableTo();
  const size_t budget = budget_left();
  size_t bytes = 0;
  for (Index i = handed_.Next(); i <= limit && bytes < budget; i = i.Next()) {
    out.push_back(At(i));
    bytes += out.back().cost_bytes();
  }
  if (!out.empty()) {
    NoteHanded(out.back().index, bytes);
  }
  // Only now, so that what can be applied at once need not be read back.
  Trim();
  return out;
}

std::optional<LogRequest> Log::NeededForApply(MemberId self) const {
  if (handed_.Next() >= memory_begin() || handed_ >= ApplyLimit() || budget_left() == 0) {
    return std::nullopt;
  }
  return LogRequest{.reader = self,
                    .first = handed_.Next(),
                    .end = std::min(memory_begin(), ApplyLimit().Next()),
                    .bytes_max = budget_left()};
}

void Log::HandLoaded(const std::vector<Entry>& entries) {
  size_t bytes = 0;
  Index last = handed_;
  for (const Entry& entry : entries) {
    MS_CHECK_EQ(entry.index, last.Next());
    MS_CHECK(entry.index <= ApplyLimit() && Matches(entry.id()));
    bytes += entry.cost_bytes();
    last = entry.index;
  }
  NoteHanded(last, bytes);
}

void Log::AppliedTo(Index index) {
  if (index <= applied_) {
    return;
  }
  MS_CHECK_LE(index, handed_);
  applied_ = index;
  while (!handed_out_.empty() && handed_out_.front().last <= index) {
    handed_bytes_ -= handed_out_.front().bytes;
    handed_out_.pop_front();
  }
  while (!conf_changes_.empty() && conf_changes_.front() <= index) {
    conf_changes_.pop_front();
  }
}

std::vector<Entry> Log::Read(Index from, size_t bytes_max) const {
  MS_CHECK(from >= memory_begin() && from <= last_);
  std::vector<Entry> out;
  size_t bytes = 0;
  for (auto at = entries_.begin() + static_cast<ptrdiff_t>(from - memory_begin());
       at != entries_.end(); ++at) {
    bytes += at->data.size();
    if (!out.empty() && bytes > bytes_max) {
      break;
    }
    out.push_back(*at);
  }
  return out;
}

void Log::Compact(Index index) {
  if (index <= compacted_.index) {
    return;
  }
  MS_CHECK_LE(index, applied_);
  compacted_ = {*TermAt(index), index};
  while (!entries_.empty() && memory_begin() <= index) {
    tail_bytes_ -= entries_.front().cost_bytes();
    entries_.pop_front();
  }
  // The run that `index` lies in goes on behind it, if it does.
  while (!term_runs_.empty() && term_runs_.front().index <= index) {
    const bool goes_on = last_ > index && *TermAt(index.Next()) == term_runs_.front().term;
    if (goes_on && (term_runs_.size() == 1 || term_runs_[1].index > index)) {
      term_runs_.front().index = index.Next();
      break;
    }
    term_runs_.pop_front();
  }
}

void Log::CheckInvariants() const {
  MS_CHECK_LE(applied_, handed_);
  MS_CHECK_LE(compacted_.index, handed_);
  MS_CHECK_LE(handed_, committed_);
  MS_CHECK_LE(committed_, last_);
  MS_CHECK_LE(persisted_, staged_);
  MS_CHECK_LE(staged_, last_);
  MS_CHECK_LE(compacted_.index, persisted_);
  MS_CHECK_LE(memory_begin(), std::min(committed_, persisted_).Next());
  MS_CHECK((last_ == compacted_.index) == term_runs_.empty());
  EntryId before = compacted_;
  for (const EntryId& run : term_runs_) {
    const bool first = &run == &term_runs_.front();
    MS_CHECK(first ? run.index == compacted_.index.Next() && run.term >= compacted_.term
                   : run.index > before.index && run.term > before.term);
    before = run;
  }
  MS_CHECK(before.index <= last_);
  MS_CHECK(writes_.empty() || writes_.back().last <= staged_);
}

}  // namespace mainstay::raft

// raft::Log: the core's view of the log: its end in memory, the terms of all of it, and how far
// each duty has come.
//
//     compacted < ... < memory begin ... staged ... last
//             on disk only  |  entries here
//
//   committed   a quorum has it
//   handed      given out to be applied
//   applied     the store has it
//   staged      given out to be persisted
//   persisted   this member's disk has it
//
// Invariants  I1 compacted <= handed <= committed <= last, and applied <= handed. (A received
//                snapshot moves compacted and handed ahead of applied until the store has it.)
//             I2 compacted <= persisted <= staged <= last.
//             I3 everything above min(committed, persisted) is in memory.
//             I4 term runs ascend in term and index and cover (compacted, last].
// Threads     The core's.
// Errors      CHECK-fails if asked to overwrite a committed entry: some member broke the protocol.
// Limits      Memory beyond I3: Options::tail_bytes_max. Term runs: one per term in the log.
// Sources     Raft paper 5.3, 5.4; thesis 10.2.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "raft/output.h"
#include "raft/types.h"

namespace mainstay::raft {

class Log {
 public:
  // Takes the entries out of what recovery found.
  Log(const Options& options, InitialState* initial);

  EntryId compacted() const { return compacted_; }
  Index first_index() const { return compacted_.index.Next(); }
  Index last_index() const { return last_; }
  EntryId last_id() const { return {*TermAt(last_), last_}; }
  Index committed() const { return committed_; }
  Index handed() const { return handed_; }
  Index applied() const { return applied_; }
  Index persisted() const { return persisted_; }
  // The first index whose entry is in memory; last_index() + 1 if none is.
  Index memory_begin() const { return last_.Next() - entries_.size(); }
  size_t tail_bytes() const { return tail_bytes_; }
  // Payload of the entries above the commit index.
  size_t uncommitted_bytes() const { return uncommitted_bytes_; }

  // Term of the entry at `index`; nothing below compacted().index or above last_index().
  std::optional<Term> TermAt(Index index) const;
  bool Matches(EntryId id) const { return TermAt(id.index) == id.term; }
  // Whether a log ending in `other` holds all that this one does (Raft paper 5.4.1).
  bool IsUpToDate(EntryId other) const;
  // The last entry at or below `index` whose term is not above `term`: below it logs may agree.
  // Term 0 where unknown.
  EntryId LastNotAbove(Index index, Term term) const;

  // Appends; sets each entry's index. REQUIRES: terms do not fall.
  void Append(std::vector<Entry>&& entries);
  // A follower's append: `entries` follow `previous`. False if `previous` is not here. Conflicting
  // entries go first.
  bool MaybeAppend(EntryId previous, std::vector<Entry>&& entries);
  // False if it moves nothing. REQUIRES: index <= last_index().
  bool CommitTo(Index index);
  // Replaces everything by a snapshot. REQUIRES: beyond committed().
  void Restore(const SnapshotMeta& meta);

  // Entries not yet given out to be persisted; now they are.
  std::vector<Entry> TakeUnstaged();
  bool has_unstaged() const { return staged_ < last_; }
  // The write with number `seq` covers all that was staged so far. Called once for each, in order.
  void RecordWrite(uint64_t seq) { writes_.push_back({seq, staged_}); }
  // Writes with numbers <= seq are durable.
  void Persisted(uint64_t seq);

  // Committed entries to be applied, in order, as the apply budget allows; now handed out. Then
  // shortens the tail in memory.
  std::vector<Entry> TakeCommitted();
  // Whether TakeCommitted would return something.
  bool has_committed() const { return HandableTo() > handed_ && budget_left() > 0; }
  // The range that must come back from disk before apply can go on; empty if none.
  std::optional<LogRequest> NeededForApply(MemberId self) const;
  // Hands out entries read back for apply. REQUIRES: they follow handed().
  void HandLoaded(const std::vector<Entry>& entries);
  void AppliedTo(Index index);
  // Whether a committed configuration change awaits its turn in apply.
  bool HasUnappliedConfChange() const {
    return !conf_changes_.empty() && conf_changes_.front() <= committed_;
  }

  // Entries from `from`, up to `bytes_max` of payload but at least one. REQUIRES: memory_begin() <=
  // from <= last_index().
  std::vector<Entry> Read(Index from, size_t bytes_max) const;
  // Forgets everything up to `index`. REQUIRES: index <= applied().
  void Compact(Index index);

  void CheckInvariants() const;

 private:
  struct Write {
    uint64_t seq;
    Index last;
  };
  struct Handed {
    Index last;
    size_t bytes;
  };
  const Entry& At(Index index) const;
  void Push(Entry&& entry);
  void TruncateFrom(Index index);
  // Drops from memory what disk has, down to the tail's bound.
  void Trim();
  // How far apply may go now.
  Index ApplyLimit() const;
  // The last index that could be handed out from memory; handed_ if none.
  Index HandableTo() const;
  size_t budget_left() const;
  void NoteHanded(Index last, size_t bytes);

  const size_t tail_bytes_max_;
  const size_t apply_bytes_max_;
  const bool apply_before_persisted_;

  EntryId compacted_;
  std::deque<EntryId>
      term_runs_;              // the first entry of each run of equal terms in (compacted, last]
  std::deque<Entry> entries_;  // ends at last_
  std::deque<Index> conf_changes_;  // configuration changes above applied_
  Index last_;
  Index committed_;
  Index handed_;
  Index applied_;
  Index persisted_;
  Index staged_;
  std::deque<Write> writes_;       // in flight
  std::deque<Handed> handed_out_;  // not yet applied
  size_t handed_bytes_ = 0;
  size_t tail_bytes_ = 0;
  size_t uncommitted_bytes_ = 0;
};

}  // namespace mainstay::raft

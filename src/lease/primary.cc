// The leader's part of the lessor: deadlines, renewals, checkpoints. Nothing here is replicated.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "lease/lessor.h"
#include "lease/state.h"

namespace mainstay::lease {
namespace {

// So many wheel entries are looked at under one hold of the lock.
constexpr int kEntriesPerHold = 4096;

// Moves deadlines later, never earlier, so that no second holds more than `per_second` of them: the
// i-th ends at least a second after the (i - per_second)-th. REQUIRES: ascending.
void Spread(std::vector<std::pair<Time, LeaseId>>* deadlines, size_t per_second) {
  for (size_t i = per_second; i < deadlines->size(); ++i) {
    Time& deadline = (*deadlines)[i].first;
    deadline = std::max(deadline, (*deadlines)[i - per_second].first + std::chrono::seconds(1));
  }
}

}  // namespace

void Lessor::State::Arm(LeaseId id, Lease& lease, Time deadline) {
  lease.deadline = deadline;
  expiries.Add({id, lease.serial}, deadline);
}

void Lessor::State::ScheduleCheckpoint(LeaseId id, Lease& lease, Time now) {
  if (!options.checkpoints) {
    return;
  }
  if (lease.deadline == kForever || lease.deadline - now <= options.checkpoint_interval) {
    lease.checkpoint_at = kForever;
    return;
  }
  lease.checkpoint_at = now + options.checkpoint_interval;
  if (!lease.checkpoint_queued) {
    lease.checkpoint_queued = true;
    checkpoints.Add({id, lease.serial}, lease.checkpoint_at);
  }
}

Lease* Lessor::State::Expired(const Deadlines::Entry& entry, Time now) {
  Lease* lease = Find(entry.id);
  if (lease == nullptr || lease->serial != entry.serial) {
    return nullptr;
  }
  if (lease->deadline > now) {
    expiries.Add(entry, lease->deadline);  // renewed since
    return nullptr;
  }
  return lease;
}

void Lessor::Promote(Term term, Time extend, Time now) {
  MutexLock lock(state_->mu);
  state_->term = term;
  state_->expiries.Clear();
  state_->checkpoints.Clear();
  std::vector<std::pair<Time, LeaseId>> deadlines;
  deadlines.reserve(state_->leases.size());
  for (auto& [id, lease] : state_->leases) {
    const int64_t ttl = lease.remaining_seconds > 0 ? lease.remaining_seconds : lease.ttl_seconds;
    lease.checkpoint_queued = false;
    deadlines.emplace_back(After(now + extend, ttl), LeaseId(id));
  }
  std::sort(deadlines.begin(), deadlines.end());
  // Leases that piled up while nobody led must not eat the whole revoke rate when they end.
  Spread(&deadlines,
         static_cast<size_t>(std::max(1, state_->options.revokes_per_second_max * 3 / 4)));
  for (const auto& [deadline, id] : deadlines) {
    Lease& lease = *state_->Find(id);
    state_->Arm(id, lease, deadline);
    state_->ScheduleCheckpoint(id, lease, now);
  }
}

void Lessor::Demote() {
  std::map<LeaseId, std::vector<Waiter>> waiters;
  {
    MutexLock lock(state_->mu);
    state_->term.reset();
    state_->expiries.Clear();
    state_->checkpoints.Clear();
    for (auto& [id, lease] : state_->leases) {
      lease.deadline = kForever;
      lease.checkpoint_at = kForever;
      lease.checkpoint_queued = false;
    }
    waiters.swap(state_->waiters);
    state_->waiter_count = 0;
  }
  for (auto& [id, list] : waiters) {
    for (Waiter& waiter : list) {
      waiter();
    }
  }
}

std::optional<Term> Lessor::primary_term() const {
  MutexLock lock(state_->mu);
  return state_->term;
}

size_t Lessor::expired_batch_max() const {
  return static_cast<size_t>(std::max(1, state_->options.revokes_per_second_max / 2));
}

std::vector<LeaseId> Lessor::ExpiredLeases(Time now, size_t max) {
  std::vector<LeaseId> out;
  bool more = true;
  while (more && out.size() < max) {
    MutexLock lock(state_->mu);
    if (!state_->term.has_value()) {
      return {};
    }
    for (int i = 0; i < kEntriesPerHold && out.size() < max; ++i) {
      const std::optional<Deadlines::Entry> entry = state_->expiries.PopDue(now);
      if (!entry.has_value()) {
        more = false;
        break;
      }
      if (state_->Expired(*entry, now) != nullptr) {
        out.push_back(entry->id);
        // Given again if the revocation is lost on its way.
        state_->expiries.Add(*entry, now + state_->options.revoke_retry);
      }
    }
  }
  return out;
}

std::vector<Checkpoint> Lessor::DueCheckpoints(Time now, size_t max) {
  std::vector<Checkpoint> out;
  MutexLock lock(state_->mu);
  while (out.size() < max) {
    const std::optional<Deadlines::Entry> entry = state_->checkpoints.PopDue(now);
    if (!entry.has_value()) {
      break;
    }
    Lease* lease = state_->Find(entry->id);
    if (lease == nullptr || lease->serial != entry->serial) {
      continue;
    }
    lease->checkpoint_queued = false;
    if (lease->checkpoint_at == kForever || lease->deadline <= now) {
      continue;
    }
    if (lease->checkpoint_at > now) {
      lease->checkpoint_queued = true;
      state_->checkpoints.Add(*entry, lease->checkpoint_at);
      continue;
    }
    const int64_t left = std::chrono::ceil<std::chrono::seconds>(lease->deadline - now).count();
    if (left < lease->ttl_seconds) {
      out.push_back({entry->id, left});
    }
    state_->ScheduleCheckpoint(entry->id, *lease, now);
  }
  return out;
}

bool Lessor::NeedsCheckpointClear(LeaseId id) const {
  MutexLock lock(state_->mu);
  const Lease* lease = state_->Find(id);
  return state_->options.checkpoints && state_->term.has_value() && lease != nullptr &&
         lease->remaining_seconds > 0;
}

RenewResult Lessor::Renew(LeaseId id, Time now) {
  using Outcome = RenewResult::Outcome;
  MutexLock lock(state_->mu);
  if (!state_->term.has_value()) {
    return {Outcome::kNotPrimary, 0};
  }
  Lease* lease = state_->Find(id);
  if (lease == nullptr) {
    return {Outcome::kNotFound, 0};
  }
  if (lease->deadline <= now) {
    return {Outcome::kExpiredWaiting, 0};
  }
  // Never shorter than it was: a promotion may have extended it.
  lease->deadline = std::max(lease->deadline, After(now, lease->ttl_seconds));
  state_->ScheduleCheckpoint(id, *lease, now);
  state_->renewed_total.Add();
  return {Outcome::kRenewed, lease->ttl_seconds};
}

bool Lessor::WaitSettled(LeaseId id, absl::AnyInvocable<void()> done) {
  {
    MutexLock lock(state_->mu);
    if (state_->term.has_value() && state_->Find(id) != nullptr) {
      if (state_->waiter_count >= state_->options.renew_waiters_max) {
        return false;
      }
      state_->waiters[id].push_back(std::move(done));
      ++state_->waiter_count;
      return true;
    }
  }
  done();
  return true;
}

}  // namespace mainstay::lease

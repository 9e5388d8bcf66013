// The replicated part of the lessor, its rows, and reads. The leader's part: primary.cc.
#include "lease/lessor.h"

#include <algorithm>
#include <utility>

#include "backend/backend.h"
#include "common/check.h"
#include "common/coding.h"
#include "common/log.h"
#include "lease/state.h"

namespace mainstay::lease {
namespace {

constexpr std::string_view kBucket = "lease";

std::string RowKey(LeaseId id) {
  std::string out;
  AppendBE64(&out, static_cast<uint64_t>(id.value()));
  return out;
}

std::string RowValue(LeaseId id, const Lease& lease) {
  std::string out;
  AppendVarintField(&out, 1, static_cast<uint64_t>(id.value()));
  AppendVarintField(&out, 2, static_cast<uint64_t>(lease.ttl_seconds));
  AppendVarintField(&out, 3, static_cast<uint64_t>(lease.remaining_seconds));
  return out;
}

}  // namespace

int64_t MinTtlSeconds(int election_ticks, std::chrono::milliseconds heartbeat) {
  const std::chrono::milliseconds least = 3 * election_ticks / 2 * heartbeat;
  return std::chrono::ceil<std::chrono::seconds>(least).count();
}

Lessor::State::State(LessorOptions o, MetricRegistry& metrics)
    : options(o),
      granted_total(metrics.AddCounter("etcd_debugging_lease_granted_total",
                                       "The total number of granted leases.")),
      revoked_total(metrics.AddCounter("etcd_debugging_lease_revoked_total",
                                       "The total number of revoked leases.")),
      renewed_total(metrics.AddCounter("etcd_debugging_lease_renewed_total",
                                       "The number of renewed leases seen by the leader.")),
      ttl_seconds(metrics.AddHistogram("etcd_debugging_lease_ttl_total",
                                       "Bucketed histogram of lease TTLs.",
                                       ExponentialBuckets(1, 2, 24))) {}

Lessor::Lessor(LessorOptions options, MetricRegistry& metrics)
    : state_(std::make_unique<State>(options, metrics)) {}

Lessor::~Lessor() = default;

void Lessor::Clear() {
  Demote();
  MutexLock lock(state_->mu);
  state_->leases.clear();
}

Status Lessor::LoadRow(std::string_view key, std::string_view value) {
  WireReader reader(value);
  int64_t id = 0;
  Lease lease;
  while (reader.Next()) {
    switch (reader.field()) {
      case 1:
        id = reader.i64();
        break;
      case 2:
        lease.ttl_seconds = reader.i64();
        break;
      case 3:
        lease.remaining_seconds = reader.i64();
        break;
      default:
        break;
    }
  }
  if (!reader.ok() || key != RowKey(LeaseId(id)) || id == 0) {
    return DataLoss("lease: malformed row " + Hex(key));
  }
  // A store that a member with shorter elections wrote.
  lease.ttl_seconds = std::max(lease.ttl_seconds, state_->options.min_ttl_seconds);
  MutexLock lock(state_->mu);
  lease.serial = state_->next_serial++;
  state_->leases[id] = std::move(lease);
  return {};
}

void Lessor::LoadAttachment(std::string_view key, LeaseId id) {
  bool known = false;
  {
    MutexLock lock(state_->mu);
    if (Lease* lease = state_->Find(id); lease != nullptr) {
      lease->keys.emplace(key);
      known = true;
    }
  }
  if (!known) {
    MS_LOG(kWarn, "failed to attach a lease").Hex("lease-id", static_cast<uint64_t>(id.value()));
  }
}

int64_t Lessor::EffectiveTtl(int64_t ttl_seconds) const {
  return std::max(ttl_seconds, state_->options.min_ttl_seconds);
}

ErrorOr<int64_t> Lessor::Grant(LeaseId id,
                               int64_t ttl_seconds,
                               Time now,
                               backend::WriteBatch& batch) {
  MS_CHECK_NE(id.value(), 0);
  if (ttl_seconds > kTtlMaxSeconds) {
    return Error::kLeaseTtlTooLarge;
  }
  MutexLock lock(state_->mu);
  const auto [at, is_new] = state_->leases.try_emplace(id.value());
  if (!is_new) {
    return Error::kLeaseExist;
  }
  Lease& lease = at->second;
  lease.ttl_seconds = EffectiveTtl(ttl_seconds);
  lease.serial = state_->next_serial++;
  PutRow(batch, kBucket, RowKey(id), RowValue(id, lease));
  if (state_->term.has_value()) {
    state_->Arm(id, lease, After(now, lease.ttl_seconds));
    state_->ScheduleCheckpoint(id, lease, now);
  }
  state_->granted_total.Add();
  state_->ttl_seconds.Observe(static_cast<double>(lease.ttl_seconds));
  return lease.ttl_seconds;
}

ErrorOr<std::vector<std::string>> Lessor::Revoke(LeaseId id, backend::WriteBatch& batch) {
  std::vector<std::string> keys;
  std::vector<Waiter> waiters;
  {
    MutexLock lock(state_->mu);
    Lease* lease = state_->Find(id);
    if (lease == nullptr) {
      return Error::kLeaseNotFound;
    }
    keys.reserve(lease->keys.size());
    while (!lease->keys.empty()) {
      keys.push_back(std::move(lease->keys.extract(lease->keys.begin()).value()));
    }
    state_->leases.erase(id.value());
    if (const auto at = state_->waiters.find(id); at != state_->waiters.end()) {
      waiters = std::move(at->second);
      state_->waiter_count -= waiters.size();
      state_->waiters.erase(at);
    }
  }
  DeleteRow(batch, kBucket, RowKey(id));
  state_->revoked_total.Add();
  for (Waiter& waiter : waiters) {
    waiter();
  }
  return keys;
}

void Lessor::Reattach(std::string_view key, LeaseId from, LeaseId to) {
  if (from == to) {
    return;
  }
  MutexLock lock(state_->mu);
  if (Lease* lease = state_->Find(from); lease != nullptr) {
    lease->keys.erase(std::string(key));
  }
  if (Lease* lease = state_->Find(to); lease != nullptr) {
    lease->keys.emplace(key);
  }
}

void Lessor::ApplyCheckpoints(const std::vector<Checkpoint>& checkpoints,
                              bool persist,
                              Time now,
                              backend::WriteBatch& batch) {
  MutexLock lock(state_->mu);
  for (const Checkpoint& checkpoint : checkpoints) {
    Lease* lease = state_->Find(checkpoint.id);
    if (lease == nullptr) {
      continue;
    }
    lease->remaining_seconds = checkpoint.remaining_ttl_seconds;
    if (persist) {
      PutRow(batch, kBucket, RowKey(checkpoint.id), RowValue(checkpoint.id, *lease));
    }
    if (state_->term.has_value()) {
      state_->ScheduleCheckpoint(checkpoint.id, *lease, now);
    }
  }
}

bool Lessor::Exists(LeaseId id) const {
  MutexLock lock(state_->mu);
  return state_->Find(id) != nullptr;
}

std::optional<TimeToLive> Lessor::GetTimeToLive(LeaseId id,
                                                bool with_keys,
                                                Time now,
                                                bool* primary) const {
  MutexLock lock(state_->mu);
  *primary = state_->term.has_value();
  const Lease* lease = state_->Find(id);
  if (lease == nullptr) {
    return std::nullopt;
  }
  TimeToLive out;
  out.granted_ttl_seconds = lease->ttl_seconds;
  if (*primary) {
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(lease->deadline - now);
    out.remaining_ttl_seconds = std::max<int64_t>(left.count(), 0);
  }
  if (with_keys) {
    out.keys.assign(lease->keys.begin(), lease->keys.end());
  }
  return out;
}

std::vector<LeaseId> Lessor::Leases() const {
  std::vector<std::pair<Time, LeaseId>> order;
  {
    MutexLock lock(state_->mu);
    order.reserve(state_->leases.size());
    for (const auto& [id, lease] : state_->leases) {
      order.emplace_back(lease.deadline, LeaseId(id));
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<LeaseId> out;
  out.reserve(order.size());
  for (const auto& [deadline, id] : order) {
    out.push_back(id);
  }
  return out;
}

std::vector<std::string> Lessor::Keys(LeaseId id) const {
  MutexLock lock(state_->mu);
  const Lease* lease = state_->Find(id);
  if (lease == nullptr) {
    return {};
  }
  return {lease->keys.begin(), lease->keys.end()};
}

size_t Lessor::size() const {
  MutexLock lock(state_->mu);
  return state_->leases.size();
}

}  // namespace mainstay::lease

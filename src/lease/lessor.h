// lease::Lessor: which leases exist, which keys hang on them and, on the leader, when they end.
//
// Role        apply writes the replicated part (leases, attachments, checkpoints) and its rows;
//             the leader's driver promotes and demotes it, asks for expired leases and proposes
//             their revocation; rpc renews and reads.
// Invariants  I1 the replicated part depends on entries and earlier state only, never on a clock.
//             I2 a key that a lease lists was attached by the newest version of that key.
//             I3 deadlines exist only while promoted, on the monotonic clock that callers pass in.
// Threads     All methods: any thread; one writer ("apply") for the replicated part. No lock is
// held
//             while a waiter is called.
// Errors      kLeaseExist, kLeaseTtlTooLarge, kLeaseNotFound. Malformed rows: Status DataLoss.
// Limits      TTL <= kTtlMax seconds; renewals that wait for a revoke <= `renew_waiters_max`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "common/error.h"
#include "common/metrics.h"
#include "common/status.h"
#include "common/types.h"

namespace mainstay::backend {
class WriteBatch;
}

namespace mainstay::lease {

// Monotonic time, as env::Clock counts it; this folder knows no clock.
using Time = std::chrono::nanoseconds;

inline constexpr int64_t kTtlMaxSeconds = 9'000'000'000;

// etcd's rule: ceil(3 * election_ticks / 2 * heartbeat) whole seconds, the halving in integers.
int64_t MinTtlSeconds(int election_ticks, std::chrono::milliseconds heartbeat);

struct LessorOptions {
  int64_t min_ttl_seconds = 2;
  int revokes_per_second_max = 1000;  // split over rounds of half a second
  Time revoke_retry = std::chrono::seconds(7);
  bool checkpoints = false;  // feature gate LeaseCheckpoint
  Time checkpoint_interval = std::chrono::minutes(5);
  size_t renew_waiters_max = 100'000;
};

struct Checkpoint {
  LeaseId id;
  int64_t remaining_ttl_seconds = 0;
};

struct RenewResult {
  enum class Outcome : uint8_t {
    kRenewed,
    kNotFound,
    kNotPrimary,      // not promoted: ask the leader
    kExpiredWaiting,  // past its end, its revocation is on the way: WaitSettled(), then ask again
  };
  Outcome outcome = Outcome::kNotFound;
  int64_t granted_ttl_seconds = 0;
};

struct TimeToLive {
  int64_t granted_ttl_seconds = 0;
  int64_t remaining_ttl_seconds = 0;  // whole seconds, never negative
  std::vector<std::string> keys;      // ascending; only if asked for
};

class Lessor {
 public:
  Lessor(LessorOptions options, MetricRegistry& metrics);
  Lessor(const Lessor&) = delete;
  Lessor& operator=(const Lessor&) = delete;
  ~Lessor();

  // ---- recovery, before anything else runs (and again after a snapshot: Clear() first)
  void Clear();
  // One row of bucket `lease`.
  Status LoadRow(std::string_view key, std::string_view value);
  // Rebuilds attachments: one call per live key whose newest version names a lease. An unknown
  // lease is logged, and the key then never expires.
  void LoadAttachment(std::string_view key, LeaseId id);

  // ---- the replicated part ("apply"; rows go into the caller's batch)
  // The TTL that a grant of `ttl` gets: raised to the minimum.
  int64_t EffectiveTtl(int64_t ttl_seconds) const;
  // The granted TTL. `now` only arms the deadline of a promoted lessor. REQUIRES: id is not 0.
  ErrorOr<int64_t> Grant(LeaseId id, int64_t ttl_seconds, Time now, backend::WriteBatch& batch);
  // Removes the lease and gives its keys, ascending: the caller deletes them in one revision, in
  // the same batch. Detach() of those keys afterwards is harmless.
  ErrorOr<std::vector<std::string>> Revoke(LeaseId id, backend::WriteBatch& batch);
  // A put moved `key` to lease `to` (0 = none) from `from` (0 = none).
  void Reattach(std::string_view key, LeaseId from, LeaseId to);
  void Detach(std::string_view key, LeaseId from) { Reattach(key, from, LeaseId(0)); }
  // A checkpoint entry. Unknown leases are skipped. `persist`: cluster version >= 3.6.
  void ApplyCheckpoints(const std::vector<Checkpoint>& checkpoints,
                        bool persist,
                        Time now,
                        backend::WriteBatch& batch);

  // ---- leader side
  // This member leads in `term`: every deadline becomes now + extend + (checkpointed remainder,
  // else full TTL), spread so that at most three quarters of the revoke rate fall into any second.
  void Promote(Term term, Time extend, Time now);
  // No deadline any more; waiting renewals are told.
  void Demote();
  // The term of the last Promote(), if promoted.
  std::optional<Term> primary_term() const;
  // At most `max` leases whose end has come, earliest first. Each is given again after
  // `revoke_retry` if it still exists. To be called every half second with max = rate / 2.
  std::vector<LeaseId> ExpiredLeases(Time now, size_t max);
  size_t expired_batch_max() const;
  // At most `max` leases whose remaining TTL is to be proposed as a checkpoint.
  std::vector<Checkpoint> DueCheckpoints(Time now, size_t max);
  // True: propose a checkpoint of 0 for this lease, then Renew() it; else its short remainder would
  // come back at the next leader.
  bool NeedsCheckpointClear(LeaseId id) const;
  RenewResult Renew(LeaseId id, Time now);
  // Calls `done` once, on the thread that revokes or demotes (at once if that has happened). False:
  // too many wait already; `done` is not called.
  [[nodiscard]] bool WaitSettled(LeaseId id, absl::AnyInvocable<void()> done);

  // ---- reads
  bool Exists(LeaseId id) const;
  // Nullopt: no such lease. `*primary` says whether the remainder is known: it is 0 when not.
  std::optional<TimeToLive> GetTimeToLive(LeaseId id,
                                          bool with_keys,
                                          Time now,
                                          bool* primary) const;
  // Promoted: by time left. Else by id.
  std::vector<LeaseId> Leases() const;
  std::vector<std::string> Keys(LeaseId id) const;  // ascending; empty if unknown
  size_t size() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mainstay::lease

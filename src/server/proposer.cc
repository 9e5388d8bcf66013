#include "server/proposer.h"

#include <utility>

#include "absl/container/inlined_vector.h"

#include "common/coding.h"
#include "common/limits.h"
#include "common/log.h"
#include "server/entry_codec.h"
#include "server/quota.h"

namespace mainstay::server {
namespace {

constexpr std::chrono::nanoseconds kAlarmAgain = std::chrono::seconds(1);

int64_t LeaseGrantId(std::string_view request) {
  int64_t id = 0;
  WireReader r(request);
  while (r.Next()) {
    if (r.field() == 2) {
      id = r.i64();
    }
  }
  return id;
}

// The later of two equal fields counts, so a chosen id is simply added behind.
std::string WithLeaseId(std::string_view request, LeaseId id) {
  std::string out(request);
  AppendVarintField(&out, 2, static_cast<uint64_t>(id.value()));
  return out;
}

}  // namespace

Error Proposer::CheckQuota(uint32_t kind, std::string_view request) {
  if (!RequestOverQuota(p_.options.quota_bytes(), p_.shared.store_used_bytes.load(), kind,
                        request)) {
    return Error::kOk;
  }
  RaiseNoSpace();
  return Error::kNoSpace;
}

void Proposer::RaiseNoSpace() {
  const int64_t now = p_.clock.Now().count();
  int64_t last = alarm_raised_ns_.load();
  if (last >= 0 && now - last < kAlarmAgain.count()) {
    return;
  }
  if (!alarm_raised_ns_.compare_exchange_strong(last, now)) {
    return;
  }
  MS_LOG(kWarn, "alarm raised: the store is over its quota")
      .Hex("local-member-id", p_.self.value())
      .Num("quota-size-bytes", p_.options.quota_bytes())
      .Num("store-used-bytes", p_.shared.store_used_bytes.load());
  std::string request;
  AppendVarintField(&request, 1, 1);  // ACTIVATE
  AppendVarintField(&request, 2, p_.self.value());
  AppendVarintField(&request, 3, static_cast<uint64_t>(1));  // NOSPACE
  Proposal proposal;
  proposal.kind = RequestKind::kAlarm;
  proposal.request = Buffer::Copy(request);
  // Refused only when nothing is taken at all; the next request over the quota tries again.
  (void)ProposeOwn(std::move(proposal));
}

Error Proposer::Admit(const Proposal& proposal) {
  if (!p_.shared.accepting.load(std::memory_order_acquire)) {
    return Error::kStopped;
  }
  // Applied first: read in this order, the difference is never too large.
  const uint64_t applied = p_.shared.applied_index.load(std::memory_order_acquire);
  const uint64_t committed = p_.shared.commit_index.load(std::memory_order_acquire);
  if (committed > applied + kApplyLagMax) {
    return Error::kTooManyRequests;
  }
  return CheckQuota(static_cast<uint32_t>(proposal.kind), proposal.request.view());
}

ErrorOr<PendingProposal> Proposer::Prepare(Proposal& proposal, MonoTime now) {
  if (proposal.kind == RequestKind::kLeaseGrant && LeaseGrantId(proposal.request.view()) == 0) {
    proposal.request = Buffer::Copy(WithLeaseId(proposal.request.view(), p_.ids.NextLease()));
  }
  PendingProposal out;
  out.waiter.id = p_.ids.Next();
  out.waiter.kind = static_cast<uint32_t>(proposal.kind);
  out.waiter.started = now;
  out.waiter.deadline =
      proposal.deadline == MonoTime{0} ? now + p_.options.request_timeout() : proposal.deadline;
  out.waiter.reply_to = proposal.reply_to;
  EntryHeader header;
  header.id = out.waiter.id;
  header.username = proposal.info.username;
  header.auth_revision = proposal.info.auth_revision;
  // Measured as etcd would measure it: without the fields that only we write.
  if (EncodedEntrySize(header, out.waiter.kind, proposal.request.view()) >
      p_.options.max_request_bytes) {
    return Error::kRequestTooLarge;
  }
  header.client_address = proposal.info.client_address;
  header.wall_time_ns = p_.clock.WallNow().count();
  header.proposer = p_.self.value();
  out.data = EncodeEntry(header, out.waiter.kind, proposal.request.view());
  return out;
}

void Proposer::Propose(std::span<Proposal> batch, std::span<Error> outcomes) {
  MS_CHECK_EQ(batch.size(), outcomes.size());
  const MonoTime now = p_.clock.Now();
  absl::InlinedVector<PendingProposal, 8> ready;
  absl::InlinedVector<size_t, 8> places;
  for (size_t i = 0; i < batch.size(); ++i) {
    outcomes[i] = Admit(batch[i]);
    if (outcomes[i] != Error::kOk) {
      continue;
    }
    ErrorOr<PendingProposal> prepared = Prepare(batch[i], now);
    outcomes[i] = prepared.error();
    if (prepared.ok()) {
      ready.push_back(*std::move(prepared));
      places.push_back(i);
    }
  }
  if (ready.empty()) {
    return;
  }
  const size_t taken = p_.driver.Propose({ready.data(), ready.size()});
  for (size_t i = taken; i < ready.size(); ++i) {
    outcomes[places[i]] = Error::kTooManyRequests;
  }
}

Error Proposer::ProposeOwn(Proposal proposal, Term only_term) {
  if (!p_.shared.accepting.load(std::memory_order_acquire)) {
    return Error::kStopped;
  }
  ErrorOr<PendingProposal> prepared = Prepare(proposal, p_.clock.Now());
  if (!prepared.ok()) {
    return prepared.error();
  }
  prepared->only_term = only_term;
  return p_.driver.Propose({&*prepared, 1}) == 1 ? Error::kOk : Error::kTooManyRequests;
}

}  // namespace mainstay::server

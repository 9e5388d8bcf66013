// What each kind of request does to the state.
#include <utility>

#include "common/coding.h"
#include "common/log.h"
#include "server/applier.h"
#include "server/conf_state_json.h"
#include "server/member_metrics.h"
#include "server/proposal.h"
#include "server/quota.h"
#include "server/small_requests.h"

namespace mainstay::server {
namespace {

template <class Result>
Reply FromResult(ErrorOr<Result> result, int64_t revision) {
  Reply reply;
  reply.revision = revision;
  if (!result.ok()) {
    reply.error = result.error();
    return reply;
  }
  reply.revision = result->revision;
  reply.body = *std::move(result);
  return reply;
}

// "3.7" of "3.7.0".
std::string_view MajorMinor(std::string_view version) {
  const size_t second = version.find('.', version.find('.') + 1);
  return version.substr(0, second);
}

bool AtLeast36(std::string_view version) {
  // "3.6.0" and up; before 3.6 the minor is one digit below 6.
  return version.starts_with("3.") && version.size() >= 3 &&
         (version[2] >= '6' || (version.size() > 3 && version[3] != '.'));
}

}  // namespace

// A committed request that cannot be read was checked by whoever proposed it: the log is damaged,
// or a newer version wrote it.
Reply Applier::Malformed(const DecodedEntry& entry) {
  p_.shared.fatal.Raise(DataLoss("log entry " + std::to_string(last_.index.value() + 1) + " (" +
                                 std::string(RequestTypeName(entry.kind)) + ") cannot be read"));
  return {};
}

Error Applier::MayApply(const DecodedEntry& entry, std::span<const Operation> operations) const {
  return p_.authorizer.Check({entry.header.username, entry.header.auth_revision}, operations);
}

void Applier::TellLessor() {
  for (const mvcc::LeaseChange& change : lease_changes_) {
    p_.lessor.Reattach(change.key, change.from, change.to);
  }
  lease_changes_.clear();
}

// Requests that have a price. Over the quota they are done all the same, since members may differ
// in what they have left, but answered with kNoSpace; the alarm then stops the next ones everywhere
// (grpc-api 5.3).
Reply Applier::ApplyKeys(const DecodedEntry& entry) {
  const bool over = RequestOverQuota(p_.options.quota_bytes(), p_.store.logical_bytes(), entry.kind,
                                     entry.request);
  Reply reply;
  switch (static_cast<RequestKind>(entry.kind)) {
    case RequestKind::kPut:
      reply = ApplyPut(entry);
      break;
    case RequestKind::kDeleteRange:
      reply = ApplyDeleteRange(entry);
      break;
    case RequestKind::kTxn:
      reply = ApplyTxn(entry);
      break;
    default:
      reply = ApplyLeaseGrant(entry);
      break;
  }
  if (over && reply.error == Error::kOk) {
    reply.error = Error::kNoSpace;
    reply.body = {};
    if (!p_.alarms.no_space()) {
      p_.raise_no_space();
    }
  }
  return reply;
}

Reply Applier::ApplyPut(const DecodedEntry& entry) {
  mvcc::PutRequest request;
  if (!mvcc::DecodePut(entry.request, &request)) {
    return Malformed(entry);
  }
  const Operation operations[] = {{Access::kWrite, request.key, {}},
                                  {Access::kRead, request.key, {}}};
  if (const Error e = MayApply(entry, {operations, request.prev_kv ? 2u : 1u}); e != Error::kOk) {
    return FromResult<mvcc::PutResult>(e, p_.store.revision());
  }
  mvcc::WriteContext context = Context();
  ErrorOr<mvcc::PutResult> result = p_.store.Put(request, context);
  TellLessor();
  return FromResult(std::move(result), p_.store.revision());
}

Reply Applier::ApplyDeleteRange(const DecodedEntry& entry) {
  mvcc::DeleteRangeRequest request;
  if (!mvcc::DecodeDeleteRange(entry.request, &request)) {
    return Malformed(entry);
  }
  const Operation operations[] = {{Access::kWrite, request.key, request.range_end},
                                  {Access::kRead, request.key, request.range_end}};
  if (const Error e = MayApply(entry, {operations, request.prev_kv ? 2u : 1u}); e != Error::kOk) {
    return FromResult<mvcc::DeleteResult>(e, p_.store.revision());
  }
  mvcc::WriteContext context = Context();
  ErrorOr<mvcc::DeleteResult> result = p_.store.DeleteRange(request, context);
  TellLessor();
  return FromResult(std::move(result), p_.store.revision());
}

Reply Applier::ApplyTxn(const DecodedEntry& entry) {
  mvcc::TxnRequest request;
  if (!mvcc::DecodeTxn(entry.request, &request)) {
    return Malformed(entry);
  }
  if (p_.authorizer.enabled()) {
    std::vector<Operation> operations;
    Flatten(request, &operations);
    if (const Error e = MayApply(entry, operations); e != Error::kOk) {
      return FromResult<mvcc::TxnResult>(e, p_.store.revision());
    }
  }
  mvcc::WriteContext context = Context();
  ErrorOr<mvcc::TxnResult> result = p_.store.Txn(request, context);
  TellLessor();
  return FromResult(std::move(result), p_.store.revision());
}

Reply Applier::ApplyCompaction(const DecodedEntry& entry, bool* later, const ApplyItem& item) {
  mvcc::CompactionRequest request;
  if (!mvcc::DecodeCompaction(entry.request, &request)) {
    return Malformed(entry);
  }
  Reply reply;
  const Operation admin[] = {{Access::kAdmin, {}, {}}};
  reply.error = MayApply(entry, admin);
  if (reply.error == Error::kOk) {
    const MonoTime began = p_.clock.Now();
    const int64_t previous = p_.store.compact_revision();
    reply.error = p_.store.Compact(request.revision, batch_);
    if (reply.error == Error::kOk) {
      compactions_begun_.push_back({request.revision, previous, p_.store.View(), {}});
    }
    metrics_.index_compaction_pause_ms.Observe(Seconds(p_.clock.Now() - began) * 1000);
    if (!compacting_) {
      compaction_began_ = began;
    }
  }
  reply.revision = p_.store.revision();
  reply.raft_term = item.entry.term.value();
  compacting_ = p_.store.compacting();
  // Also a refused one waits for the removal that runs (grpc-api 2.6).
  const bool waits = request.physical && compacting_ &&
                     (reply.error == Error::kOk || reply.error == Error::kCompacted);
  if (waits && item.waiter) {
    *later = true;
    physical_waiting_.push_back({*item.waiter, std::move(reply)});
    return {};
  }
  return reply;
}

Reply Applier::ApplyLeaseGrant(const DecodedEntry& entry) {
  const std::optional<LeaseGrantRequest> request = DecodeLeaseGrant(entry.request);
  if (!request || request->id == LeaseId(0)) {
    return Malformed(entry);
  }
  Reply reply;
  reply.revision = p_.store.revision();
  const ErrorOr<int64_t> ttl = p_.lessor.Grant(request->id, request->ttl_s, p_.clock.Now(), batch_);
  if (!ttl.ok()) {
    reply.error = ttl.error();
    return reply;
  }
  reply.body = LeaseGrantResult{request->id, *ttl};
  return reply;
}

Reply Applier::ApplyLeaseRevoke(const DecodedEntry& entry) {
  const std::optional<LeaseId> id = DecodeLeaseRevoke(entry.request);
  if (!id) {
    return Malformed(entry);
  }
  Reply reply;
  ErrorOr<std::vector<std::string>> keys = p_.lessor.Revoke(*id, batch_);
  if (keys.ok()) {
    mvcc::WriteContext context = Context();
    p_.store.DeleteKeys(*keys, context);
    TellLessor();
  } else {
    reply.error = keys.error();
  }
  reply.revision = p_.store.revision();
  return reply;
}

Reply Applier::ApplyLeaseCheckpoint(const DecodedEntry& entry) {
  const std::optional<std::vector<lease::Checkpoint>> checkpoints =
      DecodeLeaseCheckpoint(entry.request);
  if (!checkpoints) {
    return Malformed(entry);
  }
  const bool persist = AtLeast36(p_.cluster.view()->cluster_version);
  p_.lessor.ApplyCheckpoints(*checkpoints, persist, p_.clock.Now(), batch_);
  Reply reply;
  reply.revision = p_.store.revision();
  return reply;
}

Reply Applier::ApplyAlarm(const DecodedEntry& entry) {
  const std::optional<AlarmRequest> request = DecodeAlarm(entry.request);
  if (!request) {
    return Malformed(entry);
  }
  Reply reply;
  reply.revision = p_.store.revision();
  AlarmResult result;
  switch (request->action) {
    case AlarmRequest::Action::kGet:
      result.alarms = p_.alarms.Get(request->alarm.type);
      break;
    case AlarmRequest::Action::kActivate:
      if (request->alarm.type == AlarmType::kNone) {
        break;
      }
      if (p_.alarms.Activate(request->alarm, batch_)) {
        MS_LOG(kWarn, "alarm raised")
            .Str("alarm", AlarmName(request->alarm.type))
            .Hex("from", request->alarm.member.value());
      }
      result.alarms.push_back(request->alarm);
      break;
    case AlarmRequest::Action::kDeactivate:
      if (p_.alarms.Deactivate(request->alarm, batch_)) {
        MS_LOG(kWarn, "alarm disarmed")
            .Str("alarm", AlarmName(request->alarm.type))
            .Hex("from", request->alarm.member.value());
        result.alarms.push_back(request->alarm);
      }
      break;
  }
  reply.body = std::move(result);
  return reply;
}

// The storage version follows in the same batch: both belong to the entry, so all members agree on
// them.
Reply Applier::ApplyClusterVersion(const DecodedEntry& entry) {
  std::optional<std::string> version = DecodeClusterVersion(entry.request);
  if (!version) {
    return Malformed(entry);
  }
  const std::string before = p_.cluster.view()->cluster_version;
  MS_LOG(kInfo, before.empty() ? "set initial cluster version" : "updated cluster version")
      .Hex("cluster-id", p_.cluster.view()->cluster_id.value())
      .Hex("local-member-id", p_.self.value())
      .Str("cluster-version", MajorMinor(*version));
  MS_LOG(kInfo, "enabled capabilities for version").Str("cluster-version", MajorMinor(*version));
  if (AtLeast36(*version)) {
    backend::PutRow(batch_, kMetaBucket, kStorageVersionKey, *version);
  }
  ShowClusterVersion(p_.metrics, before, *version);
  p_.cluster.SetClusterVersion(*std::move(version), batch_);
  return {};
}

Reply Applier::ApplyMemberAttributes(const DecodedEntry& entry) {
  std::optional<MemberAttributes> request = DecodeMemberAttributes(entry.request);
  if (!request) {
    return Malformed(entry);
  }
  Reply reply;
  reply.error = p_.cluster.SetAttributes(request->member, std::move(request->name),
                                         std::move(request->client_urls), batch_);
  return reply;
}

Reply Applier::ApplyDowngradeInfo(const DecodedEntry& entry) {
  std::optional<DowngradeInfoRequest> request = DecodeDowngradeInfo(entry.request);
  if (!request) {
    return Malformed(entry);
  }
  membership::DowngradeInfo info;
  info.enabled = request->enabled;
  if (request->enabled) {
    info.target_version = std::move(request->version);
    MS_LOG(kInfo, "The server is ready to downgrade").Str("target-version", info.target_version);
  }
  p_.cluster.SetDowngrade(std::move(info), batch_);
  Reply reply;
  reply.revision = p_.store.revision();
  return reply;
}

}  // namespace mainstay::server

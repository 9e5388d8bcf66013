#include "server/boot.h"

#include <algorithm>
#include <utility>

#include "common/coding.h"
#include "common/log.h"
#include "membership/member.h"
#include "raft/codec.h"
#include "server/conf_state_json.h"

namespace mainstay::server {
namespace {

constexpr std::string_view kLeaseBucket = "lease";
constexpr std::string_view kMembershipBuckets[] = {"members", "members_removed", "cluster"};

struct Identity {
  LogIdentity ids;
  std::vector<membership::Member> members;  // of the initial cluster
};

// Who this member will be, from the initial cluster.
StatusOr<Identity> NewIdentity(const Options& options) {
  Identity out;
  std::vector<MemberId> ids;
  for (const InitialMember& initial : options.initial_cluster) {
    membership::Member member;
    MS_ASSIGN_OR_RETURN(member.peer_urls, membership::ParseUrls(initial.peer_urls));
    member.id = membership::ComputeMemberId(member.peer_urls, options.initial_cluster_token);
    member.name = initial.name;
    ids.push_back(member.id);
    if (initial.name == options.name) {
      out.ids.member = member.id;
    }
    out.members.push_back(std::move(member));
  }
  if (out.ids.member == MemberId(0)) {
    return InvalidArgument("couldn't find local name \"" + options.name +
                           "\" in the initial cluster configuration");
  }
  if (out.members.size() > 1) {
    return FailedPrecondition("--initial-cluster names " + std::to_string(out.members.size()) +
                              " members; this version runs clusters of one member");
  }
  out.ids.cluster = membership::ComputeClusterId(ids);
  return out;
}

// The log of a member's first moment, as etcd writes it: each initial member as a committed
// conf-change entry of term 1.
std::vector<raft::Entry> FirstEntries(std::vector<membership::Member> members) {
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  std::vector<raft::Entry> entries;
  for (const membership::Member& member : members) {
    raft::ConfChange change;
    change.type = raft::ConfChangeType::kAddNode;
    change.node_id = member.id;
    change.context = Buffer::Copy(membership::MemberToJson(member));
    raft::Entry& entry = entries.emplace_back();
    entry.term = Term(1);
    entry.index = Index(entries.size());
    entry.type = raft::EntryType::kConfChange;
    entry.data = raft::EncodeConfChange(change);
  }
  return entries;
}

Status WriteFirstEntries(RecoveredLog& log, std::vector<raft::Entry> entries) {
  log.hard_state = {Term(1), raft::kNobody, entries.back().index};
  MS_RETURN_IF_ERROR(log.log->Append(entries, log.hard_state));
  MS_RETURN_IF_ERROR(log.log->Sync());
  log.entries = std::move(entries);
  return absl::OkStatus();
}

Status LoadMembership(BootResult& out, ClusterId cluster) {
  out.cluster = std::make_unique<membership::Cluster>(membership::Cluster::Options{});
  out.cluster->SetClusterId(cluster);
  for (const std::string_view bucket : kMembershipBuckets) {
    MS_RETURN_IF_ERROR(backend::ForEachRow(*out.backend, nullptr, bucket,
                                           [&](std::string_view key, std::string_view value) {
                                             return out.cluster->LoadRow(bucket, key, value);
                                           }));
  }
  return absl::OkStatus();
}

Status LoadLeases(BootResult& out, const Options& options, MetricRegistry& metrics) {
  lease::LessorOptions lessor;
  lessor.min_ttl_seconds = lease::MinTtlSeconds(
      static_cast<int>(options.election_timeout / options.heartbeat), options.heartbeat);
  lessor.revoke_retry = options.request_timeout();
  lessor.checkpoints = options.lease_checkpoint;
  out.lessor = std::make_unique<lease::Lessor>(lessor, metrics);
  MS_RETURN_IF_ERROR(backend::ForEachRow(*out.backend, nullptr, kLeaseBucket,
                                         [&](std::string_view key, std::string_view value) {
                                           return out.lessor->LoadRow(key, value);
                                         }));
  out.store->ForEachLeasedKey(
      [&](std::string_view key, LeaseId id) { out.lessor->LoadAttachment(key, id); });
  return absl::OkStatus();
}

Status LoadAlarms(BootResult& out, MetricRegistry& metrics) {
  out.alarms = std::make_unique<Alarms>(metrics);
  return backend::ForEachRow(
      *out.backend, nullptr, kAlarmBucket,
      [&](std::string_view key, std::string_view) { return out.alarms->Load(key); });
}

Status LoadMeta(BootResult& out) {
  std::string json;
  MS_ASSIGN_OR_RETURN(
      const bool found,
      out.backend->Get(nullptr, backend::StateKey(kMetaBucket, kConfStateKey), &json));
  if (found) {
    MS_ASSIGN_OR_RETURN(out.initial.conf_state, ConfStateFromJson(json));
  } else if (out.applied.index != Index(0)) {
    return DataLoss("the store is at index " + std::to_string(out.applied.index.value()) +
                    " but holds no configuration");
  }
  return out.backend
      ->Get(nullptr, backend::StateKey(kMetaBucket, kStorageVersionKey), &out.storage_version)
      .status();
}

// What the log and the store say must fit together, else something on this disk is not what it was.
Status CheckFit(const BootResult& out, const RecoveredLog& log) {
  const Index last = log.entries.empty() ? log.compacted.index : log.entries.back().index;
  const std::string at = std::to_string(out.applied.index.value());
  if (out.applied.index < log.compacted.index) {
    return DataLoss(
        "the store holds the log up to index " + at + " but the log begins after index " +
        std::to_string(log.compacted.index.value()) + ": entries between them are missing");
  }
  if (out.applied.index > last) {
    return DataLoss("the store holds the log up to index " + at + " but the log ends at index " +
                    std::to_string(last.value()) + ": the log lost its end");
  }
  if (log.hard_state.commit > last) {
    return DataLoss("index " + std::to_string(log.hard_state.commit.value()) +
                    " is committed but the log ends at index " + std::to_string(last.value()));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<BootResult> Boot(const Options& options,
                          const Environment& env,
                          const LogOpener& open_log) {
  BootResult out;
  MS_ASSIGN_OR_RETURN(out.dir, OpenDataDir(env.files, options));
  // Known to be good before anything is made.
  std::optional<Identity> fresh;
  if (!out.dir.has_log) {
    MS_ASSIGN_OR_RETURN(fresh, NewIdentity(options));
  }
  MS_ASSIGN_OR_RETURN(out.backend, env.open_backend(out.dir.store));
  const backend::AppliedMark mark = out.backend->applied();
  out.applied = {mark.term, mark.index};
  if (fresh && mark.index != Index(0)) {
    return FailedPrecondition("the store in " + out.dir.store +
                              " holds data but there is no log in " + out.dir.wal +
                              "; restore a snapshot into a new --data-dir");
  }
  std::optional<LogIdentity> create;
  if (fresh) {
    create = fresh->ids;
  }
  MS_ASSIGN_OR_RETURN(RecoveredLog log, open_log(out.dir.wal, create, out.applied));
  if (log.entries.empty() && log.compacted.index == Index(0)) {
    // New, or a first boot that was cut off before its first entries were down.
    if (!fresh) {
      MS_ASSIGN_OR_RETURN(fresh, NewIdentity(options));
    }
    MS_RETURN_IF_ERROR(WriteFirstEntries(log, FirstEntries(fresh->members)));
  }
  MS_RETURN_IF_ERROR(CheckFit(out, log));
  out.self = log.member;
  MS_ASSIGN_OR_RETURN(
      out.store,
      mvcc::Store::Open(*out.backend, {.txn_answer_bytes_max = options.txn_answer_bytes_max}));
  MS_RETURN_IF_ERROR(LoadMembership(out, log.cluster));
  MS_RETURN_IF_ERROR(LoadLeases(out, options, env.metrics));
  MS_RETURN_IF_ERROR(LoadAlarms(out, env.metrics));
  MS_RETURN_IF_ERROR(LoadMeta(out));
  out.initial.hard_state = log.hard_state;
  // What the store holds was committed, also where the last move of the commit index was not
  // synced.
  out.initial.hard_state.commit = std::max(log.hard_state.commit, out.applied.index);
  out.initial.compacted = log.compacted;
  out.initial.entries = std::move(log.entries);
  out.initial.applied = out.applied.index;
  out.log = std::move(log.log);
  MS_LOG(kInfo, "kvstore restored").Num("current-rev", out.store->revision());
  return out;
}

}  // namespace mainstay::server

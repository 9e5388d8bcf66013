#include "membership/cluster.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "fmt/format.h"

#include "common/check.h"
#include "common/coding.h"
#include "common/log.h"
#include "membership/json.h"
#include "membership/rows.h"

namespace mainstay::membership {
namespace {

StatusOr<MemberId> IdFromHex(std::string_view key) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id, 16);
  if (error != std::errc() || end != key.data() + key.size() || id == 0) {
    return DataLoss(fmt::format("membership: no member id: \"{}\"", key));
  }
  return MemberId(id);
}

std::string DowngradeToJson(const DowngradeInfo& info) {
  std::string out = "{\"target-version\":";
  AppendGoJsonString(&out, info.target_version);
  out += info.enabled ? ",\"enabled\":true}" : ",\"enabled\":false}";
  return out;
}

StatusOr<DowngradeInfo> DowngradeFromJson(std::string_view json) {
  DowngradeInfo out;
  JsonReader reader(json);
  std::string key;
  reader.BeginObject();
  while (reader.NextKey(&key)) {
    if (key == "target-version") {
      reader.String(&out.target_version);
    } else if (key == "enabled") {
      reader.Bool(&out.enabled);
    } else {
      reader.Skip();
    }
  }
  if (!reader.Finish()) {
    return DataLoss("membership: malformed downgrade row");
  }
  return out;
}

bool SharesPeerUrl(const View& view, MemberId except, const std::vector<std::string>& urls) {
  for (const auto& [id, member] : view.members) {
    for (const std::string& url : member.peer_urls) {
      if (id != except && std::find(urls.begin(), urls.end(), url) != urls.end()) {
        return true;
      }
    }
  }
  return false;
}

Error ValidateAdd(const View& view,
                  const Change& change,
                  const ChangeContext& context,
                  int learners_max) {
  const Member* existing = view.Find(change.id);
  if (context.is_promote) {
    if (existing == nullptr) {
      return Error::kMemberNotFound;
    }
    return existing->is_learner ? Error::kOk : Error::kMemberNotLearner;
  }
  if (existing != nullptr) {
    return Error::kMemberExist;
  }
  if (SharesPeerUrl(view, change.id, context.member.peer_urls)) {
    return Error::kPeerUrlExist;
  }
  if (change.type == ChangeType::kAddLearner && context.member.is_learner &&
      view.Learners().size() >= static_cast<size_t>(learners_max)) {
    return Error::kTooManyLearners;
  }
  return Error::kOk;
}

size_t Quorum(size_t voters) {
  return voters / 2 + 1;
}

size_t Started(const View& view, const std::vector<MemberId>& ids) {
  return static_cast<size_t>(std::count_if(
      ids.begin(), ids.end(), [&](MemberId id) { return view.Find(id)->IsStarted(); }));
}

}  // namespace

const Member* View::Find(MemberId id) const {
  const auto at = members.find(id);
  return at == members.end() ? nullptr : &at->second;
}

std::vector<MemberId> View::Voters() const {
  std::vector<MemberId> out;
  for (const auto& [id, member] : members) {
    if (!member.is_learner) {
      out.push_back(id);
    }
  }
  return out;
}

std::vector<MemberId> View::Learners() const {
  std::vector<MemberId> out;
  for (const auto& [id, member] : members) {
    if (member.is_learner) {
      out.push_back(id);
    }
  }
  return out;
}

bool View::ReadyToAddVoter() const {
  const std::vector<MemberId> voters = Voters();
  const size_t started = Started(*this, voters);
  // From one started member to two is allowed, or a cluster could never grow.
  return (started == 1 && voters.size() == 1) || started >= Quorum(voters.size() + 1);
}

bool View::ReadyToRemoveVoter(MemberId id) const {
  std::vector<MemberId> rest = Voters();
  std::erase(rest, id);
  // Removing the last member would leave nobody to ask.
  return !rest.empty() && Started(*this, rest) >= Quorum(rest.size());
}

bool View::ReadyToPromote(MemberId) const {
  const std::vector<MemberId> voters = Voters();
  // The learner counts as started: it follows the log already.
  return Started(*this, voters) + 1 >= Quorum(voters.size() + 1);
}

Cluster::Cluster(Options options) : options_(options), view_(std::make_shared<const View>()) {}

std::shared_ptr<const View> Cluster::view() const {
  MutexLock lock(mu_);
  return view_;
}

void Cluster::Publish(View next) {
  auto published = std::make_shared<const View>(std::move(next));
  MutexLock lock(mu_);
  view_.swap(published);
}

void Cluster::SetClusterId(ClusterId id) {
  View next = *view();
  next.cluster_id = id;
  Publish(std::move(next));
}

void Cluster::Clear() {
  View next;
  next.cluster_id = view()->cluster_id;
  Publish(std::move(next));
}

Status Cluster::LoadRow(std::string_view bucket, std::string_view key, std::string_view value) {
  View next = *view();
  if (bucket == kMembersBucket) {
    MS_ASSIGN_OR_RETURN(const MemberId id, IdFromHex(key));
    MS_ASSIGN_OR_RETURN(Member member, MemberFromJson(value));
    if (member.id != id) {
      return DataLoss(fmt::format("membership: row {} holds member {:x}", key, member.id.value()));
    }
    next.members[id] = std::move(member);
  } else if (bucket == kRemovedBucket) {
    MS_ASSIGN_OR_RETURN(const MemberId id, IdFromHex(key));
    next.removed.insert(id);
  } else if (bucket == kClusterBucket && key == kClusterVersionKey) {
    next.cluster_version = std::string(value);
  } else if (bucket == kClusterBucket && key == kDowngradeKey) {
    MS_ASSIGN_OR_RETURN(next.downgrade, DowngradeFromJson(value));
  }
  Publish(std::move(next));
  return {};
}

Error Cluster::Validate(const Change& change) const {
  const std::shared_ptr<const View> now = view();
  if (now->removed.contains(change.id)) {
    return Error::kMemberNotFound;
  }
  if (change.type == ChangeType::kRemoveNode) {
    return now->Find(change.id) == nullptr ? Error::kMemberNotFound : Error::kOk;
  }
  if (change.type == ChangeType::kUpdateNode && now->Find(change.id) == nullptr) {
    return Error::kMemberNotFound;
  }
  const StatusOr<ChangeContext> context = ChangeContextFromJson(change.context);
  // The id of the entry rules; a context that names another one was not made by any member.
  if (!context.ok() || (context->member.id != change.id)) {
    return Error::kMemberBadUrls;
  }
  if (change.type == ChangeType::kUpdateNode) {
    return SharesPeerUrl(*now, change.id, context->member.peer_urls) ? Error::kPeerUrlExist
                                                                     : Error::kOk;
  }
  return ValidateAdd(*now, change, *context, options_.learners_max);
}

void Cluster::Apply(const Change& change, backend::WriteBatch& batch) {
  MS_CHECK(Validate(change) == Error::kOk);
  View next = *view();
  if (change.type == ChangeType::kRemoveNode) {
    next.members.erase(change.id);
    next.removed.insert(change.id);
    DeleteRow(batch, kMembersBucket, HexId(change.id.value()));
    PutRow(batch, kRemovedBucket, HexId(change.id.value()), "removed");
    Publish(std::move(next));
    return;
  }
  ChangeContext context = *ChangeContextFromJson(change.context);
  Member& member = next.members[change.id];
  if (change.type == ChangeType::kUpdateNode) {
    // Only the URLs: the context of an update carries no learner flag, and must not clear it.
    member.peer_urls = std::move(context.member.peer_urls);
  } else if (context.is_promote) {
    member.is_learner = false;
  } else {
    member = std::move(context.member);
  }
  PutRow(batch, kMembersBucket, HexId(change.id.value()), MemberToJson(member));
  Publish(std::move(next));
}

Error Cluster::SetAttributes(MemberId id,
                             std::string name,
                             std::vector<std::string> client_urls,
                             backend::WriteBatch& batch) {
  View next = *view();
  const auto at = next.members.find(id);
  if (at == next.members.end()) {
    MS_LOG(kWarn, "skipped attributes update of a member that is not in the cluster")
        .Hex("updated-peer-id", id.value());
    return Error::kMemberNotFound;
  }
  at->second.name = std::move(name);
  at->second.client_urls = std::move(client_urls);
  PutRow(batch, kMembersBucket, HexId(id.value()), MemberToJson(at->second));
  Publish(std::move(next));
  return Error::kOk;
}

void Cluster::SetClusterVersion(std::string version, backend::WriteBatch& batch) {
  View next = *view();
  PutRow(batch, kClusterBucket, kClusterVersionKey, version);
  next.cluster_version = std::move(version);
  Publish(std::move(next));
}

void Cluster::SetDowngrade(DowngradeInfo info, backend::WriteBatch& batch) {
  View next = *view();
  PutRow(batch, kClusterBucket, kDowngradeKey, DowngradeToJson(info));
  next.downgrade = std::move(info);
  Publish(std::move(next));
}

}  // namespace mainstay::membership

// membership::Cluster: who belongs to the cluster, who was removed, and which version it runs.
//
// Role        apply changes it, in the same atomic batch as the applied index; everyone else reads
//             immutable views.
// Invariants  I1 an id is a member or removed, never both, and never comes back once removed.
//             I2 no two members share a peer URL. I3 the rows say what view() says.
// Threads     view(), cluster_id(): any. All else: "apply" (and before it starts: recovery).
// Errors      As Validate() lists; malformed rows: Status DataLoss.
// Limits      Learners: `learners_max` (--max-learners).
// Sources     docs/on-disk-format.md, buckets members, members_removed, cluster.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/mutex.h"
#include "common/status.h"
#include "common/types.h"
#include "membership/member.h"

namespace mainstay::backend {
class WriteBatch;
}

namespace mainstay::membership {

struct DowngradeInfo {
  bool enabled = false;
  std::string target_version;  // "3.6.0"
  friend bool operator==(const DowngradeInfo&, const DowngradeInfo&) = default;
};

// One state of the cluster. Immutable once published.
struct View {
  ClusterId cluster_id;
  std::map<MemberId, Member> members;  // by id, as MemberList answers
  std::set<MemberId> removed;
  std::string cluster_version;  // "3.7.0"; empty = not decided
  DowngradeInfo downgrade;

  const Member* Find(MemberId id) const;
  std::vector<MemberId> Voters() const;
  std::vector<MemberId> Learners() const;
  // --strict-reconfig-check, the part that needs no connections (operations.md 2.9): are enough
  // members started for the quorum after the change?
  bool ReadyToAddVoter() const;
  bool ReadyToRemoveVoter(MemberId id) const;
  bool ReadyToPromote(MemberId id) const;
};

// raftpb.ConfChangeType's numbers.
enum class ChangeType : uint8_t { kAddNode = 0, kRemoveNode = 1, kUpdateNode = 2, kAddLearner = 3 };

// One committed raftpb.ConfChange: `context` is its JSON payload as etcd writes it.
struct Change {
  ChangeType type = ChangeType::kAddNode;
  MemberId id;
  std::string_view context;
};

class Cluster {
 public:
  struct Options {
    int learners_max = 1;
  };
  explicit Cluster(Options options);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // ---- recovery
  // Fixed at bootstrap, or taken from the log's metadata at a restart.
  void SetClusterId(ClusterId id);
  // Forgets all rows (not the cluster id): before loading those of a snapshot.
  void Clear();
  // One row of bucket `members`, `members_removed` or `cluster`.
  Status LoadRow(std::string_view bucket, std::string_view key, std::string_view value);

  // ---- apply
  // Whether the change may be applied. kMemberNotFound (unknown or removed), kMemberExist,
  // kPeerUrlExist, kTooManyLearners, kMemberNotLearner, kMemberBadUrls (an update with URLs that do
  // not parse is refused before proposing; here only a context that is no JSON is).
  Error Validate(const Change& change) const;
  // REQUIRES: Validate() said kOk.
  void Apply(const Change& change, backend::WriteBatch& batch);
  // ClusterMemberAttrSet: kMemberNotFound if `id` is no member (nothing changes).
  Error SetAttributes(MemberId id,
                      std::string name,
                      std::vector<std::string> client_urls,
                      backend::WriteBatch& batch);
  void SetClusterVersion(std::string version, backend::WriteBatch& batch);
  void SetDowngrade(DowngradeInfo info, backend::WriteBatch& batch);

  // ---- reads
  std::shared_ptr<const View> view() const;

 private:
  void Publish(View next);

  const Options options_;
  mutable Mutex mu_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mainstay::membership

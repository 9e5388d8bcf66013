// Conf-change entries: membership here and the Raft configuration in the core change at the same
// entry. The core lives on "raft", so apply stands still at the entry until the driver has
// answered.
#include <utility>

#include "common/check.h"
#include "common/log.h"
#include "raft/codec.h"
#include "server/applier.h"
#include "server/conf_state_json.h"

namespace mainstay::server {

void Applier::BeginConf(ApplyItem&& item) {
  StatusOr<raft::ConfChangeV2> effect = raft::DecodeChangeOf(item.entry);
  if (!effect.ok()) {
    p_.shared.fatal.Raise(effect.status());
    return;
  }
  ConfWait& wait = conf_wait_.emplace(ConfWait{});
  wait.item = std::move(item);
  const raft::Entry& entry = wait.item.entry;
  if (entry.type == raft::EntryType::kConfChange) {
    // Decoded once already, so it is well-formed. The context's bytes live in the entry.
    StatusOr<raft::ConfChange> change = raft::DecodeConfChange(entry.data);
    MS_CHECK(change.ok());
    wait.has_change = true;
    wait.change.type = static_cast<membership::ChangeType>(change->type);
    wait.change.id = change->node_id;
    wait.change.context = change->context.view();
    wait.refusal = p_.cluster.Validate(wait.change);
    if (wait.refusal != Error::kOk) {
      effect->changes.front().node_id = raft::kNobody;
    }
  }
  p_.driver.Configure({*std::move(effect), entry.index});
}

bool Applier::FinishConf() {
  std::optional<StatusOr<raft::ConfState>> answer = p_.driver.TakeConfAnswer();
  if (!answer) {
    return false;
  }
  ConfWait wait = *std::move(conf_wait_);
  conf_wait_.reset();
  if (answer->ok() && wait.refusal == Error::kOk) {
    ApplyMembership(wait, **answer);
  } else if (!answer->ok()) {
    MS_LOG(kWarn, "configuration change does not fit and has no effect")
        .Unsigned("index", wait.item.entry.index.value())
        .Error(Message(answer->status()));
  }
  last_ = wait.item.entry.id();
  ++batch_entries_;
  if (wait.item.waiter) {
    Reply reply;
    reply.error = answer->ok() ? wait.refusal : Error::kInternal;
    reply.raft_term = last_.term.value();
    answers_.push_back({*wait.item.waiter, std::move(reply)});
  }
  Commit();
  return true;
}

void Applier::ApplyMembership(const ConfWait& wait, const raft::ConfState& state) {
  if (wait.has_change) {
    p_.cluster.Apply(wait.change, batch_);
    if (wait.change.type == membership::ChangeType::kRemoveNode) {
      p_.alarms.DropMember(wait.change.id, batch_);
    }
    const membership::Member* member = p_.cluster.view()->Find(wait.change.id);
    MS_LOG(kInfo, wait.change.type == membership::ChangeType::kRemoveNode ? "removed member"
                                                                          : "added member")
        .Hex("cluster-id", p_.cluster.view()->cluster_id.value())
        .Hex("local-member-id", p_.self.value())
        .Hex("peer-id", wait.change.id.value())
        .Bool("is-learner", member != nullptr && member->is_learner);
  }
  NoteOwnRole();
  conf_state_ = state;
  conf_state_changed_ = true;
  backend::PutRow(batch_, kMetaBucket, kConfStateKey, ConfStateToJson(state));
}

}  // namespace mainstay::server

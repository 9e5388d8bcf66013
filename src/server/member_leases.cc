// Lease calls that do not go through the log. Answered by the primary, which is this member when it
// leads.
#include <utility>

#include "server/member.h"

namespace mainstay::server {

bool Member::ApplyLags() const {
  const uint64_t applied = shared_.applied_index.load(std::memory_order_acquire);
  return shared_.commit_index.load(std::memory_order_acquire) > applied;
}

// Asks again once everything committed so far is applied here and this member is known to lead.
std::optional<Reply> Member::AfterBarrier(ReplyTo reply_to,
                                          absl::AnyInvocable<std::optional<Reply>()> then) {
  const ReplyTo barrier =
      deferred_.Add([reply_to, then = std::move(then)](const Reply& reply) mutable {
        if (reply.error != Error::kOk) {
          AnswerError(reply_to, reply.error);
        } else if (std::optional<Reply> answer = then()) {
          Answer(reply_to, *std::move(answer));
        }
      });
  if (barrier.sink == nullptr) {
    return NewReply(Error::kTooManyRequests);
  }
  if (const Error error = ReadBarrier(barrier, MonoTime{0}); error != Error::kOk) {
    deferred_.Forget(barrier);
    return NewReply(error);
  }
  return std::nullopt;
}

std::optional<Reply> Member::LeaseRenew(LeaseId id, ReplyTo reply_to) {
  return TryRenew(id, false, reply_to);
}

std::optional<Reply> Member::TryRenew(LeaseId id, bool waited, ReplyTo reply_to) {
  using enum lease::RenewResult::Outcome;
  // Taken first: a success then never carries a revision at or behind the lease's end
  // (grpc-api 4.3).
  Reply reply = NewReply();
  const lease::RenewResult result = boot_.lessor->Renew(id, env_.clock.Now());
  switch (result.outcome) {
    case kRenewed:
      reply.body = LeaseRenewResult{result.granted_ttl_seconds};
      return reply;
    case kNotFound:
      if (!waited && ApplyLags()) {
        return AfterBarrier(reply_to,
                            [this, id, reply_to] { return TryRenew(id, true, reply_to); });
      }
      reply.body = LeaseRenewResult{0};
      return reply;
    case kExpiredWaiting: {
      // Its revocation is in the log or on the way there: the end of it, or of our leadership,
      // decides.
      const bool kept = boot_.lessor->WaitSettled(id, [this, id, reply_to] {
        if (std::optional<Reply> answer = TryRenew(id, true, reply_to)) {
          Answer(reply_to, *std::move(answer));
        }
      });
      if (!kept) {
        return NewReply(Error::kTooManyRequests);
      }
      return std::nullopt;
    }
    case kNotPrimary:
      break;
  }
  if (!has_leader()) {
    return NewReply(Error::kNoLeader);
  }
  if (waited || !shared_.is_leader.load()) {
    return NewReply(Error::kNotPrimaryLessor);
  }
  // Elected, but the first entry of the term is not applied yet.
  return AfterBarrier(reply_to, [this, id, reply_to] { return TryRenew(id, true, reply_to); });
}

std::optional<Reply> Member::LeaseTimeToLive(LeaseId id, bool keys, ReplyTo reply_to) {
  return TryTimeToLive(id, keys, false, reply_to);
}

std::optional<Reply> Member::TryTimeToLive(LeaseId id, bool keys, bool waited, ReplyTo reply_to) {
  const bool leads = shared_.is_leader.load();
  if (!waited && leads && (ApplyLags() || !boot_.lessor->primary_term())) {
    return AfterBarrier(
        reply_to, [this, id, keys, reply_to] { return TryTimeToLive(id, keys, true, reply_to); });
  }
  if (!leads) {
    return NewReply(waited         ? Error::kLeaderChanged
                    : has_leader() ? Error::kNotPrimaryLessor
                                   : Error::kNoLeader);
  }
  Reply reply = NewReply();
  bool primary = false;
  std::optional<lease::TimeToLive> found =
      boot_.lessor->GetTimeToLive(id, keys, env_.clock.Now(), &primary);
  if (found && !primary) {
    return NewReply(Error::kLeaderChanged);
  }
  LeaseTimeToLiveResult result;
  if (found) {
    result.ttl_s = found->remaining_ttl_seconds;
    result.granted_ttl_s = found->granted_ttl_seconds;
    result.keys = std::move(found->keys);
  }
  reply.body = std::move(result);
  return reply;
}

}  // namespace mainstay::server

// Defragment, hashes, leadership moves and downgrades.
#include <charconv>
#include <utility>

#include "common/coding.h"
#include "common/log.h"
#include "server/member.h"

namespace mainstay::server {
namespace {

struct MajorMinor {
  int major = 0;
  int minor = 0;
  std::string Full() const { return std::to_string(major) + "." + std::to_string(minor) + ".0"; }
  std::string Short() const { return std::to_string(major) + "." + std::to_string(minor); }
};

bool TakeNumber(std::string_view* text, int* out) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *out);
  if (error != std::errc() || *out < 0) {
    return false;
  }
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

// "3.6" or "3.6.0".
std::optional<MajorMinor> ParseVersion(std::string_view text) {
  MajorMinor out;
  if (!TakeNumber(&text, &out.major) || !text.starts_with('.')) {
    return std::nullopt;
  }
  text.remove_prefix(1);
  if (!TakeNumber(&text, &out.minor) || !(text.empty() || text == ".0")) {
    return std::nullopt;
  }
  return out;
}

}  // namespace

Error Member::Defragment(ReplyTo reply_to) {
  return jobs_.Run(
      [this] {
        const MonoTime start = env_.clock.Now();
        defragmenting_.fetch_add(1);
        metrics_.defrag_inflight.Set(1);
        MS_LOG(kInfo, "defragmenting").Str("path", boot_.dir.store);
        const Status status = boot_.backend->CompactAll();
        if (defragmenting_.fetch_sub(1) == 1) {
          metrics_.defrag_inflight.Set(0);
        }
        const auto took = env_.clock.Now() - start;
        metrics_.defrag_seconds.Observe(Seconds(took));
        MS_LOG(kInfo, "finished defragmenting").Str("path", boot_.dir.store).Duration("took", took);
        if (!status.ok()) {
          MS_LOG(kError, "failed to defragment").Error(Message(status));
        }
        return NewReply(status.ok() ? Error::kOk : Error::kInternal);
      },
      reply_to);
}

Error Member::Hash(ReplyTo reply_to) {
  return jobs_.Run(
      [this] {
        const MonoTime start = env_.clock.Now();
        StatusOr<uint32_t> hash = View().HashAll();
        metrics_.hash_seconds.Observe(Seconds(env_.clock.Now() - start));
        if (!hash.ok()) {
          MS_LOG(kError, "failed to hash the store").Error(Message(hash.status()));
          return NewReply(Error::kInternal);
        }
        Reply reply = NewReply();
        reply.body = HashResult{*hash};
        return reply;
      },
      reply_to);
}

// Off the hot threads; until it is done no row of the compaction goes. A pool that is full means no
// stored hash: HashKV then computes one with the new watermark.
void Member::HashCompaction(CompactionBegun begun) {
  const bool taken = pool_.TrySubmit([this, begun = std::move(begun)] {
    const StatusOr<mvcc::ReadView::KvHash> hash =
        begun.after.HashKvWith(begun.revision, begun.previous);
    if (!hash.ok()) {
      MS_LOG(kError, "failed to hash the store at a compaction").Error(Message(hash.status()));
      return;
    }
    compaction_hashes_.Store(*hash);
    MS_LOG(kInfo, "storing new hash")
        .Unsigned("hash", hash->hash)
        .Num("compact-revision", begun.revision)
        .Num("revision", hash->hash_revision);
  });
  if (!taken) {
    MS_LOG(kWarn, "the store is not hashed at a compaction: the pool is full");
  }
}

Error Member::HashKv(int64_t revision, ReplyTo reply_to) {
  return jobs_.Run(
      [this, revision] {
        if (const auto stored = compaction_hashes_.Find(revision)) {
          Reply reply = NewReply();
          reply.revision = View().revision();
          reply.body = HashKvResult{stored->hash, stored->compact_revision, stored->hash_revision};
          return reply;
        }
        const MonoTime start = env_.clock.Now();
        const mvcc::ReadView view = View();
        StatusOr<ErrorOr<mvcc::ReadView::KvHash>> hash = view.HashKv(revision);
        metrics_.hash_rev_seconds.Observe(Seconds(env_.clock.Now() - start));
        if (!hash.ok()) {
          MS_LOG(kError, "failed to hash the store").Error(Message(hash.status()));
          return NewReply(Error::kInternal);
        }
        Reply reply = NewReply(hash->error());
        reply.revision = view.revision();
        if (hash->ok()) {
          reply.body =
              HashKvResult{(*hash)->hash, (*hash)->compact_revision, (*hash)->hash_revision};
        }
        return reply;
      },
      reply_to);
}

std::optional<Reply> Member::MoveLeader(MemberId target, ReplyTo) {
  if (!shared_.is_leader.load()) {
    return NewReply(Error::kNotLeader);
  }
  if (target == boot_.self) {
    return NewReply();
  }
  // There is no other voter to hand over to.
  return NewReply(Error::kBadLeaderTransferee);
}

// ---- downgrade

std::optional<Reply> Member::Downgrade(DowngradeAction action,
                                       std::string_view version,
                                       ReplyTo reply_to) {
  if (action == DowngradeAction::kCancel) {
    if (!boot_.cluster->view()->downgrade.enabled) {
      MS_LOG(kWarn, "failed to cancel downgrade").Error("etcdserver: no inflight downgrade job");
      return DowngradeTo(action, "", reply_to);
    }
    return ProposeDowngrade(false, "", reply_to);
  }
  const std::optional<MajorMinor> target = ParseVersion(version);
  if (!target) {
    return NewReply(Error::kWrongDowngradeVersionFormat);
  }
  return AfterBarrier(reply_to, [this, action, full = target->Full(), reply_to] {
    return DowngradeTo(action, full, reply_to);
  });
}

std::optional<Reply> Member::DowngradeTo(DowngradeAction action,
                                         std::string target,
                                         ReplyTo reply_to) {
  const std::shared_ptr<const membership::View> cluster = boot_.cluster->view();
  const std::optional<MajorMinor> current = ParseVersion(cluster->cluster_version);
  if (!current) {
    return NewReply(Error::kClusterVersionUnavailable);
  }
  Reply reply = NewReply();
  reply.body = DowngradeResult{current->Short()};
  if (action == DowngradeAction::kCancel) {
    return reply;
  }
  if (target != MajorMinor{current->major, current->minor - 1}.Full()) {
    return NewReply(Error::kInvalidDowngradeTargetVersion);
  }
  if (cluster->downgrade.enabled) {
    return NewReply(Error::kDowngradeInProcess);
  }
  if (action == DowngradeAction::kValidate) {
    return reply;
  }
  return ProposeDowngrade(true, std::move(target), reply_to);
}

std::optional<Reply> Member::ProposeDowngrade(bool enabled, std::string target, ReplyTo reply_to) {
  const ReplyTo done = deferred_.Add([this, reply_to](const Reply& applied) {
    Reply reply = NewReply(applied.error);
    if (const auto version = ParseVersion(boot_.cluster->view()->cluster_version)) {
      reply.body = DowngradeResult{version->Short()};
    }
    Answer(reply_to, std::move(reply));
  });
  if (done.sink == nullptr) {
    return NewReply(Error::kTooManyRequests);
  }
  std::string request;
  AppendVarintField(&request, 1, enabled ? 1 : 0);
  if (enabled) {
    AppendBytesField(&request, 2, target);
  }
  Proposal proposal;
  proposal.kind = RequestKind::kDowngradeInfoSet;
  proposal.request = Buffer::Copy(request);
  proposal.reply_to = done;
  if (const Error error = proposer_.ProposeOwn(std::move(proposal)); error != Error::kOk) {
    deferred_.Forget(done);
    return NewReply(error);
  }
  return std::nullopt;
}

}  // namespace mainstay::server

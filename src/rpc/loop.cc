#include "rpc/loop.h"

#include <span>
#include <utility>

#include "common/status.h"
#include "rpc/errors.h"
#include "rpc/services.h"

namespace mainstay::rpc {
namespace {

constexpr int kLeaderlessLooksMax = 3;  // etcd's number
// Versions beyond so many count as "other": a client must not fill the metrics page.
constexpr size_t kClientVersionsMax = 64;

}  // namespace

Loop::Loop(Services& services, LoopHost& host)
    : services_(services), host_(host), alive_(std::make_shared<bool>(true)) {}

Loop::~Loop() {
  *alive_ = false;
}

server::ReplyTo Loop::Await(ReplyFn then) {
  return {.sink = this, .a = replies_.Add(std::move(then))};
}

void Loop::Propose(server::Proposal proposal, ReplyFn then) {
  proposal.reply_to = Await(std::move(then));
  proposals_.push_back(std::move(proposal));
}

void Loop::OnBatchEnd() {
  if (proposals_.empty()) {
    return;
  }
  std::vector<server::Proposal> batch = std::exchange(proposals_, {});
  std::vector<uint64_t> slots;
  slots.reserve(batch.size());
  for (const server::Proposal& proposal : batch) {
    slots.push_back(proposal.reply_to.a);
  }
  outcomes_.assign(batch.size(), Error::kOk);
  services_.server().Propose(batch, outcomes_);
  // An answer may make a handler propose again: that goes into the next batch.
  const std::vector<Error> outcomes = outcomes_;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i] != Error::kOk) {
      server::Reply refused;
      refused.error = outcomes[i];
      Answer(slots[i], std::move(refused));
    }
  }
  batch.clear();
  if (proposals_.empty()) {
    proposals_ = std::move(batch);  // keeps its memory
  }
}

bool Loop::RunInPool(absl::AnyInvocable<void()> work, WorkFn then) {
  const uint64_t slot = works_.Add(std::move(then));
  const bool taken = services_.pool().TrySubmit([this, slot, work = std::move(work)]() mutable {
    work();
    Post([this, slot] {
      if (WorkFn fn = works_.Take(slot)) {
        fn();
      }
    });
  });
  if (!taken) {
    works_.Take(slot);
  }
  return taken;
}

void Loop::Post(WorkFn work) {
  {
    MutexLock lock(mu_);
    posted_.push_back(std::move(work));
  }
  Wake();
}

void Loop::Deliver(uint64_t a, uint64_t /*b*/, server::Reply&& reply) {
  MutexLock lock(mu_);
  delivered_.push_back({a, std::move(reply)});
}

void Loop::Flush() {
  Wake();
}

void Loop::Wake() {
  {
    MutexLock lock(mu_);
    if (std::exchange(woken_, true)) {
      return;
    }
  }
  host_.Post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) {
      Drain();
    }
  });
}

void Loop::Drain() {
  std::vector<Delivered> delivered;
  std::vector<WorkFn> posted;
  {
    MutexLock lock(mu_);
    woken_ = false;
    delivered.swap(delivered_);
    posted.swap(posted_);
  }
  for (Delivered& d : delivered) {
    Answer(d.slot, std::move(d.reply));
  }
  for (WorkFn& work : posted) {
    work();
  }
}

void Loop::Answer(uint64_t slot, server::Reply&& reply) {
  if (ReplyFn then = replies_.Take(slot)) {
    then(std::move(reply));
  }
}

void Loop::WatchLeader(const CallPtr& call) {
  need_leader_.push_back(call);
  if (!std::exchange(looking_, true)) {
    leaderless_looks_ = 0;
    host_.After(services_.server().options().election_timeout, [this] { LookForLeader(); });
  }
}

void Loop::LookForLeader() {
  leaderless_looks_ = services_.server().has_leader() ? 0 : leaderless_looks_ + 1;
  const bool end = leaderless_looks_ >= kLeaderlessLooksMax;
  std::vector<std::weak_ptr<Call>> left;
  for (std::weak_ptr<Call>& weak : need_leader_) {
    const CallPtr call = weak.lock();
    if (call == nullptr || call->ended()) {
      continue;
    }
    if (end) {
      call->Finish(ToStatus(Error::kNoLeader));
    } else {
      left.push_back(std::move(weak));
    }
  }
  need_leader_ = std::move(left);
  looking_ = !need_leader_.empty();
  if (looking_) {
    host_.After(services_.server().options().election_timeout, [this] { LookForLeader(); });
  }
}

Counter& Loop::ClientRequests(std::string_view version, bool stream) {
  auto& known = client_requests_[stream ? 1 : 0];
  auto it = known.find(ToAbsl(version));
  if (it == known.end()) {
    const std::string label(known.size() < kClientVersionsMax ? version : "other");
    Counter& counter = services_.metric_registry().AddCounter(
        "etcd_server_client_requests_total",
        "The total number of client requests per client version.",
        {{"type", stream ? "stream" : "unary"}, {"client_api_version", label}});
    it = known.emplace(label, &counter).first;
  }
  return *it->second;
}

}  // namespace mainstay::rpc

// Loop: what one event loop needs to serve calls: answers that are awaited, proposals that wait for
// the end of the wake-up, work that other threads hand over.
//
// Role        The transport makes one per event loop and implements LoopHost on its loop. The Loop
//             is the ReplySink that the server and the pool answer to.
// Invariants  I1 an awaited answer reaches its call on the loop's thread, once, or never if the
// call
//             ended before.  I2 proposals of one wake-up go to the server in one go.
// Threads     Deliver(), Flush(), Post(), FinishRead(): any. All else: the loop's thread.
// Ownership   Borrows Services and the host; both outlive it. Must outlive Server::Stop() and the
//             pool.
// Limits      Answers that wait are bounded by the calls that are open (the transport's limit on
//             connections and streams) and by the server's own limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"

#include "common/buffer.h"
#include "common/metrics.h"
#include "common/mutex.h"
#include "env/clock.h"
#include "rpc/call.h"
#include "server/proposal.h"
#include "server/reply.h"

namespace mainstay::rpc {

class Services;

class LoopHost {
 public:
  virtual ~LoopHost() = default;
  // Runs `work` on the loop soon. Any thread. Dropped if the loop has stopped.
  virtual void Post(absl::AnyInvocable<void()> work) = 0;
  // Runs `work` on the loop after `delay`. The loop's thread.
  virtual void After(std::chrono::nanoseconds delay, absl::AnyInvocable<void()> work) = 0;
};

// Functions that wait for an answer each, found again by a number that is never used twice.
template <class Fn>
class SlotTable {
 public:
  uint64_t Add(Fn fn) {
    uint32_t index;
    if (free_.empty()) {
      index = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    slots_[index].fn = std::move(fn);
    return uint64_t{slots_[index].generation} << 32 | index;
  }
  // The function, which leaves the table; empty if `id` is not waited for.
  Fn Take(uint64_t id) {
    const auto index = static_cast<uint32_t>(id);
    if (index >= slots_.size() || slots_[index].generation != static_cast<uint32_t>(id >> 32)) {
      return {};
    }
    ++slots_[index].generation;
    free_.push_back(index);
    return std::exchange(slots_[index].fn, Fn());
  }
  size_t size() const { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    Fn fn;
    uint32_t generation = 0;
  };
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

class Loop : public server::ReplySink {
 public:
  using ReplyFn = absl::AnyInvocable<void(server::Reply&&)>;
  using WorkFn = absl::AnyInvocable<void()>;

  Loop(Services& services, LoopHost& host);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() override;

  Services& services() { return services_; }
  LoopHost& host() { return host_; }
  // For heads of messages and small bodies.
  BufferArena& arena() { return arena_; }

  // Where an answer finds `then`.
  server::ReplyTo Await(ReplyFn then);
  // The request was refused: its answer will not come.
  void Forget(const server::ReplyTo& to) { replies_.Take(to.a); }
  // Queues a write for OnBatchEnd(). `then` hears the answer, or the refusal as a Reply.
  void Propose(server::Proposal proposal, ReplyFn then);
  // The transport calls this once all input and all posted work of a wake-up was handled.
  void OnBatchEnd();

  // Runs `work` on the pool, then `then` on the loop. `then` stays here meanwhile: what it holds
  // never leaves the loop's thread. False: the pool is full.
  [[nodiscard]] bool RunInPool(absl::AnyInvocable<void()> work, WorkFn then);

  // Any thread: `work` on the loop's thread, joined with other posts of the same moment.
  void Post(WorkFn work);

  // ---- server::ReplySink
  void Deliver(uint64_t a, uint64_t b, server::Reply&& reply) override;
  void Flush() override;

  // Streams with `hasleader` metadata end when no leader was known at three looks in a row, one
  // each election timeout.
  void WatchLeader(const CallPtr& call);
  size_t awaited() const { return replies_.size(); }

  // etcd_server_client_requests_total of one client-api-version.
  Counter& ClientRequests(std::string_view version, bool stream);

 private:
  struct Delivered {
    uint64_t slot;
    server::Reply reply;
  };
  void Wake();
  void Drain();
  void Answer(uint64_t slot, server::Reply&& reply);
  void LookForLeader();

  Services& services_;
  LoopHost& host_;
  BufferArena arena_;
  SlotTable<ReplyFn> replies_;
  SlotTable<WorkFn> works_;
  std::vector<server::Proposal> proposals_;
  std::vector<Error> outcomes_;
  absl::flat_hash_map<std::string, Counter*> client_requests_[2];
  std::vector<std::weak_ptr<Call>> need_leader_;
  int leaderless_looks_ = 0;
  bool looking_ = false;

  Mutex mu_;
  std::vector<Delivered> delivered_ ABSL_GUARDED_BY(mu_);
  std::vector<WorkFn> posted_ ABSL_GUARDED_BY(mu_);
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<bool> alive_;
};

}  // namespace mainstay::rpc

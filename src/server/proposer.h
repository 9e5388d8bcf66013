// server::Proposer: what stands between a client's request and the "raft" inbox: may it come in at
// all, what is it called, and its bytes for the log.
//
// Threads  Any.
// Errors   kStopped, kTooManyRequests (apply lags behind, or the inbox is full), kNoSpace,
// kRequestTooLarge: refused,
//          no reply follows.
#pragma once

#include <span>
#include <string_view>

#include "common/error.h"
#include "server/proposal.h"
#include "server/raft_driver.h"
#include "server/request_ids.h"
#include "server/shared_state.h"

namespace mainstay::server {

class Proposer {
 public:
  struct Params {
    const Options& options;
    Clock& clock;
    SharedState& shared;
    RaftDriver& driver;
    RequestIds& ids;
    MemberId self;
  };
  explicit Proposer(Params params) : p_(params) {}

  // As Server::Propose().
  void Propose(std::span<Proposal> batch, std::span<Error> outcomes);
  // Raises the NOSPACE alarm when it refuses.
  Error CheckQuota(uint32_t kind, std::string_view request);
  // What the member itself proposes: neither quota nor lag stop it. `only_term`: see
  // PendingProposal.
  Error ProposeOwn(Proposal proposal, Term only_term = Term(0));
  // Proposes ACTIVATE NOSPACE for this member; at most one such proposal per second.
  void RaiseNoSpace();

 private:
  Error Admit(const Proposal& proposal);
  ErrorOr<PendingProposal> Prepare(Proposal& proposal, MonoTime now);

  Params p_;
  std::atomic<int64_t> alarm_raised_ns_{-1};
};

}  // namespace mainstay::server

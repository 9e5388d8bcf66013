// Small things that every service does: headers, errors, who asks.
//
// Threads  The call's loop.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/log.h"
#include "common/status.h"
#include "rpc/call.h"
#include "rpc/encode.h"
#include "rpc/errors.h"
#include "rpc/loop.h"
#include "rpc/services.h"

namespace mainstay::rpc {

inline server::Server& ServerOf(const Call& call) {
  return const_cast<Call&>(call).loop().services().server();
}

// This member's header with the given revision; term of the last applied entry.
Header MakeHeader(const Call& call, int64_t revision);
// With the term at which the answer was made.
Header MakeHeader(const Call& call, const server::Reply& reply);
// With the store's revision now.
Header MakeCurrentHeader(const Call& call);

inline void FinishError(const CallPtr& call, Error error) {
  call->Finish(ToStatus(error));
}
// The request's bytes are no such message.
void FinishMalformed(const CallPtr& call);
// The store or a file failed in a way that no client caused; the log says what.
void FinishBroken(const CallPtr& call, const Status& status);

server::RequestInfo WhoAsks(const Call& call);

// False: refused, and the client was told.
bool Permitted(const CallPtr& call, std::span<const server::Operation> operations);
bool Permitted(const CallPtr& call, server::Access access);
// For what `request` reads or writes. Costs nothing while authentication is off.
template <class Request>
bool MayDo(const CallPtr& call, const Request& request) {
  if (!ServerOf(*call).authorizer().enabled()) {
    return true;
  }
  std::vector<server::Operation> operations;
  server::Flatten(request, &operations);
  return Permitted(call, operations);
}

// Queues a write. `then` sees kOk answers only; errors go to the client.
template <class Then>
void ProposeFor(const CallPtr& call, server::RequestKind kind, Buffer request, Then then) {
  server::Proposal proposal;
  proposal.kind = kind;
  proposal.request = std::move(request);
  proposal.info = WhoAsks(*call);
  call->loop().Propose(std::move(proposal), [call, then](server::Reply&& reply) {
    if (reply.error != Error::kOk) {
      FinishError(call, reply.error);
    } else if (!call->ended()) {
      then(call, std::move(reply));
    }
  });
}

// Waits until a view of this member is linearizable; errors go to the client. Runs `then` at once
// where no wait is needed.
template <class Then>
void AfterBarrier(const CallPtr& call, Then then) {
  server::Server& server = ServerOf(*call);
  if (server.ReadBarrierInline()) {
    then();
    return;
  }
  const server::ReplyTo to =
      call->loop().Await([call, then = std::move(then)](server::Reply&& reply) mutable {
        if (reply.error != Error::kOk) {
          FinishError(call, reply.error);
        } else if (!call->ended()) {
          then();
        }
      });
  if (const Error error = server.ReadBarrier(to); error != Error::kOk) {
    call->loop().Forget(to);
    FinishError(call, error);
  }
}

// Runs `work` on the pool and `then` on the loop; a full pool is the client's kTooManyRequests.
template <class Work, class Then>
void InPool(const CallPtr& call, Work work, Then then) {
  const bool taken =
      call->loop().RunInPool(std::move(work), [call, then = std::move(then)]() mutable {
        if (!call->ended()) {
          then();
        }
      });
  if (!taken) {
    FinishError(call, Error::kTooManyRequests);
  }
}

// The server's answer that is there already, or comes later; errors go to the client.
template <class Ask, class Then>
void AskServer(const CallPtr& call, Ask ask, Then then) {
  const auto answer = [call, then](server::Reply&& reply) {
    if (reply.error != Error::kOk) {
      FinishError(call, reply.error);
    } else if (!call->ended()) {
      then(call, std::move(reply));
    }
  };
  const server::ReplyTo to = call->loop().Await(answer);
  if (std::optional<server::Reply> now = ask(ServerOf(*call), to)) {
    call->loop().Forget(to);
    answer(std::move(*now));
  }
}

}  // namespace mainstay::rpc

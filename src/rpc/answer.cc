#include "rpc/answer.h"

namespace mainstay::rpc {

Header MakeHeader(const Call& call, int64_t revision) {
  const server::HeaderInfo info = ServerOf(call).Header();
  return {.cluster_id = info.cluster_id.value(),
          .member_id = info.member_id.value(),
          .revision = revision,
          .raft_term = info.raft_term};
}

Header MakeHeader(const Call& call, const server::Reply& reply) {
  Header header = MakeHeader(call, reply.revision);
  header.raft_term = reply.raft_term;
  return header;
}

Header MakeCurrentHeader(const Call& call) {
  return MakeHeader(call, ServerOf(call).View().revision());
}

void FinishMalformed(const CallPtr& call) {
  call->Finish({Code::kInternal,
                "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data"});
}

void FinishBroken(const CallPtr& call, const Status& status) {
  MS_LOG(kError, "a request failed for an internal reason")
      .Str("method", call->method().path)
      .Error(Message(status));
  FinishError(call, Error::kInternal);
}

server::RequestInfo WhoAsks(const Call& call) {
  server::RequestInfo who;
  who.client_address = std::string(call.client_address());
  return who;
}

bool Permitted(const CallPtr& call, std::span<const server::Operation> operations) {
  const Error error = ServerOf(*call).Authorize(WhoAsks(*call), operations);
  if (error != Error::kOk) {
    FinishError(call, error);
  }
  return error == Error::kOk;
}

bool Permitted(const CallPtr& call, server::Access access) {
  const server::Operation operation{.access = access, .key = {}, .range_end = {}};
  return Permitted(call, {&operation, 1});
}

}  // namespace mainstay::rpc

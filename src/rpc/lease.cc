#include "rpc/lease.h"

#include <deque>
#include <string>
#include <utility>

#include "common/coding.h"
#include "rpc/answer.h"

namespace mainstay::rpc::lease_service {
namespace {

using server::RequestKind;

// Renewals of one stream that wait for an earlier one: with so many the stream's input stands, and
// goes on with few.
constexpr size_t kRenewalsPendingMax = 64;
constexpr size_t kRenewalsPendingFew = 16;

// A message whose field 1 is a lease id: LeaseRevokeRequest, LeaseKeepAliveRequest,
// LeaseTimeToLiveRequest (whose field 2 says whether keys are wanted).
bool DecodeId(std::string_view bytes, LeaseId* id, bool* keys = nullptr) {
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      *id = LeaseId(r.i64());
    } else if (r.field() == 2 && keys != nullptr) {
      *keys = r.varint() != 0;
    }
  }
  return r.ok();
}

// Renews one lease after the other: answers come in the order of the requests.
class KeepAliveHandler : public StreamHandler {
 public:
  explicit KeepAliveHandler(Call& call) : call_(call) {}

  void OnMessage(Buffer message) override {
    LeaseId id;
    if (!DecodeId(message.view(), &id)) {
      call_.loop().services().metrics().keep_alive_receive_failures->Add();
      return FinishMalformed(call_.shared_from_this());
    }
    pending_.push_back(id);
    if (!paused_ && pending_.size() >= kRenewalsPendingMax) {
      paused_ = true;
      call_.SetInputPaused(true);
    }
    Next();
  }
  void OnHalfClose() override {
    half_closed_ = true;
    Next();
  }

 private:
  void Next() {
    if (busy_ || call_.ended()) {
      return;
    }
    if (pending_.empty()) {
      if (half_closed_) {
        call_.Finish(GrpcStatus::Ok());
      }
      return;
    }
    busy_ = true;
    const LeaseId id = pending_.front();
    pending_.pop_front();
    if (paused_ && pending_.size() <= kRenewalsPendingFew) {
      paused_ = false;
      call_.SetInputPaused(false);  // may come back here through OnMessage(), which finds it busy
      if (call_.ended()) {
        return;
      }
    }
    // Sampled before renewing: a client never sees a success at or after the lease's end.
    const int64_t revision = ServerOf(call_).View().revision();
    AskServer(
        call_.shared_from_this(),
        [id](server::Server& server, const server::ReplyTo& to) {
          return server.LeaseRenew(id, to);
        },
        [this, id, revision](const CallPtr& call, server::Reply&& reply) {
          Answer(*call, id, revision, reply);
        });
  }
  void Answer(Call& call, LeaseId id, int64_t revision, const server::Reply& reply) {
    const int64_t ttl_s = std::get<server::LeaseRenewResult>(reply.body).ttl_s;
    call.Send(EncodeLease(MakeHeader(call, revision), id, ttl_s, &call.loop().arena()));
    busy_ = false;
    if (!pending_.empty() || half_closed_) {
      // Not from here: an answer that was at hand would nest once per request.
      call.loop().Post([this, self = call.shared_from_this()] {
        if (!self->ended()) {
          Next();
        }
      });
    }
  }

  Call& call_;
  std::deque<LeaseId> pending_;
  bool busy_ = false;
  bool paused_ = false;
  bool half_closed_ = false;
};

}  // namespace

void Grant(const CallPtr& call, Buffer request) {
  if (const Error error = ServerOf(*call).CheckQuota(RequestKind::kLeaseGrant, request.view());
      error != Error::kOk) {
    return FinishError(call, error);
  }
  LeaseId ignored;
  if (!DecodeId(request.view(), &ignored)) {
    return FinishMalformed(call);
  }
  ProposeFor(
      call, RequestKind::kLeaseGrant, std::move(request), [](const CallPtr& c, server::Reply&& r) {
        const auto& granted = std::get<server::LeaseGrantResult>(r.body);
        c->Reply(EncodeLease(MakeHeader(*c, r), granted.id, granted.ttl_s, &c->loop().arena()));
      });
}

void Revoke(const CallPtr& call, Buffer request) {
  LeaseId ignored;
  if (!DecodeId(request.view(), &ignored)) {
    return FinishMalformed(call);
  }
  ProposeFor(call, RequestKind::kLeaseRevoke, std::move(request),
             [](const CallPtr& c, server::Reply&& r) {
               c->Reply(EncodeHeaderOnly(MakeHeader(*c, r), &c->loop().arena()));
             });
}

std::unique_ptr<StreamHandler> KeepAlive(const CallPtr& call) {
  return std::make_unique<KeepAliveHandler>(*call);
}

void TimeToLive(const CallPtr& call, Buffer request) {
  LeaseId id;
  bool keys = false;
  if (!DecodeId(request.view(), &id, &keys)) {
    return FinishMalformed(call);
  }
  if (!Permitted(call, server::Access::kAuthenticated)) {
    return;
  }
  AskServer(
      call,
      [id, keys](server::Server& server, const server::ReplyTo& to) {
        return server.LeaseTimeToLive(id, keys, to);
      },
      [id](const CallPtr& c, server::Reply&& r) {
        const auto& result = std::get<server::LeaseTimeToLiveResult>(r.body);
        BufferChain body = EncodeLease(MakeCurrentHeader(*c), id, result.ttl_s, &c->loop().arena());
        std::string rest;
        AppendVarintField(&rest, 4, static_cast<uint64_t>(result.granted_ttl_s));
        for (const std::string& key : result.keys) {
          AppendBytesField(&rest, 5, key);
        }
        body.Append(Buffer::Copy(rest));
        c->Reply(std::move(body));
      });
}

void Leases(const CallPtr& call, Buffer /*request*/) {
  if (!Permitted(call, server::Access::kAuthenticated)) {
    return;
  }
  BufferChain body = EncodeHeaderOnly(MakeCurrentHeader(*call), &call->loop().arena());
  std::string leases;
  for (const LeaseId id : ServerOf(*call).Leases()) {
    std::string status;
    AppendVarintField(&status, 1, static_cast<uint64_t>(id.value()));
    AppendBytesField(&leases, 2, status);
  }
  body.Append(Buffer::Copy(leases));
  call->Reply(std::move(body));
}

}  // namespace mainstay::rpc::lease_service

#include "rpc/health.h"

#include <string>

#include "common/coding.h"
#include "rpc/answer.h"

namespace mainstay::rpc {
namespace {

enum class Serving : uint8_t { kServing = 1, kServiceUnknown = 3 };

// HealthCheckRequest's only field.
bool DecodeService(std::string_view bytes, std::string* service) {
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      *service = r.bytes();
    }
  }
  return r.ok();
}

std::string EncodeStatus(Serving status) {
  std::string out;
  AppendVarintField(&out, 1, static_cast<uint64_t>(status));
  return out;
}

class HealthWatchHandler : public StreamHandler {
 public:
  explicit HealthWatchHandler(Call& call) : call_(call) {}
  // One answer, and then the stream stays open: the status never changes.
  void OnMessage(Buffer message) override {
    std::string service;
    if (!DecodeService(message.view(), &service)) {
      return FinishMalformed(call_.shared_from_this());
    }
    const Serving status = service.empty() ? Serving::kServing : Serving::kServiceUnknown;
    call_.Send(BufferChain(Buffer::Copy(EncodeStatus(status))));
  }

 private:
  Call& call_;
};

}  // namespace

void HealthCheck(const CallPtr& call, Buffer request) {
  std::string service;
  if (!DecodeService(request.view(), &service)) {
    return FinishMalformed(call);
  }
  if (!service.empty()) {
    return call->Finish({Code::kNotFound, "unknown service"});
  }
  call->Reply(BufferChain(Buffer::Copy(EncodeStatus(Serving::kServing))));
}

std::unique_ptr<StreamHandler> HealthWatch(const CallPtr& call) {
  return std::make_unique<HealthWatchHandler>(*call);
}

void HealthList(const CallPtr& call, Buffer /*request*/) {
  // HealthListResponse{statuses: {"": SERVING}}: an entry without key, value = field 2.
  std::string entry;
  AppendBytesField(&entry, 1, "");
  AppendBytesField(&entry, 2, EncodeStatus(Serving::kServing));
  std::string response;
  AppendBytesField(&response, 1, entry);
  call->Reply(BufferChain(Buffer::Copy(response)));
}

}  // namespace mainstay::rpc

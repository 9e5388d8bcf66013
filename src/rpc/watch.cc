#include "rpc/watch.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/coding.h"
#include "common/limits.h"
#include "rpc/answer.h"
#include "watch/hub.h"

namespace mainstay::rpc {
namespace {

enum class RequestKind : uint8_t { kNone, kCreate, kCancel, kProgress };

struct WatchRequest {
  RequestKind kind = RequestKind::kNone;
  watch::CreateRequest create;
  int64_t cancel_id = 0;
};

void AddFilter(watch::CreateRequest* create, uint64_t filter) {
  // Numbers that no version defines are ignored, as in etcd.
  create->no_put = create->no_put || filter == 0;
  create->no_delete = create->no_delete || filter == 1;
}

// Filters come packed from most encoders; one at a time is legal too.
bool DecodeFilters(const WireReader& field, watch::CreateRequest* create) {
  if (field.type() != WireType::kBytes) {
    AddFilter(create, field.varint());
    return true;
  }
  std::string_view packed = field.bytes();
  while (!packed.empty()) {
    uint64_t value = 0;
    size_t used = 0;
    for (; used < packed.size() && used < kVarintMax; ++used) {
      value |= (static_cast<uint64_t>(packed[used]) & 0x7F) << (7 * used);
      if ((static_cast<unsigned char>(packed[used]) & 0x80) == 0) {
        break;
      }
    }
    if (used == packed.size() || used == kVarintMax) {
      return false;
    }
    AddFilter(create, value);
    packed.remove_prefix(used + 1);
  }
  return true;
}

bool DecodeCreate(std::string_view bytes, watch::CreateRequest* create) {
  WireReader r(bytes);
  while (r.Next()) {
    switch (r.field()) {
      case 1:
        create->key = r.bytes();
        break;
      case 2:
        create->range_end = r.bytes();
        break;
      case 3:
        create->start_revision = r.i64();
        break;
      case 4:
        create->progress_notify = r.varint() != 0;
        break;
      case 5:
        if (!DecodeFilters(r, create)) {
          return false;
        }
        break;
      case 6:
        create->prev_kv = r.varint() != 0;
        break;
      case 7:
        create->watch_id = r.i64();
        break;
      case 8:
        create->fragment = r.varint() != 0;
        break;
      default:
        break;
    }
  }
  return r.ok();
}

bool DecodeCancel(std::string_view bytes, int64_t* id) {
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      *id = r.i64();
    }
  }
  return r.ok();
}

// Of a oneof that came more than once the last one counts.
bool DecodeWatch(std::string_view bytes, WatchRequest* out) {
  WireReader r(bytes);
  while (r.Next()) {
    bool ok = true;
    switch (r.field()) {
      case 1:
        out->kind = RequestKind::kCreate;
        out->create = {};
        ok = DecodeCreate(r.bytes(), &out->create);
        break;
      case 2:
        out->kind = RequestKind::kCancel;
        out->cancel_id = 0;
        ok = DecodeCancel(r.bytes(), &out->cancel_id);
        break;
      case 3:
        out->kind = RequestKind::kProgress;
        break;
      default:
        break;
    }
    if (!ok) {
      return false;
    }
  }
  return r.ok();
}

// Requests of one stream that the hub has not run: with so many the stream's input stands, and goes
// on with few. The hub's own limit on a stream is higher.
constexpr size_t kUntakenMax = 256;
constexpr size_t kUntakenFew = 64;

// etcd gives the refusal's reason with the prefix of Go's gRPC status.
std::string RefusalReason(Error error) {
  return "rpc error: code = " + std::string(CodeName(ErrorCode(error))) +
         " desc = " + std::string(ErrorText(error));
}

class WatchHandler;

// What the hub's shard thread holds on to. Messages go to the loop in the order of Send(), one
// wake-up for many.
class Sink : public watch::StreamSink {
 public:
  Sink(Loop& loop, watch::Hub& hub) : loop_(loop), hub_(hub) {}

  void Send(BufferChain body) override { Offer({.body = std::move(body)}); }
  void Fail(Error error) override { Offer({.error = error}); }
  void Took() override { Offer({.took = true}); }

  // ---- the loop
  void Open(WatchHandler* handler) { handler_ = handler; }
  // Nothing will be written any more: what comes now is given back at once.
  void Close() { handler_ = nullptr; }

  watch::Hub& hub() { return hub_; }
  void Drain();

  std::optional<watch::StreamId> id;

 private:
  struct Item {
    BufferChain body = {};
    Error error = Error::kOk;
    bool took = false;
  };
  void Offer(Item item);

  Loop& loop_;
  watch::Hub& hub_;
  WatchHandler* handler_ = nullptr;  // the loop's thread
  Mutex mu_;
  std::vector<Item> items_ ABSL_GUARDED_BY(mu_);
  bool posted_ ABSL_GUARDED_BY(mu_) = false;
  std::weak_ptr<Sink> weak_;
  friend std::shared_ptr<Sink> MakeSink(Loop& loop, watch::Hub& hub);
};

std::shared_ptr<Sink> MakeSink(Loop& loop, watch::Hub& hub) {
  auto sink = std::make_shared<Sink>(loop, hub);
  sink->weak_ = sink;
  return sink;
}

class WatchHandler : public StreamHandler {
 public:
  explicit WatchHandler(Call& call) : call_(call) {
    watch::Hub& hub = ServerOf(call).hub();
    sink_ = MakeSink(call.loop(), hub);
    sink_->Open(this);
    const size_t request_max = call.loop().services().options().request_bytes_max;
    sink_->id = hub.OpenStream(sink_, {.fragment_bytes = request_max + kGrpcOverheadBytes});
    if (!sink_->id.has_value()) {
      call_.Finish(ToStatus(Error::kTooManyRequests));
    }
  }
  ~WatchHandler() override {
    sink_->Close();
    if (sink_->id.has_value()) {
      // What was sent and not written can never be written now.
      if (unwritten_ > 0) {
        sink_->hub().OnDrained(*sink_->id, unwritten_);
      }
      sink_->hub().CloseStream(*sink_->id);
    }
  }

  void OnMessage(Buffer message) override {
    WatchRequest request;
    if (!DecodeWatch(message.view(), &request)) {
      call_.loop().services().metrics().watch_receive_failures->Add();
      return FinishMalformed(call_.shared_from_this());
    }
    watch::Hub& hub = sink_->hub();
    bool taken = true;
    switch (request.kind) {
      case RequestKind::kNone:
        break;
      case RequestKind::kCreate:
        request.create.refused = Refusal(request.create);
        taken = hub.Create(*sink_->id, std::move(request.create));
        break;
      case RequestKind::kCancel:
        taken = hub.Cancel(*sink_->id, request.cancel_id);
        break;
      case RequestKind::kProgress:
        taken = hub.Progress(*sink_->id);
        break;
    }
    if (!taken) {
      return call_.Finish(ToStatus(Error::kTooManyRequests));
    }
    untaken_ += request.kind == RequestKind::kNone ? 0 : 1;
    if (!paused_ && untaken_ >= kUntakenMax) {
      paused_ = true;
      call_.SetInputPaused(true);
    }
  }
  // The hub ran one request. May come back here through OnMessage().
  void Took() {
    --untaken_;
    if (paused_ && untaken_ <= kUntakenFew) {
      paused_ = false;
      call_.SetInputPaused(false);
    }
  }
  // A client that sends no more still gets its events.
  void OnHalfClose() override {}
  void OnWritten(size_t bytes) override {
    bytes = std::min(bytes, unwritten_);
    unwritten_ -= bytes;
    if (bytes > 0) {
      sink_->hub().OnDrained(*sink_->id, bytes);
    }
  }

  void Send(BufferChain body) {
    unwritten_ += body.size();
    call_.Send(std::move(body));
  }
  void Fail(Error error) { call_.Finish(ToStatus(error)); }
  bool ended() const { return call_.ended(); }

 private:
  std::string Refusal(const watch::CreateRequest& create) const {
    const server::Operation read{
        .access = server::Access::kRead, .key = create.key, .range_end = create.range_end};
    const Error error = ServerOf(call_).Authorize(WhoAsks(call_), {&read, 1});
    return error == Error::kOk ? std::string() : RefusalReason(error);
  }

  Call& call_;
  std::shared_ptr<Sink> sink_;
  size_t unwritten_ = 0;
  size_t untaken_ = 0;
  bool paused_ = false;
};

void Sink::Offer(Item item) {
  {
    MutexLock lock(mu_);
    items_.push_back(std::move(item));
    if (std::exchange(posted_, true)) {
      return;
    }
  }
  loop_.Post([sink = weak_.lock()] {
    if (sink != nullptr) {
      sink->Drain();
    }
  });
}

void Sink::Drain() {
  std::vector<Item> items;
  {
    MutexLock lock(mu_);
    items.swap(items_);
    posted_ = false;
  }
  Clock& clock = loop_.services().clock();
  const MonoTime began = clock.Now();
  const size_t count = items.size();
  for (Item& item : items) {
    if (handler_ == nullptr || handler_->ended()) {
      if (id.has_value() && !item.body.empty()) {
        hub_.OnDrained(*id, item.body.size());
      }
    } else if (item.error != Error::kOk) {
      handler_->Fail(item.error);
    } else if (item.took) {
      handler_->Took();
    } else {
      handler_->Send(std::move(item.body));
    }
  }
  if (count > 0) {
    const std::chrono::duration<double> took = clock.Now() - began;
    const ServicesMetrics& metrics = loop_.services().metrics();
    metrics.watch_send_events->Observe(took.count());
    metrics.watch_send_per_event->Observe(took.count() / static_cast<double>(count));
  }
}

}  // namespace

std::unique_ptr<StreamHandler> Watch(const CallPtr& call) {
  return std::make_unique<WatchHandler>(*call);
}

}  // namespace mainstay::rpc

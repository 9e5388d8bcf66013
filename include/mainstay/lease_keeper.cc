#include "mainstay/lease_keeper.h"

#include <deque>
#include <thread>
#include <utility>

#include "mainstay/internal/transport.h"
#include "proto/etcdserverpb/rpc.grpc.pb.h"

namespace mainstay::client {
namespace {

constexpr size_t kAnswersMax = 16;
constexpr std::chrono::milliseconds kReopenPause{500};
// Until the first answer tells the TTL, as long as a client waits for one.
constexpr std::chrono::seconds kFirstPatience{5};

}  // namespace

class LeaseKeeper::Impl {
 public:
  Impl(std::shared_ptr<Transport> transport, int64_t lease)
      : transport_(std::move(transport)), lease_(lease), thread_([this] { Run(); }) {}

  ~Impl() {
    Stop();
    thread_.join();
  }

  std::optional<etcdserverpb::LeaseKeepAliveResponse> Next(std::chrono::nanoseconds timeout) {
    MutexLock lock(mu_);
    const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !answers_.empty() || ended_ || stopped_;
    };
    if (timeout.count() == 0) {
      changed_.wait(mu_, ready);
    } else {
      changed_.wait_for(mu_, timeout, ready);
    }
    if (answers_.empty()) {
      return std::nullopt;
    }
    etcdserverpb::LeaseKeepAliveResponse answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

  bool done() {
    MutexLock lock(mu_);
    return (ended_ || stopped_) && answers_.empty();
  }

  absl::Status status() {
    MutexLock lock(mu_);
    return status_;
  }

  void Stop() {
    MutexLock lock(mu_);
    stopped_ = true;
    if (context_ != nullptr) {
      context_->TryCancel();
    }
    changed_.notify_all();
  }

 private:
  bool stopped() {
    MutexLock lock(mu_);
    return stopped_;
  }

  // Returns false when stopped.
  bool Pause(std::chrono::nanoseconds pause) {
    MutexLock lock(mu_);
    return !changed_.wait_for(mu_, pause,
                              [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopped_; });
  }

  void Run() {
    alive_until_ = Transport::Clock::now() + kFirstPatience;
    while (!stopped() && !finished_) {
      const std::shared_ptr<grpc::Channel> channel =
          transport_->Connected(alive_until_, [this] { return stopped(); });
      if (channel == nullptr) {
        break;
      }
      const grpc::Status status = RunStream(channel);
      const bool again = status.error_code() == grpc::StatusCode::UNAVAILABLE || status.ok();
      if (!finished_ && !again && !stopped()) {
        MutexLock lock(mu_);
        status_ = FromGrpc(status);
        break;
      }
      if (finished_ || Transport::Clock::now() >= alive_until_ || !Pause(kReopenPause)) {
        break;
      }
    }
    MutexLock lock(mu_);
    ended_ = true;
    changed_.notify_all();
  }

  grpc::Status RunStream(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    transport_->Prepare(context, Transport::TimePoint::max(), true);
    {
      MutexLock lock(mu_);
      if (stopped_) {
        return grpc::Status::CANCELLED;
      }
      context_ = &context;
    }
    auto stub = etcdserverpb::Lease::NewStub(channel);
    auto stream = stub->LeaseKeepAlive(&context);
    etcdserverpb::LeaseKeepAliveRequest request;
    request.set_id(lease_);
    etcdserverpb::LeaseKeepAliveResponse response;
    while (stream->Write(request) && stream->Read(&response)) {
      if (response.ttl() <= 0) {
        finished_ = true;
        break;
      }
      const std::chrono::seconds ttl(response.ttl());
      alive_until_ = Transport::Clock::now() + ttl;
      Push(response);
      if (!Pause(std::chrono::nanoseconds(ttl) / 3)) {
        break;
      }
    }
    context.TryCancel();
    const grpc::Status status = stream->Finish();
    MutexLock lock(mu_);
    context_ = nullptr;
    return status;
  }

  void Push(const etcdserverpb::LeaseKeepAliveResponse& answer) {
    MutexLock lock(mu_);
    if (answers_.size() == kAnswersMax) {
      answers_.pop_front();
    }
    answers_.push_back(answer);
    changed_.notify_all();
  }

  const std::shared_ptr<Transport> transport_;
  const int64_t lease_;

  // Owned by thread_.
  bool finished_ = false;
  Transport::TimePoint alive_until_;

  Mutex mu_;
  CondVar changed_;
  std::deque<etcdserverpb::LeaseKeepAliveResponse> answers_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;

  std::thread thread_;  // last: it uses all of the above
};

LeaseKeeper::LeaseKeeper(std::shared_ptr<Transport> transport, int64_t lease)
    : impl_(std::make_unique<Impl>(std::move(transport), lease)) {}
LeaseKeeper::~LeaseKeeper() = default;

std::optional<etcdserverpb::LeaseKeepAliveResponse> LeaseKeeper::Next(
    std::chrono::nanoseconds timeout) {
  return impl_->Next(timeout);
}
bool LeaseKeeper::done() const {
  return impl_->done();
}
absl::Status LeaseKeeper::status() const {
  return impl_->status();
}
void LeaseKeeper::Stop() {
  impl_->Stop();
}

}  // namespace mainstay::client

#include "mainstay/watch.h"

#include <deque>
#include <thread>
#include <utility>

#include "mainstay/internal/transport.h"
#include "proto/etcdserverpb/rpc.grpc.pb.h"

namespace mainstay::client {
namespace {

constexpr std::chrono::milliseconds kResumePause{50};

// Only a lost connection or a server's own trouble is worth another try.
bool MayResume(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::INTERNAL;
}

}  // namespace

class Watch::Impl {
 public:
  Impl(std::shared_ptr<Transport> transport, WatchOptions options)
      : transport_(std::move(transport)),
        options_(std::move(options)),
        next_revision_(options_.start_revision),
        thread_([this] { Run(); }) {}

  ~Impl() {
    Cancel();
    thread_.join();
  }

  std::optional<WatchAnswer> Next(std::chrono::nanoseconds timeout) {
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
    WatchAnswer answer = std::move(answers_.front());
    answers_.pop_front();
    changed_.notify_all();
    return answer;
  }

  bool done() {
    MutexLock lock(mu_);
    return (ended_ || stopped_) && answers_.empty();
  }

  void RequestProgress() {
    // The stream's write side belongs to whoever holds write_mu_: the reader writes only the create
    // request, before it shows the stream here.
    MutexLock lock(write_mu_);
    if (stream_ == nullptr) {
      progress_wanted_ = true;
      return;
    }
    WriteProgress();
  }

  void Cancel() {
    MutexLock lock(mu_);
    stopped_ = true;
    if (context_ != nullptr) {
      context_->TryCancel();
    }
    changed_.notify_all();
  }

 private:
  using Stream = grpc::ClientReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>;

  bool stopped() {
    MutexLock lock(mu_);
    return stopped_;
  }

  void WriteProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mu_) {
    etcdserverpb::WatchRequest request;
    request.mutable_progress_request();
    stream_->Write(request);
    progress_wanted_ = false;
  }

  void Run() {
    while (!stopped()) {
      const std::shared_ptr<grpc::Channel> channel =
          transport_->Connected(Transport::TimePoint::max(), [this] { return stopped(); });
      if (channel == nullptr) {
        break;
      }
      const grpc::Status status = RunStream(channel);
      if (finished_ || stopped()) {
        break;
      }
      if (!MayResume(status.error_code())) {
        WatchAnswer last;
        last.canceled = true;
        last.status = FromGrpc(status);
        End(std::move(last));
        break;
      }
      MutexLock lock(mu_);
      changed_.wait_for(mu_, kResumePause,
                        [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopped_; });
    }
    MutexLock lock(mu_);
    ended_ = true;
    changed_.notify_all();
  }

  grpc::Status RunStream(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    transport_->Prepare(context, Transport::TimePoint::max(), options_.require_leader);
    {
      MutexLock lock(mu_);
      if (stopped_) {
        return grpc::Status::CANCELLED;
      }
      context_ = &context;
    }
    auto stub = etcdserverpb::Watch::NewStub(channel);
    std::unique_ptr<Stream> stream = stub->Watch(&context);
    stream->Write(CreateRequest());
    partial_ = {};
    etcdserverpb::WatchResponse response;
    while (!finished_ && stream->Read(&response)) {
      if (response.created() && !response.canceled()) {
        Show(stream.get());
      }
      Handle(response);
    }
    Show(nullptr);
    if (finished_) {
      context.TryCancel();
    }
    const grpc::Status status = stream->Finish();
    MutexLock lock(mu_);
    context_ = nullptr;
    return status;
  }

  void Show(Stream* stream) {
    MutexLock lock(write_mu_);
    stream_ = stream;
    if (stream_ != nullptr && progress_wanted_) {
      WriteProgress();
    }
  }

  etcdserverpb::WatchRequest CreateRequest() const {
    etcdserverpb::WatchRequest request;
    etcdserverpb::WatchCreateRequest& create = *request.mutable_create_request();
    create.set_key(options_.key);
    create.set_range_end(options_.range_end);
    create.set_start_revision(next_revision_);
    create.set_prev_kv(options_.prev_kv);
    create.set_progress_notify(options_.progress_notify);
    create.set_fragment(options_.fragment);
    if (options_.no_put) {
      create.add_filters(etcdserverpb::WatchCreateRequest::NOPUT);
    }
    if (options_.no_delete) {
      create.add_filters(etcdserverpb::WatchCreateRequest::NODELETE);
    }
    return request;
  }

  void Handle(const etcdserverpb::WatchResponse& response) {
    if (response.canceled() || response.compact_revision() != 0) {
      Canceled(response);
      return;
    }
    if (response.created()) {
      if (next_revision_ == 0) {
        next_revision_ = response.header().revision() + 1;
      }
      return;
    }
    for (const mvccpb::Event& event : response.events()) {
      if (event.kv().mod_revision() >= next_revision_ || next_revision_ == 0) {
        partial_.events.push_back(event);
      }
    }
    if (response.fragment()) {
      return;
    }
    WatchAnswer answer = std::exchange(partial_, {});
    answer.header = response.header();
    const bool only_old = answer.events.empty() && response.events_size() > 0;
    if (only_old) {
      return;
    }
    next_revision_ = answer.events.empty()
                         ? std::max(next_revision_, response.header().revision() + 1)
                         : answer.events.back().kv().mod_revision() + 1;
    Push(std::move(answer));
  }

  void Canceled(const etcdserverpb::WatchResponse& response) {
    WatchAnswer answer;
    answer.header = response.header();
    answer.compact_revision = response.compact_revision();
    answer.canceled = true;
    answer.cancel_reason = response.cancel_reason();
    if (answer.compact_revision != 0) {
      answer.status =
          absl::OutOfRangeError("etcdserver: mvcc: required revision has been compacted");
    } else if (!answer.cancel_reason.empty()) {
      answer.status = absl::UnknownError(answer.cancel_reason);
    } else {
      answer.status =
          absl::OutOfRangeError("etcdserver: mvcc: required revision is a future revision");
    }
    End(std::move(answer));
  }

  void End(WatchAnswer answer) {
    finished_ = true;
    Push(std::move(answer));
  }

  void Push(WatchAnswer answer) {
    MutexLock lock(mu_);
    changed_.wait(mu_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return answers_.size() < options_.pending_max || stopped_;
    });
    answers_.push_back(std::move(answer));
    changed_.notify_all();
  }

  const std::shared_ptr<Transport> transport_;
  const WatchOptions options_;

  // Owned by thread_.
  int64_t next_revision_;
  bool finished_ = false;
  WatchAnswer partial_;  // fragments so far

  Mutex write_mu_;
  Stream* stream_ ABSL_GUARDED_BY(write_mu_) = nullptr;  // null until created
  bool progress_wanted_ ABSL_GUARDED_BY(write_mu_) = false;

  Mutex mu_;
  CondVar changed_;
  std::deque<WatchAnswer> answers_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // of the open stream

  std::thread thread_;  // last: it uses all of the above
};

Watch::Watch(std::shared_ptr<Transport> transport, WatchOptions options)
    : impl_(std::make_unique<Impl>(std::move(transport), std::move(options))) {}
Watch::~Watch() = default;

std::optional<WatchAnswer> Watch::Next(std::chrono::nanoseconds timeout) {
  return impl_->Next(timeout);
}
bool Watch::done() const {
  return impl_->done();
}
void Watch::RequestProgress() {
  impl_->RequestProgress();
}
void Watch::Cancel() {
  impl_->Cancel();
}

}  // namespace mainstay::client

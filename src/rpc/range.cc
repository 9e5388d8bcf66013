// KV.Range and KV.RangeStream: what memory can answer is answered on the loop; all else is read on
// the pool, and big answers leave in pieces.
#include <optional>
#include <utility>

#include "rpc/answer.h"
#include "rpc/kv.h"
#include "rpc/pump.h"

namespace mainstay::rpc::kv {
namespace {

// First chunk of a stream: small, so that a client sees something soon.
constexpr size_t kFirstChunkBytes = 16 << 10;
constexpr size_t kChunkBytes = 256 << 10;

struct RangeJob {
  Buffer bytes;  // what `request` points into
  mvcc::RangeRequest request;
  mvcc::ReadView view;
  size_t whole_bytes_max = 0;

  // ---- after Open()
  Error error = Error::kOk;
  Status status;
  std::optional<mvcc::RangeCursor> cursor;
  BufferChain records;  // all of them, if they fit whole_bytes_max

  void Open() {
    StatusOr<ErrorOr<mvcc::RangeCursor>> opened = view.OpenRange(request);
    if (!opened.ok()) {
      status = opened.status();
    } else if (!opened->ok()) {
      error = opened->error();
    } else {
      cursor.emplace(*std::move(*opened));
      while (status.ok() && cursor->encoded_bytes() <= whole_bytes_max && !cursor->done()) {
        status = cursor->Read(whole_bytes_max, &records);
      }
    }
  }
};
using JobPtr = std::shared_ptr<RangeJob>;

// True if the job failed; the client was told.
bool Failed(const CallPtr& call, const RangeJob& job) {
  if (!job.status.ok()) {
    FinishBroken(call, job.status);
    return true;
  }
  if (job.error != Error::kOk) {
    FinishError(call, job.error);
    return true;
  }
  return false;
}

// The records of an answer too big for one piece, as parts of one message.
Pump::Step NextPart(RangeJob& job, bool* head_sent, const Buffer& head, const Buffer& tail) {
  Pump::Step step;
  BufferChain part;
  if (!std::exchange(*head_sent, true)) {
    part.Append(head);
  }
  Status status = job.cursor->done() ? Status() : job.cursor->Read(kChunkBytes, &part);
  if (!status.ok()) {
    MS_LOG(kError, "a range was broken off: its records cannot be read").Error(Message(status));
    step.done = true;
    step.status = ToStatus(Error::kInternal);
    return step;
  }
  if (job.cursor->done()) {
    part.Append(tail);
    step.done = true;
  }
  step.parts.push_back(std::move(part));
  return step;
}

// A view keeps every compaction after it from removing anything.
void LimitSlowReader(Pump& pump, Call& call, const JobPtr& job) {
  pump.EndIfSlow(
      call.loop().services().options().slow_range_period,
      [&server = ServerOf(call), seen = job->view.compact_revision()] {
        return server.View().compact_revision() > seen;
      },
      Error::kCompacted);
}

void StreamAnswer(const CallPtr& call, const JobPtr& job) {
  BufferArena& arena = call->loop().arena();
  const Buffer head = EncodeRangeHead(MakeHeader(*call, job->cursor->revision()), &arena);
  const Buffer tail = EncodeRangeTail(job->cursor->more(), job->cursor->count(), &arena);
  call->SendBegin(head.size() + job->cursor->encoded_bytes() + tail.size());
  if (call->ended()) {
    return;
  }
  auto handler = std::make_unique<PumpHandler>(*call, Pump::Mode::kParts,
                                               [job, head, tail, head_sent = false]() mutable {
                                                 return NextPart(*job, &head_sent, head, tail);
                                               });
  Pump& pump = handler->pump();
  call->set_handler(std::move(handler));
  LimitSlowReader(pump, *call, job);
  pump.Start();
}

void AnswerRange(const CallPtr& call, const JobPtr& job) {
  const bool ok = job->status.ok() && job->error == Error::kOk;
  call->loop().services().ObserveRead(ReadType::kRange, ok, call->started());
  if (Failed(call, *job)) {
    return;
  }
  if (!job->cursor->done()) {
    return StreamAnswer(call, job);
  }
  BufferArena& arena = call->loop().arena();
  BufferChain body(EncodeRangeHead(MakeHeader(*call, job->cursor->revision()), &arena));
  body.Append(std::move(job->records));
  body.Append(EncodeRangeTail(job->cursor->more(), job->cursor->count(), &arena));
  call->Reply(std::move(body));
}

void ServeInline(const CallPtr& call, const mvcc::ReadView& view, const mvcc::RangeRequest& range) {
  StatusOr<ErrorOr<mvcc::RangeResult>> found = view.Range(range);
  const bool ok = found.ok() && found->ok();
  call->loop().services().ObserveRead(ReadType::kRange, ok, call->started());
  if (!found.ok()) {
    FinishBroken(call, found.status());
  } else if (!found->ok()) {
    FinishError(call, found->error());
  } else {
    call->Reply(EncodeRange(MakeHeader(*call, (**found).revision), **found, &call->loop().arena()));
  }
}

// `bytes` hold what `range` points into.
void Serve(const CallPtr& call, Buffer bytes, const mvcc::RangeRequest& range) {
  if (!MayDo(call, range)) {
    return;
  }
  mvcc::ReadView view = ServerOf(*call).View();
  if (view.AnswersWithoutDisk(range)) {
    return ServeInline(call, view, range);
  }
  auto job = std::make_shared<RangeJob>();
  job->bytes = std::move(bytes);
  job->request = range;
  job->view = std::move(view);
  job->whole_bytes_max = call->loop().services().options().whole_answer_bytes_max;
  InPool(
      call, [job] { job->Open(); }, [call, job] { AnswerRange(call, job); });
}

Error CheckStream(mvcc::RangeRequest* range) {
  if (const Error error = mvcc::CheckRange(*range); error != Error::kOk) {
    return error;
  }
  if (range->sorts()) {
    return Error::kRangeStreamSortOrder;
  }
  if (range->has_filters()) {
    return Error::kRangeStreamFilters;
  }
  // etcd lets a target without an order pass, and then sorts inside each chunk only; keys in order
  // is what its clients rely on.
  range->sort_target = mvcc::SortTarget::kKey;
  return Error::kOk;
}

class RangeStreamHandler : public StreamHandler {
 public:
  explicit RangeStreamHandler(Call& call) : call_(call) {}

  void OnMessage(Buffer message) override {
    const CallPtr call = call_.shared_from_this();
    mvcc::RangeRequest range;
    if (!mvcc::DecodeRange(message.view(), &range)) {
      return FinishMalformed(call);
    }
    if (const Error error = CheckStream(&range); error != Error::kOk) {
      return FinishError(call, error);
    }
    job_ = std::make_shared<RangeJob>();
    job_->bytes = std::move(message);
    job_->request = range;
    if (range.serializable) {
      Open(call);
    } else {
      AfterBarrier(call, [this, call] { Open(call); });
    }
  }
  void OnWritten(size_t bytes) override {
    if (pump_.has_value()) {
      pump_->OnWritten(bytes);
    }
  }

 private:
  void Open(const CallPtr& call) {
    if (!MayDo(call, job_->request)) {
      return;
    }
    job_->view = ServerOf(*call).View();
    InPool(
        call, [job = job_] { job->Open(); },
        [this, call] {
          if (!Failed(call, *job_)) {
            StartPump(call);
          }
        });
  }
  void StartPump(const CallPtr& call) {
    const Buffer head =
        EncodeRangeHead(MakeHeader(*call, job_->cursor->revision()), &call->loop().arena());
    const Buffer tail =
        EncodeRangeTail(job_->cursor->more(), job_->cursor->count(), &call->loop().arena());
    pump_.emplace(call_, Pump::Mode::kMessages,
                  [job = job_, head, tail, &server = ServerOf(*call), first = true]() mutable {
                    const size_t bytes =
                        std::exchange(first, false) ? kFirstChunkBytes : kChunkBytes;
                    return NextChunk(*job, server, head, tail, bytes);
                  });
    LimitSlowReader(*pump_, call_, job_);
    pump_->Start();
  }
  static Pump::Step NextChunk(RangeJob& job,
                              const server::Server& server,
                              const Buffer& head,
                              const Buffer& tail,
                              size_t bytes_max) {
    Pump::Step step;
    // The view would still answer; but it must not hold up a compaction for as long as a slow
    // client likes.
    if (server.View().compact_revision() > job.cursor->revision()) {
      step.done = true;
      step.status = ToStatus(Error::kCompacted);
      return step;
    }
    BufferChain records;
    const Status status = job.cursor->done() ? Status() : job.cursor->Read(bytes_max, &records);
    if (!status.ok()) {
      MS_LOG(kError, "a range stream was broken off").Error(Message(status));
      step.done = true;
      step.status = ToStatus(Error::kInternal);
      return step;
    }
    BufferArena arena(64);
    BufferChain response;
    step.done = job.cursor->done();
    if (step.done) {
      response.Append(head);
    }
    response.Append(std::move(records));
    if (step.done) {
      response.Append(tail);
    }
    step.parts.push_back(WrapRangeStream(std::move(response), &arena));
    return step;
  }

  Call& call_;
  JobPtr job_;
  std::optional<Pump> pump_;
};

}  // namespace

void Range(const CallPtr& call, Buffer request) {
  mvcc::RangeRequest range;
  if (!mvcc::DecodeRange(request.view(), &range)) {
    return FinishMalformed(call);
  }
  if (!range.serializable && ServerOf(*call).is_learner()) {
    return FinishError(call, Error::kNotSupportedForLearner);
  }
  if (const Error error = mvcc::CheckRange(range); error != Error::kOk) {
    return FinishError(call, error);
  }
  if (range.serializable) {
    return Serve(call, std::move(request), range);
  }
  AfterBarrier(call, [call, request, range] { Serve(call, request, range); });
}

std::unique_ptr<StreamHandler> RangeStream(const CallPtr& call) {
  return std::make_unique<RangeStreamHandler>(*call);
}

}  // namespace mainstay::rpc::kv

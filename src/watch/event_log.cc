#include "watch/event_log.h"

#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/coding.h"
#include "common/limits.h"

namespace mainstay::watch {
namespace {

constexpr uint32_t kEventsField = 11;
constexpr uint32_t kTypeField = 1;
constexpr uint32_t kKvField = 2;
constexpr uint32_t kPrevKvField = 3;
// What a logged event costs beside its record.
constexpr size_t kEventOverheadBytes = 320;

}  // namespace

EncodedEvent EncodeEvent(const mvcc::Event& event, bool with_prev_kv) {
  const bool prev = with_prev_kv && !event.prev_kv.empty();
  const auto type = static_cast<uint64_t>(event.type);
  const size_t body = VarintFieldSize(kTypeField, type) +
                      BytesFieldSize(kKvField, event.kv.size()) +
                      (prev ? BytesFieldSize(kPrevKvField, event.prev_kv.size()) : 0);
  EncodedEvent out;
  out.size = BytesFieldSize(kEventsField, body);
  const size_t records = event.kv.size() + (prev ? event.prev_kv.size() : 0);
  const bool whole = records < kReferenceBytesMin;
  MutableBuffer bytes(whole ? out.size : out.size - records);
  char* at = PutBytesHead(bytes.data(), kEventsField, body);
  at = PutVarintField(at, kTypeField, type);
  at = PutBytesHead(at, kKvField, event.kv.size());
  if (whole) {
    std::memcpy(at, event.kv.data(), event.kv.size());
    at += event.kv.size();
  } else {
    out.split = static_cast<size_t>(at - bytes.data());
  }
  if (prev) {
    at = PutBytesHead(at, kPrevKvField, event.prev_kv.size());
    if (whole) {
      std::memcpy(at, event.prev_kv.data(), event.prev_kv.size());
      at += event.prev_kv.size();
    }
  }
  const auto length = static_cast<size_t>(at - bytes.data());
  MS_CHECK_EQ(length, bytes.size());
  out.bytes = std::move(bytes).Finish(length);
  return out;
}

void EncodedEvent::AppendTo(const mvcc::Event& event, BufferChain* out) const {
  if (split == 0) {
    out->Append(bytes);
    return;
  }
  out->Append(bytes.Slice(0, split));
  out->Append(event.kv);
  if (split < bytes.size()) {
    out->Append(bytes.Slice(split, bytes.size() - split));
    out->Append(event.prev_kv);
  }
}

LoggedBatch::LoggedBatch(mvcc::EventBatch batch) : batch_(std::move(batch)) {
  for (const mvcc::Event& event : batch_.events) {
    bytes_ += event.kv.size() + event.prev_kv.size() + kEventOverheadBytes;
  }
}

EncodedEvent LoggedBatch::Encoded(size_t event, bool with_prev_kv) const {
  // Without a predecessor the two forms are the same bytes.
  const bool prev = with_prev_kv && !batch_.events[event].prev_kv.empty();
  MutexLock lock(mu_);
  std::vector<EncodedEvent>& forms = prev ? with_prev_ : plain_;
  if (forms.empty()) {
    forms.resize(batch_.events.size());
  }
  if (forms[event].size == 0) {
    forms[event] = EncodeEvent(batch_.events[event], prev);
  }
  return forms[event];
}

void EventLog::Append(std::vector<mvcc::EventBatch> batches, int64_t revision) {
  BatchList logged;
  logged.reserve(batches.size());
  for (mvcc::EventBatch& batch : batches) {
    logged.push_back(std::make_shared<const LoggedBatch>(std::move(batch)));
  }
  BatchList dropped;  // freed without the lock
  MutexLock lock(mu_);
  for (auto& batch : logged) {
    MS_CHECK_EQ(batch->revision(), revision_ + 1);
    revision_ = batch->revision();
    bytes_ += batch->bytes();
    batches_.push_back(std::move(batch));
  }
  MS_CHECK_EQ(revision_, revision);
  while (bytes_ > bytes_max_ && batches_.size() > 1) {
    bytes_ -= batches_.front()->bytes();
    dropped.push_back(std::move(batches_.front()));
    batches_.pop_front();
  }
}

void EventLog::Reset(int64_t revision) {
  std::deque<std::shared_ptr<const LoggedBatch>> dropped;  // freed without the lock
  MutexLock lock(mu_);
  if (!batches_.empty()) {
    batches_.swap(dropped);
  }
  bytes_ = 0;
  revision_ = revision;
}

int64_t EventLog::revision() const {
  MutexLock lock(mu_);
  return revision_;
}

bool EventLog::ReadAfter(
    int64_t after, size_t count_max, size_t bytes_max, BatchList* out, int64_t* base) const {
  out->clear();
  MutexLock lock(mu_);
  *base = revision_ - static_cast<int64_t>(batches_.size());
  if (after < *base) {
    return false;
  }
  size_t bytes = 0;
  for (auto i = static_cast<size_t>(after - *base); i < batches_.size(); ++i) {
    if (out->size() >= count_max || bytes >= bytes_max) {
      break;
    }
    bytes += batches_[i]->bytes();
    out->push_back(batches_[i]);
  }
  return true;
}

}  // namespace mainstay::watch

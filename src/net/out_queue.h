// OutQueue: bytes on their way to one socket. Small pieces are copied together, big ones
// referenced.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <string_view>

#include "common/buffer.h"
#include "common/limits.h"

namespace mainstay::net {

class OutQueue {
 public:
  void Copy(std::string_view bytes) {
    while (!bytes.empty()) {
      if (tail_ == nullptr || tail_used_ == tail_->size()) {
        NewTail();
      }
      const size_t n = std::min(bytes.size(), tail_->size() - tail_used_);
      std::memcpy(tail_->data() + tail_used_, bytes.data(), n);
      Extend(n);
      bytes.remove_prefix(n);
    }
  }
  void Add(const Buffer& bytes) {
    if (bytes.size() < kReferenceBytesMin) {
      Copy(bytes.view());
    } else {
      pieces_.push_back({bytes, false});
      size_ += bytes.size();
    }
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The front, as up to `max` pieces for writev().
  int Gather(iovec* to, int max) const {
    int n = 0;
    for (auto it = pieces_.begin(); it != pieces_.end() && n < max; ++it, ++n) {
      to[n].iov_base = const_cast<char*>(it->bytes.data());
      to[n].iov_len = it->bytes.size();
    }
    return n;
  }
  std::string_view front() const { return pieces_.front().bytes.view(); }
  // Copies up to `max` bytes from the front, without taking them away.
  size_t Peek(char* to, size_t max) const {
    size_t n = 0;
    for (auto it = pieces_.begin(); it != pieces_.end() && n < max; ++it) {
      const size_t part = std::min(max - n, it->bytes.size());
      std::memcpy(to + n, it->bytes.data(), part);
      n += part;
    }
    return n;
  }
  void Consume(size_t n) {
    size_ -= n;
    while (n > 0) {
      Piece& front = pieces_.front();
      if (n < front.bytes.size()) {
        front.bytes = front.bytes.Slice(n, front.bytes.size() - n);
        return;
      }
      n -= front.bytes.size();
      pieces_.pop_front();
    }
    if (pieces_.empty()) {
      // The block is ours alone again: start over in it.
      tail_used_ = 0;
    }
  }
  OutQueue() = default;
  OutQueue(const OutQueue&) = delete;
  OutQueue& operator=(const OutQueue&) = delete;
  ~OutQueue() {
    if (tail_ != nullptr) {
      tail_->Unref();
    }
  }

 private:
  static constexpr size_t kBlock = 32 << 10;
  struct Piece {
    Buffer bytes;
    bool in_tail;  // ends where the tail block's used part ends: it may grow
  };
  void NewTail() {
    if (tail_ != nullptr) {
      tail_->Unref();
    }
    tail_ = BufferOwner::Allocate(kBlock);
    tail_used_ = 0;
  }
  void Extend(size_t n) {
    const char* begin = tail_->data() + tail_used_;
    if (!pieces_.empty() && pieces_.back().in_tail &&
        pieces_.back().bytes.data() + pieces_.back().bytes.size() == begin) {
      Buffer& last = pieces_.back().bytes;
      last = last.Within({last.data(), last.size() + n});
    } else {
      pieces_.push_back({Buffer::Share(tail_, {begin, n}), true});
    }
    tail_used_ += n;
    size_ += n;
  }
  std::deque<Piece> pieces_;
  BufferOwner* tail_ = nullptr;
  size_t tail_used_ = 0;
  size_t size_ = 0;
};

}  // namespace mainstay::net

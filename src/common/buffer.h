// Buffer: a slice of immutable bytes with a share in their owner. BufferChain: a few of them in a
// row. A wire message's payload, a log entry's payload, a stored record, an encoded event and a
// response body are all these (docs/architecture.md, "Bytes").
//
// Threads     Buffers that share an owner may be copied and dropped on different threads; one
// Buffer object is not
//             itself thread-safe. The bytes never change once a Buffer shows them.
// Limits      One owner holds at most 4 GiB - 1.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"

#include "common/check.h"

namespace mainstay {

// Reference-counted storage behind Buffers. Made with Allocate(); its bytes follow the header in
// one allocation.
class BufferOwner {
 public:
  // `size` bytes, uninitialised, with one reference held by the caller.
  static BufferOwner* Allocate(size_t size);
  char* data() { return reinterpret_cast<char*>(this + 1); }
  size_t size() const { return size_; }
  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Free(this);
    }
  }

 private:
  explicit BufferOwner(size_t size) : size_(size) {}
  static void Free(BufferOwner* owner);
  std::atomic<uint32_t> refs_{1};
  size_t size_;
};

class Buffer {
 public:
  Buffer() = default;
  // Bytes that live for ever (literals).
  static Buffer Static(std::string_view bytes) {
    return Buffer(nullptr, bytes.data(), bytes.size());
  }
  // A copy in an owner of its own.
  static Buffer Copy(std::string_view bytes);
  // A slice of `owner`, taking a new reference. REQUIRES: `bytes` lies inside the owner.
  static Buffer Share(BufferOwner* owner, std::string_view bytes) {
    owner->Ref();
    return Buffer(owner, bytes.data(), bytes.size());
  }
  // Takes over the caller's reference.
  static Buffer Adopt(BufferOwner* owner, std::string_view bytes) {
    return Buffer(owner, bytes.data(), bytes.size());
  }

  Buffer(const Buffer& other) : owner_(other.owner_), data_(other.data_), size_(other.size_) {
    if (owner_ != nullptr) {
      owner_->Ref();
    }
  }
  Buffer(Buffer&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (owner_ != nullptr) {
      owner_->Unref();
    }
  }

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {data_, size_}; }
  // REQUIRES: offset + length <= size().
  Buffer Slice(size_t offset, size_t length) const {
    MS_DCHECK(offset + length <= size_);
    Buffer out(*this);
    out.data_ += offset;
    out.size_ = length;
    return out;
  }
  // The same owner seen through another view of it. REQUIRES: `bytes` lies inside this buffer's
  // owner.
  Buffer Within(std::string_view bytes) const {
    Buffer out(*this);
    out.data_ = bytes.data();
    out.size_ = bytes.size();
    return out;
  }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.view() == b.view(); }

 private:
  Buffer(BufferOwner* owner, const char* data, size_t size)
      : owner_(owner), data_(data), size_(size) {}
  BufferOwner* owner_ = nullptr;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// A writable block that becomes a Buffer. For encoders that know the size beforehand.
class MutableBuffer {
 public:
  explicit MutableBuffer(size_t size) : owner_(BufferOwner::Allocate(size)), size_(size) {}
  MutableBuffer(const MutableBuffer&) = delete;
  MutableBuffer& operator=(const MutableBuffer&) = delete;
  ~MutableBuffer() {
    if (owner_ != nullptr) {
      owner_->Unref();
    }
  }
  char* data() { return owner_->data(); }
  size_t size() const { return size_; }
  // The first `length` bytes as a Buffer; this object is empty afterwards.
  Buffer Finish(size_t length) && {
    BufferOwner* owner = std::exchange(owner_, nullptr);
    return Buffer::Adopt(owner, {owner->data(), length});
  }

 private:
  BufferOwner* owner_;
  size_t size_;
};

// Carves many small Buffers out of big blocks: one allocation a block. A block lives while one
// slice of it does.
class BufferArena {
 public:
  explicit BufferArena(size_t block_bytes = 64 << 10) : block_bytes_(block_bytes) {}
  BufferArena(const BufferArena&) = delete;
  BufferArena& operator=(const BufferArena&) = delete;
  ~BufferArena() { Reset(); }
  // `size` writable bytes; valid until Commit() or the next Reserve().
  char* Reserve(size_t size);
  // The first `size` bytes of the last Reserve() as a Buffer.
  Buffer Commit(size_t size);
  Buffer Copy(std::string_view bytes) {
    std::memcpy(Reserve(bytes.size()), bytes.data(), bytes.size());
    return Commit(bytes.size());
  }
  // Starts a new block at the next Reserve().
  void Reset();

 private:
  const size_t block_bytes_;
  BufferOwner* block_ = nullptr;
  size_t used_ = 0;
};

class BufferChain {
 public:
  BufferChain() = default;
  explicit BufferChain(Buffer only) { Append(std::move(only)); }
  void Append(Buffer part) {
    if (!part.empty()) {
      size_ += part.size();
      parts_.push_back(std::move(part));
    }
  }
  void Append(BufferChain&& other) {
    for (Buffer& part : other.parts_) {
      Append(std::move(part));
    }
    other.clear();
  }
  void Prepend(Buffer part) {
    if (!part.empty()) {
      size_ += part.size();
      parts_.insert(parts_.begin(), std::move(part));
    }
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() {
    parts_.clear();
    size_ = 0;
  }
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }
  size_t part_count() const { return parts_.size(); }
  // One contiguous copy; the sole part itself when there is only one.
  Buffer Flatten() const;
  std::string ToString() const;

 private:
  absl::InlinedVector<Buffer, 4> parts_;
  size_t size_ = 0;
};

}  // namespace mainstay

#include "common/buffer.h"

#include <cstdlib>
#include <new>

namespace mainstay {

BufferOwner* BufferOwner::Allocate(size_t size) {
  MS_CHECK(size <= UINT32_MAX);
  void* memory = std::malloc(sizeof(BufferOwner) + size);
  MS_CHECK(memory != nullptr);
  return new (memory) BufferOwner(size);
}

void BufferOwner::Free(BufferOwner* owner) {
  owner->~BufferOwner();
  std::free(owner);
}

Buffer Buffer::Copy(std::string_view bytes) {
  if (bytes.empty()) {
    return {};
  }
  BufferOwner* owner = BufferOwner::Allocate(bytes.size());
  std::memcpy(owner->data(), bytes.data(), bytes.size());
  return Adopt(owner, {owner->data(), bytes.size()});
}

char* BufferArena::Reserve(size_t size) {
  if (block_ == nullptr || block_->size() - used_ < size) {
    Reset();
    block_ = BufferOwner::Allocate(size > block_bytes_ ? size : block_bytes_);
  }
  return block_->data() + used_;
}

Buffer BufferArena::Commit(size_t size) {
  if (size == 0) {
    return {};
  }
  MS_CHECK(block_ != nullptr && block_->size() - used_ >= size);
  Buffer out = Buffer::Share(block_, {block_->data() + used_, size});
  used_ += size;
  return out;
}

void BufferArena::Reset() {
  if (block_ != nullptr) {
    block_->Unref();
  }
  block_ = nullptr;
  used_ = 0;
}

Buffer BufferChain::Flatten() const {
  if (parts_.size() == 1) {
    return parts_[0];
  }
  if (size_ == 0) {
    return {};
  }
  MutableBuffer out(size_);
  char* at = out.data();
  for (const Buffer& part : parts_) {
    std::memcpy(at, part.data(), part.size());
    at += part.size();
  }
  return std::move(out).Finish(size_);
}

std::string BufferChain::ToString() const {
  std::string out;
  out.reserve(size_);
  for (const Buffer& part : parts_) {
    out.append(part.view());
  }
  return out;
}

}  // namespace mainstay

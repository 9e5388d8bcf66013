#include <map>

#include "backend/backend.h"
#include "common/mutex.h"

namespace mainstay::backend {
namespace {

using Rows = std::map<std::string, std::string, std::less<>>;

class MemorySnapshot : public Snapshot {
 public:
  explicit MemorySnapshot(std::shared_ptr<const Rows> rows) : rows_(std::move(rows)) {}
  const std::shared_ptr<const Rows>& rows() const { return rows_; }

 private:
  std::shared_ptr<const Rows> rows_;
};

class MemoryIterator : public Iterator {
 public:
  MemoryIterator(std::shared_ptr<const Rows> rows, std::string_view lower, std::string_view upper)
      : rows_(std::move(rows)), upper_(upper), at_(rows_->lower_bound(lower)) {}
  bool Valid() const override { return at_ != rows_->end() && at_->first < upper_; }
  void Seek(std::string_view key) override { at_ = rows_->lower_bound(key); }
  void Next() override { ++at_; }
  std::string_view key() const override { return at_->first; }
  std::string_view value() const override { return at_->second; }
  Status status() const override { return absl::OkStatus(); }

 private:
  std::shared_ptr<const Rows> rows_;
  std::string upper_;
  Rows::const_iterator at_;
};

// Rows are copied on write while somebody holds them: slow for big stores, simple for tests.
class Memory : public MemoryBackend {
 public:
  Memory(std::shared_ptr<const Rows> rows, AppliedMark mark)
      : rows_(std::make_shared<Rows>(*rows)),
        flushed_(std::move(rows)),
        applied_(mark),
        flushed_mark_(mark) {}

  Status Write(const WriteBatch& batch, AppliedMark mark) override {
    MutexLock lock(mu_);
    if (rows_.use_count() > 1) {
      rows_ = std::make_shared<Rows>(*rows_);
    }
    for (size_t i = 0; i < batch.count(); ++i) {
      const WriteBatch::Change change = batch.at(i);
      if (change.is_delete) {
        if (const auto row = rows_->find(change.key); row != rows_->end()) {
          rows_->erase(row);
        }
      } else {
        rows_->insert_or_assign(std::string(change.key), std::string(change.value));
      }
    }
    applied_ = mark;
    unflushed_ += batch.bytes();
    return absl::OkStatus();
  }
  AppliedMark applied() const override {
    MutexLock lock(mu_);
    return applied_;
  }
  Index flushed_applied_index() const override {
    MutexLock lock(mu_);
    return flushed_mark_.index;
  }
  void RequestFlush() override {
    MutexLock lock(mu_);
    flushed_ = std::make_shared<const Rows>(*rows_);
    flushed_mark_ = applied_;
    unflushed_ = 0;
  }
  Status Flush() override {
    RequestFlush();
    return absl::OkStatus();
  }
  uint64_t unflushed_bytes() const override {
    MutexLock lock(mu_);
    return unflushed_;
  }
  std::shared_ptr<const Snapshot> NewSnapshot() const override {
    return std::make_shared<MemorySnapshot>(Now());
  }
  StatusOr<bool> Get(const Snapshot* snapshot,
                     std::string_view key,
                     std::string* value) const override {
    if (snapshot == nullptr) {
      MutexLock lock(mu_);
      return Find(*rows_, key, value);
    }
    return Find(*static_cast<const MemorySnapshot*>(snapshot)->rows(), key, value);
  }
  std::unique_ptr<Iterator> NewIterator(const Snapshot* snapshot,
                                        std::string_view lower,
                                        std::string_view upper) const override {
    return std::make_unique<MemoryIterator>(
        snapshot != nullptr ? static_cast<const MemorySnapshot*>(snapshot)->rows() : Now(), lower,
        upper);
  }
  uint64_t FilesBytes() const override {
    MutexLock lock(mu_);
    uint64_t bytes = 4096;
    for (const auto& [key, value] : *rows_) {
      bytes += key.size() + value.size();
    }
    return bytes;
  }
  Status Checkpoint(const std::string&) override {
    return FailedPrecondition("an in-memory store has no files");
  }
  Status CompactAll() override { return absl::OkStatus(); }
  std::unique_ptr<MemoryBackend> AfterCrash() const override {
    MutexLock lock(mu_);
    return std::make_unique<Memory>(flushed_, flushed_mark_);
  }

 private:
  static bool Find(const Rows& rows, std::string_view key, std::string* value) {
    const auto row = rows.find(key);
    if (row == rows.end()) {
      return false;
    }
    *value = row->second;
    return true;
  }
  std::shared_ptr<const Rows> Now() const {
    MutexLock lock(mu_);
    return rows_;
  }
  mutable Mutex mu_;
  std::shared_ptr<Rows> rows_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const Rows> flushed_ ABSL_GUARDED_BY(mu_);
  AppliedMark applied_ ABSL_GUARDED_BY(mu_);
  AppliedMark flushed_mark_ ABSL_GUARDED_BY(mu_);
  uint64_t unflushed_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

std::unique_ptr<MemoryBackend> NewMemoryBackend() {
  return std::make_unique<Memory>(std::make_shared<const Rows>(), AppliedMark{});
}

}  // namespace mainstay::backend

// Rows: what batches of state rows have left behind in a backend, readable by tests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "common/check.h"

namespace mainstay::test {

class Rows {
 public:
  void Write(const std::function<void(backend::WriteBatch&)>& fill) {
    backend::WriteBatch batch;
    fill(batch);
    MS_CHECK(backend_->Write(batch, {Index(++index_), Term(1)}).ok());
  }
  std::optional<std::string> Get(std::string_view bucket, std::string_view key) const {
    std::string value;
    const auto found = backend_->Get(nullptr, backend::StateKey(bucket, key), &value);
    MS_CHECK(found.ok());
    return *found ? std::optional(value) : std::nullopt;
  }
  // Calls `f(key, value)` for every row of a bucket.
  void ForEach(std::string_view bucket,
               const std::function<void(std::string_view, std::string_view)>& f) const {
    const Status status = backend::ForEachRow(*backend_, nullptr, bucket,
                                              [&](std::string_view key, std::string_view value) {
                                                f(key, value);
                                                return Status();
                                              });
    MS_CHECK(status.ok());
  }

 private:
  std::unique_ptr<backend::MemoryBackend> backend_ = backend::NewMemoryBackend();
  uint64_t index_ = 0;
};

}  // namespace mainstay::test

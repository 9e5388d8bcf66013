// Rows: what batches of state rows have left behind, readable by tests.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "backend/backend.h"

namespace mainstay::test {

class Rows {
 public:
  void Write(const std::function<void(backend::WriteBatch&)>& fill) { fill(batch_); }
  std::optional<std::string> Get(std::string_view bucket, std::string_view key) const {
    const auto at = batch_.rows.find(std::string(bucket) + '\0' + std::string(key));
    return at == batch_.rows.end() ? std::nullopt : std::optional(at->second);
  }
  void ForEach(
      const std::function<void(std::string_view, std::string_view, std::string_view)>& f) const {
    for (const auto& [path, value] : batch_.rows) {
      const size_t zero = path.find('\0');
      f(std::string_view(path).substr(0, zero), std::string_view(path).substr(zero + 1), value);
    }
  }

 private:
  backend::WriteBatch batch_;
};

}  // namespace mainstay::test

// The query part of a URL.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mainstay::http {

class Query {
 public:
  // "a=1&b&a=2", percent- and plus-encoded.
  explicit Query(std::string_view text);
  bool Has(std::string_view name) const;
  // Empty if absent.
  std::string First(std::string_view name) const;
  std::vector<std::string> All(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
};

}  // namespace mainstay::http

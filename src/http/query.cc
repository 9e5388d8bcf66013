#include "http/query.h"

#include "common/coding.h"

namespace mainstay::http {
namespace {

std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
      continue;
    }
    if (text[i] == '%' && i + 2 < text.size()) {
      if (const std::optional<std::string> byte = Unhex(text.substr(i + 1, 2))) {
        out += *byte;
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

}  // namespace

Query::Query(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) {
      continue;
    }
    const size_t equals = std::min(pair.find('='), pair.size());
    pairs_.emplace_back(Unescape(pair.substr(0, equals)),
                        equals < pair.size() ? Unescape(pair.substr(equals + 1)) : std::string());
  }
}

bool Query::Has(std::string_view name) const {
  for (const auto& pair : pairs_) {
    if (pair.first == name) {
      return true;
    }
  }
  return false;
}

std::string Query::First(std::string_view name) const {
  for (const auto& pair : pairs_) {
    if (pair.first == name) {
      return pair.second;
    }
  }
  return {};
}

std::vector<std::string> Query::All(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& pair : pairs_) {
    if (pair.first == name) {
      values.push_back(pair.second);
    }
  }
  return values;
}

}  // namespace mainstay::http

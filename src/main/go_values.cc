// Values as Go's flag and strconv packages read them, so that every spelling etcd takes is taken
// here.
#include <algorithm>
#include <cmath>

#include "main/config.h"

namespace mainstay::main {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

int DigitValue(char c) {
  if (IsDigit(c)) {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

}  // namespace

std::optional<uint64_t> ParseGoUint(std::string_view text) {
  uint64_t base = 10;
  const bool prefixed = text.size() > 1 && text[0] == '0';
  if (prefixed) {
    const char mark = static_cast<char>(text[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
    text.remove_prefix(mark == 'x' || mark == 'b' || mark == 'o' ? 2 : 1);
  }
  // An underscore stands between digits, or between the base prefix and a digit.
  if (text.empty() || text.back() == '_' || (!prefixed && text.front() == '_') ||
      text.find("__") != std::string_view::npos) {
    return std::nullopt;
  }
  uint64_t value = 0;
  for (const char c : text) {
    if (c == '_') {
      continue;
    }
    const auto digit = static_cast<uint64_t>(DigitValue(c));
    if (digit >= base || value > (UINT64_MAX - digit) / base) {
      return std::nullopt;
    }
    value = value * base + digit;
  }
  return value;
}

std::optional<int64_t> ParseGoInt(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const std::optional<uint64_t> magnitude = ParseGoUint(text);
  const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (!magnitude || *magnitude > limit) {
    return std::nullopt;
  }
  return negative ? static_cast<int64_t>(0 - *magnitude) : static_cast<int64_t>(*magnitude);
}

std::optional<bool> ParseGoBool(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) {
      return true;
    }
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) {
      return false;
    }
  }
  return std::nullopt;
}

std::optional<std::chrono::nanoseconds> ParseGoDuration(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text == "0") {
    return std::chrono::nanoseconds(0);
  }
  if (text.empty()) {
    return std::nullopt;
  }
  long double total = 0;
  while (!text.empty()) {
    size_t digits = 0;
    long double number = 0;
    while (digits < text.size() && IsDigit(text[digits])) {
      number = number * 10 + (text[digits++] - '0');
    }
    size_t after_point = 0;
    if (digits < text.size() && text[digits] == '.') {
      long double place = 0.1L;
      while (digits + 1 + after_point < text.size() && IsDigit(text[digits + 1 + after_point])) {
        number += place * (text[digits + 1 + after_point] - '0');
        place /= 10;
        ++after_point;
      }
      if (digits + after_point == 0) {
        return std::nullopt;
      }
      text.remove_prefix(digits + 1 + after_point);
    } else {
      if (digits == 0) {
        return std::nullopt;
      }
      text.remove_prefix(digits);
    }
    size_t unit_length = 0;
    while (unit_length < text.size() && text[unit_length] != '.' && !IsDigit(text[unit_length])) {
      ++unit_length;
    }
    static constexpr std::pair<std::string_view, long double> kUnits[] = {
        {"ns", 1},    {"us", 1e3L}, {"µs", 1e3L}, {"μs", 1e3L},
        {"ms", 1e6L}, {"s", 1e9L},  {"m", 60e9L}, {"h", 3600e9L}};
    const std::string_view unit = text.substr(0, unit_length);
    const auto* found = std::find_if(std::begin(kUnits), std::end(kUnits),
                                     [&](const auto& u) { return u.first == unit; });
    if (found == std::end(kUnits)) {
      return std::nullopt;
    }
    total += number * found->second;
    text.remove_prefix(unit_length);
  }
  if (total > static_cast<long double>(INT64_MAX)) {
    return std::nullopt;
  }
  const auto ns = static_cast<int64_t>(std::llroundl(total));
  return std::chrono::nanoseconds(negative ? -ns : ns);
}

std::vector<std::string> SplitComma(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const size_t comma = text.find(',');
    out.emplace_back(Trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(comma + 1);
  }
}

std::string ParseUrls(std::string_view text, std::vector<std::string>* urls) {
  std::vector<std::string> out = SplitComma(text);
  for (const std::string& url : out) {
    const size_t scheme_end = url.find("://");
    const bool short_unix = url.starts_with("unix:/") || url.starts_with("unixs:/");
    const std::string scheme = scheme_end != std::string::npos ? url.substr(0, scheme_end)
                               : short_unix                    ? url.substr(0, url.find(':'))
                                                               : "";
    if (scheme != "http" && scheme != "https" && scheme != "unix" && scheme != "unixs") {
      return "URL scheme must be http, https, unix, or unixs: " + url;
    }
    if (scheme == "unix" || scheme == "unixs") {
      continue;
    }
    const std::string rest = url.substr(scheme_end + 3);
    const std::string host_port = rest.substr(0, rest.find('/'));
    const size_t colon = host_port.rfind(':');
    const bool bracketed = host_port.starts_with("[");
    const bool whole = colon != std::string::npos && colon + 1 < host_port.size() &&
                       (!bracketed || host_port.rfind(']') == colon - 1) &&
                       std::all_of(host_port.begin() + static_cast<ptrdiff_t>(colon) + 1,
                                   host_port.end(), IsDigit);
    if (!whole || (!bracketed && host_port.find(':') != colon)) {
      return "URL address does not have the form \"host:port\": " + url;
    }
    if (rest.find('/') != std::string::npos) {
      return "URL must not contain a path: " + url;
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  *urls = std::move(out);
  return {};
}

const std::vector<FeatureGate>& KnownFeatureGates() {
  static const std::vector<FeatureGate> gates = {
      {"StopGRPCServiceOnDefrag", false, "ALPHA"}, {"InitialCorruptCheck", false, "ALPHA"},
      {"CompactHashCheck", false, "ALPHA"},        {"TxnModeWriteWithSharedBuffer", true, "BETA"},
      {"LeaseCheckpoint", false, "ALPHA"},         {"LeaseCheckpointPersist", false, "ALPHA"},
      {"SetMemberLocalAddr", false, "ALPHA"},      {"FastLeaseKeepAlive", true, "BETA"},
      {"PriorityRequest", false, "ALPHA"},
  };
  return gates;
}

std::string ParseFeatureGates(std::string_view text, std::map<std::string, bool>* gates) {
  std::map<std::string, bool> out = *gates;  // repeated settings add up, as in etcd
  for (const std::string& item : SplitComma(text)) {
    if (item.empty()) {
      continue;
    }
    const size_t equals = item.find('=');
    const std::string name(Trim(item.substr(0, equals)));
    if (equals == std::string::npos) {
      return "missing bool value for " + name;
    }
    const std::string value(Trim(item.substr(equals + 1)));
    const std::optional<bool> on = ParseGoBool(value);
    if (!on) {
      return "invalid value of " + name + "=" + value + ", err: strconv.ParseBool: parsing \"" +
             value + "\": invalid syntax";
    }
    const bool group = name == "AllAlpha" || name == "AllBeta";
    const auto& known = KnownFeatureGates();
    if (!group && std::none_of(known.begin(), known.end(),
                               [&](const FeatureGate& g) { return g.name == name; })) {
      return "unrecognized feature gate: " + name;
    }
    out[name] = *on;
  }
  *gates = std::move(out);
  return {};
}

bool Config::gate(const std::string& gate_name) const {
  if (const auto own = feature_gates.find(gate_name); own != feature_gates.end()) {
    return own->second;
  }
  for (const FeatureGate& known : KnownFeatureGates()) {
    if (known.name == gate_name) {
      const auto group = feature_gates.find(known.stage == "ALPHA" ? "AllAlpha" : "AllBeta");
      return group != feature_gates.end() ? group->second : known.on_by_default;
    }
  }
  return false;
}

}  // namespace mainstay::main

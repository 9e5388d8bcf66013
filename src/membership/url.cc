// URL lists: etcd's rules on top of what Go's net/url accepts.
#include <algorithm>
#include <cctype>

#include "fmt/format.h"

#include "membership/member.h"

namespace mainstay::membership {
namespace {

std::string_view Trim(std::string_view s) {
  const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!s.empty() && blank(s.front())) {
    s.remove_prefix(1);
  }
  while (!s.empty() && blank(s.back())) {
    s.remove_suffix(1);
  }
  return s;
}

struct Parts {
  std::string scheme;  // lower case; empty if there is none
  std::string_view rest;
};

Parts SplitScheme(std::string_view url) {
  for (size_t i = 0; i < url.size(); ++i) {
    const auto c = static_cast<unsigned char>(url[i]);
    if (c == ':' && i > 0) {
      Parts out{std::string(url.substr(0, i)), url.substr(i + 1)};
      std::transform(out.scheme.begin(), out.scheme.end(), out.scheme.begin(),
                     [](unsigned char x) { return static_cast<char>(std::tolower(x)); });
      return out;
    }
    const bool first_ok = std::isalpha(c) != 0;
    const bool later_ok = i > 0 && (std::isdigit(c) != 0 || c == '+' || c == '-' || c == '.');
    if (!first_ok && !later_ok) {
      break;
    }
  }
  return {"", url};
}

// host:port as Go's SplitHostPort takes it, the port being digits (net/url insists).
bool IsHostPort(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon == std::string_view::npos) {
    return false;
  }
  const std::string_view port = host.substr(colon + 1);
  const std::string_view name = host.substr(0, colon);
  if (!std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return false;
  }
  if (name.starts_with('[')) {
    return name.find(']') == name.size() - 1;
  }
  return name.find_first_of(":[]") == std::string_view::npos;
}

Status CheckHttpUrl(std::string_view url, std::string_view rest) {
  if (!rest.starts_with("//")) {
    return InvalidArgument(
        fmt::format("URL address does not have the form \"host:port\": {}", url));
  }
  rest.remove_prefix(2);
  const size_t host_end = std::min(rest.find_first_of("/?#"), rest.size());
  std::string_view host = rest.substr(0, host_end);
  if (const size_t at = host.rfind('@'); at != std::string_view::npos) {
    host.remove_prefix(at + 1);
  }
  if (!IsHostPort(host)) {
    return InvalidArgument(
        fmt::format("URL address does not have the form \"host:port\": {}", url));
  }
  if (host_end < rest.size() && rest[host_end] == '/') {
    return InvalidArgument(fmt::format("URL must not contain a path: {}", url));
  }
  return {};
}

}  // namespace

Status CheckUrl(std::string_view url) {
  if (std::any_of(url.begin(), url.end(),
                  [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F; })) {
    return InvalidArgument(
        fmt::format("parse \"{}\": net/url: invalid control character in URL", url));
  }
  const Parts parts = SplitScheme(url);
  if (parts.scheme == "unix" || parts.scheme == "unixs") {
    return {};
  }
  if (parts.scheme != "http" && parts.scheme != "https") {
    return InvalidArgument(fmt::format("URL scheme must be http, https, unix, or unixs: {}", url));
  }
  return CheckHttpUrl(url, parts.rest);
}

StatusOr<std::vector<std::string>> ParseUrls(std::vector<std::string> urls) {
  if (urls.empty()) {
    return InvalidArgument("no valid URLs given");
  }
  for (std::string& url : urls) {
    url = std::string(Trim(url));
    MS_RETURN_IF_ERROR(CheckUrl(url));
    const Parts parts = SplitScheme(url);
    url = parts.scheme + ":" + std::string(parts.rest);
  }
  std::sort(urls.begin(), urls.end());
  return urls;
}

StatusOr<std::map<std::string, std::vector<std::string>>> ParseInitialCluster(
    std::string_view text) {
  std::map<std::string, std::vector<std::string>> out;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (item.empty()) {
      continue;
    }
    const size_t equals = item.find('=');
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    out[std::string(item.substr(0, equals))].emplace_back(value);
  }
  for (auto& [name, urls] : out) {
    MS_ASSIGN_OR_RETURN(urls, ParseUrls(std::move(urls)));
  }
  return out;
}

}  // namespace mainstay::membership

// What must hold among the settings, in etcd's words and order.
#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "fmt/format.h"

#include "main/config.h"

namespace mainstay::main {
namespace {

using Notes = std::vector<ParseOutcome::Note>;

struct Url {
  std::string scheme, host, port;
};

Url SplitUrl(const std::string& text) {
  Url url;
  const size_t mark = text.find("://");
  if (mark == std::string::npos) {
    url.scheme = text.substr(0, text.find(':'));
    return url;
  }
  url.scheme = text.substr(0, mark);
  const std::string rest = text.substr(mark + 3);
  const size_t colon = rest.rfind(':');
  url.host = rest.substr(0, colon);
  if (colon != std::string::npos) {
    url.port = rest.substr(colon + 1);
  }
  if (url.host.starts_with("[") && url.host.ends_with("]")) {
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  return url;
}

bool IsUnix(const Url& url) {
  return url.scheme == "unix" || url.scheme == "unixs";
}
bool IsTls(const Url& url) {
  return url.scheme == "https" || url.scheme == "unixs";
}

std::string CheckBind(const std::vector<std::string>& urls) {
  for (const std::string& text : urls) {
    const Url url = SplitUrl(text);
    if (IsUnix(url) || url.host == "localhost") {
      continue;
    }
    std::array<unsigned char, 16> address{};
    const std::string host = url.host.substr(0, url.host.find('%'));
    if (inet_pton(AF_INET, host.c_str(), address.data()) != 1 &&
        inet_pton(AF_INET6, host.c_str(), address.data()) != 1) {
      return fmt::format("expected IP in URL for binding ({})", text);
    }
  }
  return {};
}

std::string CheckHosts(const std::vector<std::string>& urls) {
  for (const std::string& text : urls) {
    const Url url = SplitUrl(text);
    if (!IsUnix(url) && url.host.empty()) {
      return fmt::format("unexpected empty host ({})", text);
    }
  }
  return {};
}

std::string Join(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) {
    out += (out.empty() ? "" : ",") + item;
  }
  return out;
}

std::string CheckListeners(const Config& c) {
  for (const auto* urls : {&c.listen_peer_urls, &c.listen_client_urls, &c.listen_client_http_urls,
                           &c.listen_metrics_urls}) {
    if (std::string error = CheckBind(*urls); !error.empty()) {
      return error;
    }
  }
  if (const std::string reason = CheckHosts(c.initial_advertise_peer_urls); !reason.empty()) {
    return fmt::format("--initial-advertise-peer-urls \"{}\" must be \"host:port\" ({})",
                       Join(c.initial_advertise_peer_urls), reason);
  }
  if (const std::string reason = CheckHosts(c.advertise_client_urls); !reason.empty()) {
    return fmt::format(
        "--advertise-client-urls \"{}\" must be in the format \"host:port\", "
        "\"unix:/path/to/socket\" or "
        "\"unixs:/path/to/socket\" ({})",
        Join(c.advertise_client_urls), reason);
  }
  for (const std::string& http : c.listen_client_http_urls) {
    for (const std::string& client : c.listen_client_urls) {
      const Url a = SplitUrl(http);
      const Url b = SplitUrl(client);
      if (a.host == b.host && a.port == b.port) {
        return fmt::format(
            "cannot bind both --listen-client-urls and --listen-client-http-urls on the same url "
            "{}",
            http);
      }
    }
  }
  return {};
}

std::string CheckTls(Config* c) {
  const auto pair = [](const TlsConfig& tls) -> std::string {
    if (tls.cert_file.empty() != tls.key_file.empty()) {
      return fmt::format("KeyFile and CertFile must both be present[key: {}, cert: {}]",
                         tls.key_file, tls.cert_file);
    }
    if (tls.client_cert_file.empty() != tls.client_key_file.empty()) {
      return fmt::format(
          "ClientKeyFile and ClientCertFile must both be present or both absent: key: {}, cert: "
          "{}]",
          tls.client_key_file, tls.client_cert_file);
    }
    if (!tls.allowed_cn.empty() && !tls.allowed_hostname.empty()) {
      return fmt::format(
          "AllowedCNs and AllowedHostnames are mutually exclusive (cns={}, hostnames={})",
          Join(tls.allowed_cn), Join(tls.allowed_hostname));
    }
    return {};
  };
  for (const TlsConfig* tls : {&c->client_tls, &c->peer_tls}) {
    if (std::string error = pair(*tls); !error.empty()) {
      return error;
    }
  }
  if (c->client_tls.empty() && !c->client_tls.auto_tls) {
    for (const auto* urls : {&c->listen_client_urls, &c->listen_client_http_urls}) {
      for (const std::string& url : *urls) {
        if (IsTls(SplitUrl(url))) {
          return fmt::format(
              "TLS key/cert (--cert-file, --key-file) must be provided for client url {} with "
              "HTTPS scheme",
              url);
        }
      }
    }
    for (const std::string& url : c->listen_metrics_urls) {
      if (IsTls(SplitUrl(url))) {
        return fmt::format(
            "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url "
            "{}",
            url);
      }
    }
  }
  const auto version = [](const std::string& text) {
    return text.empty() || text == "TLS1.2" || text == "TLS1.3";
  };
  for (const std::string& text : {c->tls_min_version, c->tls_max_version}) {
    if (!version(text)) {
      return fmt::format("unexpected TLS version \"{}\" (must be one of: TLS1.2, TLS1.3)", text);
    }
  }
  if (c->tls_min_version == "TLS1.3" && c->tls_max_version == "TLS1.2") {
    return fmt::format("min version ({}) is greater than max version ({})", c->tls_min_version,
                       c->tls_max_version);
  }
  if (c->tls_min_version == "TLS1.3" && !c->cipher_suites.empty()) {
    return "cipher suites cannot be configured when only TLS1.3 is enabled";
  }
  if (c->client_tls.auto_tls && c->self_signed_cert_validity_years == 0) {
    return "selfSignedCertValidity is invalid,it should be greater than 0";
  }
  return {};
}

std::string CheckLogging(const Config& c) {
  if (c.logger != "zap") {
    return c.logger == "capnslog" ? "--logger=capnslog is removed in v3.5"
                                  : fmt::format("unknown logger option \"{}\"", c.logger);
  }
  if (c.log_outputs.size() > 1 &&
      std::find(c.log_outputs.begin(), c.log_outputs.end(), "default") != c.log_outputs.end()) {
    return "multi logoutput for \"default\" is not supported yet";
  }
  if (c.log_format != "json" && c.log_format != "console") {
    return fmt::format("unknown log format: {}, supported values json, console", c.log_format);
  }
  if (c.enable_log_rotation) {
    const bool one_file = c.log_outputs.size() == 1 && c.log_outputs[0] != "default" &&
                          c.log_outputs[0] != "stderr" && c.log_outputs[0] != "stdout" &&
                          c.log_outputs[0] != "systemd/journal";
    if (!one_file) {
      return "--log-outputs requires a single file path when --log-rotate-config-json is defined";
    }
  }
  return {};
}

std::string CheckTiming(const Config& c) {
  if (c.heartbeat_ms == 0) {
    return "--heartbeat-interval must be >0 (set to 0ms)";
  }
  if (c.election_ms == 0) {
    return "--election-timeout must be >0 (set to 0ms)";
  }
  if (5 * c.heartbeat_ms > c.election_ms) {
    return fmt::format(
        "--election-timeout[{}ms] should be at least as 5 times as --heartbeat-interval[{}ms]",
        c.election_ms, c.heartbeat_ms);
  }
  if (c.election_ms > 50000) {
    return fmt::format("--election-timeout[{}ms] is too long, and should be set less than 50000ms",
                       c.election_ms);
  }
  if (c.auto_compaction_mode.empty()) {
    return "undefined auto-compaction-mode";
  }
  if (c.auto_compaction_mode != "periodic" && c.auto_compaction_mode != "revision") {
    return fmt::format("unknown auto-compaction-mode \"{}\"", c.auto_compaction_mode);
  }
  const std::optional<int64_t> retention = ParseGoInt(c.auto_compaction_retention);
  if (retention && *retention < 0) {  // etcd then reads it as a duration
    return fmt::format("error parsing CompactionRetention: time: missing unit in duration \"{}\"",
                       c.auto_compaction_retention);
  }
  if (!retention && !ParseGoDuration(c.auto_compaction_retention)) {
    return fmt::format("error parsing CompactionRetention: time: invalid duration \"{}\"",
                       c.auto_compaction_retention);
  }
  const std::string token = c.auth_token.substr(0, c.auth_token.find(','));
  if (!token.empty() && token != "simple" && token != "jwt") {
    return "auth: invalid auth options";
  }
  if (c.compact_hash_check_time <= std::chrono::nanoseconds(0)) {
    return fmt::format("--compact-hash-check-time must be >0 (set to {}ns)",
                       c.compact_hash_check_time.count());
  }
  return {};
}

std::string CheckClustering(Config* c) {
  const int ways = (c->was_set("initial-cluster") ? 1 : 0) +
                   (c->discovery_endpoints.empty() ? 0 : 1) + (c->discovery_srv.empty() ? 0 : 1);
  if (ways > 1) {
    return "multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\", "
           "\"discovery-endpoints\" or "
           "\"discovery-srv\"";
  }
  if (c->discovery_token.empty() != c->discovery_endpoints.empty()) {
    return "both --discovery-token and --discovery-endpoints must be set";
  }
  if (std::find(c->discovery_endpoints.begin(), c->discovery_endpoints.end(), "") !=
      c->discovery_endpoints.end()) {
    return "--discovery-endpoints must not contain empty endpoints";
  }
  if (c->discovery_fallback == "proxy") {
    return "v2 proxy is deprecated, and --discovery-fallback can't be configured as \"proxy\"";
  }
  if (c->was_set("listen-client-urls") && !c->was_set("advertise-client-urls")) {
    return "--advertise-client-urls is required when --listen-client-urls is set explicitly";
  }
  if (!c->was_set("initial-cluster") && ways == 0) {
    c->initial_cluster.clear();
    for (const std::string& url : c->initial_advertise_peer_urls) {
      c->initial_cluster += (c->initial_cluster.empty() ? "" : ",") + c->name + "=" + url;
    }
  }
  return {};
}

void FillDefaults(Config* c, Notes* notes) {
  if (c->data_dir.empty()) {
    c->data_dir = c->name + ".etcd";
    notes->push_back({true, "'data-dir' was empty; using default", {{"data-dir", c->data_dir}}});
  }
  if (c->snapshot_count == 0) {
    c->snapshot_count = 10000;
  }
  if (c->snapshot_catchup_entries == 0) {
    c->snapshot_catchup_entries = 5000;
  }
  const std::chrono::nanoseconds shortest = std::chrono::milliseconds(100);
  if (c->watch_progress_notify_interval.count() == 0) {
    c->watch_progress_notify_interval = std::chrono::minutes(10);
  } else if (c->watch_progress_notify_interval < shortest) {
    notes->push_back(
        {true, "set watch progress notify interval to the minimum", {{"minimum", "100ms"}}});
    c->watch_progress_notify_interval = shortest;
  }
  if (c->warning_unary_request_duration.count() == 0) {
    c->warning_unary_request_duration = std::chrono::milliseconds(300);
  }
  if (c->bcrypt_cost < 4 || c->bcrypt_cost > 31) {
    notes->push_back({true,
                      "use default bcrypt cost instead of the invalid given cost",
                      {{"default-cost", "10"}}});
    c->bcrypt_cost = 10;
  }
  if (c->name == "default") {
    notes->push_back({true,
                      "it isn't recommended to use default name, please set a value for --name. "
                      "Note that etcd might run "
                      "into issue when multiple members have the same default name",
                      {{"name", c->name}}});
  }
  if (c->listen_client_http_urls.empty()) {
    notes->push_back(
        {true,
         "Running http and grpc server on single port. This is not recommended for production.",
         {}});
  }
  for (const char* flag : {"max-snapshots", "v2-deprecation"}) {
    if (c->was_set(flag)) {
      notes->push_back({true, "deprecated flag is set", {{"flag", flag}}});
    }
  }
}

}  // namespace

std::string Validate(Config* config, std::vector<ParseOutcome::Note>* notes) {
  for (const auto& check : std::initializer_list<std::string (*)(Config*)>{
           [](Config* c) { return CheckLogging(*c); }, [](Config* c) { return CheckClustering(c); },
           [](Config* c) { return CheckListeners(*c); }, [](Config* c) { return CheckTls(c); },
           [](Config* c) { return CheckTiming(*c); }}) {
    if (std::string error = check(config); !error.empty()) {
      return error;
    }
  }
  if (config->gate("LeaseCheckpointPersist") && !config->gate("LeaseCheckpoint")) {
    return "enabling feature gate LeaseCheckpointPersist requires enabling feature gate "
           "LeaseCheckpoint";
  }
  FillDefaults(config, notes);
  return {};
}

}  // namespace mainstay::main

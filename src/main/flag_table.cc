#include "main/flag_table.h"

#include <algorithm>
#include <array>

namespace mainstay::main {
namespace {

using Setter = std::function<std::string(Config&, std::string_view)>;
constexpr const char* kParseError = "parse error";

Setter Text(std::string Config::*field) {
  return [field](Config& c, std::string_view v) {
    c.*field = v;
    return std::string();
  };
}
Setter Bool(bool Config::*field) {
  return [field](Config& c, std::string_view v) -> std::string {
    const auto parsed = ParseGoBool(v);
    if (!parsed) {
      return kParseError;
    }
    c.*field = *parsed;
    return {};
  };
}
Setter Uint(uint64_t Config::*field) {
  return [field](Config& c, std::string_view v) -> std::string {
    const auto parsed = ParseGoUint(v);
    if (!parsed) {
      return kParseError;
    }
    c.*field = *parsed;
    return {};
  };
}
Setter Int(int64_t Config::*field) {
  return [field](Config& c, std::string_view v) -> std::string {
    const auto parsed = ParseGoInt(v);
    if (!parsed) {
      return kParseError;
    }
    c.*field = *parsed;
    return {};
  };
}
Setter Duration(std::chrono::nanoseconds Config::*field) {
  return [field](Config& c, std::string_view v) -> std::string {
    const auto parsed = ParseGoDuration(v);
    if (!parsed) {
      return kParseError;
    }
    c.*field = *parsed;
    return {};
  };
}
Setter Urls(std::vector<std::string> Config::*field) {
  return [field](Config& c, std::string_view v) -> std::string {
    if (v.empty()) {
      (c.*field).clear();
      return {};
    }
    return ParseUrls(v, &(c.*field));
  };
}
Setter List(std::vector<std::string> Config::*field) {
  return [field](Config& c, std::string_view v) {
    c.*field = v.empty() ? std::vector<std::string>() : SplitComma(v);
    return std::string();
  };
}
Setter OneOf(std::string Config::*field, std::vector<std::string> allowed, std::string reason) {
  return [=](Config& c, std::string_view v) -> std::string {
    if (std::find(allowed.begin(), allowed.end(), v) == allowed.end()) {
      return reason.empty() ? "invalid value \"" + std::string(v) + "\"" : reason;
    }
    c.*field = v;
    return {};
  };
}
Setter TlsText(TlsConfig Config::*tls, std::string TlsConfig::*field) {
  return [=](Config& c, std::string_view v) {
    c.*tls.*field = v;
    return std::string();
  };
}
Setter TlsBool(TlsConfig Config::*tls, bool TlsConfig::*field) {
  return [=](Config& c, std::string_view v) -> std::string {
    const auto parsed = ParseGoBool(v);
    if (!parsed) {
      return kParseError;
    }
    c.*tls.*field = *parsed;
    return {};
  };
}
Setter TlsList(TlsConfig Config::*tls, std::vector<std::string> TlsConfig::*field) {
  return [=](Config& c, std::string_view v) {
    c.*tls.*field = v.empty() ? std::vector<std::string>() : SplitComma(v);
    return std::string();
  };
}
std::string SetStreams(Config& c, std::string_view v) {
  const auto parsed = ParseGoUint(v);
  if (!parsed || *parsed > UINT32_MAX) {
    return "strconv.ParseUint: parsing \"" + std::string(v) +
           "\": " + (parsed ? "value out of range" : "invalid syntax");
  }
  c.max_concurrent_streams = static_cast<uint32_t>(*parsed);
  return {};
}
std::string SetCors(Config& c, std::string_view v) {
  if (v == "*") {
    c.cors = {"*"};
    return {};
  }
  return ParseUrls(v, &c.cors);
}

void AddMember(std::vector<FlagRow>* t) {
  constexpr std::string_view kSection = "Member";
  const auto add = [&](std::string_view name, Setter set, std::string_view help,
                       bool is_bool = false) {
    t->push_back({kSection, name, is_bool, std::move(set), help});
  };
  add("name", Text(&Config::name), "Name of this member, for people.");
  add("data-dir", Text(&Config::data_dir),
      "Directory of this member's data ('<name>.etcd' if empty).");
  add("wal-dir", Text(&Config::wal_dir),
      "Directory of the log, when it is to live apart from the data.");
  add("snapshot-count", Uint(&Config::snapshot_count), "Applied entries between two snapshots.");
  add("snapshot-catchup-entries", Uint(&Config::snapshot_catchup_entries),
      "Log entries kept behind a snapshot for slow followers.");
  add("max-snapshots", Uint(&Config::max_snapshots), "Snapshot files to keep. Deprecated.");
  add("max-wals", Uint(&Config::max_wals), "Log segments to keep (0: all).");
  add("heartbeat-interval", Uint(&Config::heartbeat_ms), "Milliseconds between heartbeats.");
  add("election-timeout", Uint(&Config::election_ms),
      "Milliseconds without a leader before an election.");
  add("initial-election-tick-advance", Bool(&Config::initial_election_tick_advance),
      "Advance the election clock at boot, for a faster first election.", true);
  add("listen-peer-urls", Urls(&Config::listen_peer_urls), "URLs to listen on for other members.");
  add("listen-client-urls", Urls(&Config::listen_client_urls),
      "URLs to listen on for clients, gRPC and HTTP.");
  add("listen-client-http-urls", Urls(&Config::listen_client_http_urls),
      "URLs for HTTP clients only; the client URLs then serve gRPC only.");
  add("listen-metrics-urls", Urls(&Config::listen_metrics_urls),
      "Further URLs that answer /metrics and health.");
  add("quota-backend-bytes", Int(&Config::quota_backend_bytes),
      "Size at which writes stop with an alarm (0: 2 GiB; negative: no quota).");
  add("backend-bbolt-freelist-type", Text(&Config::bbolt_freelist_type),
      "Accepted; Mainstay has no such list.");
  add("backend-batch-interval", Duration(&Config::backend_batch_interval),
      "Accepted; the log is the commit point.");
  add("backend-batch-limit", Int(&Config::backend_batch_limit),
      "Accepted; the log is the commit point.");
  add("max-txn-ops", Uint(&Config::max_txn_ops), "Operations allowed in one transaction.");
  add("max-request-bytes", Uint(&Config::max_request_bytes), "Largest request, in bytes.");
  add("max-concurrent-streams", SetStreams, "Streams that one connection may have open.");
  add("grpc-keepalive-min-time", Duration(&Config::grpc_keepalive_min_time),
      "Shortest time between two pings of a client.");
  add("grpc-keepalive-interval", Duration(&Config::grpc_keepalive_interval),
      "Time between pings to a silent client (0: none).");
  add("grpc-keepalive-timeout", Duration(&Config::grpc_keepalive_timeout),
      "How long to wait for its answer.");
  add("socket-reuse-port", Bool(&Config::socket_reuse_port), "SO_REUSEPORT on listeners.", true);
  add("socket-reuse-address", Bool(&Config::socket_reuse_address), "SO_REUSEADDR on listeners.",
      true);
  add("raft-read-timeout", Duration(&Config::raft_read_timeout),
      "Read timeout of peer connections (at least 5s).");
  add("raft-write-timeout", Duration(&Config::raft_write_timeout),
      "Write timeout of peer connections (at least 5s).");
  add("memory-mlock", Bool(&Config::memory_mlock), "Keep memory from being swapped out.", true);
  add("enable-grpc-gateway", Bool(&Config::enable_grpc_gateway), "Serve JSON under /v3/.", true);
  add(
      "feature-gates",
      [](Config& c, std::string_view v) { return ParseFeatureGates(v, &c.feature_gates); },
      "Feature switches, Name=bool, comma separated.");
}

void AddClustering(std::vector<FlagRow>* t) {
  constexpr std::string_view kSection = "Clustering";
  const auto add = [&](std::string_view name, Setter set, std::string_view help,
                       bool is_bool = false) {
    t->push_back({kSection, name, is_bool, std::move(set), help});
  };
  add("initial-advertise-peer-urls", Urls(&Config::initial_advertise_peer_urls),
      "Peer URLs that other members are told.");
  add("initial-cluster", Text(&Config::initial_cluster),
      "Members at first boot: name=url,name=url.");
  add("initial-cluster-state",
      OneOf(&Config::initial_cluster_state, {"new", "existing"}, "invalid value"),
      "'new', or 'existing' to join a running cluster.");
  add("initial-cluster-token", Text(&Config::initial_cluster_token),
      "Tells clusters with equal URLs apart.");
  add("advertise-client-urls", Urls(&Config::advertise_client_urls),
      "Client URLs that the cluster tells clients.");
  add("discovery-endpoints", List(&Config::discovery_endpoints),
      "Endpoints of a discovery cluster.");
  add("discovery-token", Text(&Config::discovery_token),
      "Token of this cluster in the discovery cluster.");
  add("discovery-dial-timeout", Duration(&Config::discovery_dial_timeout),
      "Discovery: dial timeout.");
  add("discovery-request-timeout", Duration(&Config::discovery_request_timeout),
      "Discovery: request timeout.");
  add("discovery-keepalive-time", Duration(&Config::discovery_keepalive_time),
      "Discovery: keep-alive period.");
  add("discovery-keepalive-timeout", Duration(&Config::discovery_keepalive_timeout),
      "Discovery: keep-alive timeout.");
  add("discovery-insecure-transport", Bool(&Config::discovery_insecure_transport),
      "Discovery: no TLS.", true);
  add("discovery-insecure-skip-tls-verify", Bool(&Config::discovery_insecure_skip_tls_verify),
      "Discovery: do not verify the server.", true);
  add("discovery-cert", Text(&Config::discovery_cert), "Discovery: client certificate.");
  add("discovery-key", Text(&Config::discovery_key), "Discovery: its key.");
  add("discovery-cacert", Text(&Config::discovery_cacert), "Discovery: certificate authorities.");
  add("discovery-user", Text(&Config::discovery_user), "Discovery: user[:password].");
  add("discovery-password", Text(&Config::discovery_password), "Discovery: password.");
  add("discovery-srv", Text(&Config::discovery_srv),
      "DNS domain whose SRV records name the members.");
  add("discovery-srv-name", Text(&Config::discovery_srv_name), "Suffix of the SRV service name.");
  add("discovery-fallback", OneOf(&Config::discovery_fallback, {"exit", "proxy"}, ""), "Accepted.");
  add("strict-reconfig-check", Bool(&Config::strict_reconfig_check),
      "Refuse member changes that would lose the quorum.", true);
  add("pre-vote", Bool(&Config::pre_vote), "Ask before raising the term in an election.", true);
  add("auto-compaction-mode", Text(&Config::auto_compaction_mode), "'periodic' or 'revision'.");
  add("auto-compaction-retention", Text(&Config::auto_compaction_retention),
      "History to keep: a duration, hours or a number of revisions (0: no automatic compaction).");
  add("v2-deprecation",
      OneOf(&Config::v2_deprecation,
            {"write-only", "write-only-skip-check", "write-only-drop-data", "gone"}, ""),
      "Accepted. Deprecated.");
}

void AddSecurity(std::vector<FlagRow>* t) {
  constexpr std::string_view kSection = "Security";
  const auto add = [&](std::string_view name, Setter set, std::string_view help,
                       bool is_bool = false) {
    t->push_back({kSection, name, is_bool, std::move(set), help});
  };
  const auto client = &Config::client_tls;
  const auto peer = &Config::peer_tls;
  add("cert-file", TlsText(client, &TlsConfig::cert_file), "Server certificate for clients.");
  add("key-file", TlsText(client, &TlsConfig::key_file), "Its key.");
  add("client-cert-file", TlsText(client, &TlsConfig::client_cert_file),
      "Certificate for dialling the client port.");
  add("client-key-file", TlsText(client, &TlsConfig::client_key_file), "Its key.");
  add("client-cert-auth", TlsBool(client, &TlsConfig::client_cert_auth),
      "Require client certificates.", true);
  add("trusted-ca-file", TlsText(client, &TlsConfig::trusted_ca_file),
      "Authorities for client certificates; set alone it requires them.");
  add("client-crl-file", TlsText(client, &TlsConfig::crl_file),
      "Revoked client certificates (DER).");
  add("client-cert-allowed-hostname", TlsList(client, &TlsConfig::allowed_hostname),
      "Names, one of which a client certificate must carry.");
  add("auto-tls", TlsBool(client, &TlsConfig::auto_tls),
      "Make a self-signed certificate for clients.", true);
  add("peer-cert-file", TlsText(peer, &TlsConfig::cert_file),
      "Certificate for other members, both ways.");
  add("peer-key-file", TlsText(peer, &TlsConfig::key_file), "Its key.");
  add("peer-client-cert-file", TlsText(peer, &TlsConfig::client_cert_file),
      "Certificate for dialling members.");
  add("peer-client-key-file", TlsText(peer, &TlsConfig::client_key_file), "Its key.");
  add("peer-client-cert-auth", TlsBool(peer, &TlsConfig::client_cert_auth),
      "Require certificates of members.", true);
  add("peer-trusted-ca-file", TlsText(peer, &TlsConfig::trusted_ca_file),
      "Authorities for members.");
  add("peer-crl-file", TlsText(peer, &TlsConfig::crl_file), "Revoked member certificates (DER).");
  add("peer-cert-allowed-cn", TlsList(peer, &TlsConfig::allowed_cn),
      "Common names allowed for members.");
  add("peer-cert-allowed-hostname", TlsList(peer, &TlsConfig::allowed_hostname),
      "Names allowed for members.");
  add("peer-auto-tls", TlsBool(peer, &TlsConfig::auto_tls),
      "Make self-signed certificates for members.", true);
  add("peer-skip-client-san-verification", TlsBool(peer, &TlsConfig::skip_client_san_verification),
      "Do not compare a member's address with its certificate.", true);
  add("self-signed-cert-validity", Uint(&Config::self_signed_cert_validity_years),
      "Years for which self-signed certificates hold.");
  add("cipher-suites", List(&Config::cipher_suites), "TLS 1.2 cipher suites, comma separated.");
  add("tls-min-version", Text(&Config::tls_min_version), "TLS1.2 or TLS1.3.");
  add("tls-max-version", Text(&Config::tls_max_version), "TLS1.2 or TLS1.3 (empty: newest).");
  add("cors", SetCors, "Origins allowed to use the JSON API from a browser.");
  add("host-whitelist", List(&Config::host_whitelist),
      "Host names accepted from plaintext HTTP clients.");
}

void AddRest(std::vector<FlagRow>* t) {
  std::string_view section;
  const auto add = [&](std::string_view name, Setter set, std::string_view help,
                       bool is_bool = false) {
    t->push_back({section, name, is_bool, std::move(set), help});
  };
  section = "Auth";
  add("auth-token", Text(&Config::auth_token), "'simple', or 'jwt' with its options.");
  add("bcrypt-cost", Uint(&Config::bcrypt_cost), "Cost of hashing passwords, 4 to 31.");
  add("auth-token-ttl", Uint(&Config::auth_token_ttl_s),
      "Seconds that a simple token lives unused.");
  section = "Monitoring and logging";
  add("enable-pprof", Bool(&Config::enable_pprof), "Accepted; Mainstay has no Go profiles.", true);
  add("metrics", Text(&Config::metrics), "'basic', or 'extensive' for request histograms.");
  add("logger", Text(&Config::logger), "'zap'.");
  add("log-outputs", List(&Config::log_outputs),
      "'default', 'stderr', 'stdout', 'systemd/journal' or files.");
  add("log-level", Text(&Config::log_level), "debug, info, warn, error, panic or fatal.");
  add("log-format", Text(&Config::log_format), "'json' or 'console'.");
  add("enable-log-rotation", Bool(&Config::enable_log_rotation), "Rotate the one log file.", true);
  add("log-rotation-config-json", Text(&Config::log_rotation_config_json), "How to rotate it.");
  add("warning-apply-duration", Duration(&Config::warning_apply_duration),
      "Warn of applies slower than this.");
  add("warning-unary-request-duration", Duration(&Config::warning_unary_request_duration),
      "Warn of requests slower than this.");
  section = "Tracing";
  add("enable-distributed-tracing", Bool(&Config::enable_distributed_tracing), "Accepted.", true);
  add("distributed-tracing-address", Text(&Config::distributed_tracing_address),
      "Address of the collector.");
  add("distributed-tracing-service-name", Text(&Config::distributed_tracing_service_name),
      "Service name.");
  add("distributed-tracing-instance-id", Text(&Config::distributed_tracing_instance_id),
      "Instance.");
  add("distributed-tracing-sampling-rate", Int(&Config::distributed_tracing_sampling_rate),
      "Samples per million.");
  section = "Features";
  add("corrupt-check-time", Duration(&Config::corrupt_check_time),
      "Period of comparing hashes (0: off).");
  add("compact-hash-check-time", Duration(&Config::compact_hash_check_time),
      "Period of comparing compaction hashes.");
  add("compaction-batch-limit", Int(&Config::compaction_batch_limit),
      "Revisions removed in one step (0: 1000).");
  add("compaction-sleep-interval", Duration(&Config::compaction_sleep_interval),
      "Pause between two steps (0: 10ms).");
  add("watch-progress-notify-interval", Duration(&Config::watch_progress_notify_interval),
      "Period of progress notifications (0: 10m).");
  add("downgrade-check-time", Duration(&Config::downgrade_check_time),
      "Period of checking on a downgrade.");
  add("bootstrap-defrag-threshold-megabytes", Uint(&Config::bootstrap_defrag_threshold_mb),
      "Accepted; space comes back by itself.");
  add("max-learners", Int(&Config::max_learners), "Learners allowed at a time.");
  section = "Unsafe";
  add("force-new-cluster", Bool(&Config::force_new_cluster),
      "Start a one-member cluster from this data.", true);
  add("unsafe-no-fsync", Bool(&Config::unsafe_no_fsync),
      "Do not wait for the disk. Loses data at a crash.", true);
}

}  // namespace

const std::vector<FlagRow>& FlagTable() {
  static const std::vector<FlagRow> table = [] {
    std::vector<FlagRow> t;
    AddMember(&t);
    AddClustering(&t);
    AddSecurity(&t);
    AddRest(&t);
    t.push_back({"Other", "config-file", false, Text(&Config::config_file),
                 "Read the configuration from this file; flags and environment are then ignored."});
    return t;
  }();
  return table;
}

const FlagRow* FindFlag(std::string_view name) {
  for (const FlagRow& row : FlagTable()) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

bool IsIgnoredFlag(std::string_view name) {
  static constexpr std::array<std::string_view, 15> kIgnored = {"cluster-active-size",
                                                                "cluster-remove-delay",
                                                                "cluster-sync-interval",
                                                                "config",
                                                                "force",
                                                                "max-result-buffer",
                                                                "max-retry-attempts",
                                                                "peer-heartbeat-interval",
                                                                "peer-election-timeout",
                                                                "retry-interval",
                                                                "snapshot",
                                                                "v",
                                                                "vv",
                                                                "test.coverprofile",
                                                                "test.outputdir"};
  return std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end();
}

Replacement ReplaceExperimental(std::string_view name, std::string_view value) {
  constexpr std::string_view kPrefix = "experimental-";
  if (!name.starts_with(kPrefix)) {
    return {};
  }
  const std::string_view rest = name.substr(kPrefix.size());
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kGates = {{
      {"initial-corrupt-check", "InitialCorruptCheck"},
      {"compact-hash-check-enabled", "CompactHashCheck"},
      {"enable-lease-checkpoint", "LeaseCheckpoint"},
      {"enable-lease-checkpoint-persist", "LeaseCheckpointPersist"},
      {"stop-grpc-service-on-defrag", "StopGRPCServiceOnDefrag"},
      {"txn-mode-write-with-shared-buffer", "TxnModeWriteWithSharedBuffer"},
  }};
  for (const auto& [flag, gate] : kGates) {
    if (rest == flag) {
      return {"feature-gates", std::string(gate) + "=" + std::string(value)};
    }
  }
  static constexpr std::array<std::string_view, 17> kSame = {"corrupt-check-time",
                                                             "compact-hash-check-time",
                                                             "compaction-batch-limit",
                                                             "compaction-sleep-interval",
                                                             "watch-progress-notify-interval",
                                                             "warning-apply-duration",
                                                             "warning-unary-request-duration",
                                                             "bootstrap-defrag-threshold-megabytes",
                                                             "memory-mlock",
                                                             "snapshot-catchup-entries",
                                                             "downgrade-check-time",
                                                             "peer-skip-client-san-verification",
                                                             "enable-distributed-tracing",
                                                             "distributed-tracing-address",
                                                             "distributed-tracing-service-name",
                                                             "distributed-tracing-instance-id",
                                                             "distributed-tracing-sampling-rate"};
  if (std::find(kSame.begin(), kSame.end(), rest) != kSame.end()) {
    return {std::string(rest), std::string(value)};
  }
  return {};
}

}  // namespace mainstay::main

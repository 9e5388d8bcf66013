// Config: what an operator may set, by flag, environment variable or file, with etcd 3.7.1's names,
// defaults and errors (docs/operations.md).
//
// Role       Filled by ParseCommandLine(); checked by Validate(); read once by main's wiring,
// constant afterwards. Errors     ParseOutcome carries the text and exit code with which etcd ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mainstay::main {

struct TlsConfig {
  std::string cert_file, key_file, client_cert_file, client_key_file, trusted_ca_file, crl_file;
  bool client_cert_auth = false;
  bool auto_tls = false;
  bool skip_client_san_verification = false;
  std::vector<std::string> allowed_cn, allowed_hostname;
  bool empty() const { return cert_file.empty() && key_file.empty(); }
};

struct Config {
  using Ns = std::chrono::nanoseconds;

  // Member
  std::string name = "default";
  std::string data_dir, wal_dir;
  uint64_t snapshot_count = 10000;
  uint64_t snapshot_catchup_entries = 5000;
  uint64_t max_snapshots = 5, max_wals = 5;
  uint64_t heartbeat_ms = 100, election_ms = 1000;
  bool initial_election_tick_advance = true;
  std::vector<std::string> listen_peer_urls{"http://localhost:2380"};
  std::vector<std::string> listen_client_urls{"http://localhost:2379"};
  std::vector<std::string> listen_client_http_urls, listen_metrics_urls;
  int64_t quota_backend_bytes = 0;
  std::string bbolt_freelist_type;
  Ns backend_batch_interval{0};
  int64_t backend_batch_limit = 0;
  uint64_t max_txn_ops = 128;
  uint64_t max_request_bytes = 1572864;
  uint32_t max_concurrent_streams = UINT32_MAX;
  Ns grpc_keepalive_min_time = std::chrono::seconds(5);
  Ns grpc_keepalive_interval = std::chrono::hours(2);
  Ns grpc_keepalive_timeout = std::chrono::seconds(20);
  bool socket_reuse_port = false, socket_reuse_address = false;
  Ns raft_read_timeout = std::chrono::seconds(5), raft_write_timeout = std::chrono::seconds(5);
  bool memory_mlock = false;
  bool enable_grpc_gateway = true;
  std::map<std::string, bool> feature_gates;

  // Clustering
  std::vector<std::string> initial_advertise_peer_urls{"http://localhost:2380"};
  std::string initial_cluster = "default=http://localhost:2380";
  std::string initial_cluster_state = "new";
  std::string initial_cluster_token = "etcd-cluster";
  std::vector<std::string> advertise_client_urls{"http://localhost:2379"};
  std::vector<std::string> discovery_endpoints;
  std::string discovery_token, discovery_cert, discovery_key, discovery_cacert, discovery_user,
      discovery_password, discovery_srv, discovery_srv_name, discovery_fallback = "exit";
  Ns discovery_dial_timeout = std::chrono::seconds(2),
     discovery_request_timeout = std::chrono::seconds(5),
     discovery_keepalive_time = std::chrono::seconds(2),
     discovery_keepalive_timeout = std::chrono::seconds(6);
  bool discovery_insecure_transport = true, discovery_insecure_skip_tls_verify = false;
  bool strict_reconfig_check = true;
  bool pre_vote = true;
  std::string auto_compaction_mode = "periodic";
  std::string auto_compaction_retention = "0";
  std::string v2_deprecation = "write-only";

  // Security
  TlsConfig client_tls, peer_tls;
  uint64_t self_signed_cert_validity_years = 1;
  std::vector<std::string> cipher_suites;
  std::string tls_min_version = "TLS1.2", tls_max_version;
  std::vector<std::string> cors{"*"}, host_whitelist{"*"};

  // Auth, monitoring, logging, tracing
  std::string auth_token = "simple";
  uint64_t bcrypt_cost = 10;
  uint64_t auth_token_ttl_s = 300;
  bool enable_pprof = false;
  std::string metrics = "basic";
  std::string logger = "zap";
  std::vector<std::string> log_outputs{"default"};
  std::string log_level = "info", log_format = "json";
  bool enable_log_rotation = false;
  std::string log_rotation_config_json =
      R"({"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false})";
  Ns warning_apply_duration = std::chrono::milliseconds(100);
  Ns warning_unary_request_duration = std::chrono::milliseconds(300);
  bool enable_distributed_tracing = false;
  std::string distributed_tracing_address = "localhost:4317",
              distributed_tracing_service_name = "etcd", distributed_tracing_instance_id;
  int64_t distributed_tracing_sampling_rate = 0;

  // Features and unsafe switches
  Ns corrupt_check_time{0};
  Ns compact_hash_check_time = std::chrono::minutes(1);
  int64_t compaction_batch_limit = 0;
  Ns compaction_sleep_interval{0};
  Ns watch_progress_notify_interval{0};
  Ns downgrade_check_time = std::chrono::seconds(5);
  uint64_t bootstrap_defrag_threshold_mb = 0;
  int64_t max_learners = 1;
  bool force_new_cluster = false;
  bool unsafe_no_fsync = false;

  std::string config_file;

  // Which flags were set by the command line or the environment (names as in flags).
  std::map<std::string, bool> set;
  bool was_set(const std::string& flag) const { return set.contains(flag); }
  bool gate(const std::string& name) const;
};

// What to tell the operator and with which code to end, or a configuration to go on with.
struct ParseOutcome {
  std::optional<int> exit_code;  // nullopt: run
  std::string to_stdout, to_stderr;
  Config config;
  // Log lines that belong at the head of the run: level, message, key-value pairs.
  struct Note {
    bool warn = false;
    std::string message;
    std::vector<std::pair<std::string, std::string>> fields;
  };
  std::vector<Note> notes;
};

// `environment`: "ETCD_X=value" strings. Reads the configuration file when one is named.
ParseOutcome ParseCommandLine(const std::vector<std::string>& args,
                              const std::vector<std::string>& environment);

// The first broken rule in etcd's words, or empty. May fill in what depends on other settings.
std::string Validate(Config* config, std::vector<ParseOutcome::Note>* notes);

// YAML by the rules of operations.md 1.2. Empty, or what is wrong.
std::string LoadConfigFile(const std::string& path, Config* config);

// ---- pieces that flags and the file share
// ------------------------------------------------------------------------ Go's time.ParseDuration.
std::optional<std::chrono::nanoseconds> ParseGoDuration(std::string_view text);
// Go's strconv.ParseInt/ParseUint with base 0: prefixes 0x, 0o, 0b, 0, and underscores.
std::optional<int64_t> ParseGoInt(std::string_view text);
std::optional<uint64_t> ParseGoUint(std::string_view text);
std::optional<bool> ParseGoBool(std::string_view text);
std::vector<std::string> SplitComma(std::string_view text);
// Trims, checks, sorts. Empty or the error.
std::string ParseUrls(std::string_view text, std::vector<std::string>* urls);
// Empty or the error; unknown gates are refused.
std::string ParseFeatureGates(std::string_view text, std::map<std::string, bool>* gates);

struct FeatureGate {
  std::string_view name;
  bool on_by_default;
  std::string_view stage;
};
const std::vector<FeatureGate>& KnownFeatureGates();

}  // namespace mainstay::main

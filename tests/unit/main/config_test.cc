// Goal: flags, environment and file are read as etcd 3.7.1 reads them; every quoted text was seen
// on a real etcd.
#include "main/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace mainstay::main {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

ParseOutcome Parse(std::vector<std::string> args, std::vector<std::string> environment = {}) {
  return ParseCommandLine(args, environment);
}
std::string FailureOf(const ParseOutcome& out) {
  for (const auto& note : out.notes) {
    if (note.message == "failed to verify flags") {
      return note.fields[0].second;
    }
  }
  return {};
}

TEST(FlagTest, BothDashesAndBothValueForms) {
  const ParseOutcome out =
      Parse({"-name=a", "--data-dir", "d", "--pre-vote=false", "--strict-reconfig-check"});
  ASSERT_FALSE(out.exit_code) << out.to_stderr;
  EXPECT_EQ(out.config.name, "a");
  EXPECT_EQ(out.config.data_dir, "d");
  EXPECT_FALSE(out.config.pre_vote);
  EXPECT_TRUE(out.config.strict_reconfig_check);
  EXPECT_EQ(out.config.initial_cluster, "a=http://localhost:2380");
}

TEST(FlagTest, BoolTakesNoWord) {
  const ParseOutcome out = Parse({"--pre-vote", "false"});
  EXPECT_EQ(out.exit_code, 1);
  EXPECT_EQ(FailureOf(out), "\"false\" is not a valid flag");
}

TEST(FlagTest, BadOnesEndWithUsageAndTwo) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--foo", "flag provided but not defined: -foo"},
      {"--max-txn-ops=x", "invalid value \"x\" for flag -max-txn-ops: parse error"},
      {"--pre-vote=maybe", "invalid boolean value \"maybe\" for -pre-vote: parse error"},
      {"--warning-apply-duration=5",
       "invalid value \"5\" for flag -warning-apply-duration: parse error"},
      {"--listen-client-urls=foo",
       "invalid value \"foo\" for flag -listen-client-urls: URL scheme must be http, https, unix, "
       "or unixs: foo"},
      {"--initial-cluster-state=zzz",
       "invalid value \"zzz\" for flag -initial-cluster-state: invalid value"},
      {"--feature-gates=Foo=true",
       "invalid value \"Foo=true\" for flag -feature-gates: unrecognized feature gate: Foo"},
      {"--max-concurrent-streams=99999999999",
       "invalid value \"99999999999\" for flag -max-concurrent-streams: strconv.ParseUint: parsing "
       "\"99999999999\": value "
       "out of range"},
      {"--v2-deprecation=not-yet",
       "invalid value \"not-yet\" for flag -v2-deprecation: invalid value \"not-yet\""},
      {"--snapshot-count=-1", "invalid value \"-1\" for flag -snapshot-count: parse error"},
      {"--name", "flag needs an argument: -name"},
  };
  for (const auto& [arg, text] : cases) {
    const ParseOutcome out = Parse({arg});
    EXPECT_EQ(out.exit_code, 2) << arg;
    EXPECT_THAT(out.to_stderr, StartsWith(text + "\nUsage:\n")) << arg;
  }
}

TEST(FlagTest, BrokenRulesEndWithOne) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--heartbeat-interval=0"}, "--heartbeat-interval must be >0 (set to 0ms)"},
      {{"--heartbeat-interval=300"},
       "--election-timeout[1000ms] should be at least as 5 times as --heartbeat-interval[300ms]"},
      {{"--election-timeout=60000"},
       "--election-timeout[60000ms] is too long, and should be set less than 50000ms"},
      {{"--auto-compaction-retention=-5"},
       "error parsing CompactionRetention: time: missing unit in duration \"-5\""},
      {{"--auth-token=zz"}, "auth: invalid auth options"},
      {{"--config-file=/"}, "read /: is a directory"},
      {{"--config-file=/no/such"}, "open /no/such: no such file or directory"},
      {{"--auto-compaction-mode=zz"}, "unknown auto-compaction-mode \"zz\""},
      {{"--log-outputs=default,stdout"}, "multi logoutput for \"default\" is not supported yet"},
      {{"--log-format=zz"}, "unknown log format: zz, supported values json, console"},
      {{"--listen-client-urls=http://127.0.0.1:2379"},
       "--advertise-client-urls is required when --listen-client-urls is set explicitly"},
      {{"--listen-client-urls=http://example.org:2379",
        "--advertise-client-urls=http://example.org:2379"},
       "expected IP in URL for binding (http://example.org:2379)"},
      {{"--listen-client-urls=https://127.0.0.1:2379",
        "--advertise-client-urls=https://127.0.0.1:2379"},
       "TLS key/cert (--cert-file, --key-file) must be provided for client url "
       "https://127.0.0.1:2379 with HTTPS scheme"},
      {{"--cert-file=a"}, "KeyFile and CertFile must both be present[key: , cert: a]"},
      {{"--discovery-token=x"}, "both --discovery-token and --discovery-endpoints must be set"},
      {{"--feature-gates=LeaseCheckpointPersist=true"},
       "enabling feature gate LeaseCheckpointPersist requires enabling feature gate "
       "LeaseCheckpoint"},
  };
  for (const auto& [args, text] : cases) {
    const ParseOutcome out = Parse(args);
    EXPECT_EQ(out.exit_code, 1) << args[0];
    EXPECT_EQ(FailureOf(out), text) << args[0];
  }
}

TEST(FlagTest, KubeadmCommandLineIsTaken) {
  const ParseOutcome out = Parse(
      {"--advertise-client-urls=https://10.0.0.1:2379", "--cert-file=/pki/server.crt",
       "--client-cert-auth=true", "--data-dir=/var/lib/etcd",
       "--feature-gates=InitialCorruptCheck=true",
       "--initial-advertise-peer-urls=https://10.0.0.1:2380",
       "--initial-cluster=n1=https://10.0.0.1:2380", "--key-file=/pki/server.key",
       "--listen-client-urls=https://127.0.0.1:2379,https://10.0.0.1:2379",
       "--listen-metrics-urls=http://127.0.0.1:2381", "--listen-peer-urls=https://10.0.0.1:2380",
       "--name=n1", "--peer-cert-file=/pki/peer.crt", "--peer-client-cert-auth=true",
       "--peer-key-file=/pki/peer.key", "--peer-trusted-ca-file=/pki/ca.crt",
       "--snapshot-count=10000", "--trusted-ca-file=/pki/ca.crt",
       "--watch-progress-notify-interval=5s"});
  ASSERT_FALSE(out.exit_code) << FailureOf(out) << out.to_stderr;
  EXPECT_TRUE(out.config.gate("InitialCorruptCheck"));
  EXPECT_THAT(out.config.listen_client_urls,
              ElementsAre("https://10.0.0.1:2379", "https://127.0.0.1:2379"));
  EXPECT_EQ(out.config.watch_progress_notify_interval, std::chrono::seconds(5));
}

TEST(FlagTest, RemovedExperimentalNamesWorkWithAWarning) {
  const ParseOutcome out = Parse({"--experimental-initial-corrupt-check=true",
                                  "--experimental-compact-hash-check-enabled",
                                  "--experimental-watch-progress-notify-interval=5s"});
  ASSERT_FALSE(out.exit_code) << out.to_stderr;
  EXPECT_TRUE(out.config.gate("InitialCorruptCheck"));
  EXPECT_TRUE(out.config.gate("CompactHashCheck"));
  EXPECT_EQ(out.config.watch_progress_notify_interval, std::chrono::seconds(5));
}

TEST(EnvironmentTest, EveryFlagHasAVariable) {
  const ParseOutcome out =
      Parse({"--name=a"}, {"ETCD_DATA_DIR=/d", "ETCD_QUOTA_BACKEND_BYTES=0x10",
                           "ETCD_WAL_DIR=", "ETCD_PORT_2379_TCP=tcp://1.2.3.4", "HOME=/root"});
  ASSERT_FALSE(out.exit_code);
  EXPECT_EQ(out.config.data_dir, "/d");
  EXPECT_EQ(out.config.quota_backend_bytes, 16);
  bool warned = false;
  for (const auto& note : out.notes) {
    warned |= note.warn && note.message == "unrecognized environment variable";
  }
  EXPECT_TRUE(warned);
}

TEST(EnvironmentTest, FlagAndVariableTogetherAreRefused) {
  const ParseOutcome out = Parse({"--name=a"}, {"ETCD_NAME=a"});
  EXPECT_EQ(out.exit_code, 1);
  EXPECT_THAT(
      FailureOf(out),
      StartsWith("conflicting environment variable is shadowed by corresponding command-line flag "
                 "(either unset environment variable or disable flag))"));
}

TEST(EnvironmentTest, BadValueNamesTheVariable) {
  const ParseOutcome out = Parse({}, {"ETCD_MAX_TXN_OPS=x"});
  EXPECT_EQ(out.exit_code, 1);
  EXPECT_EQ(FailureOf(out), "invalid value \"x\" for ETCD_MAX_TXN_OPS: parse error");
}

class ConfigFileTest : public testing::Test {
 protected:
  ParseOutcome Load(const std::string& text) {
    const std::string path =
        testing::TempDir() + "mainstay-config-" + std::to_string(getpid()) + ".yml";
    std::ofstream(path) << text;
    ParseOutcome out =
        Parse({"--config-file=" + path, "--name=ignored"}, {"ETCD_DATA_DIR=ignored"});
    std::remove(path.c_str());
    return out;
  }
};

TEST_F(ConfigFileTest, FlagsAndEnvironmentAreIgnored) {
  const ParseOutcome out = Load(
      "name: f\ndata-dir: /data\nelection-timeout: 5000\nheartbeat-interval: "
      "500\nlisten-client-urls: "
      "http://127.0.0.1:1,http://127.0.0.1:2\nwatch-progress-notify-interval: "
      "5000000000\nlog-outputs: [stderr]\nunknown-key: "
      "1\nclient-transport-security:\n  cert-file: c\n  key-file: k\n  client-cert-auth: "
      "true\nsocket-options: {reuse-port: "
      "true}\nauto-compaction-retention: 5\n");
  ASSERT_FALSE(out.exit_code) << FailureOf(out);
  EXPECT_EQ(out.config.name, "f");
  EXPECT_EQ(out.config.data_dir, "/data");
  EXPECT_EQ(out.config.election_ms, 5000u);
  EXPECT_EQ(out.config.watch_progress_notify_interval, std::chrono::seconds(5));
  EXPECT_EQ(out.config.client_tls.cert_file, "c");
  EXPECT_TRUE(out.config.client_tls.client_cert_auth);
  EXPECT_TRUE(out.config.socket_reuse_port);
  EXPECT_EQ(out.config.auto_compaction_retention, "5");
}

TEST_F(ConfigFileTest, DurationTextIsRefused) {
  EXPECT_EQ(Load("watch-progress-notify-interval: 5s\n").exit_code, 1);
}

TEST_F(ConfigFileTest, MalformedTlsMapIsNamed) {
  EXPECT_EQ(FailureOf(Load("peer-transport-security: 5\n")), "invalid peer-transport-security");
}

TEST(GoValuesTest, DurationsAsGo) {
  using std::chrono::milliseconds;
  EXPECT_EQ(ParseGoDuration("1h30m"), std::chrono::minutes(90));
  EXPECT_EQ(ParseGoDuration("1.5s"), milliseconds(1500));
  EXPECT_EQ(ParseGoDuration("-2ms"), milliseconds(-2));
  EXPECT_EQ(ParseGoDuration("0"), milliseconds(0));
  for (const char* bad : {"", "5", "1x", ".s", "s", "1m5"}) {
    EXPECT_FALSE(ParseGoDuration(bad)) << bad;
  }
}

TEST(GoValuesTest, IntegersWithBases) {
  EXPECT_EQ(ParseGoUint("0x1F"), 31u);
  EXPECT_EQ(ParseGoUint("0b11"), 3u);
  EXPECT_EQ(ParseGoUint("017"), 15u);
  EXPECT_EQ(ParseGoUint("1_000"), 1000u);
  EXPECT_EQ(ParseGoInt("-9223372036854775808"), INT64_MIN);
  for (const char* bad : {"", "1__0", "_1", "1_", "0x", "9223372036854775808", "1e9"}) {
    EXPECT_FALSE(ParseGoInt(bad)) << bad;
  }
}

TEST(UrlTest, RulesOfEtcd) {
  std::vector<std::string> urls;
  EXPECT_EQ(ParseUrls("http://b:2, http://a:1,http://b:2", &urls), "");
  EXPECT_THAT(urls, ElementsAre("http://a:1", "http://b:2"));
  EXPECT_EQ(ParseUrls("http://a", &urls),
            "URL address does not have the form \"host:port\": http://a");
  EXPECT_EQ(ParseUrls("http://a:1/", &urls), "URL must not contain a path: http://a:1/");
  EXPECT_EQ(ParseUrls("unix:///run/x.sock", &urls), "");
  EXPECT_EQ(ParseUrls("http://[::1]:2379", &urls), "");
}

TEST(UsageTest, HelpAndVersion) {
  const ParseOutcome help = Parse({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.to_stdout, HasSubstr("--listen-client-urls"));
  const ParseOutcome version = Parse({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.to_stdout, StartsWith("etcd Version: 3.7.1\nGit SHA: "));
}

}  // namespace
}  // namespace mainstay::main

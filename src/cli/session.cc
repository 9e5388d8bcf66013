#include "cli/session.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <grpc/support/log.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>

#include "cli/go_text.h"
#include "common/mutex.h"
#include "common/status.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX wants it declared

namespace mainstay::cli {
namespace {

constexpr std::string_view kPrefix = "ETCDCTL_";

std::string EnvironmentName(std::string_view flag) {
  std::string name(kPrefix);
  for (const char c : flag) {
    name.push_back(c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  }
  return name;
}

// `field` is a further "name":value, or empty.
void LogLine(std::string_view level,
             std::string_view caller,
             std::string_view message,
             std::string_view field) {
  const auto now = std::chrono::system_clock::now();
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
      1000000;
  Err(
      fmt::format("{{\"level\":\"{}\",\"ts\":\"{:%Y-%m-%dT%H:%M:%S}.{:06}Z\",\"caller\":\"{}\","
                  "\"msg\":{}{}{}}}\n",
                  level, fmt::gmtime(std::chrono::system_clock::to_time_t(now)), micros, caller,
                  JsonString(message), field.empty() ? "" : ",", field));
}

std::string VariableField(std::string_view variable) {
  return "\"environment-variable\":" + JsonString(variable);
}

// Why a connection fails (a certificate, mostly) is worth a line; the same line at each attempt is
// not.
void LogOnce(gpr_log_func_args* args) {
  static Mutex& mu = *new Mutex;
  static auto& seen = *new std::set<std::string>;
  if (args->severity != GPR_LOG_SEVERITY_ERROR) {
    return;
  }
  std::string_view file = args->file;
  file = file.substr(file.rfind('/') + 1);
  MutexLock lock(mu);
  if (seen.insert(args->message).second) {
    LogLine("warn", fmt::format("{}:{}", file, args->line), args->message, "\"logger\":\"grpc\"");
  }
}

const char* Environment(const std::string& name) {
  return std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): before any thread starts
}

std::string Trimmed(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t");
  return first == std::string_view::npos
             ? ""
             : std::string(s.substr(first, s.find_last_not_of(" \t") - first + 1));
}

}  // namespace

const std::vector<FlagSpec>& GlobalFlags() {
  using enum FlagType;
  static const auto& flags = *new std::vector<FlagSpec>{
      {"endpoints", 0, kStrings, "127.0.0.1:2379", "servers to talk to, separated by commas", true},
      {"debug", 0, kBool, "false", "print settings and connection details to stderr", true},
      {"write-out", 'w', kString, "simple",
       "output format: fields, json, protobuf, simple or table", true},
      {"hex", 0, kBool, "false", "print keys, values and ids in hexadecimal", true},
      {"dial-timeout", 0, kDuration, "2s", "longest wait for a connection", true},
      {"command-timeout", 0, kDuration, "5s",
       "longest wait for the answer of a short command, after the connection stands", true},
      {"keepalive-time", 0, kDuration, "2s", "idle time after which a connection is probed", true},
      {"keepalive-timeout", 0, kDuration, "6s", "longest wait for a probe's answer", true},
      {"max-request-bytes", 0, kInt, "0", "largest request to send (0 = 2 MiB)", true},
      {"max-recv-bytes", 0, kInt, "0", "largest answer to accept (0 = 2147483647)", true},
      {"insecure-transport", 0, kBool, "true", "talk plaintext unless TLS is asked for", true},
      {"insecure-discovery", 0, kBool, "true", "accept plaintext endpoints found by DNS", true},
      {"insecure-skip-tls-verify", 0, kBool, "false",
       "do not check the server's certificate (for tests only)", true},
      {"cert", 0, kString, "", "TLS certificate file to present", true},
      {"key", 0, kString, "", "key file of that certificate", true},
      {"cacert", 0, kString, "", "CA bundle that the server's certificate must come from", true},
      {"auth-jwt-token", 0, kString, "", "ready JWT to present; excludes --user and --password",
       true},
      {"user", 0, kString, "", "name[:password] to log in with; a missing password is asked for",
       true},
      {"password", 0, kString, "", "password to log in with; --user is then the name alone", true},
      {"discovery-srv", 'd', kString, "", "domain whose SRV records name the endpoints", true},
      {"discovery-srv-name", 0, kString, "", "suffix of the SRV service name", true},
  };
  return flags;
}

int ApplyEnvironment(Invocation& invocation, const std::vector<std::string_view>& extra_names) {
  std::vector<std::string> used;
  std::vector<std::string> shadowed;
  for (const FlagSpec& flag : invocation.inherited) {
    const std::string name = EnvironmentName(flag.name);
    if (invocation.flags.Changed(flag.name)) {
      shadowed.push_back(name);
      continue;
    }
    const char* value = Environment(name);
    if (value != nullptr && *value != '\0') {
      used.push_back(name);
      // A value that does not parse is left out without a word, as etcdctl does.
      static_cast<void>(invocation.flags.Set(flag.name, value));
    }
  }
  for (const std::string_view extra : extra_names) {
    used.push_back(std::string(kPrefix) + std::string(extra));
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (std::find(used.begin(), used.end(), name) != used.end()) {
      continue;
    }
    if (std::find(shadowed.begin(), shadowed.end(), name) != shadowed.end()) {
      LogLine("fatal", "flags/flag.go:86",
              "conflicting environment variable is shadowed by corresponding command-line flag "
              "(either unset environment variable or disable flag))",
              VariableField(name));
      return kExitError;
    }
    if (text.starts_with(kPrefix) && name != "ETCDCTL_TABLE_STYLE") {
      LogLine("warn", "flags/flag.go:94", "unrecognized environment variable", VariableField(text));
    }
  }
  return kExitOk;
}

int Session::ReadTls(const FlagSet& flags) {
  client::TlsOptions& tls = options_.tls;
  for (const auto& [name, into] :
       {std::pair("cert", &tls.cert_file), std::pair("key", &tls.key_file),
        std::pair("cacert", &tls.ca_file)}) {
    *into = flags.String(name);
    if (into->empty() && flags.Changed(name)) {
      return Fail(kExitBadArguments, fmt::format("empty string is passed to --{} option", name));
    }
  }
  const bool by_domain =
      !flags.Bool("insecure-discovery") && !flags.String("discovery-srv").empty();
  if (by_domain) {
    tls.server_name = flags.String("discovery-srv");
  }
  tls.enabled = !tls.cert_file.empty() || !tls.key_file.empty() || !tls.ca_file.empty() ||
                by_domain || !flags.Bool("insecure-transport");
  tls.skip_verify = flags.Bool("insecure-skip-tls-verify");
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return Fail(kExitBadArguments,
                fmt::format("KeyFile and CertFile must both be present[key: {}, cert: {}]",
                            tls.key_file, tls.cert_file));
  }
  return kExitOk;
}

int Session::ReadUser(const FlagSet& flags) {
  options_.token = flags.String("auth-jwt-token");
  const std::string& user = flags.String("user");
  if (!options_.token.empty() || user.empty()) {
    return kExitOk;
  }
  options_.user = user;
  options_.password = flags.String("password");
  if (!options_.password.empty()) {
    return kExitOk;
  }
  const size_t colon = user.find(':');
  if (colon == std::string::npos) {
    options_.password = AskPassword("Password: ");
  } else {
    options_.user = user.substr(0, colon);
    options_.password = user.substr(colon + 1);
  }
  return kExitOk;
}

int Session::Open(Invocation& invocation) {
  std::vector<std::string_view> extra;
  if (invocation.command->name == "watch") {
    extra = {"WATCH_KEY", "WATCH_RANGE_END"};
  }
  if (const int code = ApplyEnvironment(invocation, extra); code != kExitOk) {
    return code;
  }
  const FlagSet& flags = invocation.flags;
  if (flags.Bool("debug")) {
    for (const FlagSpec& flag : invocation.inherited) {
      Err(fmt::format("{}={}\n", EnvironmentName(flag.name), flags.String(flag.name)));
    }
  }
  if (!flags.Bool("debug")) {
    gpr_set_log_function(LogOnce);
  }
  options_.endpoints.clear();
  for (const std::string& endpoint : flags.Strings("endpoints")) {
    options_.endpoints.push_back(Trimmed(endpoint));
  }
  dial_timeout_ = flags.Duration("dial-timeout");
  command_timeout_ = flags.Duration("command-timeout");
  options_.keepalive_time = flags.Duration("keepalive-time");
  options_.keepalive_timeout = flags.Duration("keepalive-timeout");
  if (const int64_t bytes = flags.Int("max-request-bytes"); bytes > 0) {
    options_.send_bytes_max = static_cast<int>(std::min<int64_t>(bytes, INT32_MAX));
  }
  if (const int64_t bytes = flags.Int("max-recv-bytes"); bytes > 0) {
    options_.receive_bytes_max = static_cast<int>(std::min<int64_t>(bytes, INT32_MAX));
  }
  if (const int code = ReadTls(flags); code != kExitOk) {
    return code;
  }
  if (const int code = ReadUser(flags); code != kExitOk) {
    return code;
  }
  const std::optional<Format> format = ParseFormat(flags.String("write-out"));
  if (!format.has_value()) {
    return Fail(kExitBadFeature, "unsupported output format");
  }
  hex_ = flags.Bool("hex");
  printer_.emplace(*format, hex_);
  return kExitOk;
}

int Session::Connect(std::unique_ptr<client::Client>& into) const {
  absl::StatusOr<std::unique_ptr<client::Client>> made =
      client::Client::Create(options_, dial_timeout_);
  if (made.ok()) {
    into = std::move(*made);
    return kExitOk;
  }
  if (made.status().code() == absl::StatusCode::kInvalidArgument &&
      Message(made.status()).starts_with("open ")) {
    return Fail(kExitBadArguments, Message(made.status()));
  }
  return Fail(kExitBadConnection, ErrorText(made.status()));
}

int Session::Connect(const std::string& endpoint, std::unique_ptr<client::Client>& into) const {
  Session one = *this;
  one.options_.endpoints = {endpoint};
  return one.Connect(into);
}

int Print(const Printed& printed) {
  Out(printed.out);
  Err(printed.err);
  return printed.code == 0 ? kExitOk : Fail(printed.code, printed.error);
}

std::string AskPassword(std::string_view prompt) {
  Err(prompt);
  termios before{};
  const bool terminal = tcgetattr(STDIN_FILENO, &before) == 0;
  if (terminal) {
    termios silent = before;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  std::string line;
  std::getline(std::cin, line);
  if (terminal) {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    Err("\n");
  }
  return line;
}

}  // namespace mainstay::cli

// The YAML configuration file (operations.md 1.2): keys are flag names but for the nested maps;
// unknown keys are ignored; durations are whole nanoseconds.
#include <yaml-cpp/yaml.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <system_error>

#include "fmt/format.h"

#include "main/config.h"
#include "main/flag_table.h"

namespace mainstay::main {
namespace {

std::string Lower(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return text;
}

// The child under `key`, whatever its case; an undefined node if absent.
YAML::Node Child(const YAML::Node& map, std::string_view key) {
  for (const auto& pair : map) {
    if (pair.first.IsScalar() && Lower(pair.first.Scalar()) == key) {
      return pair.second;
    }
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

bool IsDurationFlag(std::string_view name) {
  for (const std::string_view duration :
       {"backend-batch-interval", "grpc-keepalive-min-time", "grpc-keepalive-interval",
        "grpc-keepalive-timeout", "warning-apply-duration", "warning-unary-request-duration",
        "corrupt-check-time", "compact-hash-check-time", "compaction-sleep-interval",
        "watch-progress-notify-interval", "downgrade-check-time"}) {
    if (name == duration) {
      return true;
    }
  }
  return false;
}
bool IsUrlFlag(std::string_view name) {
  return name.ends_with("-urls");
}

// Flags that the file spells another way or cannot hold.
bool IsFlagOnly(std::string_view name) {
  static const FlagRow* first = FlagTable().data();
  const FlagRow* row = FindFlag(name);
  if (row == nullptr || first == nullptr) {
    return true;
  }
  const bool top_level_security = name == "self-signed-cert-validity" || name == "cipher-suites" ||
                                  name.starts_with("tls-") || name == "cors" ||
                                  name == "host-whitelist";
  return (row->section == "Security" && !top_level_security) || name.starts_with("socket-reuse") ||
         name.starts_with("raft-") || name == "config-file" ||
         (name.starts_with("discovery-") && !name.starts_with("discovery-srv"));
}

std::string AsText(const YAML::Node& node) {
  if (node.IsSequence()) {
    std::string out;
    for (const auto& item : node) {
      out += (out.empty() ? "" : ",") + item.Scalar();
    }
    return out;
  }
  return node.IsScalar() ? node.Scalar() : "";
}

std::string LoadTls(const YAML::Node& root, std::string_view key, TlsConfig* tls) {
  const YAML::Node map = Child(root, key);
  if (!map.IsDefined() || map.IsNull()) {
    return {};
  }
  if (!map.IsMap()) {
    return fmt::format("invalid {}", key);
  }
  *tls = {};
  const auto text = [&](std::string_view name, std::string* to) {
    if (const YAML::Node node = Child(map, name); node.IsScalar()) {
      *to = node.Scalar();
    }
  };
  std::string error;
  const auto flag = [&](std::string_view name, bool* to) {
    if (const YAML::Node node = Child(map, name); node.IsScalar() && !node.Scalar().empty()) {
      const auto parsed = ParseGoBool(node.Scalar());
      if (!parsed) {
        error = fmt::format("error unmarshaling JSON: {}.{} is no boolean", key, name);
        return;
      }
      *to = *parsed;
    }
  };
  const auto list = [&](std::string_view name, std::vector<std::string>* to) {
    if (const YAML::Node node = Child(map, name); node.IsDefined() && !node.IsNull()) {
      *to = SplitComma(AsText(node));
    }
  };
  text("cert-file", &tls->cert_file);
  text("key-file", &tls->key_file);
  text("client-cert-file", &tls->client_cert_file);
  text("client-key-file", &tls->client_key_file);
  text("trusted-ca-file", &tls->trusted_ca_file);
  flag("client-cert-auth", &tls->client_cert_auth);
  flag("auto-tls", &tls->auto_tls);
  flag("skip-client-san-verification", &tls->skip_client_san_verification);
  list("allowed-cn", &tls->allowed_cn);
  list("allowed-hostname", &tls->allowed_hostname);
  return error;
}

std::string LoadTopLevel(const YAML::Node& root, Config* config) {
  for (const FlagRow& row : FlagTable()) {
    if (IsFlagOnly(row.name)) {
      continue;
    }
    const YAML::Node node = Child(root, row.name);
    if (!node.IsDefined() || node.IsNull()) {
      continue;
    }
    std::string text = AsText(node);
    if (IsDurationFlag(row.name)) {
      if (!ParseGoInt(text)) {
        return fmt::format("error unmarshaling JSON: cannot unmarshal \"{}\" into {} (nanoseconds)",
                           text, row.name);
      }
      text += "ns";
    }
    const bool empty_means_default = text.empty() && row.name != "initial-cluster";
    if (empty_means_default) {
      continue;
    }
    if (row.name == "initial-cluster-state" && text != "new" && text != "existing") {
      return fmt::format("unexpected clusterState \"{}\"", text);
    }
    if (const std::string reason = row.set(*config, text); !reason.empty()) {
      return IsUrlFlag(row.name)
                 ? fmt::format("unexpected error setting up {}: {}", row.name, reason)
                 : fmt::format("error unmarshaling JSON: {}: {}", row.name, reason);
    }
    // With a file, listen-client-urls alone does not ask for advertise-client-urls.
    if (row.name != "listen-client-urls") {
      config->set[std::string(row.name)] = true;
    }
  }
  return {};
}

std::string LoadSockets(const YAML::Node& root, Config* config) {
  const YAML::Node map = Child(root, "socket-options");
  if (!map.IsMap()) {
    return {};
  }
  for (const auto& [name, field] : {std::pair{"reuse-port", &config->socket_reuse_port},
                                    std::pair{"reuse-address", &config->socket_reuse_address}}) {
    if (const YAML::Node node = Child(map, name); node.IsScalar()) {
      const auto parsed = ParseGoBool(node.Scalar());
      if (!parsed) {
        return fmt::format("error unmarshaling JSON: socket-options.{} is no boolean", name);
      }
      *field = *parsed;
    }
  }
  return {};
}

// As Go tells it: "open /etc/x: no such file or directory".
std::string ErrorOf(std::string_view what, const std::string& path) {
  std::string reason = std::generic_category().message(errno);
  reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  return fmt::format("{} {}: {}", what, path, reason);
}

// yaml-cpp's own reading of a directory ends the process.
std::string ReadWhole(const std::string& path, std::string* out) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) {
    return ErrorOf("open", path);
  }
  std::array<char, 4096> part;
  while (const size_t n = std::fread(part.data(), 1, part.size(), file.get())) {
    out->append(part.data(), n);
  }
  return std::ferror(file.get()) != 0 ? ErrorOf("read", path) : std::string();
}

}  // namespace

std::string LoadConfigFile(const std::string& path, Config* config) {
  std::string text;
  if (std::string error = ReadWhole(path, &text); !error.empty()) {
    return error;
  }
  YAML::Node root;
  try {  // yaml-cpp reports by exception; none leaves this function
    root = YAML::Load(text);
  } catch (const YAML::Exception& e) {
    return fmt::format("error converting YAML to JSON: yaml: {}", e.what());
  }
  if (root.IsNull()) {
    return {};
  }
  if (!root.IsMap()) {
    return "error unmarshaling JSON: the configuration file is no map";
  }
  for (const auto& load : std::initializer_list<std::function<std::string()>>{
           [&] { return LoadTopLevel(root, config); },
           [&] { return LoadTls(root, "client-transport-security", &config->client_tls); },
           [&] { return LoadTls(root, "peer-transport-security", &config->peer_tls); },
           [&] { return LoadSockets(root, config); }}) {
    if (std::string error = load(); !error.empty()) {
      return error;
    }
  }
  if (config->self_signed_cert_validity_years == 0) {
    config->self_signed_cert_validity_years = 1;
  }
  if (config->initial_cluster_state.empty()) {
    config->initial_cluster_state = "new";
  }
  return {};
}

}  // namespace mainstay::main

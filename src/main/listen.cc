#include "main/listen.h"

#include <filesystem>
#include <map>

#include "fmt/format.h"

#include "common/log.h"
#include "env/file_system.h"

namespace mainstay::main {
namespace {

struct Url {
  std::string scheme, rest;
  bool tls() const { return scheme == "https" || scheme == "unixs"; }
  bool unix_socket() const { return scheme.starts_with("unix"); }
};

Url Split(const std::string& text) {
  const size_t colon = text.find(':');
  Url out{text.substr(0, colon), text.substr(colon + 1)};
  if (out.rest.starts_with("//")) {
    out.rest.erase(0, 2);
  }
  return out;
}

// Several URLs may share one address, one with TLS and one without: the first byte of a connection
// then decides.
Status ListenOn(const std::vector<std::string>& urls,
                net::Protocols protocols,
                net::Handler* grpc,
                net::Handler* http,
                net::TlsContext* tls,
                net::Server* server) {
  struct Modes {
    bool unix_socket = false, plain = false, tls = false;
  };
  std::map<std::string, Modes> by_address;
  for (const std::string& text : urls) {
    const Url url = Split(text);
    Modes& modes = by_address[url.rest];
    modes.unix_socket = url.unix_socket();
    (url.tls() ? modes.tls : modes.plain) = true;
  }
  for (const auto& [address, modes] : by_address) {
    net::ListenerOptions listener;
    listener.address = address;
    listener.unix_socket = modes.unix_socket;
    listener.plaintext = modes.plain;
    listener.tls = modes.tls ? tls : nullptr;
    listener.protocols = protocols;
    listener.grpc = grpc;
    listener.http = http;
    MS_RETURN_IF_ERROR(server->Listen(std::move(listener)));
  }
  return absl::OkStatus();
}

bool NeedsTls(const Config& config) {
  for (const auto* urls :
       {&config.listen_client_urls, &config.listen_client_http_urls, &config.listen_metrics_urls}) {
    for (const std::string& url : *urls) {
      if (Split(url).tls()) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

StatusOr<std::unique_ptr<net::TlsContext>> ClientTls(const Config& config) {
  if (!NeedsTls(config)) {
    if (!config.client_tls.empty()) {
      MS_LOG(kWarn,
             "scheme is HTTP while key and cert files are present; ignoring key and cert files");
    }
    return std::unique_ptr<net::TlsContext>();
  }
  net::TlsOptions options;
  options.cert_file = config.client_tls.cert_file;
  options.key_file = config.client_tls.key_file;
  options.ca_file = config.client_tls.trusted_ca_file;
  options.crl_file = config.client_tls.crl_file;
  options.client_auth = config.client_tls.client_cert_auth;
  options.allowed_names = config.client_tls.allowed_hostname;
  options.allowed_common_names = config.client_tls.allowed_cn;
  options.cipher_suites = config.cipher_suites;
  options.min_version = config.tls_min_version;
  options.max_version = config.tls_max_version;
  if (options.cert_file.empty() && config.client_tls.auto_tls) {
    const std::string dir = config.data_dir + "/fixtures/client";
    MS_RETURN_IF_ERROR(PosixFileSystem().MakeDirs(dir));
    options.cert_file = dir + "/cert.pem";
    options.key_file = dir + "/key.pem";
    if (!std::filesystem::exists(options.cert_file) || !std::filesystem::exists(options.key_file)) {
      std::vector<std::string> hosts;
      for (const std::string& url : config.listen_client_urls) {
        const std::string rest = Split(url).rest;
        hosts.push_back(rest.substr(0, rest.rfind(':')));
      }
      MS_RETURN_IF_ERROR(
          net::WriteSelfSigned(options.cert_file, options.key_file, hosts,
                               static_cast<int>(config.self_signed_cert_validity_years)));
      MS_LOG(kInfo, "automatically generate certificates").Str("cert-file", options.cert_file);
    }
  }
  return net::NewTlsContext(std::move(options));
}

Status ListenClients(const Config& config,
                     const Handlers& handlers,
                     net::TlsContext* tls,
                     net::Server* server) {
  const bool split = !config.listen_client_http_urls.empty();
  MS_RETURN_IF_ERROR(ListenOn(config.listen_client_urls,
                              split ? net::Protocols::kGrpcOnly : net::Protocols::kAll,
                              handlers.grpc, handlers.http, tls, server));
  return ListenOn(config.listen_client_http_urls, net::Protocols::kHttpOnly, nullptr, handlers.http,
                  tls, server);
}

Status ListenMetrics(const Config& config,
                     const Handlers& handlers,
                     net::TlsContext* tls,
                     net::Server* server) {
  return ListenOn(config.listen_metrics_urls, net::Protocols::kHttpOnly, nullptr, handlers.metrics,
                  tls, server);
}

}  // namespace mainstay::main

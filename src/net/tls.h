// TlsContext: what a TLS listener needs, read again when the files change, as operations.md 3 has
// it.
//
// Threads  Any.
// Errors   A file that cannot be used at start: a Status naming it. Later a bad pair fails the
// handshakes that meet it,
//          with a warning; existing connections go on.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "env/clock.h"

struct ssl_st;

namespace mainstay::net {

struct TlsOptions {
  std::string cert_file = {}, key_file = {};
  std::string ca_file =
      {};  // authorities for client certificates; empty with client_auth: the system's
  std::string crl_file = {};
  bool client_auth = false;                     // require and verify a client certificate
  std::vector<std::string> allowed_names = {};  // one of them must match a SAN of the client's leaf
  std::vector<std::string> allowed_common_names = {};
  std::vector<std::string> cipher_suites = {};  // Go's names; TLS 1.2
  std::string min_version = "TLS1.2", max_version = {};
};

class TlsContext {
 public:
  virtual ~TlsContext() = default;
  // A server-side SSL for a new connection, with the files as they are now; null if they cannot be
  // used.
  virtual ssl_st* NewServer() = 0;
  // After the handshake: allow-lists and revocation. Empty if the peer may stay, or why not.
  virtual std::string CheckPeer(ssl_st* ssl) = 0;
};

StatusOr<std::unique_ptr<TlsContext>> NewTlsContext(TlsOptions options);

// Makes a self-signed certificate and its key (--auto-tls): ECDSA P-521, `years` of validity, SANs
// from hosts.
Status WriteSelfSigned(const std::string& cert_file,
                       const std::string& key_file,
                       const std::vector<std::string>& hosts,
                       int years);

}  // namespace mainstay::net

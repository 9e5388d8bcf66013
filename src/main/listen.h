// From listen URLs to listeners of the wire engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "main/config.h"
#include "net/server.h"

namespace mainstay::main {

// The handlers that listeners are given; all outlive the net::Server.
struct Handlers {
  net::Handler* grpc = nullptr;
  net::Handler* http = nullptr;
  net::Handler* metrics = nullptr;
};

// The TLS settings of the client port; null when no URL needs them. Makes the self-signed pair for
// --auto-tls.
StatusOr<std::unique_ptr<net::TlsContext>> ClientTls(const Config& config);

// Binds every client, client-HTTP and metrics URL. `tls` may be null when no URL is https or unixs.
Status ListenClients(const Config& config,
                     const Handlers& handlers,
                     net::TlsContext* tls,
                     net::Server* server);
// Binds the metrics URLs on a server of their own, which answers before the member is ready.
Status ListenMetrics(const Config& config,
                     const Handlers& handlers,
                     net::TlsContext* tls,
                     net::Server* server);

}  // namespace mainstay::main

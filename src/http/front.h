// HttpFront: everything on the client port that is no gRPC, and all of --listen-metrics-urls.
//
// Role        A net::Handler: routes to health endpoints, metrics, version, debug variables and the
//             JSON gateway.
// Threads     OnRequest(): any loop that has an rpc::NetLoop.
// Ownership   Borrows Services; outlives the net::Server.
// Sources     operations.md 4.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "http/exchange.h"
#include "http/health.h"
#include "net/http.h"
#include "rpc/services.h"

namespace mainstay::http {

struct FrontOptions {
  // A front for --listen-metrics-urls: health endpoints and metrics only, no CORS, no whitelist.
  bool metrics_only = false;
  bool gateway = true;                              // --enable-grpc-gateway
  std::vector<std::string> cors = {"*"};            // --cors
  std::vector<std::string> host_whitelist = {"*"};  // --host-whitelist
  std::vector<std::string> command_line;            // for /debug/vars
};

class HttpFront : public net::Handler {
 public:
  HttpFront(rpc::Services& services, FrontOptions options);
  std::unique_ptr<net::StreamSink> OnRequest(net::Stream& stream) override;

 private:
  bool HostAllowed(const net::Stream& stream) const;
  bool AddCors(Exchange& exchange) const;
  // Null: no endpoint of that name.
  bool ServeEndpoint(rpc::Loop& loop, const ExchangePtr& exchange);
  void ServeMetrics(rpc::Loop& loop, const ExchangePtr& exchange);
  std::string VersionJson() const;
  std::string DebugVarsJson() const;

  rpc::Services& services_;
  const FrontOptions options_;
  HealthMetrics health_metrics_;
  struct Scrapes {
    explicit Scrapes(MetricRegistry& registry);
    Gauge& in_flight;
    Counter& ok;
    Counter& unavailable;
  };
  Scrapes scrapes_;
};

}  // namespace mainstay::http

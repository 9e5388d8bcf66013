#include "http/front.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/coding.h"
#include "common/log.h"
#include "http/gateway.h"
#include "http/gateway_socket.h"
#include "http/websocket.h"
#include "rpc/grpc_handler.h"

namespace mainstay::http {
namespace {

constexpr std::string_view kGatewayPrefix = "/v3/";
constexpr std::string_view kOldPrefix = "/v3beta/";
constexpr std::string_view kJson = "application/json";

bool Contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// The host of "host:port", "[::1]:port", "host".
std::string_view HostOf(std::string_view authority) {
  if (!authority.empty() && authority[0] == '[') {
    const size_t end = authority.find(']');
    return end == std::string_view::npos ? authority : authority.substr(1, end - 1);
  }
  return authority.substr(0, authority.find(':'));
}

// A request that is answered without its body, now or later.
class EndpointSink : public net::StreamSink {
 public:
  explicit EndpointSink(ExchangePtr exchange) : exchange_(std::move(exchange)) {}
  void OnBody(Buffer) override {}
  void OnEnd() override {}
  void OnClosed() override { exchange_->Detach(); }

 private:
  const ExchangePtr exchange_;
};

void AppendField(std::string* json, std::string_view name, std::string_view raw) {
  if (json->size() > 1) {
    *json += ',';
  }
  AppendJsonString(json, name);
  *json += ':';
  *json += raw;
}

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(&out, text);
  return out;
}

// Only the methods that etcd allows for an endpoint that shows something.
bool OnlyGet(Exchange& exchange) {
  if (exchange.head().method == "GET") {
    return true;
  }
  exchange.Respond(405,
                   {{"allow", "GET"},
                    {"content-type", "text/plain; charset=utf-8"},
                    {"x-content-type-options", "nosniff"}},
                   "Method Not Allowed\n");
  return false;
}

std::string RefusedHostText(std::string_view host) {
  return "mainstay does not know the host \"" + std::string(host) +
         "\" of this request.\n\n"
         "Either use TLS, where every host is allowed, or add the name to --host-whitelist, for "
         "example --host-whitelist=" +
         std::string(host) +
         ".\n\n"
         "The check keeps web pages from reaching this server by DNS rebinding (CVE-2018-5702).";
}

}  // namespace

HttpFront::HttpFront(rpc::Services& services, FrontOptions options)
    : services_(services),
      options_(std::move(options)),
      health_metrics_(services.metric_registry()),
      scrapes_(services.metric_registry()) {}

namespace {

Counter& ScrapesWith(MetricRegistry& registry, std::string code) {
  return registry.AddCounter("promhttp_metric_handler_requests_total",
                             "Total number of scrapes by HTTP status code.",
                             {{"code", std::move(code)}});
}

}  // namespace

HttpFront::Scrapes::Scrapes(MetricRegistry& r)
    : in_flight(r.AddGauge("promhttp_metric_handler_requests_in_flight",
                           "Current number of scrapes being served.")),
      ok(ScrapesWith(r, "200")),
      unavailable(ScrapesWith(r, "503")) {
  ScrapesWith(r, "500");
}

bool HttpFront::HostAllowed(const net::Stream& stream) const {
  if (stream.peer().tls || options_.host_whitelist.empty() ||
      Contains(options_.host_whitelist, "*")) {
    return true;
  }
  return Contains(options_.host_whitelist, HostOf(stream.head().authority));
}

// True if the request was a preflight, which is answered now.
bool HttpFront::AddCors(Exchange& exchange) const {
  const std::string_view origin = exchange.head().headers.Get("origin");
  const bool any = options_.cors.empty() || Contains(options_.cors, "*");
  if (any || Contains(options_.cors, origin)) {
    exchange.AddField("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE");
    exchange.AddField("access-control-allow-origin", any ? "*" : std::string(origin));
    exchange.AddField("access-control-allow-headers", "accept, content-type, authorization");
  }
  if (exchange.head().method == "OPTIONS") {
    exchange.Respond(200, {}, "");
    return true;
  }
  return false;
}

std::unique_ptr<net::StreamSink> HttpFront::OnRequest(net::Stream& stream) {
  auto exchange = std::make_shared<Exchange>(stream);
  rpc::Loop& loop = rpc::NetLoop::Of(stream.loop());
  if (!options_.metrics_only) {
    if (!HostAllowed(stream)) {
      exchange->Text(421, RefusedHostText(HostOf(stream.head().authority)));
      return std::make_unique<EndpointSink>(exchange);
    }
    if (AddCors(*exchange)) {
      return std::make_unique<EndpointSink>(exchange);
    }
    std::string path = stream.head().path;
    if (StartsWith(path, kOldPrefix)) {
      path = std::string(kGatewayPrefix) + path.substr(kOldPrefix.size());
    }
    if (options_.gateway && StartsWith(path, kGatewayPrefix)) {
      if (WantsWebSocket(stream.head())) {
        return StartGatewaySocket(services_, loop, stream, path);
      }
      return StartGateway(services_, loop, exchange, path);
    }
  }
  auto sink = std::make_unique<EndpointSink>(exchange);
  if (!ServeEndpoint(loop, exchange)) {
    exchange->Text(404, "404 page not found");
  }
  return sink;
}

bool HttpFront::ServeEndpoint(rpc::Loop& loop, const ExchangePtr& exchange) {
  const std::string& path = exchange->head().path;
  if (path == "/metrics") {
    ServeMetrics(loop, exchange);
    return true;
  }
  if (ServeHealth(loop, health_metrics_, exchange)) {
    return true;
  }
  if (options_.metrics_only) {
    return false;
  }
  if (path == "/version") {
    if (OnlyGet(*exchange)) {
      exchange->Respond(200, {{"content-type", kJson}}, VersionJson());
    }
    return true;
  }
  if (path == "/debug/vars") {
    if (OnlyGet(*exchange)) {
      exchange->Respond(200, {{"content-type", "application/json; charset=utf-8"}},
                        DebugVarsJson());
    }
    return true;
  }
  return false;
}

void HttpFront::ServeMetrics(rpc::Loop& loop, const ExchangePtr& exchange) {
  // Some hundred kilobytes of text: not the loop's work.
  auto text = std::make_shared<std::string>();
  scrapes_.in_flight.Add(1);
  const bool taken = loop.RunInPool(
      [text, &registry = services_.metric_registry()] { *text = registry.RenderText(); },
      [this, text, exchange] {
        scrapes_.in_flight.Add(-1);
        scrapes_.ok.Add();
        exchange->Respond(200, {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
                          *text);
      });
  if (!taken) {
    scrapes_.in_flight.Add(-1);
    scrapes_.unavailable.Add();
    exchange->Text(503, "overloaded");
  }
}

std::string HttpFront::VersionJson() const {
  const server::MemberStatus status = services_.server().GetStatus();
  std::string json = "{";
  AppendField(&json, "etcdserver", Quoted(status.version));
  AppendField(&json, "etcdcluster",
              Quoted(status.cluster_version.empty() ? "not_decided" : status.cluster_version));
  AppendField(&json, "storage",
              Quoted(status.storage_version.empty() ? "unknown" : status.storage_version));
  return json + "}";
}

std::string HttpFront::DebugVarsJson() const {
  const server::MemberStatus status = services_.server().GetStatus();
  const server::HealthInfo health = services_.server().GetHealth();
  const server::HeaderInfo header = services_.server().Header();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  std::string raft = "{";
  AppendField(&raft, "id", Quoted(HexId(header.member_id.value())));
  AppendField(&raft, "term", std::to_string(status.raft_term));
  AppendField(&raft, "commit", std::to_string(status.raft_index));
  AppendField(&raft, "lead", Quoted(HexId(status.leader.value())));
  AppendField(&raft, "raftState", Quoted(health.is_leader ? "StateLeader" : "StateFollower"));
  AppendField(&raft, "applied", std::to_string(status.raft_applied_index));
  raft += '}';
  std::string command_line = "[";
  for (const std::string& argument : options_.command_line) {
    command_line += command_line.size() > 1 ? "," : "";
    AppendJsonString(&command_line, argument);
  }
  command_line += ']';
  std::string json = "{";
  AppendField(&json, "cmdline", command_line);
  AppendField(&json, "file_descriptor_limit", std::to_string(files.rlim_cur));
  AppendField(&json, "memstats", "{}");
  AppendField(&json, "raft.status", raft);
  return json + "}";
}

}  // namespace mainstay::http

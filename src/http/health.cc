#include "http/health.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "common/log.h"
#include "http/query.h"
#include "rpc/errors.h"

namespace mainstay::http {
namespace {

using Done = absl::AnyInvocable<void(std::string_view error)>;

std::string_view AlarmName(server::AlarmType type) {
  switch (type) {
    case server::AlarmType::kNoSpace:
      return "NOSPACE";
    case server::AlarmType::kCorrupt:
      return "CORRUPT";
    case server::AlarmType::kNone:
      break;
  }
  return "UNKNOWN";
}

bool IsGet(Exchange& exchange) {
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

// Empty text: a linearizable read would be served now. Else why not.
void CheckLinearizableRead(rpc::Loop& loop, Done done) {
  server::Server& server = loop.services().server();
  if (server.ReadBarrierInline()) {
    return done("");
  }
  auto shared = std::make_shared<Done>(std::move(done));
  const server::ReplyTo to = loop.Await([shared](server::Reply&& reply) {
    (*shared)(reply.error == Error::kOk ? std::string_view() : rpc::ErrorText(reply.error));
  });
  if (const Error error = server.ReadBarrier(to); error != Error::kOk) {
    loop.Forget(to);
    (*shared)(rpc::ErrorText(error));
  }
}

std::string_view SerializableRead(const server::HealthInfo& health) {
  return health.fatal ? rpc::ErrorText(Error::kStopped) : std::string_view();
}

// ---- /health
void RespondHealth(HealthMetrics& metrics, Exchange& exchange, std::string_view reason) {
  const bool ok = reason.empty();
  (ok ? metrics.success : metrics.failures).Add();
  std::string body = std::string("{\"health\":\"") + (ok ? "true" : "false") + "\",\"reason\":";
  AppendJsonString(&body, reason);
  body += '}';
  if (!ok) {
    return exchange.Text(503, body);
  }
  exchange.Respond(200, {{"content-type", "text/plain; charset=utf-8"}}, body);
}

void ServeHealthEndpoint(rpc::Loop& loop, HealthMetrics& metrics, const ExchangePtr& exchange) {
  const Query query(exchange->head().query);
  const std::vector<std::string> excluded = query.All("exclude");
  const server::HealthInfo health = loop.services().server().GetHealth();
  for (const server::AlarmMember& alarm : health.alarms) {
    const std::string name(AlarmName(alarm.type));
    if (std::find(excluded.begin(), excluded.end(), name) == excluded.end()) {
      return RespondHealth(metrics, *exchange, "ALARM " + name);
    }
  }
  if (query.First("serializable") == "true") {
    const std::string_view error = SerializableRead(health);
    return RespondHealth(metrics, *exchange,
                         error.empty() ? "" : "RANGE ERROR:" + std::string(error));
  }
  if (!health.has_leader) {
    return RespondHealth(metrics, *exchange, "RAFT NO LEADER");
  }
  CheckLinearizableRead(loop, [&metrics, exchange](std::string_view error) {
    RespondHealth(metrics, *exchange, error.empty() ? "" : "RANGE ERROR:" + std::string(error));
  });
}

// ---- /livez, /readyz
constexpr std::string_view kLinearizable = "linearizable_read";

struct Check {
  std::string_view name;
  std::string error;  // empty: ok
};

std::string SyncCheck(std::string_view name, const server::HealthInfo& health) {
  if (name == "data_corruption") {
    for (const server::AlarmMember& alarm : health.alarms) {
      if (alarm.type == server::AlarmType::kCorrupt) {
        return "alarm activated: CORRUPT";
      }
    }
  } else if (name == "serializable_read") {
    return std::string(SerializableRead(health));
  } else if (name == "non_learner" && health.is_learner) {
    return "not supported for learner";
  }
  return {};
}

void RespondChecks(HealthMetrics& metrics,
                   Exchange& exchange,
                   std::string_view type,
                   const std::vector<Check>& checks) {
  std::string lines;
  bool ok = true;
  for (const Check& check : checks) {
    const bool passed = check.error.empty();
    metrics.Count(type, check.name, passed);
    ok = ok && passed;
    lines += passed ? "[+]" : "[-]";
    lines += check.name;
    lines += passed ? " ok\n" : " failed: " + check.error + "\n";
  }
  if (!ok) {
    return exchange.Text(503, lines);
  }
  const bool verbose = exchange.alive() && Query(exchange.head().query).Has("verbose");
  exchange.Text(200, verbose ? lines + "ok" : "ok");
}

void RunChecks(rpc::Loop& loop,
               HealthMetrics& metrics,
               const ExchangePtr& exchange,
               std::string_view type,
               const std::vector<std::string_view>& names) {
  const std::vector<std::string> excluded = Query(exchange->head().query).All("exclude");
  const server::HealthInfo health = loop.services().server().GetHealth();
  std::vector<Check> checks;
  bool linearizable = false;
  for (std::string_view name : names) {
    if (std::find(excluded.begin(), excluded.end(), name) != excluded.end()) {
      continue;
    }
    linearizable = linearizable || name == kLinearizable;
    checks.push_back({name, SyncCheck(name, health)});
  }
  if (!linearizable) {
    return RespondChecks(metrics, *exchange, type, checks);
  }
  CheckLinearizableRead(
      loop, [&metrics, exchange, type, checks = std::move(checks)](std::string_view error) mutable {
        for (Check& check : checks) {
          if (check.name == kLinearizable) {
            check.error = error;
          }
        }
        RespondChecks(metrics, *exchange, type, checks);
      });
}

// "/readyz" or "/readyz/<check>": the checks to run; empty if there are none such.
std::vector<std::string_view> ChecksOf(std::string_view path,
                                       std::string_view root,
                                       const std::vector<std::string_view>& all) {
  if (path == root) {
    return all;
  }
  for (std::string_view name : all) {
    if (path.size() == root.size() + 1 + name.size() && path.substr(root.size() + 1) == name) {
      return {name};
    }
  }
  return {};
}

}  // namespace

HealthMetrics::HealthMetrics(MetricRegistry& r)
    : registry(r),
      success(r.AddCounter("etcd_server_health_success",
                           "The total number of successful health checks")),
      failures(r.AddCounter("etcd_server_health_failures",
                            "The total number of failed health checks")) {}

void HealthMetrics::Count(std::string_view type, std::string_view name, bool ok) {
  registry
      .AddGauge("etcd_server_healthcheck", "The result of each kind of healthcheck.",
                {{"type", std::string(type)}, {"name", std::string(name)}})
      .Set(ok ? 1 : 0);
  registry
      .AddCounter("etcd_server_healthchecks_total", "The total number of each kind of healthcheck.",
                  {{"type", std::string(type)},
                   {"name", std::string(name)},
                   {"status", ok ? "success" : "error"}})
      .Add();
}

bool ServeHealth(rpc::Loop& loop, HealthMetrics& metrics, const ExchangePtr& exchange) {
  static const std::vector<std::string_view> kLive = {"serializable_read"};
  static const std::vector<std::string_view> kReady = {"data_corruption", "serializable_read",
                                                       kLinearizable, "non_learner"};
  const std::string path = exchange->head().path;
  if (path == "/health") {
    if (IsGet(*exchange)) {
      ServeHealthEndpoint(loop, metrics, exchange);
    }
    return true;
  }
  for (const auto& [root, type, all] :
       {std::tuple("/livez", "livez", &kLive), std::tuple("/readyz", "readyz", &kReady)}) {
    const std::string_view prefix(root);
    if (path.compare(0, prefix.size(), prefix) != 0) {
      continue;
    }
    const std::vector<std::string_view> names = ChecksOf(path, prefix, *all);
    if (names.empty()) {
      continue;
    }
    if (IsGet(*exchange)) {
      RunChecks(loop, metrics, exchange, type, names);
    }
    return true;
  }
  return false;
}

}  // namespace mainstay::http

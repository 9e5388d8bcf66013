// /health, /livez and /readyz.
//
// Threads  The stream's loop.
// Sources  operations.md 4.3.
#pragma once

#include <string_view>

#include "common/metrics.h"
#include "http/exchange.h"
#include "rpc/loop.h"
#include "rpc/services.h"

namespace mainstay::http {

struct HealthMetrics {
  explicit HealthMetrics(MetricRegistry& registry);
  // One check's outcome, of `type` "livez" or "readyz".
  void Count(std::string_view type, std::string_view name, bool ok);

  MetricRegistry& registry;
  Counter& success;
  Counter& failures;
};

// True if `path` is one of these endpoints; it will be answered.
bool ServeHealth(rpc::Loop& loop, HealthMetrics& metrics, const ExchangePtr& exchange);

}  // namespace mainstay::http

// Method: one row of the table of everything that can be called, and what runs it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/buffer.h"
#include "common/metrics.h"
#include "rpc/call.h"
#include "rpc/status.h"

namespace mainstay::rpc {

enum class MethodType : uint8_t { kUnary, kServerStream, kBidiStream };

// Instruments of go-grpc-middleware's names (operations.md 5.5).
struct MethodMetrics {
  Counter* started = nullptr;
  Counter* received = nullptr;
  Counter* sent = nullptr;
  std::array<Counter*, kCodeCount> handled{};
  Histogram* seconds = nullptr;  // null unless --metrics=extensive
};

using UnaryFn = void (*)(const CallPtr& call, Buffer request);
using StreamFn = std::unique_ptr<StreamHandler> (*)(const CallPtr& call);

struct Method {
  std::string_view service;  // "etcdserverpb.KV"
  std::string_view name;     // "Range"
  MethodType type = MethodType::kUnary;
  // Full names of the messages, for the gateway.
  std::string_view request_type = {};
  std::string_view response_type = {};
  // At most one is set. Neither: the method is known and answers Unimplemented, naming itself.
  UnaryFn unary = nullptr;
  StreamFn stream = nullptr;
  // HTTP routes of the gateway, each POST.
  std::vector<std::string_view> routes = {};
  bool served_to_learner = false;
  // Stays out of the metrics until first used (Lock, Election), as in etcd.
  bool metrics_on_use = false;

  std::string path = {};  // "/etcdserverpb.KV/Range"
  mutable MethodMetrics metrics = {};
};

// Every method, without metrics.
std::vector<Method> AllMethods();

}  // namespace mainstay::rpc

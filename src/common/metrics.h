// Metric façade: counters, gauges and histograms with relaxed atomics, and Prometheus' text format.
//
// Role     Each member has one registry, made by main (or the simulator) and handed down; modules
// keep references to
//          the instruments that they made at construction.
// Threads  Instruments: any. Add...() and RenderText(): any.
// Errors   The same name with another type or help is a bug and stops the process. The same name
// with other labels
//          joins its family; the same name and labels give back the instrument that exists.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace mainstay {

class Counter {
 public:
  void Add(double n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Gauge {
 public:
  void Set(double v) { value_.store(v, std::memory_order_relaxed); }
  void Add(double n) { value_.fetch_add(n, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void Observe(double v);
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  friend class MetricRegistry;
  const std::vector<double> bounds_;  // ascending upper bounds, without +Inf
  std::unique_ptr<std::atomic<uint64_t>[]> buckets_;
  std::atomic<uint64_t> count_{0};
  std::atomic<double> sum_{0};
};

// start, start * factor, ... : `count` bounds.
std::vector<double> ExponentialBuckets(double start, double factor, int count);

// For instruments that count seconds.
inline double Seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class MetricRegistry {
 public:
  Counter& AddCounter(std::string_view name, std::string_view help, MetricLabels labels = {});
  Gauge& AddGauge(std::string_view name, std::string_view help, MetricLabels labels = {});
  Histogram& AddHistogram(std::string_view name,
                          std::string_view help,
                          std::vector<double> bounds,
                          MetricLabels labels = {});
  // A gauge (or counter) whose value is asked for at each scrape. `read` may run on any thread and
  // must not block.
  void AddGaugeFn(std::string_view name,
                  std::string_view help,
                  std::function<double()> read,
                  MetricLabels labels = {});
  void AddCounterFn(std::string_view name,
                    std::string_view help,
                    std::function<double()> read,
                    MetricLabels labels = {});
  // Drops one labelled instrument; references to it must be gone. For peers that left.
  void Remove(std::string_view name, const MetricLabels& labels);
  // Text exposition format 0.0.4: families by name, # HELP and # TYPE once each.
  std::string RenderText() const;

 private:
  enum class Type : uint8_t { kCounter, kGauge, kHistogram };
  struct Instrument {
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
    std::function<double()> read;
  };
  struct Family {
    Type type;
    std::string help;
    std::map<std::string, Instrument> by_labels;  // key: the rendered label list
  };
  Instrument& Find(std::string_view name,
                   std::string_view help,
                   Type type,
                   const MetricLabels& labels) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  std::map<std::string, Family, std::less<>> families_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mainstay

#include "common/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fmt/format.h"

#include "common/check.h"

namespace mainstay {
namespace {

std::string RenderLabels(const MetricLabels& labels) {
  std::string out;
  for (const auto& [key, value] : labels) {
    if (!out.empty()) {
      out.push_back(',');
    }
    out += key + "=\"";
    for (const char c : value) {
      if (c == '\\' || c == '"') {
        out.push_back('\\');
      }
      if (c == '\n') {
        out += "\\n";
      } else {
        out.push_back(c);
      }
    }
    out.push_back('"');
  }
  return out;
}

// As Go's strconv 'g' with the shortest digits: plain from 1e-4 up to below 1e+06, with an exponent
// elsewhere.
std::string Number(double v) {
  if (std::isinf(v)) {
    return v > 0 ? "+Inf" : "-Inf";
  }
  if (std::isnan(v)) {
    return "NaN";
  }
  if (v == 0) {
    return "0";
  }
  const double magnitude = std::floor(std::log10(std::fabs(v)));
  if (magnitude >= -4 && magnitude < 6) {
    return v == std::floor(v) ? fmt::format("{}", static_cast<int64_t>(v)) : fmt::format("{}", v);
  }
  // The shortest digits that read back as v, in exponent form.
  for (int digits = 0; digits < 17; ++digits) {
    std::string text = fmt::format("{:.{}e}", v, digits);
    if (std::stod(text) == v) {
      return text;
    }
  }
  return fmt::format("{:.17e}", v);
}

std::string Braced(const std::string& labels, const std::string& extra = {}) {
  if (labels.empty() && extra.empty()) {
    return {};
  }
  return "{" + labels + (labels.empty() || extra.empty() ? "" : ",") + extra + "}";
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), buckets_(new std::atomic<uint64_t>[bounds_.size() + 1]()) {
  MS_CHECK(std::is_sorted(bounds_.begin(), bounds_.end()));
}

void Histogram::Observe(double v) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), v) - bounds_.begin();
  buckets_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(v, std::memory_order_relaxed);
}

std::vector<double> ExponentialBuckets(double start, double factor, int count) {
  std::vector<double> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(start);
    start *= factor;
  }
  return out;
}

MetricRegistry::Instrument& MetricRegistry::Find(std::string_view name,
                                                 std::string_view help,
                                                 Type type,
                                                 const MetricLabels& labels) {
  auto family = families_.find(name);
  if (family == families_.end()) {
    family = families_.emplace(std::string(name), Family{type, std::string(help), {}}).first;
  }
  MS_CHECK_MSG(family->second.type == type, std::string(name));
  return family->second.by_labels[RenderLabels(labels)];
}

Counter& MetricRegistry::AddCounter(std::string_view name,
                                    std::string_view help,
                                    MetricLabels labels) {
  MutexLock lock(mu_);
  Instrument& at = Find(name, help, Type::kCounter, labels);
  if (at.counter == nullptr) {
    at.counter = std::make_unique<Counter>();
  }
  return *at.counter;
}

Gauge& MetricRegistry::AddGauge(std::string_view name, std::string_view help, MetricLabels labels) {
  MutexLock lock(mu_);
  Instrument& at = Find(name, help, Type::kGauge, labels);
  if (at.gauge == nullptr) {
    at.gauge = std::make_unique<Gauge>();
  }
  return *at.gauge;
}

Histogram& MetricRegistry::AddHistogram(std::string_view name,
                                        std::string_view help,
                                        std::vector<double> bounds,
                                        MetricLabels labels) {
  MutexLock lock(mu_);
  Instrument& at = Find(name, help, Type::kHistogram, labels);
  if (at.histogram == nullptr) {
    at.histogram = std::make_unique<Histogram>(std::move(bounds));
  }
  return *at.histogram;
}

void MetricRegistry::AddGaugeFn(std::string_view name,
                                std::string_view help,
                                std::function<double()> read,
                                MetricLabels labels) {
  MutexLock lock(mu_);
  Find(name, help, Type::kGauge, labels).read = std::move(read);
}

void MetricRegistry::AddCounterFn(std::string_view name,
                                  std::string_view help,
                                  std::function<double()> read,
                                  MetricLabels labels) {
  MutexLock lock(mu_);
  Find(name, help, Type::kCounter, labels).read = std::move(read);
}

void MetricRegistry::Remove(std::string_view name, const MetricLabels& labels) {
  MutexLock lock(mu_);
  if (const auto family = families_.find(name); family != families_.end()) {
    family->second.by_labels.erase(RenderLabels(labels));
  }
}

std::string MetricRegistry::RenderText() const {
  static constexpr std::string_view kTypeNames[] = {"counter", "gauge", "histogram"};
  std::string out;
  MutexLock lock(mu_);
  for (const auto& [name, family] : families_) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name,
                       kTypeNames[static_cast<size_t>(family.type)]);
    for (const auto& [labels, at] : family.by_labels) {
      if (at.histogram != nullptr) {
        const Histogram& h = *at.histogram;
        uint64_t below = 0;
        for (size_t i = 0; i <= h.bounds_.size(); ++i) {
          below += h.buckets_[i].load(std::memory_order_relaxed);
          const double bound =
              i < h.bounds_.size() ? h.bounds_[i] : std::numeric_limits<double>::infinity();
          out += fmt::format("{}_bucket{} {}\n", name,
                             Braced(labels, "le=\"" + Number(bound) + "\""), below);
        }
        // The count of a scrape is its +Inf bucket, so that the two agree while others observe.
        out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, Braced(labels),
                           Number(h.sum_.load(std::memory_order_relaxed)), name, Braced(labels),
                           below);
        continue;
      }
      const double value = at.read      ? at.read()
                           : at.counter ? at.counter->value()
                           : at.gauge   ? at.gauge->value()
                                        : 0;
      out += fmt::format("{}{} {}\n", name, Braced(labels), Number(value));
    }
  }
  return out;
}

}  // namespace mainstay

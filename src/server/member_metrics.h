// The member's own instruments: its identity, its quota, and what is read from its state at each
// scrape.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/metrics.h"
#include "common/types.h"

namespace mainstay::server {

class MemberMetrics {
 public:
  struct Sources {
    std::function<double()> db_size;
    std::function<double()> db_size_in_use;
    std::function<double()> revision;
    std::function<double()> compact_revision;
    std::function<double()> open_views;
  };
  // The sources are asked until this object goes.
  MemberMetrics(MetricRegistry& registry, MemberId self, int64_t quota_bytes, Sources sources);
  MemberMetrics(const MemberMetrics&) = delete;
  MemberMetrics& operator=(const MemberMetrics&) = delete;
  ~MemberMetrics();

  Gauge& defrag_inflight;
  Histogram& defrag_seconds;
  Histogram& hash_seconds;
  Histogram& hash_rev_seconds;

 private:
  void AddUnmoved();
  void AddRead(const char* name, const char* help, std::function<double()> read);
  MetricRegistry& registry_;
  std::vector<std::string> read_names_;
};

// Sets the series of `now` to 1 and that of `before` to 0; either may be empty. Versions as
// "3.7.0".
void ShowClusterVersion(MetricRegistry& registry, std::string_view before, std::string_view now);

}  // namespace mainstay::server

// process_* and os_fd_*: what the kernel says of this process, read at each scrape.
#pragma once

#include "common/metrics.h"
#include "main/config.h"

namespace mainstay::main {

void AddProcessMetrics(MetricRegistry& metrics);
// etcd_server_version, etcd_server_go_version and etcd_server_feature_enabled: constant for a run.
void AddBuildMetrics(MetricRegistry& metrics, const Config& config);

}  // namespace mainstay::main

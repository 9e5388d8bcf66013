// process_* and os_fd_*: what the kernel says of this process, read at each scrape.
#pragma once

#include "common/metrics.h"

namespace mainstay::main {

void AddProcessMetrics(MetricRegistry& metrics);

}  // namespace mainstay::main

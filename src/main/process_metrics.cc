#include "main/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace mainstay::main {
namespace {

struct Stat {
  double cpu_seconds = 0, start_ticks = 0, virtual_bytes = 0, resident_bytes = 0;
};

Stat ReadStat() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string skip;
  for (int i = 0; i < 11; ++i) {
    rest >> skip;
  }
  double user = 0;
  double system = 0;
  Stat out;
  rest >> user >> system;
  for (int i = 0; i < 6; ++i) {
    rest >> skip;
  }
  double pages = 0;
  rest >> out.start_ticks >> out.virtual_bytes >> pages;
  out.cpu_seconds = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  out.resident_bytes = pages * static_cast<double>(sysconf(_SC_PAGESIZE));
  return out;
}

double OpenDescriptors() {
  double count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (dir != nullptr && readdir(dir) != nullptr) {
    ++count;
  }
  if (dir != nullptr) {
    closedir(dir);
  }
  return count > 3 ? count - 3 : 0;  // ".", ".." and the one that lists
}

double DescriptorLimit() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<double>(files.rlim_cur);
}

// Of the process's network namespace, which is what Prometheus' own client shows under these names.
double NetworkOctets(std::string_view name) {
  std::ifstream file("/proc/self/net/netstat");
  for (std::string names, values; std::getline(file, names) && std::getline(file, values);) {
    std::istringstream name_words(names);
    std::istringstream value_words(values);
    std::string n, v;
    while (names.starts_with("IpExt:") && name_words >> n && value_words >> v) {
      if (n == name) {
        return std::strtod(v.c_str(), nullptr);
      }
    }
  }
  return 0;
}

double StartTime() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    if (word == "btime") {
      double boot = 0;
      file >> boot;
      return boot + ReadStat().start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
  }
  return 0;
}

}  // namespace

void AddProcessMetrics(MetricRegistry& metrics) {
  metrics.AddCounterFn("process_cpu_seconds_total",
                       "Total user and system CPU time spent in seconds.",
                       [] { return ReadStat().cpu_seconds; });
  metrics.AddGaugeFn("process_resident_memory_bytes", "Resident memory size in bytes.",
                     [] { return ReadStat().resident_bytes; });
  metrics.AddGaugeFn("process_virtual_memory_bytes", "Virtual memory size in bytes.",
                     [] { return ReadStat().virtual_bytes; });
  metrics.AddGaugeFn("process_virtual_memory_max_bytes",
                     "Maximum amount of virtual memory available in bytes.",
                     [] { return 18446744073709551615.0; });
  metrics.AddGaugeFn("process_open_fds", "Number of open file descriptors.", OpenDescriptors);
  metrics.AddGaugeFn("process_max_fds", "Maximum number of open file descriptors.",
                     DescriptorLimit);
  metrics.AddGaugeFn("process_start_time_seconds",
                     "Start time of the process since unix epoch in seconds.",
                     [start = StartTime()] { return start; });
  metrics.AddCounterFn("process_network_receive_bytes_total",
                       "Number of bytes received by the process over the network.",
                       [] { return NetworkOctets("InOctets"); });
  metrics.AddCounterFn("process_network_transmit_bytes_total",
                       "Number of bytes sent by the process over the network.",
                       [] { return NetworkOctets("OutOctets"); });
  metrics.AddGaugeFn("os_fd_used", "The number of used file descriptors.", OpenDescriptors);
  metrics.AddGaugeFn("os_fd_limit", "The file descriptor limit.", DescriptorLimit);
}

void AddBuildMetrics(MetricRegistry& metrics, const Config& config) {
  metrics
      .AddGauge("etcd_server_version",
                "Which version is running. 1 for 'server_version' label with current version.",
                {{"server_version", "3.7.1"}})
      .Set(1);
  metrics
      .AddGauge("etcd_server_go_version",
                "Which Go version server is running with. 1 for 'server_go_version' label with "
                "current version.",
                {{"server_go_version", "none"}})
      .Set(1);
  const auto gate = [&](std::string_view name, std::string_view stage) {
    metrics
        .AddGauge("etcd_server_feature_enabled",
                  "Whether or not a feature is enabled. 1 is enabled, 0 is not.",
                  {{"name", std::string(name)}, {"stage", std::string(stage)}})
        .Set(config.gate(std::string(name)) ? 1 : 0);
  };
  for (const FeatureGate& known : KnownFeatureGates()) {
    gate(known.name, known.stage);
  }
  gate("AllAlpha", "ALPHA");
  gate("AllBeta", "BETA");
}

}  // namespace mainstay::main

// The program "mainstay".
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/log.h"
#include "main/config.h"
#include "main/log_output.h"
#include "main/member.h"

extern char** environ;

namespace mainstay::main {
namespace {

void LogNotes(const ParseOutcome& outcome) {
  for (const ParseOutcome::Note& note : outcome.notes) {
    LogLine line(note.warn ? LogLevel::kWarn : LogLevel::kInfo, __FILE__, __LINE__, note.message);
    for (const auto& [key, value] : note.fields) {
      line.Str(key, value);
    }
  }
}

int Main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  ::unsetenv("ETCD_VERSION");
  if (!args.empty() && (args[0] == "gateway" || args[0] == "grpc-proxy")) {
    std::fprintf(stderr, "mainstay: %s is not supported yet\n", args[0].c_str());
    return 1;
  }
  const ParseOutcome outcome = ParseCommandLine(args, environment);
  std::fputs(outcome.to_stdout.c_str(), stdout);
  std::fputs(outcome.to_stderr.c_str(), stderr);
  if (outcome.exit_code) {
    LogNotes(outcome);
    return *outcome.exit_code;
  }
  const Config& config = outcome.config;
  if (const std::string error = SetLogLevelByName(config.log_level); !error.empty()) {
    std::fprintf(stderr, "panic: %s\n", error.c_str());
    return 2;
  }
  SetLogFormat(config.log_format == "console" ? LogFormat::kConsole : LogFormat::kJson);
  StatusOr<std::unique_ptr<LogSink>> sink = OpenLogOutputs(config);
  if (!sink.ok()) {
    std::fprintf(stderr, "%s\n", std::string(Message(sink.status())).c_str());
    return 1;
  }
  SetLogSink(sink->get());
  LogNotes(outcome);
  std::vector<std::string> command_line(argv, argv + argc);
  const int code = RunMember(config, command_line);
  FlushLog();
  SetLogSink(nullptr);
  return code;
}

}  // namespace
}  // namespace mainstay::main

// jemalloc reads this before main(); MALLOC_CONF in the environment comes after it and wins. One
// arena a processor instead of four, unused pages go back after a second instead of ten, and no
// thread keeps big blocks: a quarter of jemalloc's resident memory under writes was unused pages.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas_ratio:1,dirty_decay_ms:1000,muzzy_decay_ms:0,tcache_max:4096";
}

int main(int argc, char** argv) {
  return mainstay::main::Main(argc, argv);
}

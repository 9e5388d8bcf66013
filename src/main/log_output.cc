#include "main/log_output.h"

#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <systemd/sd-journal.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <mutex>

#include "fmt/format.h"

namespace mainstay::main {
namespace {

constexpr size_t kQueueLines = 8192;

int SyslogPriority(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return 7;
    case spdlog::level::warn:
      return 4;
    case spdlog::level::err:
      return 3;
    case spdlog::level::critical:
      return 2;
    default:
      return 6;
  }
}

class JournalSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& msg) override {
    const std::string line(msg.payload.data(), msg.payload.size());
    sd_journal_send("MESSAGE=%s", line.c_str(), "PRIORITY=%i", SyslogPriority(msg.level),
                    "PACKAGE=mainstay", "SYSLOG_IDENTIFIER=etcd", nullptr);
  }
  void flush_() override {}
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    default:
      return spdlog::level::critical;
  }
}

class SpdlogSink : public LogSink {
 public:
  explicit SpdlogSink(std::vector<spdlog::sink_ptr> sinks)
      : pool_(std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1)),
        sinks_(std::move(sinks)),
        logger_(
            std::make_shared<spdlog::async_logger>("mainstay",
                                                   sinks_.begin(),
                                                   sinks_.end(),
                                                   pool_,
                                                   spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_pattern("%v");
    logger_->set_level(spdlog::level::trace);
    logger_->flush_on(spdlog::level::info);
  }
  void Write(LogLevel level, std::string_view line) override {
    logger_->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }
  // The async logger's own flush only queues; draining its thread is what makes sure.
  void Flush() override {
    while (pool_->queue_size() > 0) {
      std::this_thread::yield();
    }
    for (const spdlog::sink_ptr& sink : sinks_) {
      sink->flush();
    }
  }

 private:
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::vector<spdlog::sink_ptr> sinks_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

struct Rotation {
  size_t bytes_max = 100 << 20;
  size_t backups_max = 0;
};

StatusOr<Rotation> ParseRotation(const std::string& json) {
  Rotation out;
  try {  // JSON is YAML; nothing thrown leaves this function
    const YAML::Node node = YAML::Load(json);
    if (!node.IsMap()) {
      return InvalidArgument("improperly formatted log rotation config: not an object");
    }
    if (node["maxsize"] && node["maxsize"].as<int64_t>() > 0) {
      out.bytes_max = static_cast<size_t>(node["maxsize"].as<int64_t>()) << 20;
    }
    if (node["maxbackups"] && node["maxbackups"].as<int64_t>() > 0) {
      out.backups_max = static_cast<size_t>(node["maxbackups"].as<int64_t>());
    }
  } catch (const YAML::Exception& e) {
    return InvalidArgument(fmt::format("improperly formatted log rotation config: {}", e.what()));
  }
  return out;
}

}  // namespace

StatusOr<std::unique_ptr<LogSink>> OpenLogOutputs(const Config& config) {
  std::vector<spdlog::sink_ptr> sinks;
  const auto& outputs = config.log_outputs;
  if (std::find(outputs.begin(), outputs.end(), "/dev/null") != outputs.end()) {
    sinks.push_back(std::make_shared<spdlog::sinks::null_sink_mt>());
    return std::make_unique<SpdlogSink>(std::move(sinks));
  }
  for (const std::string& output : outputs) {
    if (output == "default" || output == "stderr") {
      sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    } else if (output == "stdout") {
      sinks.push_back(std::make_shared<spdlog::sinks::stdout_sink_mt>());
    } else if (output == "systemd/journal") {
      sinks.push_back(std::make_shared<JournalSink>());
    } else {
      try {  // spdlog reports a file that will not open by exception
        if (config.enable_log_rotation) {
          MS_ASSIGN_OR_RETURN(const Rotation rotation,
                              ParseRotation(config.log_rotation_config_json));
          // spdlog keeps a fixed number of old files; "all of them" (0) becomes its largest.
          const size_t files = rotation.backups_max == 0 ? 200000 : rotation.backups_max;
          sinks.push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
              output, rotation.bytes_max, files));
        } else {
          sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(output));
        }
      } catch (const spdlog::spdlog_ex& e) {
        return Internal(fmt::format("open log output {}: {}", output, e.what()));
      }
    }
  }
  return std::make_unique<SpdlogSink>(std::move(sinks));
}

std::string SetLogLevelByName(const std::string& name) {
  static constexpr std::pair<std::string_view, LogLevel> kLevels[] = {
      {"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo},   {"", LogLevel::kInfo},
      {"warn", LogLevel::kWarn},   {"error", LogLevel::kError}, {"dpanic", LogLevel::kDpanic},
      {"panic", LogLevel::kPanic}, {"fatal", LogLevel::kFatal}};
  for (const auto& [text, level] : kLevels) {
    if (name == text) {
      SetLogLevel(level);
      return {};
    }
  }
  return fmt::format("unrecognized level: \"{}\"", name);
}

}  // namespace mainstay::main

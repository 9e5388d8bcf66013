// Log façade: one JSON object a line with etcd's keys, in etcd's order: level, ts, [logger],
// caller, msg, fields.
//
//   MS_LOG(kInfo, "ready to serve client requests").Str("address", url).Num("members", 3);
//
// Message texts that tools wait for stay exactly etcd's (docs/operations.md lists them).
//
// Threads  Any. A line is handed to the sink whole. The production sink queues and never blocks the
// caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace mainstay {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kDpanic, kPanic, kFatal };

// Where finished lines go. Set once by main before threads start.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // `line` ends without a newline.
  virtual void Write(LogLevel level, std::string_view line) = 0;
  // Returns when everything written before is out. Called before the process dies of its own bug.
  virtual void Flush() = 0;
};

enum class LogFormat : uint8_t { kJson, kConsole };

// `sink` null = standard error, unbuffered. The sink must outlive all logging.
void SetLogSink(LogSink* sink);
void SetLogLevel(LogLevel level);
void SetLogFormat(LogFormat format);
bool LogEnabled(LogLevel level);
void FlushLog();

class LogLine {
 public:
  LogLine(LogLevel level, const char* file, int line, std::string_view message);
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine();
  LogLine& Str(std::string_view key, std::string_view value);
  LogLine& Num(std::string_view key, int64_t value);
  LogLine& Unsigned(std::string_view key, uint64_t value);
  LogLine& Bool(std::string_view key, bool value);
  LogLine& Hex(std::string_view key, uint64_t id);  // unpadded hex string, as etcd's ids
  LogLine& Duration(std::string_view key,
                    std::chrono::nanoseconds value);          // "1.5s", as Go prints it
  LogLine& Raw(std::string_view key, std::string_view json);  // `json` is one valid JSON value
  LogLine& Error(std::string_view text) { return Str("error", text); }

 private:
  void Key(std::string_view key);
  LogLevel level_;
  std::string fields_;
  std::string message_;
  const char* file_;
  int line_;
};

// Appends `text` as a JSON string, quotes included; bytes that are no UTF-8 become U+FFFD.
void AppendJsonString(std::string* out, std::string_view text);
// As Go's time.Duration.String(): "0s", "1.5ms", "1h2m3s".
std::string GoDuration(std::chrono::nanoseconds d);

namespace internal {
struct LogVoidify {
  void operator&(const LogLine&) const {}
};
}  // namespace internal
}  // namespace mainstay

#define MS_LOG(level, message)                         \
  !::mainstay::LogEnabled(::mainstay::LogLevel::level) \
      ? (void)0                                        \
      : ::mainstay::internal::LogVoidify() &           \
            ::mainstay::LogLine(::mainstay::LogLevel::level, __FILE__, __LINE__, message)

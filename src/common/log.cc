#include "common/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <ctime>

#include "fmt/format.h"

#include "common/check.h"
#include "common/coding.h"

namespace mainstay {
namespace {

class StderrSink : public LogSink {
 public:
  void Write(LogLevel, std::string_view line) override {
    std::string out(line);
    out.push_back('\n');
    // One write a line keeps lines of several threads whole. There is nowhere to report a failure
    // of standard error.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, out.data(), out.size());
  }
  void Flush() override {}
};

std::atomic<LogSink*> g_sink{nullptr};
std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kJson};

LogSink& Sink() {
  static StderrSink standard_error;
  LogSink* sink = g_sink.load(std::memory_order_acquire);
  return sink != nullptr ? *sink : standard_error;
}

constexpr std::array<std::string_view, 7> kLevelNames = {"debug",  "info",  "warn", "error",
                                                         "dpanic", "panic", "fatal"};

std::string Timestamp() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 40> date{};
  std::array<char, 8> zone{};
  strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &local);
  strftime(zone.data(), zone.size(), "%z", &local);
  // Go's "Z0700" writes a plain Z for UTC.
  const std::string_view zone_text = std::string_view(zone.data()) == "+0000" ? "Z" : zone.data();
  return fmt::format("{}.{:06}{}", date.data(), now.tv_nsec / 1000, zone_text);
}

// "folder/file.cc:12", as zap's short caller.
std::string Caller(const char* file, int line) {
  std::string_view path(file);
  size_t cut = path.rfind('/');
  if (cut != std::string_view::npos && cut > 0) {
    cut = path.rfind('/', cut - 1);
  }
  return fmt::format("{}:{}", cut == std::string_view::npos ? path : path.substr(cut + 1), line);
}

// Length of the valid UTF-8 sequence at the head of `text`, or 0.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

void SetLogSink(LogSink* sink) {
  g_sink.store(sink, std::memory_order_release);
}
void SetLogLevel(LogLevel level) {
  g_level.store(level, std::memory_order_relaxed);
}
void SetLogFormat(LogFormat format) {
  g_format.store(format, std::memory_order_relaxed);
}
bool LogEnabled(LogLevel level) {
  return level >= g_level.load(std::memory_order_relaxed);
}
void FlushLog() {
  Sink().Flush();
}

void AppendJsonString(std::string* out, std::string_view text) {
  out->push_back('"');
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const char c = text[0];
    if (length == 0) {
      out->append("\\ufffd");
      text.remove_prefix(1);
      continue;
    }
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\r') {
      out->append("\\r");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out->append(fmt::format("\\u{:04x}", static_cast<unsigned>(c)));
    } else {
      out->append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out->push_back('"');
}

std::string GoDuration(std::chrono::nanoseconds d) {
  const int64_t total = d.count();
  if (total == 0) {
    return "0s";
  }
  const bool negative = total < 0;
  uint64_t ns = negative ? 0 - static_cast<uint64_t>(total) : static_cast<uint64_t>(total);
  const auto fraction = [](uint64_t value, uint64_t unit, std::string_view name) {
    std::string text = fmt::format("{}", value / unit);
    if (const uint64_t rest = value % unit; rest != 0) {
      const size_t width = unit == 1'000'000'000 ? 9 : unit == 1'000'000 ? 6 : 3;
      std::string digits = fmt::format("{:0{}}", rest, width);
      digits.erase(digits.find_last_not_of('0') + 1);
      text += "." + digits;
    }
    return text + std::string(name);
  };
  std::string out = negative ? "-" : "";
  if (ns < 1000) {
    return out + fmt::format("{}ns", ns);
  }
  if (ns < 1'000'000) {
    return out + fraction(ns, 1000, "µs");
  }
  if (ns < 1'000'000'000) {
    return out + fraction(ns, 1'000'000, "ms");
  }
  const uint64_t minutes = ns / 60'000'000'000;
  ns %= 60'000'000'000;
  if (minutes >= 60) {
    out += fmt::format("{}h", minutes / 60);
  }
  if (minutes > 0) {
    out += fmt::format("{}m", minutes % 60);
  }
  return out + fraction(ns, 1'000'000'000, "s");
}

LogLine::LogLine(LogLevel level, const char* file, int line, std::string_view message)
    : level_(level), message_(message), file_(file), line_(line) {}

LogLine::~LogLine() {
  const std::string_view level = kLevelNames[static_cast<size_t>(level_)];
  std::string out;
  if (g_format.load(std::memory_order_relaxed) == LogFormat::kConsole) {
    out = fmt::format("{}\t{}\t{}\t{}", Timestamp(), level, Caller(file_, line_), message_);
    if (!fields_.empty()) {
      out += "\t{" + fields_.substr(1) + "}";
    }
  } else {
    out = fmt::format(R"({{"level":"{}","ts":"{}","caller":"{}","msg":)", level, Timestamp(),
                      Caller(file_, line_));
    AppendJsonString(&out, message_);
    out += fields_;
    out.push_back('}');
  }
  Sink().Write(level_, out);
}

void LogLine::Key(std::string_view key) {
  fields_.push_back(',');
  AppendJsonString(&fields_, key);
  fields_.push_back(':');
}
LogLine& LogLine::Str(std::string_view key, std::string_view value) {
  Key(key);
  AppendJsonString(&fields_, value);
  return *this;
}
LogLine& LogLine::Num(std::string_view key, int64_t value) {
  Key(key);
  fields_ += fmt::to_string(value);
  return *this;
}
LogLine& LogLine::Unsigned(std::string_view key, uint64_t value) {
  Key(key);
  fields_ += fmt::to_string(value);
  return *this;
}
LogLine& LogLine::Bool(std::string_view key, bool value) {
  Key(key);
  fields_ += value ? "true" : "false";
  return *this;
}
LogLine& LogLine::Hex(std::string_view key, uint64_t id) {
  return Str(key, HexId(id));
}
LogLine& LogLine::Duration(std::string_view key, std::chrono::nanoseconds value) {
  return Str(key, GoDuration(value));
}
LogLine& LogLine::Raw(std::string_view key, std::string_view json) {
  Key(key);
  fields_ += json;
  return *this;
}

[[noreturn]] void CheckFailed(const char* file,
                              int line,
                              const char* claim,
                              const std::string& detail) {
  LogLine(LogLevel::kFatal, file, line, "broken invariant")
      .Str("claim", claim)
      .Str("detail", detail);
  FlushLog();
  std::abort();
}

}  // namespace mainstay

#include "cli/go_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace mainstay::cli {
namespace {

bool IsPrintable(char32_t c) {
  if (c < 0x80) {
    return c >= 0x20 && c < 0x7f;
  }
  struct Span {
    char32_t first, last;
  };
  // What strconv.IsPrint refuses: controls, blanks other than ' ', format marks, private use,
  // non-characters.
  static constexpr Span kNot[] = {
      {0x80, 0xa0},     {0xad, 0xad},     {0x61c, 0x61c},   {0x1680, 0x1680},   {0x180e, 0x180e},
      {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000},   {0xd800, 0xf8ff},
      {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0x10ffff}};
  for (const Span& span : kNot) {
    if (c >= span.first && c <= span.last) {
      return false;
    }
  }
  return true;
}

int Digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'z') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'Z') {
    return c - 'A' + 10;
  }
  return 99;
}

std::string NumberError(std::string_view function, std::string_view text, std::string_view why) {
  return fmt::format("strconv.{}: parsing {}: {}", function, GoQuote(text), why);
}

// The escape after a backslash. Returns false where Go calls it invalid.
bool UnquoteEscape(std::string_view s, size_t& i, std::string& out) {
  const char c = s[i++];
  static constexpr std::string_view kNames = "abfnrtv\\\"";
  static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\\"";
  if (const size_t at = kNames.find(c); at != std::string_view::npos) {
    out.push_back(kValues[at]);
    return true;
  }
  size_t digits = 0;
  unsigned base = 16;
  if (c == 'x') {
    digits = 2;
  } else if (c == 'u') {
    digits = 4;
  } else if (c == 'U') {
    digits = 8;
  } else if (c >= '0' && c <= '7') {
    digits = 3;
    base = 8;
    --i;
  } else {
    return false;
  }
  if (i + digits > s.size()) {
    return false;
  }
  uint64_t value = 0;
  for (size_t end = i + digits; i < end; ++i) {
    const auto digit = static_cast<unsigned>(Digit(s[i]));
    if (digit >= base) {
      return false;
    }
    value = value * base + digit;
  }
  if (c == 'u' || c == 'U') {
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      return false;
    }
    AppendRune(static_cast<char32_t>(value), out);
    return true;
  }
  if (value > 255) {
    return false;
  }
  out.push_back(static_cast<char>(value));
  return true;
}

}  // namespace

Rune DecodeRune(std::string_view s) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U;
  };
  const Rune bad{0xfffd, 1, false};
  const uint32_t first = byte(0);
  if (first < 0x80) {
    return {first, 1, true};
  }
  size_t size = 0;
  uint32_t code = 0;
  if (first >= 0xc2 && first < 0xe0) {
    size = 2;
    code = first & 0x1f;
  } else if (first >= 0xe0 && first < 0xf0) {
    size = 3;
    code = first & 0x0f;
  } else if (first >= 0xf0 && first < 0xf5) {
    size = 4;
    code = first & 0x07;
  } else {
    return bad;
  }
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return bad;
    }
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
    return bad;
  }
  return {code, size, true};
}

void AppendRune(char32_t code, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  const uint32_t c = code;
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::string GoQuote(std::string_view s) {
  std::string out = "\"";
  while (!s.empty()) {
    const Rune rune = DecodeRune(s);
    static constexpr std::string_view kNames = "abfnrtv\\\"";
    static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\\"";
    const size_t named = rune.size == 1 ? kValues.find(s[0]) : std::string_view::npos;
    if (!rune.valid) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(s[0]));
    } else if (named != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kNames[named]);
    } else if (IsPrintable(rune.code)) {
      out += s.substr(0, rune.size);
    } else if (rune.code < 0x80) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(rune.code));
    } else if (rune.code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(rune.code));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(rune.code));
    }
    s.remove_prefix(rune.size);
  }
  out.push_back('"');
  return out;
}

std::optional<std::string> GoUnquote(std::string_view quoted) {
  if (quoted.size() < 2 || quoted.front() != quoted.back()) {
    return std::nullopt;
  }
  const char quote = quoted.front();
  const std::string_view s = quoted.substr(1, quoted.size() - 2);
  if (quote == '`') {
    if (s.find('`') != std::string_view::npos) {
      return std::nullopt;
    }
    return std::string(s);
  }
  if (quote != '"') {
    return std::nullopt;
  }
  std::string out;
  for (size_t i = 0; i < s.size();) {
    if (s[i] == '"' || s[i] == '\n') {
      return std::nullopt;
    }
    if (s[i] != '\\') {
      out.push_back(s[i++]);
      continue;
    }
    if (++i == s.size() || !UnquoteEscape(s, i, out)) {
      return std::nullopt;
    }
  }
  return out;
}

std::string JsonString(std::string_view s) {
  std::string out = "\"";
  while (!s.empty()) {
    const Rune rune = DecodeRune(s);
    static constexpr std::string_view kNames = "bfnrt\\\"";
    static constexpr std::string_view kValues = "\b\f\n\r\t\\\"";
    const size_t named = rune.size == 1 ? kValues.find(s[0]) : std::string_view::npos;
    const bool html = rune.code == '<' || rune.code == '>' || rune.code == '&';
    if (!rune.valid) {
      out += "\\ufffd";
    } else if (named != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kNames[named]);
    } else if (rune.code < 0x20 || html || rune.code == 0x2028 || rune.code == 0x2029) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(rune.code));
    } else {
      out += s.substr(0, rune.size);
    }
    s.remove_prefix(rune.size);
  }
  out.push_back('"');
  return out;
}

std::string Base64(std::string_view bytes) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) {
      out.push_back(i + j > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * j) & 0x3f]);
    }
  }
  return out;
}

std::string HexEscaped(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

Parsed<uint64_t> GoParseUint(std::string_view text, int base) {
  const std::string_view kName = "ParseUint";
  if (text.empty()) {
    return {0, NumberError(kName, text, "invalid syntax")};
  }
  uint64_t value = 0;
  bool overflow = false;
  for (const char c : text) {
    const int digit = Digit(c);
    if (digit >= base) {
      return {0, NumberError(kName, text, "invalid syntax")};
    }
    overflow |= __builtin_mul_overflow(value, static_cast<uint64_t>(base), &value);
    overflow |= __builtin_add_overflow(value, static_cast<uint64_t>(digit), &value);
  }
  if (overflow) {
    return {0, NumberError(kName, text, "value out of range")};
  }
  return {value, {}};
}

Parsed<int64_t> GoParseInt(std::string_view text, int base) {
  const std::string_view kName = "ParseInt";
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) {
    digits.remove_prefix(1);
  }
  const Parsed<uint64_t> magnitude = GoParseUint(digits, base);
  const bool out_of_range = magnitude.error.ends_with("value out of range");
  if (!magnitude.ok() && !out_of_range) {
    return {0, NumberError(kName, text, "invalid syntax")};
  }
  const uint64_t max =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  if (out_of_range || magnitude.value > max) {
    return {0, NumberError(kName, text, "value out of range")};
  }
  const uint64_t value = negative ? ~magnitude.value + 1 : magnitude.value;
  return {static_cast<int64_t>(value), {}};
}

Parsed<bool> GoParseBool(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) {
      return {true, {}};
    }
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) {
      return {false, {}};
    }
  }
  return {false, NumberError("ParseBool", text, "invalid syntax")};
}

Parsed<std::chrono::nanoseconds> GoParseDuration(std::string_view text) {
  const auto fail = [&](std::string_view why, std::string_view unit = {}) {
    std::string error = fmt::format("time: {} ", why);
    if (!unit.empty()) {
      error += GoQuote(unit) + " in duration ";
    }
    return Parsed<std::chrono::nanoseconds>{{}, error + GoQuote(text)};
  };
  std::string_view s = text;
  const bool negative = s.starts_with('-');
  if (negative || s.starts_with('+')) {
    s.remove_prefix(1);
  }
  if (s == "0") {
    return {};
  }
  if (s.empty()) {
    return fail("invalid duration");
  }
  long double total = 0;
  while (!s.empty()) {
    const size_t number = std::min(s.find_first_not_of("0123456789."), s.size());
    const std::string_view digits = s.substr(0, number);
    if (digits.empty() || digits == "." || digits.find('.') != digits.rfind('.')) {
      return fail("invalid duration");
    }
    s.remove_prefix(number);
    const std::string_view unit = s.substr(0, s.find_first_of("0123456789."));
    s.remove_prefix(unit.size());
    struct Unit {
      std::string_view name;
      long double ns;
    };
    static constexpr std::array<Unit, 8> kUnits{{{"ns", 1},
                                                 {"us", 1e3},
                                                 {"µs", 1e3},
                                                 {"μs", 1e3},
                                                 {"ms", 1e6},
                                                 {"s", 1e9},
                                                 {"m", 60e9},
                                                 {"h", 3600e9}}};
    long double scale = 0;
    for (const Unit& known : kUnits) {
      scale = known.name == unit ? known.ns : scale;
    }
    if (unit.empty()) {
      return fail("missing unit in duration");
    }
    if (scale == 0) {
      return fail("unknown unit", unit);
    }
    total += std::stold(std::string(digits)) * scale;
  }
  if (total > static_cast<long double>(std::numeric_limits<int64_t>::max())) {
    return fail("invalid duration");
  }
  const auto ns = static_cast<int64_t>(std::llroundl(total));
  return {std::chrono::nanoseconds(negative ? -ns : ns), {}};
}

std::string GoDuration(std::chrono::nanoseconds duration) {
  const int64_t total = duration.count();
  if (total == 0) {
    return "0s";
  }
  const uint64_t ns = total < 0 ? ~static_cast<uint64_t>(total) + 1 : static_cast<uint64_t>(total);
  const auto decimal = [](uint64_t value, uint64_t unit) {
    std::string fraction = fmt::format("{:09}", (value % unit) * (1'000'000'000 / unit));
    fraction.erase(fraction.find_last_not_of('0') + 1);
    return fmt::format("{}{}{}", value / unit, fraction.empty() ? "" : ".", fraction);
  };
  std::string out = total < 0 ? "-" : "";
  if (ns < 1'000) {
    return out + fmt::format("{}ns", ns);
  }
  if (ns < 1'000'000) {
    return out + decimal(ns, 1'000) + "µs";
  }
  if (ns < 1'000'000'000) {
    return out + decimal(ns, 1'000'000) + "ms";
  }
  const uint64_t minute = 60'000'000'000;
  if (ns >= 60 * minute) {
    out += fmt::format("{}h", ns / (60 * minute));
  }
  if (ns >= minute) {
    out += fmt::format("{}m", ns / minute % 60);
  }
  return out + decimal(ns % minute, 1'000'000'000) + "s";
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 10) {
    return fmt::format("{} B", bytes);
  }
  static constexpr std::array<std::string_view, 7> kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  const double size = static_cast<double>(bytes);
  const auto power = static_cast<size_t>(std::floor(std::log(size) / std::log(1000.0)));
  const double value =
      std::floor(size / std::pow(1000.0, static_cast<double>(power)) * 10 + 0.5) / 10;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, kUnits[power]);
}

}  // namespace mainstay::cli

#include "membership/json.h"

#include "fmt/format.h"

namespace mainstay::membership {
namespace {

constexpr int kDepthMax = 32;  // foreign rows must not exhaust the stack

void AppendUtf8(std::string* out, uint32_t c) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

// Length of the well-formed UTF-8 sequence at the front of `s`; 0 if there is none.
size_t Utf8Length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t first = byte(0);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xC2 && first < 0xE0 ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  if (length == 0 || length > s.size()) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  // Overlong forms, surrogates and values above U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90)) {
    return 0;
  }
  return length;
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void JsonReader::SkipBlanks() {
  while (at_ != end_ && IsBlank(*at_)) {
    ++at_;
  }
}

bool JsonReader::Take(char c) {
  SkipBlanks();
  if (!ok_ || at_ == end_ || *at_ != c) {
    return false;
  }
  ++at_;
  return true;
}

bool JsonReader::TakeWord(std::string_view word) {
  SkipBlanks();
  if (!ok_ || !std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) {
    return false;
  }
  at_ += word.size();
  return true;
}

bool JsonReader::BeginObject() {
  first_ = true;
  return Take('{') || Fail();
}

bool JsonReader::NextKey(std::string* key) {
  if (!ok_ || Take('}')) {
    first_ = false;
    return false;
  }
  if (!first_ && !Take(',')) {
    return Fail();
  }
  first_ = false;
  return (String(key) && Take(':')) || Fail();
}

bool JsonReader::Hex4(uint32_t* out) {
  if (end_ - at_ < 4) {
    return Fail();
  }
  *out = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = *at_++;
    const int digit = IsDigit(c)             ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) {
      return Fail();
    }
    *out = *out << 4 | static_cast<uint32_t>(digit);
  }
  return true;
}

bool JsonReader::Escape(std::string* out) {
  if (at_ == end_) {
    return Fail();
  }
  const char c = *at_++;
  static constexpr std::string_view kFrom = "\"\\/bfnrt";
  static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
  if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
    out->push_back(kTo[i]);
    return true;
  }
  uint32_t unit = 0;
  if (c != 'u' || !Hex4(&unit)) {
    return Fail();
  }
  if (unit >= 0xD800 && unit < 0xDC00 && end_ - at_ >= 6 && at_[0] == '\\' && at_[1] == 'u') {
    at_ += 2;
    uint32_t low = 0;
    if (!Hex4(&low)) {
      return false;
    }
    if (low >= 0xDC00 && low < 0xE000) {
      AppendUtf8(out, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
      return true;
    }
    at_ -= 6;  // a lone surrogate; what follows is read by itself
  }
  AppendUtf8(out, unit >= 0xD800 && unit < 0xE000 ? 0xFFFD : unit);
  return true;
}

bool JsonReader::String(std::string* out) {
  out->clear();
  if (!Take('"')) {
    return Fail();
  }
  while (at_ != end_) {
    const char c = *at_++;
    if (c == '"') {
      return true;
    }
    if (static_cast<uint8_t>(c) < 0x20) {
      return Fail();
    }
    if (c != '\\') {
      out->push_back(c);
    } else if (!Escape(out)) {
      return false;
    }
  }
  return Fail();
}

bool JsonReader::Unsigned(uint64_t* out) {
  SkipBlanks();
  const char* start = at_;
  uint64_t value = 0;
  while (ok_ && at_ != end_ && IsDigit(*at_)) {
    const auto digit = static_cast<uint64_t>(*at_ - '0');
    if (value > (UINT64_MAX - digit) / 10) {
      return Fail();
    }
    value = value * 10 + digit;
    ++at_;
  }
  if (at_ == start || (*start == '0' && at_ - start > 1)) {
    return Fail();
  }
  *out = value;
  return true;
}

bool JsonReader::Bool(bool* out) {
  *out = TakeWord("true");
  return *out || TakeWord("false") || Fail();
}

bool JsonReader::Strings(std::vector<std::string>* out) {
  out->clear();
  if (TakeWord("null")) {
    return true;
  }
  if (!Take('[')) {
    return Fail();
  }
  if (Take(']')) {
    return true;
  }
  do {
    if (!String(&out->emplace_back())) {
      return false;
    }
  } while (Take(','));
  return Take(']') || Fail();
}

bool JsonReader::Skip() {
  return SkipNested(kDepthMax);
}

bool JsonReader::SkipNumber() {
  const char* start = at_;
  while (at_ != end_ &&
         (IsDigit(*at_) || std::string_view("+-.eE").find(*at_) != std::string_view::npos)) {
    ++at_;
  }
  return at_ != start || Fail();
}

bool JsonReader::SkipNested(int depth) {
  SkipBlanks();
  if (!ok_ || at_ == end_ || depth == 0) {
    return Fail();
  }
  std::string ignored;
  if (*at_ == '"') {
    return String(&ignored);
  }
  if (Take('{')) {
    if (Take('}')) {
      return true;
    }
    do {
      if (!String(&ignored) || !Take(':') || !SkipNested(depth - 1)) {
        return Fail();
      }
    } while (Take(','));
    return Take('}') || Fail();
  }
  if (Take('[')) {
    if (Take(']')) {
      return true;
    }
    do {
      if (!SkipNested(depth - 1)) {
        return Fail();
      }
    } while (Take(','));
    return Take(']') || Fail();
  }
  return TakeWord("true") || TakeWord("false") || TakeWord("null") || SkipNumber();
}

bool JsonReader::Finish() {
  SkipBlanks();
  return ok_ && at_ == end_;
}

void AppendGoJsonString(std::string* out, std::string_view text) {
  out->push_back('"');
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const char c = text.front();
    if (length == 0) {
      out->append("\\ufffd");
      text.remove_prefix(1);
      continue;
    }
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f') {
      out->push_back('\\');
      out->push_back(c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c == '\b' ? 'b' : 'f');
    } else if (c == '<' || c == '>' || c == '&' ||
               (length == 1 && static_cast<uint8_t>(c) < 0x20)) {
      out->append(fmt::format("\\u{:04x}", static_cast<uint8_t>(c)));
    } else if (text.starts_with("\u2028") || text.starts_with("\u2029")) {
      out->append(text.starts_with("\u2028") ? "\\u2028" : "\\u2029");
    } else {
      out->append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out->push_back('"');
}

void AppendGoJsonStrings(std::string* out, const std::vector<std::string>& list) {
  if (list.empty()) {
    out->append("null");
    return;
  }
  char separator = '[';
  for (const std::string& item : list) {
    out->push_back(separator);
    AppendGoJsonString(out, item);
    separator = ',';
  }
  out->push_back(']');
}

}  // namespace mainstay::membership

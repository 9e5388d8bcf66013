#include "cli/txn_language.h"

#include <fmt/format.h>

#include <optional>

#include "cli/go_text.h"
#include "common/status.h"

namespace mainstay::cli {
namespace {

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

// The length of the quoted text at the start of `s`, both quotes included; 0 if it is not closed.
size_t QuotedLength(std::string_view s) {
  const char quote = s[0];
  for (size_t i = 1; i < s.size(); ++i) {
    if (s[i] == quote) {
      return i + 1;
    }
    if (quote == '"' && s[i] == '\\') {
      ++i;
    }
  }
  return 0;
}

// Reads a comparison from left to right. What was read until it failed is in the fields.
struct ComparisonText {
  std::string key, op, value;
  int fields = 0;

  void Read(std::string_view s) {
    if (!Quoted(s, key)) {
      return;
    }
    ++fields;
    if (!s.starts_with(')')) {
      return;
    }
    s.remove_prefix(1);
    if (s.empty() || !IsSpace(s[0])) {
      return;  // the blank before the operator is not optional
    }
    SkipBlanks(s);
    const size_t end = std::min(s.find_first_of(" \t\r\n"), s.size());
    op = s.substr(0, end);
    s.remove_prefix(end);
    if (op.empty()) {
      return;
    }
    ++fields;
    if (Quoted(s, value)) {
      ++fields;
    }
  }

  static void SkipBlanks(std::string_view& s) {
    s.remove_prefix(std::min(s.find_first_not_of(" \t\r"), s.size()));
  }

  static bool Quoted(std::string_view& s, std::string& into) {
    SkipBlanks(s);
    if (s.empty() || (s[0] != '"' && s[0] != '`')) {
      return false;
    }
    const size_t length = QuotedLength(s);
    if (length == 0) {
      return false;
    }
    const std::optional<std::string> text = GoUnquote(s.substr(0, length));
    if (!text.has_value()) {
      return false;
    }
    into = *text;
    s.remove_prefix(length);
    return true;
  }
};

// Puts the value where the target keeps it; false if it is no number.
bool SetTarget(std::string_view target, const std::string& value, etcdserverpb::Compare& compare) {
  using Compare = etcdserverpb::Compare;
  if (target == "val" || target == "value") {
    compare.set_target(Compare::VALUE);
    compare.set_value(value);
    return true;
  }
  const bool is_lease = target == "lease";
  const Parsed<int64_t> number = GoParseInt(value, is_lease ? 16 : 10);
  if (!number.ok()) {
    return false;
  }
  if (is_lease) {
    compare.set_target(Compare::LEASE);
    compare.set_lease(number.value);
  } else if (target == "ver" || target == "version") {
    compare.set_target(Compare::VERSION);
    compare.set_version(number.value);
  } else if (target == "c" || target == "create") {
    compare.set_target(Compare::CREATE);
    compare.set_create_revision(number.value);
  } else {
    compare.set_target(Compare::MOD);
    compare.set_mod_revision(number.value);
  }
  return true;
}

bool IsTarget(std::string_view target) {
  for (const std::string_view known :
       {"ver", "version", "c", "create", "m", "mod", "val", "value", "lease"}) {
    if (target == known) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    const char c = line[0];
    if (IsSpace(c)) {
      line.remove_prefix(1);
      continue;
    }
    if (c == '"' || c == '\'') {
      const size_t length = QuotedLength(line);
      if (length == 0) {
        line.remove_prefix(1);
        continue;
      }
      const std::string_view word = line.substr(0, length);
      line.remove_prefix(length);
      if (c == '\'') {
        words.emplace_back(word.substr(1, length - 2));
        continue;
      }
      std::optional<std::string> text = GoUnquote(word);
      if (!text.has_value()) {
        return InvalidArgument("invalid syntax");
      }
      words.push_back(std::move(*text));
      continue;
    }
    size_t length = 0;
    while (length < line.size() && !IsSpace(line[length])) {
      ++length;
    }
    words.emplace_back(line.substr(0, length));
    line.remove_prefix(length);
  }
  return words;
}

absl::StatusOr<etcdserverpb::Compare> ParseComparison(std::string_view line) {
  const size_t open = line.find('(');
  if (open == std::string_view::npos) {
    return InvalidArgument(fmt::format("malformed comparison: {}", line));
  }
  const std::string_view target = line.substr(0, open);
  ComparisonText text;
  text.Read(line.substr(open + 1));
  if (text.fields != 3) {
    return InvalidArgument(fmt::format("malformed comparison: {}; got {}({}) {} {}", line, target,
                                       GoQuote(text.key), text.op, GoQuote(text.value)));
  }
  if (!IsTarget(target)) {
    return InvalidArgument(
        fmt::format("malformed comparison: {} (unknown target {})", line, target));
  }
  etcdserverpb::Compare compare;
  compare.set_key(text.key);
  if (!SetTarget(target, text.value, compare)) {
    return InvalidArgument(fmt::format("invalid txn compare request: {}", line));
  }
  using Compare = etcdserverpb::Compare;
  if (text.op == "=") {
    compare.set_result(Compare::EQUAL);
  } else if (text.op == "!=") {
    compare.set_result(Compare::NOT_EQUAL);
  } else if (text.op == ">") {
    compare.set_result(Compare::GREATER);
  } else if (text.op == "<") {
    compare.set_result(Compare::LESS);
  } else {
    return InvalidArgument(
        fmt::format("malformed comparison: {} (unknown operator {})", line, text.op));
  }
  return compare;
}

}  // namespace mainstay::cli

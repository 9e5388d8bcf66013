// Text as Go's standard library reads and writes it, since the tools we stand in for are Go
// programs: quoted strings, numbers and their error texts, durations, JSON strings, sizes.
//
// Threads  Any; all functions are pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mainstay::cli {

// Length in bytes of the UTF-8 sequence at the start of `s`, and its code point; length 1 and
// U+FFFD with valid = false where the bytes are no UTF-8. REQUIRES: s is not empty.
struct Rune {
  char32_t code;
  size_t size;
  bool valid;
};
Rune DecodeRune(std::string_view s);
void AppendRune(char32_t code, std::string& out);

// strconv.Quote, that is %q.
std::string GoQuote(std::string_view s);
// Reverses it, for "…" and `…`; nullopt where Go says "invalid syntax".
std::optional<std::string> GoUnquote(std::string_view quoted);
// A JSON string with quotes, as encoding/json writes it (with <, > and & escaped).
std::string JsonString(std::string_view s);
std::string Base64(std::string_view bytes);
// "\x61\x62", as --hex prints keys and values.
std::string HexEscaped(std::string_view bytes);

// A parsed value, or Go's error text: `strconv.ParseInt: parsing "x": invalid syntax`.
template <class T>
struct Parsed {
  T value{};
  std::string error;
  bool ok() const { return error.empty(); }
};
Parsed<int64_t> GoParseInt(std::string_view text, int base);
Parsed<uint64_t> GoParseUint(std::string_view text, int base);
Parsed<bool> GoParseBool(std::string_view text);
Parsed<std::chrono::nanoseconds> GoParseDuration(std::string_view text);
std::string GoDuration(std::chrono::nanoseconds duration);  // "1.5s"

// "98 kB", "2.1 GB": base 1000, one decimal below 10.
std::string HumanBytes(uint64_t bytes);

}  // namespace mainstay::cli

// The little JSON that membership rows need: flat objects of strings, numbers, booleans and lists
// of strings, written as Go's encoding/json writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mainstay::membership {

// Reads one JSON text from front to back. After any failure ok() is false and all reads give
// nothing.
//   JsonReader r(text);
//   if (r.BeginObject()) {
//     while (r.NextKey(&key)) { if (key == "id") r.Unsigned(&id); else r.Skip(); }
//   }
//   if (!r.Finish()) -> malformed
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}
  bool BeginObject();
  // The next key of the current object; false at its end. Each true is followed by one read.
  bool NextKey(std::string* key);
  bool String(std::string* out);
  bool Unsigned(uint64_t* out);
  bool Bool(bool* out);
  // A list of strings; null gives the empty list.
  bool Strings(std::vector<std::string>* out);
  bool Skip();
  bool ok() const { return ok_; }
  // True if everything was read, with only blanks after it.
  bool Finish();

 private:
  bool Fail() {
    ok_ = false;
    return false;
  }
  void SkipBlanks();
  bool Take(char c);
  bool TakeWord(std::string_view word);
  bool Escape(std::string* out);
  bool Hex4(uint32_t* out);
  bool SkipNested(int depth);
  bool SkipNumber();

  const char* at_;
  const char* end_;
  bool ok_ = true;
  bool first_ = true;
};

// Appends `text` quoted as Go does: <, > and & as \u003c, \u003e, \u0026, bytes that are no UTF-8
// as \ufffd.
void AppendGoJsonString(std::string* out, std::string_view text);
// ["a","b"]; null for the empty list, as Go writes a nil slice.
void AppendGoJsonStrings(std::string* out, const std::vector<std::string>& list);

}  // namespace mainstay::membership

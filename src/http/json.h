// The gateway's JSON: requests into the bytes of protobuf messages and answers back, by
// grpc-gateway v2's rules.
//
// Threads  Pure functions; any.
// Sources  grpc-api 1.4.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/buffer.h"
#include "common/status.h"
#include "rpc/status.h"

namespace mainstay::http {

// JSON of the message called `type` ("etcdserverpb.PutRequest") as its bytes. Proto and
// lowerCamelCase names; unknown fields and enum names are ignored; empty text is the empty message.
StatusOr<std::string> JsonToBytes(std::string_view type, std::string_view json);
// Proto names, defaults left out, 64-bit numbers as strings, bytes in base64.
StatusOr<std::string> BytesToJson(std::string_view type, std::string_view bytes);

// {"code":3,"message":"..."}.
std::string StatusJson(rpc::Code code, std::string_view message);
int HttpStatus(rpc::Code code);

// Cuts JSON documents out of a body that comes in pieces: objects one after the other, white space
// between them.
class DocumentSplitter {
 public:
  explicit DocumentSplitter(size_t bytes_max) : bytes_max_(bytes_max) {}
  void Add(std::string_view bytes) { text_.append(bytes); }
  // The next whole document; nullopt if none is complete yet.
  std::optional<std::string> Next();
  // True if something that is no white space waits for its end.
  bool pending() const;
  size_t held_bytes() const { return text_.size() - start_; }
  // True if the document that waits is longer than allowed.
  bool too_long() const { return held_bytes() > bytes_max_; }

 private:
  void Compact();
  const size_t bytes_max_;
  std::string text_;
  size_t start_ = 0;  // of the document
  size_t at_ = 0;     // scanned up to here
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace mainstay::http

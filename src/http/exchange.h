// Exchange: one HTTP request that may be answered later, after its stream might have gone.
//
// Threads    The stream's loop.
// Ownership  Shared by the stream's sink and whoever answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/buffer.h"
#include "net/http.h"

namespace mainstay::http {

class Exchange {
 public:
  explicit Exchange(net::Stream& stream) : stream_(&stream) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // A field of every answer.
  void AddField(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  bool alive() const { return stream_ != nullptr; }
  net::Stream& stream() { return *stream_; }
  const net::RequestHead& head() const { return stream_->head(); }

  // The whole answer. Does nothing once the stream is gone or was answered.
  void Respond(int status, const net::FieldList& fields, std::string_view body);
  void RespondChain(int status, const net::FieldList& fields, BufferChain body);
  // An answer in pieces.
  void Start(int status, const net::FieldList& fields);
  void Write(BufferChain body);
  void End();
  void Reset();
  // As Go's http.Error: text, a newline, and nosniff.
  void Text(int status, std::string_view body);
  // The stream is gone.
  void Detach() { stream_ = nullptr; }

 private:
  net::FieldList AllFields(const net::FieldList& own) const;

  net::Stream* stream_;
  std::vector<std::pair<std::string, std::string>> fields_;
};
using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace mainstay::http

#include "http/exchange.h"

namespace mainstay::http {
namespace {

constexpr uint32_t kHttp2InternalError = 2;

}  // namespace

net::FieldList Exchange::AllFields(const net::FieldList& own) const {
  net::FieldList all;
  for (const auto& [name, value] : fields_) {
    all.emplace_back(name, value);
  }
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

void Exchange::Respond(int status, const net::FieldList& fields, std::string_view body) {
  RespondChain(status, fields, BufferChain(Buffer::Copy(body)));
}

void Exchange::RespondChain(int status, const net::FieldList& fields, BufferChain body) {
  if (stream_ == nullptr) {
    return;
  }
  net::Stream* const stream = std::exchange(stream_, nullptr);
  stream->Respond(status, AllFields(fields), body.Flatten());
}

void Exchange::Start(int status, const net::FieldList& fields) {
  if (stream_ != nullptr) {
    stream_->SendHead(status, AllFields(fields));
  }
}

void Exchange::Write(BufferChain body) {
  if (stream_ != nullptr) {
    stream_->SendBody(std::move(body));
  }
}

void Exchange::End() {
  if (net::Stream* const stream = std::exchange(stream_, nullptr)) {
    stream->End();
  }
}

void Exchange::Reset() {
  if (net::Stream* const stream = std::exchange(stream_, nullptr)) {
    stream->Reset(kHttp2InternalError);
  }
}

void Exchange::Text(int status, std::string_view body) {
  Respond(status,
          {{"content-type", "text/plain; charset=utf-8"}, {"x-content-type-options", "nosniff"}},
          std::string(body) + "\n");
}

}  // namespace mainstay::http

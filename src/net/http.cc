#include "net/http.h"

namespace mainstay::net {

void Headers::Add(std::string_view name, std::string_view value) {
  spans_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(name.size()),
                    static_cast<uint32_t>(value.size())});
  text_.append(name);
  text_.append(value);
}

std::pair<std::string_view, std::string_view> Headers::at(size_t i) const {
  const Span& s = spans_[i];
  const std::string_view all(text_);
  return {all.substr(s.at, s.name), all.substr(s.at + s.name, s.value)};
}

std::string_view Headers::Get(std::string_view name) const {
  for (size_t i = 0; i < spans_.size(); ++i) {
    const auto [key, value] = at(i);
    if (key == name) {
      return value.data() != nullptr ? value : std::string_view("");
    }
  }
  return {};
}

void Stream::Respond(int status, const FieldList& fields, Buffer body) {
  FieldList all = fields;
  const std::string length = std::to_string(body.size());
  all.emplace_back("content-length", length);
  SendHead(status, all);
  if (!body.empty()) {
    SendBody(BufferChain(std::move(body)));
  }
  End();
}

}  // namespace mainstay::net

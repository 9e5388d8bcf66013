#include "http/json.h"

#include <memory>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"

#include "common/check.h"
#include "common/log.h"
#include "proto/etcdserverpb/rpc.pb.h"
#include "proto/v3electionpb/v3election.pb.h"
#include "proto/v3lockpb/v3lock.pb.h"

namespace mainstay::http {
namespace {

namespace pb = google::protobuf;

std::unique_ptr<pb::Message> NewMessage(std::string_view type) {
  // Keeps the descriptors of messages that nothing else uses in the program.
  v3lockpb::LockRequest::descriptor();
  v3electionpb::LeaderRequest::descriptor();
  etcdserverpb::RangeRequest::descriptor();
  const pb::Descriptor* descriptor =
      pb::DescriptorPool::generated_pool()->FindMessageTypeByName(std::string(type));
  MS_CHECK_MSG(descriptor != nullptr, std::string(type));
  const pb::Message* prototype = pb::MessageFactory::generated_factory()->GetPrototype(descriptor);
  return std::unique_ptr<pb::Message>(prototype->New());
}

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

StatusOr<std::string> JsonToBytes(std::string_view type, std::string_view json) {
  const std::unique_ptr<pb::Message> message = NewMessage(type);
  bool blank = true;
  for (char c : json) {
    blank = blank && IsSpace(c);
  }
  if (!blank) {
    pb::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    const pb::util::Status status = pb::util::JsonStringToMessage(
        pb::StringPiece(json.data(), json.size()), message.get(), options);
    if (!status.ok()) {
      const pb::StringPiece text = status.message();
      return InvalidArgument({text.data(), text.size()});
    }
  }
  return message->SerializeAsString();
}

StatusOr<std::string> BytesToJson(std::string_view type, std::string_view bytes) {
  const std::unique_ptr<pb::Message> message = NewMessage(type);
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Internal("an answer does not decode as " + std::string(type));
  }
  pb::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const pb::util::Status status = pb::util::MessageToJsonString(*message, &json, options);
  if (!status.ok()) {
    const pb::StringPiece text = status.message();
    return Internal({text.data(), text.size()});
  }
  return json;
}

std::string StatusJson(rpc::Code code, std::string_view message) {
  std::string json = "{\"code\":" + std::to_string(static_cast<int>(code)) + ",\"message\":";
  AppendJsonString(&json, message);
  json += '}';
  return json;
}

int HttpStatus(rpc::Code code) {
  using rpc::Code;
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kCancelled:
      return 499;
    case Code::kInvalidArgument:
    case Code::kFailedPrecondition:
    case Code::kOutOfRange:
      return 400;
    case Code::kUnauthenticated:
      return 401;
    case Code::kPermissionDenied:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kAlreadyExists:
    case Code::kAborted:
      return 409;
    case Code::kResourceExhausted:
      return 429;
    case Code::kUnimplemented:
      return 501;
    case Code::kUnavailable:
      return 503;
    case Code::kDeadlineExceeded:
      return 504;
    case Code::kUnknown:
    case Code::kInternal:
    case Code::kDataLoss:
      return 500;
  }
  return 500;
}

std::optional<std::string> DocumentSplitter::Next() {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      continue;
    }
    if (depth_ == 0 && IsSpace(c)) {
      if (at_ == start_) {
        start_ = at_ + 1;
      }
      continue;
    }
    in_string_ = c == '"';
    depth_ += c == '{' || c == '[' ? 1 : 0;
    depth_ -= c == '}' || c == ']' ? 1 : 0;
    if (depth_ <= 0 && (c == '}' || c == ']')) {
      std::string document = text_.substr(start_, at_ + 1 - start_);
      start_ = ++at_;
      depth_ = 0;
      Compact();
      return document;
    }
  }
  Compact();
  return std::nullopt;
}

// Not after each document: that would move all the others once for each. White space alone is
// not kept either, as it has no limit.
void DocumentSplitter::Compact() {
  if (start_ > text_.size() / 2) {
    text_.erase(0, start_);
    at_ -= start_;
    start_ = 0;
  }
}

bool DocumentSplitter::pending() const {
  for (size_t i = start_; i < text_.size(); ++i) {
    if (!IsSpace(text_[i])) {
      return true;
    }
  }
  return false;
}

}  // namespace mainstay::http

#include "cli/json.h"

#include <fmt/format.h>

#include "cli/go_text.h"

namespace mainstay::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Writer {
 public:
  explicit Writer(bool hex_ids) : hex_ids_(hex_ids) {}

  std::string Object(const Message& message) const { return "{" + Fields(message) + "}"; }

  std::string Fields(const Message& message) const {
    const auto* descriptor = message.GetDescriptor();
    const Reflection& reflection = *message.GetReflection();
    std::string out;
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      const std::string value = Value(message, reflection, *field);
      if (!value.empty()) {
        out += (out.empty() ? "" : ",") + JsonString(field->name()) + ":" + value;
      }
    }
    // The one oneof that clients see is printed as Go's wrapper struct has it.
    if (descriptor->full_name() == "etcdserverpb.ResponseOp") {
      return "\"Response\":{" + out + "}";
    }
    return out;
  }

 private:
  bool IsHexId(const FieldDescriptor& field) const {
    return hex_ids_ && (field.name() == "cluster_id" || field.name() == "member_id" ||
                        field.full_name() == "etcdserverpb.Member.ID");
  }

  // Empty: the field is left out.
  std::string Value(const Message& message,
                    const Reflection& reflection,
                    const FieldDescriptor& field) const {
    if (!field.is_repeated()) {
      return Single(message, reflection, field);
    }
    const int count = reflection.FieldSize(message, &field);
    if (count == 0) {
      return "";
    }
    std::string out = "[";
    for (int i = 0; i < count; ++i) {
      out += (i == 0 ? "" : ",") + Element(message, reflection, field, i);
    }
    return out + "]";
  }

  std::string Single(const Message& message,
                     const Reflection& reflection,
                     const FieldDescriptor& field) const {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (!reflection.HasField(message, &field)) {
          return "";
        }
        return Object(reflection.GetMessage(message, &field));
      case FieldDescriptor::CPPTYPE_STRING:
        return Text(field, reflection.GetString(message, &field));
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection.GetBool(message, &field) ? "true" : "";
      case FieldDescriptor::CPPTYPE_INT64:
        return NonZero(reflection.GetInt64(message, &field));
      case FieldDescriptor::CPPTYPE_INT32:
        return NonZero(reflection.GetInt32(message, &field));
      case FieldDescriptor::CPPTYPE_UINT32:
        return NonZero(reflection.GetUInt32(message, &field));
      case FieldDescriptor::CPPTYPE_ENUM:
        return NonZero(reflection.GetEnumValue(message, &field));
      case FieldDescriptor::CPPTYPE_UINT64: {
        const uint64_t value = reflection.GetUInt64(message, &field);
        return IsHexId(field) ? fmt::format("\"{:x}\"", value) : NonZero(value);
      }
      default:
        return "";
    }
  }

  std::string Element(const Message& message,
                      const Reflection& reflection,
                      const FieldDescriptor& field,
                      int i) const {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return Object(reflection.GetRepeatedMessage(message, &field, i));
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      const std::string text = reflection.GetRepeatedString(message, &field, i);
      return field.type() == FieldDescriptor::TYPE_BYTES ? "\"" + Base64(text) + "\""
                                                         : JsonString(text);
    }
    return fmt::format("{}", reflection.GetRepeatedUInt64(message, &field, i));
  }

  static std::string Text(const FieldDescriptor& field, const std::string& text) {
    if (text.empty()) {
      return "";
    }
    return field.type() == FieldDescriptor::TYPE_BYTES ? "\"" + Base64(text) + "\""
                                                       : JsonString(text);
  }

  template <class T>
  static std::string NonZero(T value) {
    return value == 0 ? "" : fmt::format("{}", value);
  }

  const bool hex_ids_;
};

}  // namespace

std::string ToJson(const Message& message) {
  return Writer(false).Object(message);
}

std::string ToJsonWithHexIds(const Message& message) {
  return Writer(true).Object(message);
}

std::string JsonFields(const Message& message) {
  return Writer(false).Fields(message);
}

}  // namespace mainstay::cli

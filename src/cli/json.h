// API messages as JSON, the way Go's encoding/json prints etcd's structs: field names of the .proto
// files, zero and empty fields left out, 64-bit integers as numbers, bytes in base64, enums as
// numbers, one line.
//
// Threads  Any.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace mainstay::cli {

std::string ToJson(const google::protobuf::Message& message);
// The same with member and cluster ids as hexadecimal strings, as member commands print with --hex.
// The term stays decimal.
std::string ToJsonWithHexIds(const google::protobuf::Message& message);
// The fields of `message` without the braces around them; for structs that embed a header.
std::string JsonFields(const google::protobuf::Message& message);

}  // namespace mainstay::cli

// Goal: no JSON of a client and no bytes of a store harm the gateway's transcoding, and it loses
// nothing: what was read from JSON is printed as JSON that reads as the same bytes.
// Method: libFuzzer's first byte chooses what the rest is: JSON of one of the gateway's requests,
// as it is or in pieces to be put together, a protobuf message, a body of several documents in
// pieces, a query string.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "google/protobuf/stubs/logging.h"

#include "http/json.h"
#include "http/query.h"

namespace mainstay::http {
namespace {

constexpr std::string_view kTypes[] = {
    "etcdserverpb.RangeRequest",
    "etcdserverpb.PutRequest",
    "etcdserverpb.DeleteRangeRequest",
    "etcdserverpb.TxnRequest",
    "etcdserverpb.CompactionRequest",
    "etcdserverpb.WatchRequest",
    "etcdserverpb.LeaseGrantRequest",
    "etcdserverpb.AlarmRequest",
    "etcdserverpb.MemberAddRequest",
    "etcdserverpb.AuthRoleGrantPermissionRequest",
    "etcdserverpb.AuthUserAddRequest",
    "etcdserverpb.DowngradeRequest",
    "v3lockpb.LockRequest",
    "v3electionpb.ProclaimRequest",
    "etcdserverpb.RangeResponse",
    "etcdserverpb.TxnResponse",
    "etcdserverpb.WatchResponse",
    "etcdserverpb.MemberListResponse",
};
constexpr size_t kDocumentMax = 256;

// JSON as a fuzzer would need hours to find it: low bytes stand for pieces of it.
std::string Compose(std::string_view program) {
  static constexpr std::string_view kPieces[] = {
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      "\"",
      "null",
      "true",
      "false",
      "0",
      "-1",
      "1e3",
      "1.5",
      "\"18446744073709551615\"",
      "\"-9223372036854775808\"",
      "9223372036854775807",
      "\"Zm9v\"",
      "\"_-8\"",
      "\"AA==\"",
      "\"\\u0000\"",
      "\"\\ud83d\\ude00\"",
      "\"\\ud83d\"",
      "\"NaN\"",
      "{}",
      "[]",
      "\"key\":",
      "\"range_end\":",
      "\"rangeEnd\":",
      "\"limit\":",
      "\"sort_order\":",
      "\"DESCEND\"",
      "\"value\":",
      "\"lease\":",
      "\"compare\":[{",
      "\"success\":[{",
      "\"failure\":[{",
      "\"request_txn\":{",
      "\"request_put\":{",
      "\"requestRange\":{",
      "\"create_request\":{",
      "\"filters\":[",
      "\"NOPUT\"",
      "\"cancel_request\":{",
      "\"progress_request\":{",
      "\"perm\":{",
      "\"permType\":",
      "\"READWRITE\"",
      "\"name\":",
      "\"options\":{",
      "\"no_password\":",
      "\"peerURLs\":",
      "\"ID\":",
      "\"TTL\":",
      "\"action\":",
      "\"alarm\":",
      "\"kvs\":[{",
      "\"header\":{",
      "\"events\":[{",
      "\"kv\":{",
      "}]",
      "}}",
      "\"target\":",
      "\"version\":",
      "\"result\":",
      "\"GREATER\"",
      "\"prev_kv\":",
      "\"revision\":",
  };
  std::string out;
  for (const char c : program) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < std::size(kPieces)) {
      out += kPieces[byte];
    } else {
      out += static_cast<char>(byte - std::size(kPieces));
    }
  }
  return out;
}

void Transcode(std::string_view type, std::string_view json) {
  const StatusOr<std::string> bytes = JsonToBytes(type, json);
  if (!bytes.ok()) {
    return;
  }
  const StatusOr<std::string> printed = BytesToJson(type, *bytes);
  if (!printed.ok()) {
    std::abort();
  }
  const StatusOr<std::string> again = JsonToBytes(type, *printed);
  if (!again.ok() || *again != *bytes) {
    std::abort();
  }
}

std::vector<std::string> Split(std::string_view body, size_t piece) {
  DocumentSplitter splitter(kDocumentMax);
  std::vector<std::string> out;
  while (!body.empty() && !splitter.too_long()) {
    splitter.Add(body.substr(0, piece));
    body.remove_prefix(std::min(piece, body.size()));
    while (auto document = splitter.Next()) {
      out.push_back(*std::move(document));
    }
  }
  return out;
}

}  // namespace
}  // namespace mainstay::http

// protobuf writes to stderr whatever it refuses.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mainstay::http;  // NOLINT: a fuzzer's only function
  if (size < 2) {
    return 0;
  }
  const std::string_view type = kTypes[data[1] % std::size(kTypes)];
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  switch (data[0] % 5) {
    case 0:
      Transcode(type, rest);
      break;
    case 1:
      Transcode(type, Compose(rest));
      break;
    case 2:
      // Whatever a message may hold, the printing of it ends well or with an error.
      if (const auto json = BytesToJson(type, rest); json.ok()) {
        JsonToBytes(type, *json).status().IgnoreError();
      }
      break;
    case 3:
      if (const Query query(rest); query.Has("a") == query.All("a").empty()) {
        std::abort();
      }
      break;
    default: {
      const std::vector<std::string> whole = Split(rest, rest.size() + 1);
      const std::vector<std::string> cut = Split(rest, data[1] % 16 + size_t{1});
      // A document that is too long ends a body, sooner if it comes in pieces.
      if (cut.size() > whole.size() || !std::equal(cut.begin(), cut.end(), whole.begin())) {
        std::abort();
      }
    }
  }
  return 0;
}

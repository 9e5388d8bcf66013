// Goal: no bytes from a peer or a damaged log make the raftpb decoders misbehave, and what they
// understand they can write and understand again.
// Method: libFuzzer; the first byte chooses the message type.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/check.h"
#include "raft/codec.h"

namespace mainstay::raft {
namespace {

void FuzzMessage(const Buffer& bytes) {
  const StatusOr<Message> decoded = DecodeMessage(bytes);
  if (decoded.ok()) {
    const StatusOr<Message> again = DecodeMessage(EncodeMessage(*decoded).Flatten());
    MS_CHECK(again.ok() && *again == *decoded);
  }
}

void FuzzEntry(const Buffer& bytes) {
  const StatusOr<Entry> decoded = DecodeEntry(bytes);
  if (!decoded.ok()) {
    return;
  }
  const StatusOr<Entry> again = DecodeEntry(EncodeEntry(*decoded));
  MS_CHECK(again.ok() && *again == *decoded);
  if (decoded->is_conf_change()) {
    (void)DecodeChangeOf(*decoded);
  }
}

}  // namespace
}  // namespace mainstay::raft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mainstay;  // NOLINT: a fuzzer's entry stands outside
  if (size == 0) {
    return 0;
  }
  const Buffer bytes = Buffer::Copy({reinterpret_cast<const char*>(data) + 1, size - 1});
  switch (data[0] % 6) {
    case 0:
      raft::FuzzMessage(bytes);
      break;
    case 1:
      raft::FuzzEntry(bytes);
      break;
    case 2:
      (void)raft::DecodeHardState(bytes.view());
      break;
    case 3:
      (void)raft::DecodeSnapshot(bytes);
      break;
    case 4:
      (void)raft::DecodeConfChange(bytes);
      break;
    default:
      (void)raft::DecodeConfChangeV2(bytes);
      break;
  }
  return 0;
}

// Goal: no content of a segment makes recovery misbehave; what it accepts can be written on and is found again.
// Method: libFuzzer on the simulated disk. With the first byte odd the rest is a segment as it stands; otherwise it
//         is cut into records (one byte type, one byte length) that get right length words and checksums, so that the
//         fuzzer reaches what stands behind them.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/check.h"
#include "common/crc32c.h"
#include "tests/sim/disk.h"
#include "wal/record.h"
#include "wal/wal.h"

namespace mainstay::wal {
namespace {

constexpr char kDir[] = "/wal";
constexpr char kPath[] = "/wal/0000000000000000-0000000000000000.wal";
constexpr Options kOptions{.segment_bytes = 4096};

std::string Framed(std::string_view bytes) {
  std::string out;
  AppendFrame(&out, kCrc, 0, {}, false);
  uint32_t crc = 0;
  while (bytes.size() >= 2) {
    const int64_t type = static_cast<uint8_t>(bytes[0]) % 6;
    const size_t length = std::min<size_t>(static_cast<uint8_t>(bytes[1]), bytes.size() - 2);
    const std::string_view data = bytes.substr(2, length);
    crc = Crc32cExtend(crc, data);
    AppendFrame(&out, type, crc, data, length != 0);
    bytes.remove_prefix(2 + length);
  }
  return out;
}

void Fuzz(std::string segment) {
  sim::Disk disk;
  disk.SetContent(kPath, std::move(segment));
  StatusOr<Recovered> found = Recover(disk, kDir, Index(0), kOptions);
  if (!found.ok()) {
    MS_CHECK(!found.status().message().empty());
    return;
  }
  const size_t entries = found->entries.size();
  const Index next =
      entries == 0 ? Index(found->before.index.value() + 1) : found->entries.back().index.Next();
  if (next == Index(0)) {
    return;  // no index is left
  }
  const raft::Entry entry{Term(1), next, raft::EntryType::kNormal, Buffer::Copy("more")};
  MS_CHECK(found->writer->Append({&entry, 1}, std::nullopt).ok());
  MS_CHECK(found->writer->Sync().ok());
  found->writer = nullptr;
  const StatusOr<Recovered> again = Recover(disk, kDir, Index(0), kOptions);
  MS_CHECK(again.ok() && again->entries.size() == entries + 1);
}

}  // namespace
}  // namespace mainstay::wal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  mainstay::wal::Fuzz(data[0] % 2 == 1 ? std::string(rest) : mainstay::wal::Framed(rest));
  return 0;
}

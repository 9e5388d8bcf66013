// Goal: no content of a snapshot file makes its reader crash, loop or read outside of it.
// Method: libFuzzer on a file in memory. The meta pages' checksums are set right when the first
// byte asks for it, so
//         that the fuzzer gets behind them; the page size is then the smallest.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/check.h"
#include "snapshot/bolt_format.h"
#include "snapshot/image_status.h"
#include "tests/sim/disk.h"

namespace mainstay::snapshot {
namespace {

constexpr char kPath[] = "/snap/db";

void MakeMeta(std::string* bytes) {
  const size_t pages = bytes->size() / kPageBytesMin;
  if (pages < 3) {
    return;
  }
  for (uint64_t id = 0; id < 2; ++id) {
    char* page = bytes->data() + id * kPageBytesMin;
    std::memset(page, 0, kHeaderBytes + kMetaBytes);
    char* meta = page + kHeaderBytes;
    const uint64_t high_water = pages;
    const uint64_t root = 2;
    const auto page_bytes = static_cast<uint32_t>(kPageBytesMin);
    std::memcpy(page, &id, 8);
    std::memcpy(page + 8, &kMetaPage, 2);
    std::memcpy(meta, &kMagic, 4);
    std::memcpy(meta + 4, &kFormatVersion, 4);
    std::memcpy(meta + 8, &page_bytes, 4);
    std::memcpy(meta + 16, &root, 8);
    std::memcpy(meta + 32, &kNoFreelist, 8);
    std::memcpy(meta + 40, &high_water, 8);
    std::memcpy(meta + 48, &id, 8);
    const uint64_t sum = Fnv1a(std::string_view(meta, 56));
    std::memcpy(meta + 56, &sum, 8);
  }
}

void Fuzz(std::string bytes, bool make_meta) {
  if (make_meta) {
    MakeMeta(&bytes);
  }
  sim::Disk disk;
  disk.SetContent(kPath, std::move(bytes));
  const auto status = ReadImageStatus(disk, kPath);
  MS_CHECK(status.ok() || !status.status().message().empty());
  const auto hash = ReadImageHash(disk, kPath, 0);
  MS_CHECK(hash.ok() || !hash.status().message().empty());
}

}  // namespace
}  // namespace mainstay::snapshot

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) {
    mainstay::snapshot::Fuzz(std::string(reinterpret_cast<const char*>(data) + 1, size - 1),
                             data[0] % 2 == 0);
  }
  return 0;
}

#include "snapshot/image_status.h"

#include <openssl/evp.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "fmt/format.h"

#include "common/coding.h"
#include "common/crc32c.h"
#include "mvcc/request.h"
#include "snapshot/bolt_reader.h"

namespace mainstay::snapshot {
namespace {

constexpr size_t kDigestBytes = 32;
constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kRevisionBytes = 17;

struct RevisionKey {
  int64_t main = 0;
  int64_t sub = 0;
  bool tombstone = false;
};

// etcd's 17 bytes, or 18 for a deletion.
StatusOr<RevisionKey> ParseRevisionKey(std::string_view key) {
  const bool tombstone = key.size() == kRevisionBytes + 1 && key.back() == 't';
  if ((key.size() != kRevisionBytes && !tombstone) || key[8] != '_') {
    return DataLoss("snapshot: a key of the bucket \"key\" is no revision");
  }
  const auto number = [&](size_t at) {
    uint64_t out = 0;
    for (size_t i = at; i < at + 8; ++i) {
      out = out << 8 | static_cast<uint8_t>(key[i]);
    }
    return static_cast<int64_t>(out);
  };
  return RevisionKey{number(0), number(9), tombstone};
}

StatusOr<std::string_view> UserKey(std::string_view record) {
  mvcc::Record fields;
  if (!mvcc::DecodeRecord(record, &fields)) {
    return DataLoss("snapshot: a record does not decode");
  }
  return fields.key;
}

// Whole pages and 32 bytes more: the digest of what stands before them.
Status CheckDigest(const File& file, uint64_t size) {
  if (size % 512 != kDigestBytes) {
    return absl::OkStatus();
  }
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return Internal("snapshot: no SHA-256");
  }
  std::string bytes;
  const uint64_t end = size - kDigestBytes;
  for (uint64_t at = 0; at < end; at += bytes.size()) {
    MS_RETURN_IF_ERROR(file.ReadAt(at, std::min<uint64_t>(kChunkBytes, end - at), &bytes));
    if (bytes.empty()) {
      return DataLoss("snapshot: the file became shorter");
    }
    if (EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1) {
      return Internal("snapshot: SHA-256 failed");
    }
  }
  std::string digest(kDigestBytes, '\0');
  if (EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr) !=
      1) {
    return Internal("snapshot: SHA-256 failed");
  }
  MS_RETURN_IF_ERROR(file.ReadAt(end, kDigestBytes, &bytes));
  return bytes == digest
             ? absl::OkStatus()
             : DataLoss(fmt::format("expected sha256 {}, got {}", Hex(bytes), Hex(digest)));
}

// The newest row of each user key up to a revision, and the watermark.
struct Newest {
  std::map<std::string, RevisionKey, std::less<>> rows;
  int64_t revision = 0;
  int64_t compacted = -1;
};

StatusOr<Newest> FindNewest(BoltReader& reader, int64_t at) {
  Newest out;
  MS_RETURN_IF_ERROR(reader.Walk(
      [](std::string_view) { return absl::OkStatus(); },
      [&](std::string_view bucket, std::string_view key, std::string_view value) -> Status {
        if (bucket == "meta" && (key == "finishedCompactRev" || key == "scheduledCompactRev")) {
          MS_ASSIGN_OR_RETURN(const RevisionKey mark, ParseRevisionKey(value));
          out.compacted = std::max(out.compacted, mark.main);
        } else if (bucket == "key") {
          MS_ASSIGN_OR_RETURN(const RevisionKey id, ParseRevisionKey(key));
          MS_ASSIGN_OR_RETURN(const std::string_view user_key, UserKey(value));
          out.revision = std::max(out.revision, id.main);
          if (at == 0 || id.main <= at) {
            out.rows.insert_or_assign(std::string(user_key), id);
          }
        }
        return absl::OkStatus();
      }));
  // What was deleted last may be gone; the revision is not.
  out.revision = std::max({out.revision, out.compacted, int64_t{1}});
  return out;
}

}  // namespace

StatusOr<ImageStatus> ReadImageStatus(FileSystem& files, const std::string& path) {
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.Open(path, OpenMode::kRead));
  MS_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  MS_ASSIGN_OR_RETURN(BoltReader reader, BoltReader::Open(*file));
  MS_RETURN_IF_ERROR(CheckDigest(*file, size));
  ImageStatus out;
  std::unordered_set<std::string> alive;
  MS_RETURN_IF_ERROR(reader.Walk(
      [&](std::string_view bucket) {
        out.hash = Crc32cExtend(out.hash, bucket);
        return absl::OkStatus();
      },
      [&](std::string_view bucket, std::string_view key, std::string_view value) -> Status {
        out.hash = Crc32cExtend(Crc32cExtend(out.hash, key), value);
        if (bucket == "meta" && key == "storageVersion") {
          out.version = value;
        } else if (bucket == "key") {
          MS_ASSIGN_OR_RETURN(const RevisionKey id, ParseRevisionKey(key));
          MS_ASSIGN_OR_RETURN(const std::string_view user_key, UserKey(value));
          out.revision = id.main;
          if (id.tombstone) {
            alive.erase(std::string(user_key));
          } else {
            alive.emplace(user_key);
          }
        }
        return absl::OkStatus();
      }));
  out.total_keys = static_cast<int64_t>(alive.size());
  out.total_bytes = static_cast<int64_t>(reader.image_bytes());
  return out;
}

StatusOr<ImageHash> ReadImageHash(FileSystem& files, const std::string& path, int64_t revision) {
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.Open(path, OpenMode::kRead));
  MS_ASSIGN_OR_RETURN(BoltReader reader, BoltReader::Open(*file));
  MS_ASSIGN_OR_RETURN(const Newest newest, FindNewest(reader, revision));
  if (revision > 0 && revision < newest.compacted) {
    return InvalidArgument("mvcc: required revision has been compacted");
  }
  if (revision > newest.revision) {
    return InvalidArgument("mvcc: required revision is a future revision");
  }
  ImageHash out;
  out.hash_revision = revision > 0 ? revision : newest.revision;
  out.compact_revision = newest.compacted;
  const bool any_alive = std::any_of(newest.rows.begin(), newest.rows.end(),
                                     [](const auto& row) { return !row.second.tombstone; });
  out.hash = Crc32c("key");
  MS_RETURN_IF_ERROR(reader.Walk(
      [](std::string_view) { return absl::OkStatus(); },
      [&](std::string_view bucket, std::string_view key, std::string_view value) -> Status {
        if (bucket != "key") {
          return absl::OkStatus();
        }
        MS_ASSIGN_OR_RETURN(const RevisionKey id, ParseRevisionKey(key));
        MS_ASSIGN_OR_RETURN(const std::string_view user_key, UserKey(value));
        if (id.main > out.hash_revision || (id.main == newest.compacted && id.tombstone)) {
          return absl::OkStatus();
        }
        if (id.main <= newest.compacted && any_alive) {
          // Superseded since, up to the revision that is asked for.
          const auto row = newest.rows.find(user_key);
          if (row == newest.rows.end() || row->second.tombstone || row->second.main != id.main ||
              row->second.sub != id.sub) {
            return absl::OkStatus();
          }
        }
        out.hash = Crc32cExtend(Crc32cExtend(out.hash, key), value);
        return absl::OkStatus();
      }));
  return out;
}

}  // namespace mainstay::snapshot

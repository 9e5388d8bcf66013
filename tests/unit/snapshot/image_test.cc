// Goal: status and hash of a snapshot file are those that etcdutl 3.7.1 prints.
// Method: the worked example of a smallest useful snapshot, whose hash, revision, size and HashKV a
// real etcdutl and a
//         restored etcd 3.7.1 gave; then the same with a compaction, a digest that is right, and
//         one that is not.
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <map>

#include "common/coding.h"
#include "snapshot/bolt_writer.h"
#include "snapshot/image_status.h"
#include "tests/sim/disk.h"

namespace mainstay::snapshot {
namespace {

constexpr char kPath[] = "/snap/db";

std::string Revision(uint64_t main, uint64_t sub, bool tombstone = false) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(main >> shift));
  }
  out.push_back('_');
  for (int shift = 56; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(sub >> shift));
  }
  return tombstone ? out + "t" : out;
}

class ImageTest : public testing::Test {
 protected:
  using Pairs = std::map<std::string, std::string>;

  ImageTest() {
    buckets_["alarm"];
    buckets_["auth"] = {{"authRevision", std::string("\0\0\0\0\0\0\0\1", 8)}};
    buckets_["authRoles"];
    buckets_["authUsers"];
    buckets_["cluster"] = {{"clusterVersion", "3.7.0"}};
    buckets_["key"] = {{Revision(2, 0), *Unhex("0a03666f6f1002180220012a03626172")},
                       {Revision(3, 0), *Unhex("0a016b1003180320012a01763011")},
                       {Revision(4, 0, true), *Unhex("0a03666f6f")}};
    buckets_["lease"] = {{*Unhex("0000000000000011"), *Unhex("0811103c")}};
    buckets_["members"];
    buckets_["members_removed"];
    buckets_["meta"] = {{"confState", "{\"voters\":[1]}"},
                        {"consistent_index", std::string("\0\0\0\0\0\0\0\x09", 8)},
                        {"storageVersion", "3.7.0"},
                        {"term", std::string("\0\0\0\0\0\0\0\2", 8)}};
  }

  void Write(bool digest, bool right = true) {
    disk_ = std::make_unique<sim::Disk>();
    ASSERT_TRUE(disk_->MakeDirs("/snap").ok());
    const std::unique_ptr<File> file = disk_->Open(kPath, OpenMode::kCreate).value();
    BoltWriter writer(*file);
    for (const auto& [name, pairs] : buckets_) {
      writer.BeginBucket(name);
      for (const auto& [key, value] : pairs) {
        ASSERT_TRUE(writer.Add(key, value).ok());
      }
      ASSERT_TRUE(writer.EndBucket().ok());
    }
    ASSERT_TRUE(writer.Finish().ok());
    if (digest) {
      const std::string image = disk_->Content(kPath);
      std::string sum(SHA256_DIGEST_LENGTH, '\0');
      SHA256(reinterpret_cast<const unsigned char*>(image.data()), image.size(),
             reinterpret_cast<unsigned char*>(sum.data()));
      sum[0] = static_cast<char>(sum[0] ^ (right ? 0 : 1));
      ASSERT_TRUE(file->WriteAt(image.size(), sum).ok());
    }
  }
  uint32_t HashAt(int64_t revision) {
    const auto hash = ReadImageHash(*disk_, kPath, revision);
    EXPECT_TRUE(hash.ok()) << hash.status().ToString();
    return hash.ok() ? hash->hash : 0;
  }

  std::map<std::string, Pairs> buckets_;
  std::unique_ptr<sim::Disk> disk_;
};

TEST_F(ImageTest, TheWorkedExampleIsEtcds) {
  Write(true);
  const std::string bytes = disk_->Content(kPath);
  ASSERT_EQ(bytes.size(), 12320u);
  EXPECT_EQ(Hex(bytes.substr(0x3000)),
            "72ac55ec8d86740cb367c0b43530c9fbcc916f40f6fe257ccf76dbc395ef6d82");
  const auto status = ReadImageStatus(*disk_, kPath);
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_EQ(status->hash, 0xf7b22bc9u);
  EXPECT_EQ(status->revision, 4);
  EXPECT_EQ(status->total_keys, 1);
  EXPECT_EQ(status->total_bytes, 12288);
  EXPECT_EQ(status->version, "3.7.0");
  EXPECT_EQ(HashAt(2), 3305255506u);
  EXPECT_EQ(HashAt(3), 1497393236u);
  EXPECT_EQ(HashAt(4), 718558968u);
  EXPECT_EQ(HashAt(0), 718558968u);
  EXPECT_EQ(Message(ReadImageHash(*disk_, kPath, 5).status()),
            "mvcc: required revision is a future revision");
}

TEST_F(ImageTest, ACompactionIsSeen) {
  buckets_["meta"]["scheduledCompactRev"] = Revision(3, 0);
  Write(false);  // not finished: foo at 2 is still there
  EXPECT_EQ(HashAt(0), 1078105330u);
  EXPECT_EQ(Message(ReadImageHash(*disk_, kPath, 2).status()),
            "mvcc: required revision has been compacted");
  buckets_["key"].erase(Revision(2, 0));
  buckets_["meta"]["scheduledCompactRev"] = Revision(4, 0);
  buckets_["meta"]["finishedCompactRev"] = Revision(4, 0);
  Write(false);
  EXPECT_EQ(HashAt(0), 2881044257u);
}

TEST_F(ImageTest, AWrongDigestIsRefused) {
  Write(true, false);
  const Status status = ReadImageStatus(*disk_, kPath).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_NE(status.ToString().find("expected sha256 73ac55ec"), std::string::npos)
      << status.ToString();
}

TEST_F(ImageTest, ForeignContentIsRefused) {
  buckets_["key"]["no revision"] = "x";
  Write(false);
  EXPECT_TRUE(absl::IsDataLoss(ReadImageStatus(*disk_, kPath).status()));
}

}  // namespace
}  // namespace mainstay::snapshot

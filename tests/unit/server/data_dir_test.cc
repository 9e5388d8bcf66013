// Goal: a data directory is used only if it is ours, whole, writable and nobody else's.
// Method: real directories under the test's own temporary folder.
#include "server/data_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace mainstay::server {
namespace {

class DataDirTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/mainstay_data_dir_test_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(files_.RemoveTree(root_).ok());
    options_.data_dir = root_ + "/data";
  }
  void TearDown() override { EXPECT_TRUE(files_.RemoveTree(root_).ok()); }
  void Touch(const std::string& path) {
    ASSERT_TRUE(files_.MakeDirs(path.substr(0, path.rfind('/'))).ok());
    ASSERT_TRUE(WriteFileAtomically(files_, path, "x").ok());
  }
  std::string RefusalText() {
    StatusOr<DataDir> dir = OpenDataDir(files_, options_);
    return dir.ok() ? "" : std::string(Message(dir.status()));
  }

  FileSystem& files_ = PosixFileSystem();
  std::string root_;
  Options options_;
};

TEST_F(DataDirTest, MakesWhatIsMissingForTheOwnerOnly) {
  StatusOr<DataDir> dir = OpenDataDir(files_, options_);
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_FALSE(dir->has_log);
  EXPECT_FALSE(dir->has_store);
  EXPECT_EQ(files_.Permissions(options_.data_dir), 0700u);
  EXPECT_EQ(files_.Permissions(dir->wal), 0700u);
  EXPECT_FALSE(files_.Exists(options_.data_dir + "/.touch"));
}

TEST_F(DataDirTest, SecondUserIsRefusedUntilTheFirstLetsGo) {
  {
    StatusOr<DataDir> first = OpenDataDir(files_, options_);
    ASSERT_TRUE(first.ok());
    StatusOr<DataDir> second = OpenDataDir(files_, options_);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(OpenDataDir(files_, options_).ok());
}

TEST_F(DataDirTest, StockEtcdDirectoryIsRefusedByName) {
  Touch(options_.data_dir + "/member/snap/db");
  Touch(options_.data_dir + "/member/wal/0000000000000000-0000000000000000.wal");
  EXPECT_NE(RefusalText().find("was made by etcd"), std::string::npos) << RefusalText();
}

TEST_F(DataDirTest, LogWithoutItsStoreIsRefused) {
  Touch(options_.data_dir + "/member/wal/0000000000000000-0000000000000000.wal");
  EXPECT_NE(RefusalText().find("of the backend is missing"), std::string::npos) << RefusalText();
}

TEST_F(DataDirTest, SeparateLogDirectoryIsSeen) {
  options_.wal_dir = root_ + "/elsewhere";
  Touch(options_.wal_dir + "/0000000000000000-0000000000000000.wal");
  Touch(options_.data_dir + "/member/store/CURRENT");
  StatusOr<DataDir> dir = OpenDataDir(files_, options_);
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_TRUE(dir->has_log);
  EXPECT_TRUE(dir->has_store);
}

TEST_F(DataDirTest, WideDirectoryAndStrangersInItAreOnlyWarnedOf) {
  ASSERT_TRUE(files_.MakeDirs(options_.data_dir + "/lost+found").ok());
  ASSERT_EQ(::chmod(options_.data_dir.c_str(), 0755), 0);
  EXPECT_TRUE(OpenDataDir(files_, options_).ok());
}

TEST_F(DataDirTest, FileInTheWayIsAnErrorWithItsName) {
  Touch(root_ + "/data");
  EXPECT_NE(RefusalText().find(root_ + "/data"), std::string::npos) << RefusalText();
}

}  // namespace
}  // namespace mainstay::server

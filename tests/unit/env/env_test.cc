// Goal: the POSIX seams keep their contracts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <latch>

#include "env/executor.h"
#include "env/file_system.h"

namespace mainstay {
namespace {

class FileSystemTest : public testing::Test {
 protected:
  FileSystemTest() {
    std::string name = testing::TempDir() + "mainstay-env-XXXXXX";
    dir_ = mkdtemp(name.data());
  }
  ~FileSystemTest() override { std::filesystem::remove_all(dir_); }
  FileSystem& fs_ = PosixFileSystem();
  std::string dir_;
};

TEST_F(FileSystemTest, WriteReadTruncate) {
  auto file = fs_.Open(dir_ + "/a", OpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->WriteAt(4, "data").ok());
  ASSERT_TRUE((*file)->DataSync().ok());
  std::string out;
  ASSERT_TRUE((*file)->ReadAt(0, 100, &out).ok());
  EXPECT_EQ(out, std::string_view("\0\0\0\0data", 8));
  ASSERT_TRUE((*file)->Preallocate(100).ok());
  EXPECT_EQ((*file)->Size().value(), 100u);
  ASSERT_TRUE((*file)->Truncate(6).ok());
  EXPECT_EQ((*file)->Size().value(), 6u);
}

TEST_F(FileSystemTest, OpenModes) {
  EXPECT_TRUE(absl::IsNotFound(fs_.Open(dir_ + "/a", OpenMode::kRead).status()));
  EXPECT_TRUE(fs_.Open(dir_ + "/a", OpenMode::kCreate).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(fs_.Open(dir_ + "/a", OpenMode::kCreate).status()));
  EXPECT_TRUE(fs_.Open(dir_ + "/a", OpenMode::kCreateOrOpen).ok());
}

TEST_F(FileSystemTest, AtomicWriteReplaces) {
  ASSERT_TRUE(WriteFileAtomically(fs_, dir_ + "/a", "old and long").ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, dir_ + "/a", "new").ok());
  EXPECT_EQ(ReadWholeFile(fs_, dir_ + "/a", 100).value(), "new");
  EXPECT_THAT(fs_.List(dir_).value(), testing::ElementsAre("a"));
}

TEST_F(FileSystemTest, LockIsExclusive) {
  auto first = fs_.Lock(dir_ + "/lock");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsUnavailable(fs_.Lock(dir_ + "/lock").status()));
  *first = nullptr;
  EXPECT_TRUE(fs_.Lock(dir_ + "/lock").ok());
}

class CountingTask : public Task {
 public:
  bool RunOnce() override {
    const int wanted = wanted_.load();
    if (done_.load() == wanted) {
      return false;
    }
    done_.store(wanted);
    done_.notify_all();
    return true;
  }
  std::atomic<int> wanted_{0};
  std::atomic<int> done_{0};
};

TEST(ThreadExecutorTest, NoWakeIsLost) {
  CountingTask task;
  auto executor = NewThreadExecutor(SystemClock());
  auto handle = executor->Start("counting", task);
  for (int i = 1; i <= 20000; ++i) {
    task.wanted_.store(i);
    handle->Wake();
    for (int seen = task.done_.load(); seen < i; seen = task.done_.load()) {
      task.done_.wait(seen);
    }
  }
}

TEST(ThreadPoolTest, RunsWhatItTookAndRefusesWhenFull) {
  std::latch hold(1);
  std::atomic<int> ran{0};
  {
    auto pool = NewThreadPool("bg", 1, 2);
    std::latch started(1);
    ASSERT_TRUE(pool->TrySubmit([&] {
      started.count_down();
      hold.wait();
      ++ran;
    }));
    started.wait();
    EXPECT_TRUE(pool->TrySubmit([&] { ++ran; }));
    EXPECT_TRUE(pool->TrySubmit([&] { ++ran; }));
    EXPECT_FALSE(pool->TrySubmit([&] { ++ran; }));
    hold.count_down();
  }
  EXPECT_EQ(ran, 3);
}

}  // namespace
}  // namespace mainstay

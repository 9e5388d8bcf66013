// A disk in memory that loses power: what was not synced may be lost, torn or reordered, what was
// synced stays.
//
// Role        Stands in env's FileSystem. A test runs production code on it, cuts the power at a
// chosen operation,
//             calls PowerOn(), and runs recovery on what is left.
// Model       Sectors of kSectorBytes are written whole or not at all, in any order. Data is
// durable after
//             DataSync() of its file. A creation, a rename or a removal is durable after SyncDir()
//             of its directory; before that a crash keeps a prefix of them, as a journal does. A
//             rename is atomic.
// Faults      PowerOffAt(), FailAt(), FlipBit(), SetCapacity(). Operations that change something
// are numbered from 1
//             in the order in which they come: steps().
// Threads     Any: one lock. Runs are repeatable if the caller's order of calls is.
// Errors      After the power went every call returns Unavailable("power is off").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "env/file_system.h"
#include "env/random.h"

namespace mainstay::sim {

inline constexpr uint64_t kSectorBytes = 512;

enum class Survival : uint8_t {
  kNothing,     // only what was synced
  kEverything,  // all that was written, as a killed process leaves it
  kRandom,      // each sector in one of the states it had since the last sync
};

class Disk : public FileSystem {
 public:
  Disk();
  ~Disk() override;

  StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status RemoveTree(const std::string& path) override;
  Status MakeDirs(const std::string& path) override;
  StatusOr<std::vector<std::string>> List(const std::string& dir) override;
  bool Exists(const std::string& path) override;
  Status SyncDir(const std::string& dir) override;
  StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

  // Operations so far that change something or make it durable.
  uint64_t steps() const;
  // The power goes while step `step` runs: a write or a directory change may or may not reach the
  // disk, a sync does not complete.
  void PowerOffAt(uint64_t step);
  void PowerOff();
  // What the disk holds after power came back. Files open from before stay dead. Locks are gone.
  void PowerOn(Survival survival, Random& random);
  // Step `step` alone returns `status` and does nothing.
  void FailAt(uint64_t step, Status status);
  // Bytes that all files together may hold; a write beyond it is ResourceExhausted "no space left
  // on device".
  void SetCapacity(uint64_t bytes);

  // Rot: changes durable and current content alike. REQUIRES: the byte exists.
  void FlipBit(const std::string& path, uint64_t byte, int bit);
  // The content as a reader sees it now. REQUIRES: the file exists.
  std::string Content(const std::string& path) const;
  void SetContent(const std::string& path, std::string bytes);

 private:
  friend class SimFile;
  struct Inode;
  struct DirChange;
  class Held;

  Status Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Status Alive(uint64_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Change(std::string dir, std::string from, std::string to, std::shared_ptr<Inode> inode)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t Used() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<Inode>> names_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<Inode>> durable_names_ ABSL_GUARDED_BY(mu_);
  std::vector<DirChange> changes_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, bool> dirs_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, uint64_t> locks_ ABSL_GUARDED_BY(mu_);
  uint64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t power_off_at_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t epoch_ ABSL_GUARDED_BY(mu_) = 1;  // counts starts of the machine
  bool off_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t capacity_ ABSL_GUARDED_BY(mu_) = ~uint64_t{0};
  std::map<uint64_t, Status> failures_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mainstay::sim

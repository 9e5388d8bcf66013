#include "tests/sim/disk.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/check.h"

namespace mainstay::sim {
namespace {

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

Status PowerIsOff() {
  return Unavailable("power is off");
}

Status Missing(const std::string& path) {
  return NotFound(path + ": no such file or directory");
}

}  // namespace

struct Disk::Inode {
  struct Write {
    uint64_t offset;
    std::string bytes;
  };
  std::string durable;
  std::string current;
  std::vector<Write> pending;   // since the last sync
  std::vector<uint64_t> sizes;  // that the file had since the last sync

  void Put(uint64_t offset, std::string_view bytes) {
    if (bytes.empty()) {
      return;
    }
    if (current.size() < offset + bytes.size()) {
      current.resize(offset + bytes.size());
      sizes.push_back(current.size());
    }
    current.replace(offset, bytes.size(), bytes);
    pending.push_back({offset, std::string(bytes)});
  }

  void Resize(uint64_t size) {
    if (size < current.size()) {
      // What is cut off reads as zeros if the file grows again.
      pending.push_back({size, std::string(current.size() - size, '\0')});
    }
    current.resize(size);
    sizes.push_back(size);
  }

  void Sync() {
    durable = current;
    pending.clear();
    sizes.clear();
  }

  // Each sector takes one of the states that it had.
  void LoseAtRandom(Random& random) {
    sizes.push_back(durable.size());
    const uint64_t size = sizes[random.Below(sizes.size())];
    std::string out = durable;
    out.resize(std::max<uint64_t>(size, current.size()));
    std::map<uint64_t, std::vector<const Write*>> sectors;
    for (const Write& write : pending) {
      for (uint64_t at = write.offset / kSectorBytes;
           at <= (write.offset + write.bytes.size() - 1) / kSectorBytes; ++at) {
        sectors[at].push_back(&write);
      }
    }
    for (const auto& [sector, writes] : sectors) {
      const uint64_t kept = random.Below(writes.size() + 1);
      for (uint64_t i = 0; i < kept; ++i) {
        const Write& write = *writes[i];
        const uint64_t from = std::max(write.offset, sector * kSectorBytes);
        const uint64_t to = std::min(
            {write.offset + write.bytes.size(), (sector + 1) * kSectorBytes, uint64_t{out.size()}});
        if (from < to) {
          out.replace(from, to - from, write.bytes, from - write.offset, to - from);
        }
      }
    }
    out.resize(size);
    current = std::move(out);
    Sync();
  }
};

// One change of a directory that is not durable yet. `from` is empty for a creation, `to` for a
// removal.
struct Disk::DirChange {
  std::string dir;
  std::string from;
  std::string to;
  std::shared_ptr<Inode> inode;

  void Apply(std::map<std::string, std::shared_ptr<Inode>>* names) const {
    if (!from.empty()) {
      names->erase(from);
    }
    if (!to.empty()) {
      (*names)[to] = inode;
    }
  }
};

class Disk::Held : public FileLock {
 public:
  Held(Disk& disk, std::string path, uint64_t epoch)
      : disk_(disk), path_(std::move(path)), epoch_(epoch) {}
  ~Held() override {
    MutexLock lock(disk_.mu_);
    const auto it = disk_.locks_.find(path_);
    if (it != disk_.locks_.end() && it->second == epoch_) {
      disk_.locks_.erase(it);
    }
  }

 private:
  Disk& disk_;
  const std::string path_;
  const uint64_t epoch_;
};

class SimFile : public File {
 public:
  SimFile(Disk& disk, std::string path, std::shared_ptr<Disk::Inode> inode, uint64_t epoch)
      : disk_(disk), path_(std::move(path)), inode_(std::move(inode)), epoch_(epoch) {}

  Status ReadAt(uint64_t offset, size_t length, std::string* out) const override {
    MutexLock lock(disk_.mu_);
    MS_RETURN_IF_ERROR(disk_.Alive(epoch_));
    out->clear();
    if (offset < inode_->current.size()) {
      *out = inode_->current.substr(offset, length);
    }
    return absl::OkStatus();
  }

  Status WriteAt(uint64_t offset, std::string_view bytes) override {
    MutexLock lock(disk_.mu_);
    MS_RETURN_IF_ERROR(disk_.Alive(epoch_));
    const bool fits = Fits(offset + bytes.size());
    const Status status = disk_.Step();
    // The write under which the power goes has reached the cache: some of its sectors may be on the
    // disk.
    if (fits && (status.ok() || disk_.off_)) {
      inode_->Put(offset, bytes);
    }
    MS_RETURN_IF_ERROR(status);
    return fits ? absl::OkStatus() : NoSpace();
  }

  Status DataSync() override {
    MutexLock lock(disk_.mu_);
    MS_RETURN_IF_ERROR(disk_.Alive(epoch_));
    MS_RETURN_IF_ERROR(disk_.Step());
    inode_->Sync();
    return absl::OkStatus();
  }

  Status Truncate(uint64_t size) override { return Resize(size, true); }
  Status Preallocate(uint64_t size) override { return Resize(size, false); }

  StatusOr<uint64_t> Size() const override {
    MutexLock lock(disk_.mu_);
    MS_RETURN_IF_ERROR(disk_.Alive(epoch_));
    return inode_->current.size();
  }

  const std::string& path() const override { return path_; }

 private:
  bool Fits(uint64_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(disk_.mu_) {
    const uint64_t now = inode_->current.size();
    return size <= now || disk_.Used() + (size - now) <= disk_.capacity_;
  }
  Status NoSpace() const { return ResourceExhausted(path_ + ": no space left on device"); }
  Status Resize(uint64_t size, bool shrink) {
    MutexLock lock(disk_.mu_);
    MS_RETURN_IF_ERROR(disk_.Alive(epoch_));
    if (!Fits(size)) {
      return NoSpace();
    }
    const Status status = disk_.Step();
    if ((status.ok() || disk_.off_) && (shrink || size > inode_->current.size())) {
      inode_->Resize(size);
    }
    return status;
  }

  Disk& disk_;
  const std::string path_;
  const std::shared_ptr<Disk::Inode> inode_;
  const uint64_t epoch_;
};

Disk::Disk() = default;
Disk::~Disk() = default;

Status Disk::Alive(uint64_t epoch) const {
  return off_ || epoch != epoch_ ? PowerIsOff() : absl::OkStatus();
}

Status Disk::Step() {
  ++steps_;
  if (steps_ == power_off_at_) {
    off_ = true;
    return PowerIsOff();
  }
  const auto failure = failures_.find(steps_);
  return failure == failures_.end() ? absl::OkStatus() : failure->second;
}

uint64_t Disk::Used() const {
  uint64_t out = 0;
  for (const auto& [name, inode] : names_) {
    out += inode->current.size();
  }
  return out;
}

void Disk::Change(std::string dir, std::string from, std::string to, std::shared_ptr<Inode> inode) {
  const DirChange change{std::move(dir), std::move(from), std::move(to), std::move(inode)};
  change.Apply(&names_);
  changes_.push_back(change);
}

StatusOr<std::unique_ptr<File>> Disk::Open(const std::string& path, OpenMode mode) {
  MutexLock lock(mu_);
  MS_RETURN_IF_ERROR(Alive(epoch_));
  const auto it = names_.find(path);
  if (it != names_.end()) {
    if (mode == OpenMode::kCreate) {
      return FailedPrecondition(path + ": file exists");
    }
    return std::unique_ptr<File>(new SimFile(*this, path, it->second, epoch_));
  }
  if (mode != OpenMode::kCreate && mode != OpenMode::kCreateOrOpen) {
    return Missing(path);
  }
  const Status status = Step();
  if (!status.ok() && !off_) {
    return status;
  }
  auto inode = std::make_shared<Inode>();
  Change(Parent(path), "", path, inode);
  MS_RETURN_IF_ERROR(status);
  return std::unique_ptr<File>(new SimFile(*this, path, inode, epoch_));
}

Status Disk::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mu_);
  MS_RETURN_IF_ERROR(Alive(epoch_));
  const auto it = names_.find(from);
  if (it == names_.end()) {
    return Missing(from);
  }
  const Status status = Step();
  if (status.ok() || off_) {
    Change(Parent(to), from, to, it->second);
  }
  return status;
}

Status Disk::Remove(const std::string& path) {
  MutexLock lock(mu_);
  MS_RETURN_IF_ERROR(Alive(epoch_));
  const auto it = names_.find(path);
  if (it == names_.end()) {
    return Missing(path);
  }
  const Status status = Step();
  if (status.ok() || off_) {
    Change(Parent(path), path, "", it->second);
  }
  return status;
}

Status Disk::RemoveTree(const std::string& path) {
  std::vector<std::string> paths;
  {
    MutexLock lock(mu_);
    MS_RETURN_IF_ERROR(Alive(epoch_));
    for (const auto& [name, inode] : names_) {
      if (name == path || name.starts_with(path + "/")) {
        paths.push_back(name);
      }
    }
    std::erase_if(dirs_, [&](const auto& dir) {
      return dir.first == path || dir.first.starts_with(path + "/");
    });
  }
  for (const std::string& name : paths) {
    MS_RETURN_IF_ERROR(Remove(name));
  }
  return absl::OkStatus();
}

Status Disk::MakeDirs(const std::string& path) {
  MutexLock lock(mu_);
  MS_RETURN_IF_ERROR(Alive(epoch_));
  for (std::string dir = path; dir != "/" && !dir.empty(); dir = Parent(dir)) {
    dirs_[dir] = true;
  }
  return absl::OkStatus();
}

StatusOr<std::vector<std::string>> Disk::List(const std::string& dir) {
  MutexLock lock(mu_);
  MS_RETURN_IF_ERROR(Alive(epoch_));
  std::set<std::string> found;
  const auto add = [&](const std::string& path) {
    if (path.size() > dir.size() && path.starts_with(dir) && path[dir.size()] == '/') {
      const size_t begin = dir.size() + 1;
      found.insert(path.substr(begin, path.find('/', begin) - begin));
    }
  };
  for (const auto& [path, inode] : names_) {
    add(path);
  }
  for (const auto& [path, yes] : dirs_) {
    add(path);
  }
  if (found.empty() && !dirs_.contains(dir)) {
    return Missing(dir);
  }
  return std::vector<std::string>(found.begin(), found.end());
}

bool Disk::Exists(const std::string& path) {
  MutexLock lock(mu_);
  return !off_ && (names_.contains(path) || dirs_.contains(path));
}

Status Disk::SyncDir(const std::string& dir) {
  MutexLock lock(mu_);
  MS_RETURN_IF_ERROR(Alive(epoch_));
  MS_RETURN_IF_ERROR(Step());
  std::vector<DirChange> rest;
  for (DirChange& change : changes_) {
    if (change.dir == dir) {
      change.Apply(&durable_names_);
    } else {
      rest.push_back(std::move(change));
    }
  }
  changes_ = std::move(rest);
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<FileLock>> Disk::Lock(const std::string& path) {
  MutexLock lock(mu_);
  MS_RETURN_IF_ERROR(Alive(epoch_));
  if (locks_.contains(path)) {
    return Unavailable(path + ": locked by another process");
  }
  locks_[path] = epoch_;
  return std::unique_ptr<FileLock>(new Held(*this, path, epoch_));
}

uint64_t Disk::steps() const {
  MutexLock lock(mu_);
  return steps_;
}

void Disk::PowerOffAt(uint64_t step) {
  MutexLock lock(mu_);
  power_off_at_ = step;
}

void Disk::PowerOff() {
  MutexLock lock(mu_);
  off_ = true;
}

void Disk::PowerOn(Survival survival, Random& random) {
  MutexLock lock(mu_);
  ++epoch_;
  off_ = false;
  power_off_at_ = 0;
  failures_.clear();
  locks_.clear();
  uint64_t kept = 0;
  if (survival == Survival::kEverything) {
    kept = changes_.size();
  } else if (survival == Survival::kRandom) {
    kept = random.Below(changes_.size() + 1);
  }
  for (uint64_t i = 0; i < kept; ++i) {
    changes_[i].Apply(&durable_names_);
  }
  changes_.clear();
  names_ = durable_names_;
  for (const auto& [path, inode] : names_) {
    if (survival == Survival::kNothing) {
      inode->current = inode->durable;
      inode->Sync();
    } else if (survival == Survival::kEverything) {
      inode->Sync();
    } else {
      inode->LoseAtRandom(random);
    }
  }
}

void Disk::FailAt(uint64_t step, Status status) {
  MutexLock lock(mu_);
  failures_[step] = std::move(status);
}

void Disk::SetCapacity(uint64_t bytes) {
  MutexLock lock(mu_);
  capacity_ = bytes;
}

void Disk::FlipBit(const std::string& path, uint64_t byte, int bit) {
  MutexLock lock(mu_);
  Inode& inode = *names_.at(path);
  MS_CHECK(byte < inode.current.size());
  const auto flip = [&](std::string& bytes) {
    if (byte < bytes.size()) {
      bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
    }
  };
  flip(inode.current);
  flip(inode.durable);
}

std::string Disk::Content(const std::string& path) const {
  MutexLock lock(mu_);
  return names_.at(path)->current;
}

void Disk::SetContent(const std::string& path, std::string bytes) {
  MutexLock lock(mu_);
  auto inode = std::make_shared<Inode>();
  inode->current = std::move(bytes);
  inode->Sync();
  names_[path] = inode;
  durable_names_[path] = inode;
  dirs_[Parent(path)] = true;
}

}  // namespace mainstay::sim

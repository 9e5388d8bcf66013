#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

#include "cli/commands.h"
#include "cli/session.h"
#include "common/log.h"
#include "common/status.h"

namespace mainstay::cli {
namespace {

// A file that appears under its name only when it is complete and on disk.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)), part_(path_ + ".part") {}
  ~NewFile() {
    if (fd_ >= 0) {
      ::close(fd_);
      ::unlink(part_.c_str());
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Open() {
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return fd_ >= 0 ? absl::OkStatus() : Failed("open", part_);
  }

  absl::Status Append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) {
        return Failed("write", part_);
      }
      bytes.remove_prefix(n < 0 ? 0 : static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  absl::Status Commit() {
    if (::fsync(fd_) != 0) {
      return Failed("fsync", part_);
    }
    if (::rename(part_.c_str(), path_.c_str()) != 0) {
      return Failed("rename", part_);
    }
    ::close(fd_);
    fd_ = -1;
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int dir = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
      ::fsync(dir);  // so that the name survives a power loss too
      ::close(dir);
    }
    return absl::OkStatus();
  }

  const std::string& part() const { return part_; }

 private:
  static absl::Status Failed(std::string_view what, const std::string& path) {
    std::string text = ErrnoStatus("", errno).ToString();
    text = text.substr(text.rfind(": ") + 2);
    if (!text.empty()) {
      text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    }
    return Internal(fmt::format("{} {}: {}", what, path, text));
  }

  const std::string path_, part_;
  int fd_ = -1;
};

int RunSave(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "snapshot save expects one argument <filename>");
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const std::vector<std::string>& endpoints = to.session.endpoints();
  if (endpoints.size() != 1) {
    return Fail(kExitInterrupted,
                fmt::format("snapshot must be requested to one selected node, not multiple [{}]",
                            fmt::join(endpoints, " ")));
  }
  const std::string& path = in.args[0];
  NewFile file(path);
  if (const absl::Status opened = file.Open(); !opened.ok()) {
    return Fail(kExitInterrupted,
                fmt::format("could not open {} ({})", file.part(), Message(opened)));
  }
  MS_LOG(kInfo, "created temporary db file").Str("path", file.part());
  MS_LOG(kInfo, "fetching snapshot").Str("endpoint", endpoints[0]);
  const auto start = std::chrono::steady_clock::now();
  client::CallOptions call{.timeout = std::chrono::nanoseconds(0)};
  if (in.flags.Changed("command-timeout")) {
    call = to.session.Timed();
  }
  const auto info =
      to.client->Snapshot([&](std::string_view bytes) { return file.Append(bytes); }, call);
  if (!info.ok()) {
    return Fail(kExitInterrupted, ErrorText(info.status()));
  }
  // A database is whole pages; the digest is the 32 bytes beyond.
  if (info->bytes % 512 != 32) {
    return Fail(kExitInterrupted,
                fmt::format("sha256 checksum not found [bytes: {}]", info->bytes));
  }
  if (const absl::Status saved = file.Commit(); !saved.ok()) {
    return Fail(kExitInterrupted, Message(saved));
  }
  MS_LOG(kInfo, "fetched snapshot")
      .Str("endpoint", endpoints[0])
      .Unsigned("size-bytes", info->bytes)
      .Duration("took", std::chrono::steady_clock::now() - start)
      .Str("etcd-version", info->version);
  MS_LOG(kInfo, "saved").Str("path", path);
  Out(fmt::format("Snapshot saved at {}\n", path));
  if (!info->version.empty()) {
    Out(fmt::format("Server version {}\n", info->version));
  }
  return kExitOk;
}

}  // namespace

Command SnapshotCommand() {
  Command save{
      .name = "save",
      .arguments = "<filename>",
      .summary = "Stores a snapshot of one endpoint in a file",
      .description =
          "Stores a snapshot of one endpoint in a file. The file appears under its name only when "
          "it is complete. There is no time limit unless --command-timeout is given.",
      .run = RunSave};
  return {.name = "snapshot",
          .summary = "Saves and inspects snapshots",
          .group = "Cluster maintenance commands",
          .subcommands = {save, SnapshotStatusCommand()}};
}

}  // namespace mainstay::cli

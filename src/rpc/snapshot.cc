// Maintenance.Snapshot: the whole state as an etcd snapshot file, streamed. The image is written
// to a spool file first, off the loop; the engine's resources are free again before the (possibly
// slow) client has read the first chunk.
#include <openssl/evp.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/coding.h"
#include "rpc/answer.h"
#include "rpc/maintenance.h"
#include "rpc/pump.h"

namespace mainstay::rpc::maintenance {
namespace {

constexpr size_t kChunkBytes = 32 << 10;  // etcd's
constexpr size_t kChunksPerStep = 8;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    MS_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
  }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256() { EVP_MD_CTX_free(context_); }
  void Add(std::string_view bytes) {
    MS_CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
  }
  std::string Finish() {
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    MS_CHECK(EVP_DigestFinal_ex(context_, out, &size) == 1);
    return {reinterpret_cast<char*>(out), size};
  }

 private:
  EVP_MD_CTX* const context_;
};

// SnapshotResponse: remaining_bytes = 2, blob = 3, version = 4; no header, as etcd.
BufferChain EncodeChunk(uint64_t remaining, std::string_view blob, std::string_view version) {
  const size_t size = VarintFieldSize(2, remaining) + BytesFieldSize(3, blob.size()) +
                      BytesFieldSize(4, version.size());
  MutableBuffer out(size);
  char* at = PutVarintField(out.data(), 2, remaining);
  at = PutBytesField(at, 3, blob);
  PutBytesField(at, 4, version);
  return BufferChain(std::move(out).Finish(size));
}

// What the pool works on. Its file has no name any more once it is open: nothing to clean up.
class Spool {
 public:
  Spool(Services& services, server::PinnedState state, std::string version)
      : services_(services),
        files_(services.files()),
        export_(services.export_snapshot()),
        path_(services.SpoolPath()),
        dir_(services.options().spool_dir),
        version_(std::move(version)),
        state_(std::move(state)) {}
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  Pump::Step Next() {
    Pump::Step step;
    mainstay::Status status = file_ == nullptr ? Write() : mainstay::Status();
    for (size_t i = 0; status.ok() && i < kChunksPerStep && sent_ < size_; ++i) {
      status = AddChunk(&step);
    }
    if (!status.ok()) {
      MS_LOG(kError, "failed to make or read a snapshot").Str("path", path_).Error(Message(status));
      step.done = true;
      step.status = ToStatus(Error::kInternal);
    } else if (sent_ == size_) {
      step.parts.push_back(EncodeChunk(0, sha_.Finish(), version_));
      step.done = true;
    }
    return step;
  }

 private:
  mainstay::Status Write() {
    MS_RETURN_IF_ERROR(files_.MakeDirs(dir_));
    if (files_.Exists(path_)) {  // of a run before that was killed
      MS_RETURN_IF_ERROR(files_.Remove(path_));
    }
    const MonoTime began = services_.clock().Now();
    mainstay::Status status = export_(*state_, files_, path_);
    const std::chrono::duration<double> took = services_.clock().Now() - began;
    services_.metrics().snapshot_seconds->Observe(took.count());
    state_.reset();
    if (status.ok()) {
      StatusOr<std::unique_ptr<File>> opened = files_.Open(path_, OpenMode::kRead);
      status = opened.ok() ? mainstay::Status() : opened.status();
      if (opened.ok()) {
        file_ = *std::move(opened);
      }
    }
    if (files_.Exists(path_)) {
      MS_RETURN_IF_ERROR(files_.Remove(path_));
    }
    MS_RETURN_IF_ERROR(status);
    MS_ASSIGN_OR_RETURN(size_, file_->Size());
    return {};
  }
  mainstay::Status AddChunk(Pump::Step* step) {
    const size_t length = std::min<uint64_t>(kChunkBytes, size_ - sent_);
    std::string blob;
    MS_RETURN_IF_ERROR(file_->ReadAt(sent_, length, &blob));
    if (blob.size() != length) {
      return DataLoss("the spool file is shorter than it was");
    }
    sha_.Add(blob);
    sent_ += length;
    step->parts.push_back(EncodeChunk(size_ - sent_, blob, version_));
    return {};
  }

  Services& services_;
  FileSystem& files_;
  const SnapshotExporter& export_;
  const std::string path_;
  const std::string dir_;
  const std::string version_;
  std::optional<server::PinnedState> state_;
  std::unique_ptr<File> file_;
  uint64_t size_ = 0;
  uint64_t sent_ = 0;
  Sha256 sha_;
};

class SnapshotHandler : public StreamHandler {
 public:
  explicit SnapshotHandler(Call& call) : call_(call) {}
  void OnMessage(Buffer) override {
    if (!Permitted(call_.shared_from_this(), server::Access::kAdmin)) {
      return;
    }
    Services& services = call_.loop().services();
    std::shared_ptr<void> place = services.TakeSnapshotPlace();
    if (place == nullptr) {
      return FinishError(call_.shared_from_this(), Error::kTooManyRequests);
    }
    server::Server& server = ServerOf(call_);
    auto spool = std::make_shared<Spool>(call_.loop().services(), server.PinState(),
                                         server.GetStatus().storage_version);
    // The place is free again when the file is: a step may still run when the call has ended.
    pump_.emplace(call_, Pump::Mode::kMessages,
                  [spool, place = std::move(place)] { return spool->Next(); });
    pump_->EndIfSlow(
        services.options().slow_snapshot_period, [] { return true; }, Error::kTimeout);
    pump_->Start();
  }
  void OnWritten(size_t bytes) override {
    if (pump_.has_value()) {
      pump_->OnWritten(bytes);
    }
  }

 private:
  Call& call_;
  std::optional<Pump> pump_;
};

}  // namespace

std::unique_ptr<StreamHandler> Snapshot(const CallPtr& call) {
  return std::make_unique<SnapshotHandler>(*call);
}

}  // namespace mainstay::rpc::maintenance

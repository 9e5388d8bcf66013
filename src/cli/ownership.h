// Ownership: the turn-taking behind lock and elect. A key under the name, bound to a lease; whoever
// has the oldest key owns the name. Same keys as etcd's own recipes, so both kinds of client
// exclude each other.
//
// Threads  Acquire(), Release() and WaitUntilLost() from one; Interrupt() from any.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "mainstay/client.h"

namespace mainstay::cli {

class Ownership {
 public:
  explicit Ownership(client::Client& client) : client_(client) {}

  // Grants the lease that ends the ownership when we die, and keeps it alive.
  absl::Status StartSession(int64_t ttl_s);
  // Waits for our turn. Cancelled after Interrupt().
  absl::Status Acquire(const std::string& name, const std::string& value);
  // Deletes our key, so that the next in line has its turn. The lease is left to run out, as
  // etcdctl leaves it.
  absl::Status Release();
  // Returns when the lease is lost or Interrupt() was called; true if lost.
  bool WaitUntilLost();
  void Interrupt();

  const std::string& key() const { return key_; }
  int64_t revision() const { return header_revision_; }
  bool interrupted() const { return interrupted_.load(); }

 private:
  absl::Status WaitForOlder(const std::string& prefix);

  client::Client& client_;
  int64_t lease_ = 0;
  std::unique_ptr<client::LeaseKeeper> keeper_;
  std::string key_;
  int64_t create_revision_ = 0;
  int64_t header_revision_ = 0;
  std::atomic<bool> interrupted_{false};  // set by the signal thread, read between waits
};

}  // namespace mainstay::cli

// From a data directory to the parts of a member: made on first boot, recovered afterwards.
//
// Errors   As Server::Open().
// Threads  The caller's; touches the disk, may take seconds.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "lease/lessor.h"
#include "membership/cluster.h"
#include "mvcc/store.h"
#include "raft/output.h"
#include "server/alarms.h"
#include "server/data_dir.h"
#include "server/durable_log.h"
#include "server/options.h"

namespace mainstay::server {

struct BootResult {
  DataDir dir;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<mvcc::Store> store;
  std::unique_ptr<lease::Lessor> lessor;
  std::unique_ptr<membership::Cluster> cluster;
  std::unique_ptr<Alarms> alarms;
  std::unique_ptr<DurableLog> log;
  MemberId self;
  raft::EntryId applied;  // in the store
  std::string storage_version;
  raft::InitialState initial;
};

StatusOr<BootResult> Boot(const Options& options,
                          const Environment& env,
                          const LogOpener& open_log);

}  // namespace mainstay::server

#include "cli/ownership.h"

#include <fmt/format.h>

namespace mainstay::cli {
namespace {

namespace pb = ::etcdserverpb;

// How often a wait looks whether it was interrupted.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

absl::Status Ownership::StartSession(int64_t ttl_s) {
  const auto lease = client_.LeaseGrant(ttl_s);
  if (!lease.ok()) {
    return lease.status();
  }
  lease_ = lease->id();
  keeper_ = client_.KeepAlive(lease_);
  return absl::OkStatus();
}

absl::Status Ownership::Acquire(const std::string& name, const std::string& value) {
  const std::string prefix = name + "/";
  key_ = fmt::format("{}{:x}", prefix, static_cast<uint64_t>(lease_));
  pb::TxnRequest request;
  pb::Compare& absent = *request.add_compare();
  absent.set_key(key_);
  absent.set_target(pb::Compare::CREATE);
  absent.set_create_revision(0);
  pb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key_);
  put.set_value(value);
  put.set_lease(lease_);
  request.add_failure()->mutable_request_range()->set_key(key_);
  const auto response = client_.Txn(request);
  if (!response.ok()) {
    return response.status();
  }
  header_revision_ = response->header().revision();
  create_revision_ = response->succeeded()
                         ? header_revision_
                         : response->responses(0).response_range().kvs(0).create_revision();
  return WaitForOlder(prefix);
}

absl::Status Ownership::WaitForOlder(const std::string& prefix) {
  pb::RangeRequest older;
  older.set_key(prefix);
  older.set_range_end(client::PrefixEnd(prefix));
  older.set_sort_target(pb::RangeRequest::CREATE);
  older.set_sort_order(pb::RangeRequest::DESCEND);
  older.set_limit(1);
  older.set_max_create_revision(create_revision_ - 1);
  while (true) {
    const auto response = client_.Range(older);
    if (!response.ok()) {
      return response.status();
    }
    header_revision_ = response->header().revision();
    if (response->kvs().empty()) {
      return absl::OkStatus();
    }
    client::WatchOptions options;
    options.key = response->kvs(0).key();
    options.start_revision = header_revision_ + 1;
    options.no_put = true;
    const auto watch = client_.StartWatch(std::move(options));
    bool gone = false;
    while (!gone) {
      const auto answer = watch->Next(kLook);
      if (interrupted()) {
        static_cast<void>(Release());
        return absl::CancelledError("context canceled");
      }
      if (answer.has_value() && answer->canceled) {
        return answer->status;
      }
      gone = answer.has_value() && !answer->events.empty();
    }
  }
}

absl::Status Ownership::Release() {
  return client_.Delete(key_).status();
}

bool Ownership::WaitUntilLost() {
  while (!interrupted()) {
    static_cast<void>(keeper_->Next(kLook));
    if (keeper_->done()) {
      return !interrupted();
    }
  }
  return false;
}

void Ownership::Interrupt() {
  interrupted_ = true;
}

}  // namespace mainstay::cli

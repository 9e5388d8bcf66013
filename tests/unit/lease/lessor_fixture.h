// A lessor on a fake monotonic clock, with its rows at hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lease/lessor.h"
#include "tests/unit/backend_rows.h"

namespace mainstay::lease {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LessorFixture : public testing::Test {
 protected:
  ErrorOr<int64_t> Grant(int64_t id, int64_t ttl) {
    ErrorOr<int64_t> out = Error::kInternal;
    rows_.Write(
        [&](backend::WriteBatch& batch) { out = lessor_->Grant(LeaseId(id), ttl, now_, batch); });
    return out;
  }
  ErrorOr<std::vector<std::string>> Revoke(int64_t id) {
    ErrorOr<std::vector<std::string>> out = Error::kInternal;
    rows_.Write([&](backend::WriteBatch& batch) { out = lessor_->Revoke(LeaseId(id), batch); });
    return out;
  }
  void MustGrant(int64_t id, int64_t ttl) { ASSERT_TRUE(Grant(id, ttl).ok()); }
  void MustRevoke(int64_t id) { ASSERT_TRUE(Revoke(id).ok()); }
  void ApplyCheckpoint(int64_t id, int64_t remaining, bool persist = true) {
    rows_.Write([&](backend::WriteBatch& batch) {
      lessor_->ApplyCheckpoints({{LeaseId(id), remaining}}, persist, now_, batch);
    });
  }
  void Attach(const std::string& key, int64_t id) {
    lessor_->Reattach(key, LeaseId(0), LeaseId(id));
  }
  std::vector<LeaseId> Expired() {
    return lessor_->ExpiredLeases(now_, lessor_->expired_batch_max());
  }
  int64_t Remaining(int64_t id) {
    bool primary = false;
    return lessor_->GetTimeToLive(LeaseId(id), false, now_, &primary)->remaining_ttl_seconds;
  }
  // As a restart: a new lessor from the rows.
  void Restart(LessorOptions options = {}) {
    registry_ = std::make_unique<MetricRegistry>();
    lessor_ = std::make_unique<Lessor>(options, *registry_);
    rows_.ForEach("lease", [&](std::string_view key, std::string_view value) {
      ASSERT_TRUE(lessor_->LoadRow(key, value).ok());
    });
  }

  Time now_ = seconds(1000);
  test::Rows rows_;
  std::unique_ptr<MetricRegistry> registry_ = std::make_unique<MetricRegistry>();
  std::unique_ptr<Lessor> lessor_ = std::make_unique<Lessor>(LessorOptions{}, *registry_);
};

}  // namespace mainstay::lease

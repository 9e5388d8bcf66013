#include <sys/random.h>

#include <ctime>

#include "common/check.h"
#include "env/clock.h"
#include "env/random.h"

namespace mainstay {
namespace {

std::chrono::nanoseconds Read(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

class PosixClock : public Clock {
 public:
  MonoTime Now() const override { return Read(CLOCK_MONOTONIC); }
  WallTime WallNow() const override { return Read(CLOCK_REALTIME); }
};

class KernelRandom : public Random {
 public:
  uint64_t Next64() override {
    uint64_t v = 0;
    MS_CHECK_EQ(getrandom(&v, sizeof v, 0), static_cast<ssize_t>(sizeof v));
    return v;
  }
};

}  // namespace

Clock& SystemClock() {
  static PosixClock clock;
  return clock;
}
Random& SystemRandom() {
  static KernelRandom random;
  return random;
}

}  // namespace mainstay

// Time as a parameter. Production reads the machine's clocks; tests and the simulator own theirs.
#pragma once

#include <chrono>

namespace mainstay {

// Monotonic time since an arbitrary start. Wall-clock steps do not move it.
using MonoTime = std::chrono::nanoseconds;
inline constexpr MonoTime kNever = MonoTime::max();
// Wall time since the Unix epoch: for logs, certificates and ids, never for deadlines.
using WallTime = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime Now() const = 0;      // any thread
  virtual WallTime WallNow() const = 0;  // any thread
};

// The machine's clocks. One for the process, never destroyed.
Clock& SystemClock();

}  // namespace mainstay

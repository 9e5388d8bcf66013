// MS_CHECK: our own bugs stop the process, in every build. The world's errors are values (status.h,
// error.h).
#pragma once

#include <sstream>
#include <string>

namespace mainstay {

// Logs the broken claim at level "fatal" through the log façade, flushes and aborts.
[[noreturn]] void CheckFailed(const char* file,
                              int line,
                              const char* claim,
                              const std::string& detail);

namespace internal {
template <class A, class B>
std::string ShowBoth(const A& a, const B& b) {
  std::ostringstream out;
  if constexpr (requires { out << a << b; }) {
    out << a << " vs " << b;
  } else if constexpr (requires { out << a.value() << b.value(); }) {
    out << a.value() << " vs " << b.value();
  }
  return out.str();
}
}  // namespace internal
}  // namespace mainstay

#define MS_CHECK(claim)                                        \
  do {                                                         \
    if (!(claim)) [[unlikely]] {                               \
      ::mainstay::CheckFailed(__FILE__, __LINE__, #claim, {}); \
    }                                                          \
  } while (false)

#define MS_CHECK_MSG(claim, detail)                                  \
  do {                                                               \
    if (!(claim)) [[unlikely]] {                                     \
      ::mainstay::CheckFailed(__FILE__, __LINE__, #claim, (detail)); \
    }                                                                \
  } while (false)

#define MS_CHECK_OP(a, op, b)                                              \
  do {                                                                     \
    const auto& ms_a = (a);                                                \
    const auto& ms_b = (b);                                                \
    if (!(ms_a op ms_b)) [[unlikely]] {                                    \
      ::mainstay::CheckFailed(__FILE__, __LINE__, #a " " #op " " #b,       \
                              ::mainstay::internal::ShowBoth(ms_a, ms_b)); \
    }                                                                      \
  } while (false)

#define MS_CHECK_EQ(a, b) MS_CHECK_OP(a, ==, b)
#define MS_CHECK_NE(a, b) MS_CHECK_OP(a, !=, b)
#define MS_CHECK_LE(a, b) MS_CHECK_OP(a, <=, b)
#define MS_CHECK_LT(a, b) MS_CHECK_OP(a, <, b)
#define MS_CHECK_GE(a, b) MS_CHECK_OP(a, >=, b)
#define MS_CHECK_GT(a, b) MS_CHECK_OP(a, >, b)

#ifdef NDEBUG
#define MS_DCHECK(claim) \
  do {                   \
  } while (false)
#else
#define MS_DCHECK(claim) MS_CHECK(claim)
#endif

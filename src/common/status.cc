#include "common/status.h"

#include <cerrno>
#include <system_error>

namespace mainstay {

Status ErrnoStatus(std::string_view what, int errno_value) {
  std::string text(what);
  text += ": ";
  text += std::generic_category().message(errno_value);
  switch (errno_value) {
    case ENOENT:
      return NotFound(text);
    case EEXIST:
      return absl::AlreadyExistsError(ToAbsl(text));
    case ENOSPC:
    case EDQUOT:
      return ResourceExhausted(text);
    default:
      return Internal(text);
  }
}

}  // namespace mainstay

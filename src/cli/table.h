// Tables with borders: heads centred and upper-cased, cells aligned right.
//
// Threads  Any.
#pragma once

#include <string>
#include <vector>

namespace mainstay::cli {

enum class TableStyle {
  kUnicode,  // light boxes, as etcdctl 3.7
  kAscii,    // +---+ and |, as etcdctl before 3.7; what scripts that split on '|' were written for
};

// kAscii if ETCDCTL_TABLE_STYLE=ascii.
TableStyle TableStyleFromEnvironment();

std::string RenderTable(const std::vector<std::string>& head,
                        const std::vector<std::vector<std::string>>& rows,
                        TableStyle style);

}  // namespace mainstay::cli

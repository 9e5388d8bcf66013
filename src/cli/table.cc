#include "cli/table.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

namespace mainstay::cli {
namespace {

struct Border {
  std::string_view line, bar;
  std::string_view top[3], middle[3], bottom[3];  // left, between, right
};

constexpr Border kUnicodeBorder{"─", "│", {"┌", "┬", "┐"}, {"├", "┼", "┤"}, {"└", "┴", "┘"}};
constexpr Border kAsciiBorder{"-", "|", {"+", "+", "+"}, {"+", "+", "+"}, {"+", "+", "+"}};

// Columns a text takes: its code points.
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string Title(std::string text) {
  for (char& c : text) {
    c = c == '_' ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) {
    return "";
  }
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

std::string Line(const std::vector<size_t>& widths,
                 const Border& border,
                 const std::string_view (&ends)[3]) {
  std::string out(ends[0]);
  for (size_t i = 0; i < widths.size(); ++i) {
    for (size_t j = 0; j < widths[i] + 2; ++j) {
      out += border.line;
    }
    out += i + 1 == widths.size() ? ends[2] : ends[1];
  }
  return out + "\n";
}

std::string Row(const std::vector<std::string>& cells,
                const std::vector<size_t>& widths,
                const Border& border,
                bool centred) {
  std::string out(border.bar);
  for (size_t i = 0; i < widths.size(); ++i) {
    const size_t blanks = widths[i] - Width(cells[i]);
    const size_t left = centred ? blanks / 2 : blanks;
    out += " " + std::string(left, ' ') + cells[i] + std::string(blanks - left, ' ') + " ";
    out += border.bar;
  }
  return out + "\n";
}

}  // namespace

TableStyle TableStyleFromEnvironment() {
  const char* style =
      std::getenv("ETCDCTL_TABLE_STYLE");  // NOLINT(concurrency-mt-unsafe): main thread
  return style != nullptr && std::string_view(style) == "ascii" ? TableStyle::kAscii
                                                                : TableStyle::kUnicode;
}

std::string RenderTable(const std::vector<std::string>& head,
                        const std::vector<std::vector<std::string>>& rows,
                        TableStyle style) {
  const Border& border = style == TableStyle::kAscii ? kAsciiBorder : kUnicodeBorder;
  std::vector<std::vector<std::string>> table{{}};
  for (const std::string& cell : head) {
    table[0].push_back(Title(cell));
  }
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) {
      cells.push_back(Trimmed(cell));
    }
    table.push_back(std::move(cells));
  }
  std::vector<size_t> widths(head.size());
  for (const std::vector<std::string>& row : table) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  std::string out = Line(widths, border, border.top) + Row(table[0], widths, border, true);
  if (table.size() > 1) {
    out += Line(widths, border, border.middle);
  }
  for (size_t i = 1; i < table.size(); ++i) {
    out += Row(table[i], widths, border, false);
  }
  return out + Line(widths, border, border.bottom);
}

}  // namespace mainstay::cli

// Goal: what the core does, message by message, is written down and does not change unnoticed.
// Method: each *.txt here is a scenario: comments and commands, "----", the output, an empty line;
// several blocks a file share one cluster. MAINSTAY_REWRITE_GOLDEN=1 writes the outputs anew;
// review reads the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden/raft/scenario.h"

namespace mainstay::raft {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(RAFT_GOLDEN_DIR)) {
    if (entry.path().extension() == ".txt" && entry.path().stem() != "CMakeLists") {
      files.push_back(entry.path().stem().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string Replay(const std::string& text) {
  Scenario scenario;
  std::string result;
  std::string output;
  std::stringstream in(text);
  bool in_output = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "----") {
      result += "----\n" + (output.empty() ? std::string("nothing\n") : output);
      output.clear();
      in_output = true;
    } else if (line.empty()) {
      in_output = false;
      result += "\n";
    } else if (!in_output) {
      result += line + "\n";
      if (line[0] != '#') {
        output += scenario.Run(line);
      }
    }
  }
  return result;
}

class RaftGoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(RaftGoldenTest, OutputIsAsWrittenDown) {
  const fs::path path = fs::path(RAFT_GOLDEN_DIR) / (GetParam() + ".txt");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string replayed = Replay(text.str());
  if (std::getenv("MAINSTAY_REWRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << replayed;
    return;
  }
  EXPECT_EQ(replayed, text.str());
}

INSTANTIATE_TEST_SUITE_P(Scenarios,
                         RaftGoldenTest,
                         testing::ValuesIn(Files()),
                         [](const auto& scenario) { return scenario.param; });

TEST(RaftGoldenFilesTest, ThereAreScenarios) {
  EXPECT_GE(Files().size(), 15u);
}

}  // namespace
}  // namespace mainstay::raft

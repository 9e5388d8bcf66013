// Session: what the global flags and ETCDCTL_* variables say, and clients made from it.
//
// Role        Opened by each command that talks to a server.
// Errors      Functions that return int return an exit code after printing; 0 = go on.
// Threads     One.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "cli/command.h"
#include "cli/printer.h"
#include "mainstay/client.h"

namespace mainstay::cli {

// The flags every command takes.
const std::vector<FlagSpec>& GlobalFlags();

// An error as Go's client prints it: known server texts as they are, deadlines as "context deadline
// exceeded", all else as "rpc error: code = … desc = …".
std::string ErrorText(const absl::Status& status);

// Prints an answer; returns its exit code.
int Print(const Printed& printed);

class Session {
 public:
  // Reads environment and flags. Does not connect.
  int Open(Invocation& invocation);
  // A client of all endpoints, or of one.
  int Connect(std::unique_ptr<client::Client>& into) const;
  int Connect(const std::string& endpoint, std::unique_ptr<client::Client>& into) const;

  const Printer& printer() const { return *printer_; }
  const std::vector<std::string>& endpoints() const { return options_.endpoints; }
  const client::Options& options() const { return options_; }
  std::chrono::nanoseconds dial_timeout() const { return dial_timeout_; }
  // Call options with --command-timeout.
  client::CallOptions Timed() const { return {.timeout = command_timeout_}; }
  void set_values_only() { printer_.emplace(printer_->format(), hex_, true); }

 private:
  int ReadTls(const FlagSet& flags);
  int ReadUser(const FlagSet& flags);

  client::Options options_;
  std::chrono::nanoseconds dial_timeout_{};
  std::chrono::nanoseconds command_timeout_{};
  bool hex_ = false;
  std::optional<Printer> printer_;
};

// Sets flags from ETCDCTL_* and warns of unknown ones, as JSON lines on stderr. `extra_names` are
// variables (without prefix) that the command reads itself.
int ApplyEnvironment(Invocation& invocation, const std::vector<std::string_view>& extra_names);

// Opens a session and a client in one go.
struct Connected {
  Session session;
  std::unique_ptr<client::Client> client;
  int Open(Invocation& invocation) {
    const int code = session.Open(invocation);
    return code != kExitOk ? code : session.Connect(client);
  }
};

// Asks on the terminal without echo (or reads a line of stdin if it is none). Empty at end of
// input.
std::string AskPassword(std::string_view prompt);

}  // namespace mainstay::cli

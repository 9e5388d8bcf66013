#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "cli/commands.h"
#include "cli/go_text.h"
#include "cli/session.h"
#include "cli/txn_language.h"
#include "common/mutex.h"
#include "common/status.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX wants it declared

namespace mainstay::cli {
namespace {

constexpr std::string_view kBadCount = "bad number of arguments";
constexpr std::string_view kConflict =
    "bad number of arguments (found conflicting environment key)";
constexpr std::string_view kNoCommand =
    "bad number of arguments (found separator --, but no commands)";

const std::vector<FlagSpec>& WatchFlags() {
  using enum FlagType;
  static const auto& flags = *new std::vector<FlagSpec>{
      {"interactive", 'i', kBool, "false", "read \"watch …\" and \"progress\" lines from stdin"},
      {"prefix", 0, kBool, "false", "watch all keys that start with the key"},
      {"rev", 0, kInt, "0", "start at this revision"},
      {"prev-kv", 0, kBool, "false", "also print the key as it was before"},
      {"progress-notify", 0, kBool, "false", "print the server's progress now and then"}};
  return flags;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): main thread
  return value == nullptr ? "" : value;
}

// What to watch and what to run for each event.
struct WatchPlan {
  std::vector<std::string> keys;  // key and range end
  std::vector<std::string> exec;
};

// `args` with `dash` of them before "--"; the environment's key, if any, replaces those. Returns an
// error text.
std::string MakePlan(const std::vector<std::string>& args,
                     std::optional<size_t> dash,
                     const std::string& env_key,
                     const std::string& env_end,
                     WatchPlan& plan) {
  if (dash.has_value() && *dash == args.size()) {
    return std::string(kNoCommand);
  }
  const auto split = args.begin() + static_cast<ptrdiff_t>(dash.value_or(args.size()));
  plan.keys.assign(args.begin(), split);
  plan.exec.assign(split, args.end());
  if (!env_key.empty()) {
    if (!plan.keys.empty()) {
      return std::string(kConflict);
    }
    plan.keys.push_back(env_key);
    if (!env_end.empty()) {
      plan.keys.push_back(env_end);
    }
  }
  return plan.keys.empty() ? std::string(kBadCount) : "";
}

std::string MakeOptions(const WatchPlan& plan,
                        const FlagSet& flags,
                        client::WatchOptions& options) {
  const bool prefix = flags.Bool("prefix");
  options.key = plan.keys[0];
  if (plan.keys.size() == 2) {
    if (prefix) {
      return "`range_end` and `--prefix` are mutually exclusive";
    }
    options.range_end = plan.keys[1];
  }
  if (prefix) {
    // Go's client turns an empty prefix into the whole key space.
    options.range_end = client::PrefixEnd(options.key);
    if (options.key.empty()) {
      options.key = std::string(1, '\0');
    }
  }
  options.start_revision = flags.Int("rev");
  options.prev_kv = flags.Bool("prev-kv");
  options.progress_notify = flags.Bool("progress-notify");
  options.require_leader = true;
  return "";
}

std::string GoList(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : " ") + GoQuote(word);
  }
  return "[" + out + "]";
}

// Runs the command for one event. Empty, or how it failed in Go's words.
std::string RunForEvent(const std::vector<std::string>& command,
                        int64_t revision,
                        const mvccpb::Event& event) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  const bool put = event.type() == mvccpb::Event::PUT;
  variables.push_back(fmt::format("ETCD_WATCH_REVISION={}", revision));
  variables.push_back(fmt::format("ETCD_WATCH_EVENT_TYPE=\"{}\"", put ? "PUT" : "DELETE"));
  variables.push_back("ETCD_WATCH_KEY=" + GoQuote(event.kv().key()));
  variables.push_back("ETCD_WATCH_VALUE=" + GoQuote(event.kv().value()));
  const auto pointers = [](const std::vector<std::string>& strings) {
    std::vector<char*> out;
    for (const std::string& s : strings) {
      out.push_back(const_cast<char*>(s.c_str()));  // posix_spawn does not write to them
    }
    out.push_back(nullptr);
    return out;
  };
  pid_t child = 0;
  if (posix_spawnp(&child, command[0].c_str(), nullptr, nullptr, pointers(command).data(),
                   pointers(variables).data()) != 0) {
    return fmt::format("exec: {}: executable file not found in $PATH", GoQuote(command[0]));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return "";
  }
  return WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status))
                           : fmt::format("signal: {}", WTERMSIG(status));
}

// Prints until the watch ends. Returns an exit code other than 0 only if the process is to end with
// it at once.
int PrintAnswers(client::Watch& watch,
                 const Printer& printer,
                 const std::vector<std::string>& exec,
                 Mutex& output) {
  while (std::optional<client::WatchAnswer> answer = watch.Next()) {
    MutexLock lock(output);
    if (answer->canceled) {
      const std::string why = !answer->cancel_reason.empty() && answer->compact_revision == 0
                                  ? answer->cancel_reason
                                  : ErrorText(answer->status);
      Err(fmt::format("watch was canceled ({})\n", why));
    }
    if (answer->IsProgress()) {
      Out(fmt::format("progress notify: {}\n", answer->header.revision()));
    }
    if (const int code = Print(printer.Watch(*answer)); code != kExitOk) {
      return code;
    }
    if (exec.empty()) {
      continue;
    }
    for (const mvccpb::Event& event : answer->events) {
      const std::string error = RunForEvent(exec, answer->header.revision(), event);
      if (!error.empty()) {
        Err(fmt::format("command {} error ({})\n", GoList(exec), error));
        return kExitError;
      }
    }
  }
  return kExitOk;
}

// One watch of the interactive mode with the thread that prints it.
struct Printing {
  std::unique_ptr<client::Watch> watch;
  std::jthread thread;
};

class Interactive {
 public:
  Interactive(client::Client& client,
              const Printer& printer,
              std::string env_key,
              std::string env_end)
      : client_(client),
        printer_(printer),
        env_key_(std::move(env_key)),
        env_end_(std::move(env_end)) {}
  ~Interactive() {
    for (Printing& each : printing_) {
      each.watch->Cancel();
    }
  }

  int Run() {
    std::string line;
    while (std::getline(std::cin, line) && !std::cin.eof()) {
      if (const int code = Handle(line); code != kExitOk) {
        return code;
      }
    }
    return Fail(kExitInvalidInput, "error reading watch request line: EOF");
  }

 private:
  int Handle(const std::string& line) {
    const absl::StatusOr<std::vector<std::string>> words = SplitWords(line);
    if (!words.ok()) {
      return Fail(kExitInvalidInput, Message(words.status()));
    }
    if (words->empty()) {
      Err(fmt::format("Invalid command: {} (watch and progress supported)\n", line));
    } else if ((*words)[0] == "progress") {
      for (Printing& each : printing_) {
        each.watch->RequestProgress();
      }
    } else if ((*words)[0] != "watch") {
      Err(fmt::format("Invalid command {} (only support watch)\n", line));
    } else if (words->size() < 2 && env_key_.empty()) {
      Err(fmt::format("Invalid command {} (command type or key is not provided)\n", line));
    } else {
      return StartWatch(line, {words->begin() + 1, words->end()});
    }
    return kExitOk;
  }

  int StartWatch(const std::string& line, const std::vector<std::string>& words) {
    FlagSet flags;
    for (const FlagSpec& flag : WatchFlags()) {
      flags.Add(flag);
    }
    std::vector<std::string> args;
    std::optional<size_t> dash;
    WatchPlan plan;
    std::string error = flags.Parse(words, args, dash).value_or("");
    if (error.empty()) {
      error = MakePlan(args, dash, env_key_, env_end_, plan);
    }
    if (!error.empty()) {
      return Fail(kExitBadArguments, error);
    }
    client::WatchOptions options;
    error = MakeOptions(plan, flags, options);
    if (!error.empty()) {
      Err(fmt::format("Invalid command {} ({})\n", line, error));
      return kExitOk;
    }
    Printing& each = printing_.emplace_back();
    each.watch = client_.StartWatch(std::move(options));
    each.thread = std::jthread([this, watch = each.watch.get(), exec = plan.exec] {
      const int code = PrintAnswers(*watch, printer_, exec, output_);
      if (code != kExitOk) {
        std::_Exit(code);  // as etcdctl: a failed command ends all watches
      }
    });
    return kExitOk;
  }

  client::Client& client_;
  const Printer& printer_;
  const std::string env_key_, env_end_;
  Mutex output_;                    // one answer is printed at a time
  std::vector<Printing> printing_;  // last: its threads use all of the above
};

int RunWatch(Invocation& in) {
  const std::string env_key = Variable("ETCDCTL_WATCH_KEY");
  const std::string env_end = Variable("ETCDCTL_WATCH_RANGE_END");
  if (env_key.empty() && !env_end.empty()) {
    return Fail(kExitBadArguments,
                fmt::format("ETCDCTL_WATCH_KEY is empty but got ETCDCTL_WATCH_RANGE_END={}",
                            GoQuote(env_end)));
  }
  Connected to;
  if (in.flags.Bool("interactive")) {
    if (const int code = to.Open(in); code != kExitOk) {
      return code;
    }
    return Interactive(*to.client, to.session.printer(), env_key, env_end).Run();
  }
  WatchPlan plan;
  if (const std::string error = MakePlan(in.args, in.dash, env_key, env_end, plan);
      !error.empty()) {
    return Fail(kExitBadArguments, error);
  }
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  client::WatchOptions options;
  if (const std::string error = MakeOptions(plan, in.flags, options); !error.empty()) {
    return Fail(kExitBadArguments, error);
  }
  const std::unique_ptr<client::Watch> watch = to.client->StartWatch(std::move(options));
  Mutex output;
  if (const int code = PrintAnswers(*watch, to.session.printer(), plan.exec, output); code != 0) {
    return code;
  }
  return Fail(kExitInterrupted, "watch is canceled by the server");
}

}  // namespace

Command WatchCommand() {
  return {.name = "watch",
          .arguments = "[options] [key or prefix] [range_end] [--] [exec-command arg1 arg2 ...]",
          .summary = "Prints changes of keys as they happen",
          .description =
              "Prints changes of a key, a range or (--prefix) all keys with a prefix, until "
              "stopped. With a "
              "command after \"--\" that command runs for each event, with ETCD_WATCH_REVISION, "
              "ETCD_WATCH_EVENT_TYPE, ETCD_WATCH_KEY and ETCD_WATCH_VALUE set. The key may also "
              "come from "
              "ETCDCTL_WATCH_KEY and ETCDCTL_WATCH_RANGE_END.",
          .group = "Key-value commands",
          .flags = WatchFlags(),
          .run = RunWatch};
}

}  // namespace mainstay::cli

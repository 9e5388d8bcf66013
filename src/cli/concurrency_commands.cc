// lock and elect.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "cli/commands.h"
#include "cli/ownership.h"
#include "cli/session.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX wants it declared

namespace mainstay::cli {
namespace {

constexpr std::string_view kGroup = "Concurrency commands";
constexpr int64_t kElectionTtl = 60;

// Runs `on_signal` once at SIGINT or SIGTERM. Must be made before any thread starts, since they
// inherit the mask.
class SignalWait {
 public:
  SignalWait() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  void Start(std::function<void()> on_signal) {
    thread_ = std::jthread([this, on_signal = std::move(on_signal)](std::stop_token stop) {
      while (!stop.stop_requested()) {
        const timespec slice{.tv_sec = 0, .tv_nsec = 100'000'000};
        if (sigtimedwait(&signals_, nullptr, &slice) > 0) {
          on_signal();
          return;
        }
      }
    });
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t signals_{};
  sigset_t before_{};
  std::jthread thread_;
};

// Runs a command with the lock's variables; its exit code.
int RunHolding(const std::vector<std::string>& command,
               const Ownership& lock,
               const sigset_t& mask,
               int& code) {
  std::vector<std::string> variables{"ETCD_LOCK_KEY=" + lock.key(),
                                     fmt::format("ETCD_LOCK_REV={}", lock.revision())};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  const auto pointers = [](const std::vector<std::string>& strings) {
    std::vector<char*> out;
    for (const std::string& s : strings) {
      out.push_back(const_cast<char*>(s.c_str()));  // posix_spawn does not write to them
    }
    out.push_back(nullptr);
    return out;
  };
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error = posix_spawnp(&child, command[0].c_str(), nullptr, &attributes,
                                 pointers(command).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return error;
  }
  int status = 0;
  waitpid(child, &status, 0);
  code = WIFEXITED(status) ? WEXITSTATUS(status) : kExitError;
  return 0;
}

int ShowKey(client::Client& client, const Printer& printer, const std::string& key) {
  pb::RangeRequest request;
  request.set_key(key);
  const auto response = client.Range(request);
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  if (response->kvs().empty()) {
    return Fail(kExitError, "lock lost on init");
  }
  return Print(printer.Get(*response));
}

int RunLock(Invocation& in) {
  if (in.args.empty()) {
    return Fail(kExitBadArguments,
                "lock takes a lock name argument and an optional command to execute");
  }
  SignalWait signals;
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  Ownership lock(*to.client);
  if (const absl::Status status = lock.StartSession(in.flags.Int("ttl")); !status.ok()) {
    return Fail(kExitError, ErrorText(status));
  }
  signals.Start([&] { lock.Interrupt(); });
  if (const absl::Status status = lock.Acquire(in.args[0], ""); !status.ok()) {
    return Fail(kExitError, ErrorText(status));
  }
  if (in.args.size() > 1) {
    int child_code = 0;
    const int error =
        RunHolding({in.args.begin() + 1, in.args.end()}, lock, signals.before(), child_code);
    const absl::Status released = lock.Release();
    if (error != 0) {
      return Fail(kExitError,
                  fmt::format("exec: \"{}\": executable file not found in $PATH", in.args[1]));
    }
    if (child_code != 0) {
      return Fail(child_code, fmt::format("exit status {}", child_code));
    }
    return released.ok() ? kExitOk : Fail(kExitError, ErrorText(released));
  }
  if (const int code = ShowKey(*to.client, to.session.printer(), lock.key()); code != kExitOk) {
    return code;
  }
  if (lock.WaitUntilLost()) {
    return Fail(kExitError, "session expired");
  }
  const absl::Status released = lock.Release();
  return released.ok() ? kExitOk : Fail(kExitError, ErrorText(released));
}

int Campaign(Invocation& in) {
  SignalWait signals;
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  Ownership leadership(*to.client);
  if (const absl::Status status = leadership.StartSession(kElectionTtl); !status.ok()) {
    return Fail(kExitError, ErrorText(status));
  }
  signals.Start([&] { leadership.Interrupt(); });
  if (const absl::Status status = leadership.Acquire(in.args[0], in.args[1]); !status.ok()) {
    return Fail(kExitError, ErrorText(status));
  }
  if (const int code = ShowKey(*to.client, to.session.printer(), leadership.key());
      code != kExitOk) {
    return code;
  }
  if (leadership.WaitUntilLost()) {
    return Fail(kExitError, "elect: session expired");
  }
  const absl::Status released = leadership.Release();
  return released.ok() ? kExitOk : Fail(kExitError, ErrorText(released));
}

// The leader is whoever has the oldest key; printed whenever it or its value changes.
int Observe(Invocation& in) {
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const std::string prefix = in.args[0] + "/";
  std::string last;
  int64_t revision = 0;
  const auto show = [&]() -> int {
    pb::RangeRequest request;
    request.set_key(prefix);
    request.set_range_end(client::PrefixEnd(prefix));
    request.set_sort_target(pb::RangeRequest::CREATE);
    request.set_sort_order(pb::RangeRequest::ASCEND);
    request.set_limit(1);
    const auto response = to.client->Range(request);
    if (!response.ok()) {
      return Fail(kExitError, ErrorText(response.status()));
    }
    revision = response->header().revision();
    const std::string now = response->kvs().empty() ? "" : response->kvs(0).SerializeAsString();
    const bool changed = !now.empty() && now != last;
    last = now;
    return changed ? Print(to.session.printer().Get(*response)) : kExitOk;
  };
  if (const int code = show(); code != kExitOk) {
    return code;
  }
  client::WatchOptions options;
  options.key = prefix;
  options.range_end = client::PrefixEnd(prefix);
  options.start_revision = revision + 1;
  const auto watch = to.client->StartWatch(std::move(options));
  while (const auto answer = watch->Next()) {
    if (answer->canceled) {
      break;
    }
    if (const int code = show(); code != kExitOk) {
      return code;
    }
  }
  return Fail(kExitError, "elect: observer lost");
}

int RunElect(Invocation& in) {
  if (in.args.size() != 1 && in.args.size() != 2) {
    return Fail(kExitBadArguments,
                "elect takes one election name argument and an optional proposal argument");
  }
  const bool listen = in.flags.Bool("listen");
  if (in.args.size() == 1) {
    return listen ? Observe(in) : Fail(kExitBadArguments, "no proposal argument but -l not set");
  }
  return listen ? Fail(kExitBadArguments, "proposal given but -l is set") : Campaign(in);
}

}  // namespace

Command LockCommand() {
  return {.name = "lock",
          .arguments = "<lockname> [exec-command arg1 arg2 ...]",
          .summary = "Holds a named lock",
          .description =
              "Holds a named lock until stopped, or while the command runs. The command sees "
              "ETCD_LOCK_KEY and ETCD_LOCK_REV; its exit code becomes ours.",
          .group = std::string(kGroup),
          .flags = {{"ttl", 0, FlagType::kInt, "10", "seconds until a dead holder loses the lock"}},
          .run = RunLock};
}

Command ElectCommand() {
  return {.name = "elect",
          .arguments = "<election-name> [proposal]",
          .summary = "Takes part in an election, or watches one",
          .group = std::string(kGroup),
          .flags = {{"listen", 'l', FlagType::kBool, "false", "only watch"}},
          .run = RunElect};
}

}  // namespace mainstay::cli

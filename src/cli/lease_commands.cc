#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/go_text.h"
#include "cli/session.h"

namespace mainstay::cli {
namespace {

int ParseLease(const std::string& text, int64_t& id) {
  const Parsed<int64_t> parsed = GoParseInt(text, 16);
  id = parsed.value;
  return parsed.ok()
             ? kExitOk
             : Fail(kExitBadArguments,
                    fmt::format("bad lease ID arg ({}), expecting ID in Hex", parsed.error));
}

int RunGrant(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "lease grant command needs TTL argument");
  }
  const Parsed<int64_t> ttl = GoParseInt(in.args[0], 10);
  if (!ttl.ok()) {
    return Fail(kExitBadArguments, fmt::format("bad TTL ({})", ttl.error));
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto response = to.client->LeaseGrant(ttl.value, 0, to.session.Timed());
  return response.ok() ? Print(to.session.printer().LeaseGrant(*response))
                       : Fail(kExitError, fmt::format("failed to grant lease ({})",
                                                      ErrorText(response.status())));
}

int RunRevoke(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "lease revoke command needs 1 argument");
  }
  int64_t id = 0;
  Connected to;
  if (const int code = ParseLease(in.args[0], id); code != kExitOk) {
    return code;
  }
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto response = to.client->LeaseRevoke(id, to.session.Timed());
  return response.ok() ? Print(to.session.printer().LeaseRevoke(id, *response))
                       : Fail(kExitError, fmt::format("failed to revoke lease ({})",
                                                      ErrorText(response.status())));
}

int RunTimeToLive(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "lease timetolive command needs lease ID as argument");
  }
  int64_t id = 0;
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  if (const int code = ParseLease(in.args[0], id); code != kExitOk) {
    return code;
  }
  const bool keys = in.flags.Bool("keys");
  const auto response = to.client->LeaseTimeToLive(id, keys);
  return response.ok() ? Print(to.session.printer().LeaseTimeToLive(*response, keys))
                       : Fail(kExitBadConnection, ErrorText(response.status()));
}

int RunList(Invocation& in) {
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto response = to.client->LeaseList();
  return response.ok() ? Print(to.session.printer().LeaseList(*response))
                       : Fail(kExitBadConnection, ErrorText(response.status()));
}

int RunKeepAlive(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "lease keep-alive command needs lease ID as argument");
  }
  int64_t id = 0;
  if (const int code = ParseLease(in.args[0], id); code != kExitOk) {
    return code;
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const Printer& printer = to.session.printer();
  if (in.flags.Bool("once")) {
    const auto response = to.client->LeaseKeepAliveOnce(id);
    return response.ok() ? Print(printer.LeaseKeepAlive(*response))
                         : Fail(kExitBadConnection, ErrorText(response.status()));
  }
  const std::unique_ptr<client::LeaseKeeper> keeper = to.client->KeepAlive(id);
  while (const auto response = keeper->Next()) {
    if (const int code = Print(printer.LeaseKeepAlive(*response)); code != kExitOk) {
      return code;
    }
  }
  if (printer.format() == Format::kSimple) {
    Out(fmt::format("lease {:016x} expired or revoked.\n", static_cast<uint64_t>(id)));
  }
  return kExitOk;
}

}  // namespace

Command LeaseCommand() {
  Command grant{
      .name = "grant", .arguments = "<ttl>", .summary = "Creates a lease", .run = RunGrant};
  Command revoke{.name = "revoke",
                 .arguments = "<leaseID>",
                 .summary = "Ends a lease and deletes its keys",
                 .run = RunRevoke};
  Command ttl{.name = "timetolive",
              .arguments = "<leaseID> [options]",
              .summary = "Shows how long a lease still lives",
              .flags = {{"keys", 0, FlagType::kBool, "false", "also list the lease's keys"}},
              .run = RunTimeToLive};
  Command list{.name = "list", .summary = "Lists all leases", .run = RunList};
  Command keep{.name = "keep-alive",
               .arguments = "[options] <leaseID>",
               .summary = "Renews a lease until stopped",
               .flags = {{"once", 0, FlagType::kBool, "false", "renew once and end"}},
               .run = RunKeepAlive};
  return {.name = "lease",
          .summary = "Lease related commands",
          .group = "Key-value commands",
          .subcommands = {grant, revoke, ttl, list, keep}};
}

}  // namespace mainstay::cli

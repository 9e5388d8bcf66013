#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/go_text.h"
#include "cli/kv_requests.h"
#include "cli/session.h"

namespace mainstay::cli {
namespace {

std::vector<std::string> SplitCommas(const std::string& text) {
  std::vector<std::string> out{""};
  for (const char c : text) {
    if (c == ',') {
      out.emplace_back();
    } else {
      out.back().push_back(c);
    }
  }
  return out;
}

int RunList(Invocation& in) {
  bool serializable = false;
  if (const int code = ParseConsistency(in.flags.String("consistency"), serializable); code != 0) {
    return code;
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto response = to.client->MemberList(!serializable, to.session.Timed());
  return response.ok() ? Print(to.session.printer().MemberList(*response))
                       : Fail(kExitError, ErrorText(response.status()));
}

// The variables the new member is to be started with.
std::string StartVariables(const std::string& name,
                           const std::string& peer_urls,
                           const pb::MemberAddResponse& response) {
  std::string cluster;
  for (const pb::Member& member : response.members()) {
    const bool is_new = member.id() == response.member().id();
    for (const std::string& url : member.peerurls()) {
      cluster +=
          fmt::format("{}{}={}", cluster.empty() ? "" : ",", is_new ? name : member.name(), url);
    }
  }
  return fmt::format(
      "\nETCD_NAME={}\nETCD_INITIAL_CLUSTER={}\nETCD_INITIAL_ADVERTISE_PEER_URLS={}\n"
      "ETCD_INITIAL_CLUSTER_STATE=\"existing\"\n",
      GoQuote(name), GoQuote(cluster), GoQuote(peer_urls));
}

int RunAdd(Invocation& in) {
  if (in.args.empty()) {
    return Fail(kExitBadArguments, "member name not provided");
  }
  if (in.args.size() > 1) {
    std::string text = "too many arguments";
    for (const std::string& arg : in.args) {
      std::string lower = arg.substr(0, 4);
      for (char& c : lower) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
      text += lower == "http" ? ", did you mean --peer-urls=" + arg : "";
    }
    return Fail(kExitBadArguments, text);
  }
  const std::string& urls = in.flags.String("peer-urls");
  if (urls.empty()) {
    return Fail(kExitBadArguments, "member peer urls not provided");
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto response =
      to.client->MemberAdd(SplitCommas(urls), in.flags.Bool("learner"), to.session.Timed());
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  const Printer& printer = to.session.printer();
  const int code = Print(printer.Member(
      *response, fmt::format("Member {:16x} added{}to cluster {:16x}\n", response->member().id(),
                             response->member().islearner() ? " as learner " : " ",
                             response->header().cluster_id())));
  if (code == kExitOk && printer.format() == Format::kSimple) {
    Out(StartVariables(in.args[0], urls, *response));
  }
  return code;
}

int ParseMember(const Invocation& in, uint64_t& id) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "member ID is not provided");
  }
  const Parsed<uint64_t> parsed = GoParseUint(in.args[0], 16);
  id = parsed.value;
  return parsed.ok()
             ? kExitOk
             : Fail(kExitBadArguments,
                    fmt::format("bad member ID arg ({}), expecting ID in Hex", parsed.error));
}

template <class Response>
int Answer(const Session& session,
           uint64_t id,
           std::string_view done,
           const absl::StatusOr<Response>& response) {
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  return Print(session.printer().Member(
      *response,
      fmt::format("Member {:16x} {} cluster {:16x}\n", id, done, response->header().cluster_id())));
}

int RunRemove(Invocation& in) {
  uint64_t id = 0;
  if (const int code = ParseMember(in, id); code != kExitOk) {
    return code;
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  return Answer(to.session, id, "removed from", to.client->MemberRemove(id, to.session.Timed()));
}

int RunUpdate(Invocation& in) {
  uint64_t id = 0;
  if (const int code = ParseMember(in, id); code != kExitOk) {
    return code;
  }
  const std::string& urls = in.flags.String("peer-urls");
  if (urls.empty()) {
    return Fail(kExitBadArguments, "member peer urls not provided");
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  return Answer(to.session, id, "updated in",
                to.client->MemberUpdate(id, SplitCommas(urls), to.session.Timed()));
}

int RunPromote(Invocation& in) {
  uint64_t id = 0;
  if (const int code = ParseMember(in, id); code != kExitOk) {
    return code;
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  return Answer(to.session, id, "promoted in", to.client->MemberPromote(id, to.session.Timed()));
}

}  // namespace

Command MemberCommand() {
  const FlagSpec urls{"peer-urls", 0, FlagType::kString, "",
                      "the member's peer URLs, separated by commas"};
  Command add{.name = "add",
              .arguments = "<memberName> [options]",
              .summary = "Adds a member to the cluster",
              .flags = {urls, {"learner", 0, FlagType::kBool, "false", "add it without a vote"}},
              .run = RunAdd};
  Command remove{.name = "remove",
                 .arguments = "<memberID>",
                 .summary = "Removes a member from the cluster",
                 .run = RunRemove};
  Command update{.name = "update",
                 .arguments = "<memberID> [options]",
                 .summary = "Changes a member's peer URLs",
                 .flags = {urls},
                 .run = RunUpdate};
  Command list{.name = "list",
               .summary = "Lists the members",
               .description =
                   "Lists the members. In the simple format: id, status, name, peer URLs, client "
                   "URLs, is learner.",
               .flags = {{"consistency", 0, FlagType::kString, "l",
                          "l: linearizable, s: serializable (may be stale)"}},
               .run = RunList};
  Command promote{.name = "promote",
                  .arguments = "<memberID>",
                  .summary = "Gives a learner its vote",
                  .run = RunPromote};
  return {.name = "member",
          .summary = "Membership related commands",
          .group = "Cluster maintenance commands",
          .subcommands = {add, remove, update, list, promote}};
}

}  // namespace mainstay::cli

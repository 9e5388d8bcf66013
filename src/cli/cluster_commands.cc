// endpoint, defrag, alarm, move-leader, downgrade: what is asked of members one by one.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "cli/commands.h"
#include "cli/go_text.h"
#include "cli/session.h"
#include "common/status.h"

namespace mainstay::cli {
namespace {

constexpr std::string_view kGroup = "Cluster maintenance commands";

// --endpoints, or with --cluster the client URLs of all members.
int TargetEndpoints(const Invocation& in, const Session& session, std::vector<std::string>& into) {
  if (!in.flags.Bool("cluster")) {
    into = session.endpoints();
    return kExitOk;
  }
  std::unique_ptr<client::Client> client;
  if (const int code = session.Connect(client); code != kExitOk) {
    return code;
  }
  const auto members = client->MemberList(true, session.Timed());
  if (!members.ok()) {
    return Fail(kExitError,
                fmt::format("failed to fetch endpoints from etcd cluster member list: {}",
                            ErrorText(members.status())));
  }
  for (const pb::Member& member : members->members()) {
    into.insert(into.end(), member.clienturls().begin(), member.clienturls().end());
  }
  return kExitOk;
}

std::string AlarmNote(const pb::AlarmResponse& alarms) {
  std::string note = "Active Alarm(s): ";
  for (const pb::AlarmMember& alarm : alarms.alarms()) {
    note += alarm.alarm() == pb::NOSPACE   ? "NOSPACE "
            : alarm.alarm() == pb::CORRUPT ? "CORRUPT "
                                           : "UNKNOWN ";
  }
  return note;
}

EndpointHealth CheckHealth(const Session& session, const std::string& endpoint) {
  EndpointHealth health{.endpoint = endpoint, .healthy = false, .took = {}, .error = {}};
  client::Options options = session.options();
  options.endpoints = {endpoint};
  auto client = client::Client::Create(options, session.dial_timeout());
  if (!client.ok()) {
    health.error = ErrorText(client.status());
    return health;
  }
  const auto start = std::chrono::steady_clock::now();
  pb::RangeRequest request;
  request.set_key("health");  // any key will do: a read goes through consensus
  const auto read = (*client)->Range(request, session.Timed());
  health.took = GoDuration(std::chrono::steady_clock::now() - start);
  const bool denied = Message(read.status()) == "etcdserver: permission denied";
  if (!read.ok() && !denied) {
    health.error = ErrorText(read.status());
    return health;
  }
  const auto alarms = (*client)->Alarm(pb::AlarmRequest(), session.Timed());
  if (!alarms.ok()) {
    health.error = "Unable to fetch the alarm list";
  } else if (alarms->alarms_size() > 0) {
    health.error = AlarmNote(*alarms);
  }
  health.healthy = health.error.empty();
  return health;
}

int RunHealth(Invocation& in) {
  Session session;
  std::vector<std::string> endpoints;
  if (const int code = session.Open(in); code != kExitOk) {
    return code;
  }
  if (const int code = TargetEndpoints(in, session, endpoints); code != kExitOk) {
    return code;
  }
  std::vector<EndpointHealth> all(endpoints.size());
  {
    std::vector<std::jthread> checks;
    for (size_t i = 0; i < endpoints.size(); ++i) {
      checks.emplace_back([&, i] { all[i] = CheckHealth(session, endpoints[i]); });
    }
  }
  bool unhealthy = false;
  for (const EndpointHealth& health : all) {
    unhealthy |= !health.error.empty();
  }
  if (const int code = Print(session.printer().Health(all)); code != kExitOk) {
    return code;
  }
  return unhealthy ? Fail(kExitError, "unhealthy cluster") : kExitOk;
}

// Calls `ask` with a client of each endpoint in turn.
int ForEachEndpoint(Invocation& in,
                    Session& session,
                    const std::function<void(const std::string&, client::Client&)>& ask) {
  std::vector<std::string> endpoints;
  if (const int code = session.Open(in); code != kExitOk) {
    return code;
  }
  if (const int code = TargetEndpoints(in, session, endpoints); code != kExitOk) {
    return code;
  }
  for (const std::string& endpoint : endpoints) {
    std::unique_ptr<client::Client> client;
    if (const int code = session.Connect(endpoint, client); code != kExitOk) {
      return code;
    }
    ask(endpoint, *client);
  }
  return kExitOk;
}

int RunStatus(Invocation& in) {
  Session session;
  std::vector<EndpointStatus> all;
  bool failed = false;
  const int code =
      ForEachEndpoint(in, session, [&](const std::string& endpoint, client::Client& client) {
        auto status = client.Status(session.Timed());
        if (!status.ok()) {
          failed = true;
          Err(fmt::format("Failed to get the status of endpoint {} ({})\n", endpoint,
                          ErrorText(status.status())));
          return;
        }
        all.push_back({endpoint, std::move(*status)});
      });
  if (code != kExitOk) {
    return code;
  }
  const int printed = Print(session.printer().Statuses(all));
  return printed == kExitOk && failed ? kExitError : printed;
}

int RunHashKv(Invocation& in) {
  Session session;
  std::vector<EndpointHash> all;
  std::string error;
  const int64_t revision = in.flags.Int("rev");
  const int code =
      ForEachEndpoint(in, session, [&](const std::string& endpoint, client::Client& client) {
        auto hash = client.HashKv(revision, session.Timed());
        if (!hash.ok()) {
          error = ErrorText(hash.status());
          Err(fmt::format("Failed to get the hash of endpoint {} ({})\n", endpoint, error));
          return;
        }
        all.push_back({endpoint, std::move(*hash)});
      });
  if (code != kExitOk) {
    return code;
  }
  const int printed = Print(session.printer().Hashes(all));
  return printed == kExitOk && !error.empty() ? Fail(kExitError, error) : printed;
}

int RunDefrag(Invocation& in) {
  Session session;
  bool failed = false;
  const int code =
      ForEachEndpoint(in, session, [&](const std::string& endpoint, client::Client& client) {
        const auto start = std::chrono::steady_clock::now();
        const auto response = client.Defragment(session.Timed());
        const std::string took = GoDuration(std::chrono::steady_clock::now() - start);
        if (response.ok()) {
          Out(fmt::format("Finished defragmenting etcd member[{}]. took {}\n", endpoint, took));
          return;
        }
        failed = true;
        Err(fmt::format("Failed to defragment etcd member[{}]. took {}. ({})\n", endpoint, took,
                        ErrorText(response.status())));
      });
  return code != kExitOk ? code : failed ? kExitError : kExitOk;
}

int RunAlarm(Invocation& in, bool disarm) {
  if (!in.args.empty()) {
    return Fail(kExitBadArguments,
                fmt::format("alarm {} command accepts no arguments", disarm ? "disarm" : "list"));
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  pb::AlarmRequest request;
  request.set_action(pb::AlarmRequest::GET);
  request.set_alarm(pb::NONE);
  auto response = to.client->Alarm(request, to.session.Timed());
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  if (!disarm) {
    return Print(to.session.printer().Alarm(*response));
  }
  pb::AlarmResponse cleared;
  for (const pb::AlarmMember& alarm : response->alarms()) {
    request.set_action(pb::AlarmRequest::DEACTIVATE);
    request.set_memberid(alarm.memberid());
    request.set_alarm(alarm.alarm());
    const auto one = to.client->Alarm(request, to.session.Timed());
    if (!one.ok()) {
      return Fail(kExitError, ErrorText(one.status()));
    }
    cleared.mutable_alarms()->MergeFrom(one->alarms());
  }
  return Print(to.session.printer().Alarm(cleared));
}

int RunMoveLeader(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "move-leader command needs 1 argument");
  }
  const Parsed<uint64_t> target = GoParseUint(in.args[0], 16);
  if (!target.ok()) {
    return Fail(kExitBadArguments, target.error);
  }
  Session session;
  if (const int code = session.Open(in); code != kExitOk) {
    return code;
  }
  for (const std::string& endpoint : session.endpoints()) {
    std::unique_ptr<client::Client> client;
    if (const int code = session.Connect(endpoint, client); code != kExitOk) {
      return code;
    }
    const auto status = client->Status(session.Timed());
    if (!status.ok()) {
      return Fail(kExitError, ErrorText(status.status()));
    }
    if (status->header().member_id() != status->leader()) {
      continue;
    }
    const auto response = client->MoveLeader(target.value, session.Timed());
    if (!response.ok()) {
      return Fail(kExitError, ErrorText(response.status()));
    }
    return Print(session.printer().Plain(
        *response,
        fmt::format("Leadership transferred from {:x} to {:x}\n", status->leader(), target.value)));
  }
  return Fail(kExitBadArguments,
              fmt::format("no leader endpoint given at [{}]", fmt::join(session.endpoints(), " ")));
}

int RunDowngrade(Invocation& in,
                 pb::DowngradeRequest::DowngradeAction action,
                 std::string_view word) {
  pb::DowngradeRequest request;
  request.set_action(action);
  if (action != pb::DowngradeRequest::CANCEL) {
    if (in.args.size() != 1) {
      return Fail(kExitBadArguments,
                  in.args.empty() ? "TARGET_VERSION not provided" : "too many arguments");
    }
    if (in.args[0].empty()) {
      return Fail(kExitBadArguments, "target version not provided");
    }
    request.set_version(in.args[0]);
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto response = to.client->Downgrade(request, to.session.Timed());
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  return Print(to.session.printer().Plain(
      *response,
      fmt::format("Downgrade {} success, cluster version {}\n", word, response->version())));
}

}  // namespace

Command EndpointCommand() {
  Command health{
      .name = "health", .summary = "Checks that each endpoint commits", .run = RunHealth};
  Command status{
      .name = "status",
      .summary = "Shows the state of each endpoint",
      .description =
          "Shows the state of each endpoint. In the simple format: endpoint, id, version, storage "
          "version, size, size in use, part not in use, quota, is leader, is learner, term, index, "
          "applied index, errors, downgrade target, downgrade enabled.",
      .run = RunStatus};
  Command hashkv{
      .name = "hashkv",
      .summary = "Shows the hash of each endpoint's history",
      .flags = {{"rev", 0, FlagType::kInt, "0", "highest revision to hash (0: the newest)"}},
      .run = RunHashKv};
  return {.name = "endpoint",
          .summary = "Endpoint related commands",
          .group = std::string(kGroup),
          .inherited_flags = {{"cluster", 0, FlagType::kBool, "false",
                               "ask all members of the cluster's member list"}},
          .subcommands = {health, status, hashkv}};
}

Command DefragCommand() {
  return {.name = "defrag",
          .summary = "Gives free space of the endpoints' files back",
          .group = std::string(kGroup),
          .flags = {{"cluster", 0, FlagType::kBool, "false",
                     "all members of the cluster's member list"}},
          .run = RunDefrag};
}

Command AlarmCommand() {
  Command disarm{.name = "disarm", .summary = "Clears all alarms", .run = [](Invocation& in) {
                   return RunAlarm(in, true);
                 }};
  Command list{.name = "list", .summary = "Lists all alarms", .run = [](Invocation& in) {
                 return RunAlarm(in, false);
               }};
  return {.name = "alarm",
          .summary = "Alarm related commands",
          .group = std::string(kGroup),
          .subcommands = {disarm, list}};
}

Command MoveLeaderCommand() {
  return {.name = "move-leader",
          .arguments = "<transferee-member-id>",
          .summary = "Hands leadership to another member",
          .group = std::string(kGroup),
          .run = RunMoveLeader};
}

Command DowngradeCommand() {
  using Request = pb::DowngradeRequest;
  Command validate{
      .name = "validate",
      .arguments = "<TARGET_VERSION>",
      .summary = "Checks whether a downgrade could start",
      .run = [](Invocation& in) { return RunDowngrade(in, Request::VALIDATE, "validate"); }};
  Command enable{.name = "enable",
                 .arguments = "<TARGET_VERSION>",
                 .summary = "Starts a downgrade",
                 .run = [](Invocation& in) { return RunDowngrade(in, Request::ENABLE, "enable"); }};
  Command cancel{.name = "cancel",
                 .summary = "Stops the downgrade that is under way",
                 .run = [](Invocation& in) { return RunDowngrade(in, Request::CANCEL, "cancel"); }};
  return {.name = "downgrade",
          .summary = "Downgrade related commands",
          .group = std::string(kGroup),
          .subcommands = {validate, enable, cancel}};
}

}  // namespace mainstay::cli

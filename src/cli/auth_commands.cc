#include <fmt/format.h>

#include <iostream>

#include "cli/commands.h"
#include "cli/session.h"
#include "common/status.h"

namespace mainstay::cli {
namespace {

constexpr std::string_view kGroup = "Authentication commands";
constexpr std::string_view kExclusive = "--from-key and --prefix flags are mutually exclusive";

// Opens, asks and prints; most commands here are no more than that.
template <class Response>
int Ask(Invocation& in,
        const std::function<absl::StatusOr<Response>(client::Client&)>& ask,
        const std::function<Printed(const Printer&, const Response&)>& print) {
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const absl::StatusOr<Response> response = ask(*to.client);
  return response.ok() ? Print(print(to.session.printer(), *response))
                       : Fail(kExitError, ErrorText(response.status()));
}

// The same where the fields form is the header and the simple form one line.
template <class Response>
int AskSimply(Invocation& in,
              const std::function<absl::StatusOr<Response>(client::Client&)>& ask,
              const std::string& simple) {
  return Ask<Response>(in, ask, [&](const Printer& printer, const Response& response) {
    return printer.HeaderOnly(response, response.header(), simple);
  });
}

int RunEnable(Invocation& in) {
  if (!in.args.empty()) {
    return Fail(kExitBadArguments, "auth enable command does not accept any arguments");
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const client::CallOptions timed = to.session.Timed();
  absl::Status status = to.client->AuthEnable(timed).status();
  if (Message(status) == "etcdserver: root user does not have root role") {
    status = to.client->RoleAdd("root", timed).status();
    if (status.ok()) {
      status = to.client->UserGrantRole("root", "root", timed).status();
    }
    if (status.ok()) {
      status = to.client->AuthEnable(timed).status();
    }
  }
  if (!status.ok()) {
    return Fail(kExitError, ErrorText(status));
  }
  Out("Authentication Enabled\n");
  return kExitOk;
}

int RunDisable(Invocation& in) {
  if (!in.args.empty()) {
    return Fail(kExitBadArguments, "auth disable command does not accept any arguments");
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto response = to.client->AuthDisable(to.session.Timed());
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  Out("Authentication Disabled\n");
  return kExitOk;
}

int RunStatus(Invocation& in) {
  if (!in.args.empty()) {
    return Fail(kExitBadArguments, "auth status command does not accept any arguments");
  }
  return Ask<pb::AuthStatusResponse>(
      in, [](client::Client& client) { return client.AuthStatus(); },
      [](const Printer& printer, const pb::AuthStatusResponse& response) {
        return printer.Plain(response, fmt::format("Authentication Status: {}\nAuthRevision: {}\n",
                                                   response.enabled(), response.authrevision()));
      });
}

int ReadNewPassword(const Invocation& in, const std::string& user, std::string& password) {
  if (!in.flags.Bool("interactive")) {
    std::cin >> password;
    return kExitOk;
  }
  password = AskPassword(fmt::format("Password of {}: ", user));
  if (password.empty()) {
    return Fail(kExitBadArguments, "empty password");
  }
  if (AskPassword(fmt::format("Type password of {} again for confirmation: ", user)) != password) {
    return Fail(kExitBadArguments, "given passwords are different");
  }
  return kExitOk;
}

int RunUserAdd(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "user add command requires user name as its argument");
  }
  pb::AuthUserAddRequest request;
  std::string user = in.args[0];
  std::string password;
  const size_t colon = user.find(':');
  if (in.flags.Bool("no-password")) {
    request.mutable_options()->set_no_password(true);
  } else if (!in.flags.String("new-user-password").empty()) {
    password = in.flags.String("new-user-password");
  } else if (colon != std::string::npos) {
    password = user.substr(colon + 1);
    user.resize(colon);
    if (user.empty()) {
      return Fail(kExitBadArguments, "empty user name is not allowed");
    }
  } else if (const int code = ReadNewPassword(in, user, password); code != kExitOk) {
    return code;
  }
  request.set_name(user);
  request.set_password(password);
  request.mutable_options();
  return AskSimply<pb::AuthUserAddResponse>(
      in, [&](client::Client& client) { return client.UserAdd(request); },
      fmt::format("User {} created\n", user));
}

int RunUserDelete(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "user delete command requires user name as its argument");
  }
  return AskSimply<pb::AuthUserDeleteResponse>(
      in, [&](client::Client& client) { return client.UserDelete(in.args[0]); },
      fmt::format("User {} deleted\n", in.args[0]));
}

int RunUserGet(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "user get command requires user name as its argument");
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const std::string& name = in.args[0];
  const auto response = to.client->UserGet(name);
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  if (!in.flags.Bool("detail")) {
    std::string roles;
    for (const std::string& role : response->roles()) {
      roles += " " + role;
    }
    return Print(
        to.session.printer().Plain(*response, fmt::format("User: {}\nRoles:{}\n", name, roles)));
  }
  Out(fmt::format("User: {}\n", name));
  for (const std::string& role : response->roles()) {
    Out("\n");
    const auto permissions = to.client->RoleGet(role);
    if (!permissions.ok()) {
      return Fail(kExitError, ErrorText(permissions.status()));
    }
    if (const int code = Print(to.session.printer().RoleGet(role, *permissions)); code != kExitOk) {
      return code;
    }
  }
  return kExitOk;
}

int RunUserList(Invocation& in) {
  if (!in.args.empty()) {
    return Fail(kExitBadArguments, "user list command requires no arguments");
  }
  return Ask<pb::AuthUserListResponse>(
      in, [](client::Client& client) { return client.UserList(); },
      [](const Printer& printer, const pb::AuthUserListResponse& response) {
        std::string names;
        for (const std::string& user : response.users()) {
          names += user + "\n";
        }
        return printer.Plain(response, names);
      });
}

int RunPasswd(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "user passwd command requires user name as its argument");
  }
  std::string password;
  if (const int code = ReadNewPassword(in, in.args[0], password); code != kExitOk) {
    return code;
  }
  return AskSimply<pb::AuthUserChangePasswordResponse>(
      in, [&](client::Client& client) { return client.UserChangePassword(in.args[0], password); },
      "Password updated\n");
}

int RunGrantRole(Invocation& in) {
  if (in.args.size() != 2) {
    return Fail(kExitBadArguments,
                "user grant command requires user name and role name as its argument");
  }
  return AskSimply<pb::AuthUserGrantRoleResponse>(
      in, [&](client::Client& client) { return client.UserGrantRole(in.args[0], in.args[1]); },
      fmt::format("Role {} is granted to user {}\n", in.args[1], in.args[0]));
}

int RunRevokeRole(Invocation& in) {
  if (in.args.size() != 2) {
    return Fail(kExitBadArguments,
                "user revoke-role requires user name and role name as its argument");
  }
  return AskSimply<pb::AuthUserRevokeRoleResponse>(
      in, [&](client::Client& client) { return client.UserRevokeRole(in.args[0], in.args[1]); },
      fmt::format("Role {} is revoked from user {}\n", in.args[1], in.args[0]));
}

int RunRoleAdd(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "role add command requires role name as its argument");
  }
  return AskSimply<pb::AuthRoleAddResponse>(
      in, [&](client::Client& client) { return client.RoleAdd(in.args[0]); },
      fmt::format("Role {} created\n", in.args[0]));
}

int RunRoleDelete(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "role delete command requires role name as its argument");
  }
  return AskSimply<pb::AuthRoleDeleteResponse>(
      in, [&](client::Client& client) { return client.RoleDelete(in.args[0]); },
      fmt::format("Role {} deleted\n", in.args[0]));
}

int RunRoleGet(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "role get command requires role name as its argument");
  }
  return Ask<pb::AuthRoleGetResponse>(
      in, [&](client::Client& client) { return client.RoleGet(in.args[0]); },
      [&](const Printer& printer, const pb::AuthRoleGetResponse& response) {
        return printer.RoleGet(in.args[0], response);
      });
}

int RunRoleList(Invocation& in) {
  if (!in.args.empty()) {
    return Fail(kExitBadArguments, "role list command requires no arguments");
  }
  return Ask<pb::AuthRoleListResponse>(
      in, [](client::Client& client) { return client.RoleList(); },
      [](const Printer& printer, const pb::AuthRoleListResponse& response) {
        return printer.RoleList(response);
      });
}

// Key and range end of a permission, from `args[first]` on.
int PermissionRange(const Invocation& in, size_t first, std::string& key, std::string& end) {
  const bool prefix = in.flags.Bool("prefix");
  const bool from_key = in.flags.Bool("from-key");
  const std::string open_end(1, '\0');
  key = in.args[first];
  const bool has_end = in.args.size() > first + 1;
  if (prefix && from_key && (key.empty() || !has_end)) {
    return Fail(kExitBadArguments, kExclusive);
  }
  if (key.empty()) {
    key = open_end;
    end = prefix || from_key ? open_end : "";
    return kExitOk;
  }
  if (has_end && (prefix || from_key)) {
    return Fail(kExitBadArguments, fmt::format("unexpected endkey argument with --{} flag",
                                               prefix ? "prefix" : "from-key"));
  }
  end = has_end ? in.args[first + 1] : prefix ? client::PrefixEnd(key) : from_key ? open_end : "";
  return kExitOk;
}

int RunGrantPermission(Invocation& in) {
  if (in.args.size() < 3) {
    return Fail(kExitBadArguments,
                "role grant command requires role name, permission type, and key [endkey] as its "
                "argument");
  }
  std::string upper = in.args[1];
  for (char& c : upper) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  authpb::Permission::Type type{};
  if (!authpb::Permission::Type_Parse(upper, &type)) {
    return Fail(kExitBadArguments, fmt::format("invalid permission type: {}", in.args[1]));
  }
  std::string key, end;
  if (const int code = PermissionRange(in, 2, key, end); code != kExitOk) {
    return code;
  }
  pb::AuthRoleGrantPermissionRequest request;
  request.set_name(in.args[0]);
  request.mutable_perm()->set_permtype(type);
  request.mutable_perm()->set_key(key);
  request.mutable_perm()->set_range_end(end);
  return AskSimply<pb::AuthRoleGrantPermissionResponse>(
      in, [&](client::Client& client) { return client.RoleGrantPermission(request); },
      fmt::format("Role {} updated\n", in.args[0]));
}

int RunRevokePermission(Invocation& in) {
  if (in.args.size() < 2) {
    return Fail(
        kExitBadArguments,
        "role revoke-permission command requires role name and key [endkey] as its argument");
  }
  std::string key, end;
  if (const int code = PermissionRange(in, 1, key, end); code != kExitOk) {
    return code;
  }
  pb::AuthRoleRevokePermissionRequest request;
  request.set_role(in.args[0]);
  request.set_key(key);
  request.set_range_end(end);
  const std::string& shown = in.args[1];
  const std::string what = end.empty() ? "key " + shown
                           : end == std::string(1, '\0')
                               ? fmt::format("range [{}, <open ended>", shown)
                               : fmt::format("range [{}, {})", shown, end);
  return AskSimply<pb::AuthRoleRevokePermissionResponse>(
      in, [&](client::Client& client) { return client.RoleRevokePermission(request); },
      fmt::format("Permission of {} is revoked from role {}\n", what, in.args[0]));
}

}  // namespace

Command AuthCommand() {
  return {.name = "auth",
          .summary = "Switches authentication on and off",
          .group = std::string(kGroup),
          .subcommands = {
              {.name = "enable", .summary = "Switches authentication on", .run = RunEnable},
              {.name = "disable", .summary = "Switches authentication off", .run = RunDisable},
              {.name = "status", .summary = "Shows whether it is on", .run = RunStatus}}};
}

Command UserCommand() {
  const FlagSpec interactive{"interactive", 0, FlagType::kBool, "true",
                             "ask for the password (false: read it from stdin)"};
  Command add{.name = "add",
              .arguments = "<user name or user:password> [options]",
              .summary = "Creates a user",
              .flags = {interactive,
                        {"new-user-password", 0, FlagType::kString, "", "the new user's password"},
                        {"no-password", 0, FlagType::kBool, "false",
                         "a user that only certificates can log in"}},
              .run = RunUserAdd};
  Command get{.name = "get",
              .arguments = "<user name> [options]",
              .summary = "Shows a user's roles",
              .flags = {{"detail", 0, FlagType::kBool, "false", "also show what the roles permit"}},
              .run = RunUserGet};
  Command passwd{.name = "passwd",
                 .arguments = "<user name> [options]",
                 .summary = "Changes a user's password",
                 .flags = {interactive},
                 .run = RunPasswd};
  return {.name = "user",
          .summary = "User related commands",
          .group = std::string(kGroup),
          .subcommands = {add,
                          {.name = "delete",
                           .arguments = "<user name>",
                           .summary = "Deletes a user",
                           .run = RunUserDelete},
                          get,
                          {.name = "list", .summary = "Lists all users", .run = RunUserList},
                          passwd,
                          {.name = "grant-role",
                           .arguments = "<user name> <role name>",
                           .summary = "Gives a user a role",
                           .run = RunGrantRole},
                          {.name = "revoke-role",
                           .arguments = "<user name> <role name>",
                           .summary = "Takes a role from a user",
                           .run = RunRevokeRole}}};
}

Command RoleCommand() {
  const std::vector<FlagSpec> range{
      {"prefix", 0, FlagType::kBool, "false", "all keys that start with the key"},
      {"from-key", 0, FlagType::kBool, "false", "all keys from the key on, in byte order"}};
  Command grant{.name = "grant-permission",
                .arguments = "[options] <role name> <permission type> <key> [endkey]",
                .summary = "Permits a role to read or write keys",
                .flags = range,
                .run = RunGrantPermission};
  Command revoke{.name = "revoke-permission",
                 .arguments = "<role name> <key> [endkey]",
                 .summary = "Takes a permission from a role",
                 .flags = range,
                 .run = RunRevokePermission};
  return {.name = "role",
          .summary = "Role related commands",
          .group = std::string(kGroup),
          .subcommands = {{.name = "add",
                           .arguments = "<role name>",
                           .summary = "Creates a role",
                           .run = RunRoleAdd},
                          {.name = "delete",
                           .arguments = "<role name>",
                           .summary = "Deletes a role",
                           .run = RunRoleDelete},
                          {.name = "get",
                           .arguments = "<role name>",
                           .summary = "Shows what a role permits",
                           .run = RunRoleGet},
                          {.name = "list", .summary = "Lists all roles", .run = RunRoleList},
                          grant,
                          revoke}};
}

}  // namespace mainstay::cli

// Commands that work on snapshot files, without a server: all of mainstayutl, and `mainstayctl
// snapshot status`, which etcdctl had before 3.6 and many runbooks still call.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/go_text.h"
#include "cli/printer.h"
#include "cli/table.h"
#include "common/status.h"
#include "env/file_system.h"
#include "snapshot/image_status.h"

namespace mainstay::cli {
namespace {

const std::vector<FlagSpec>& UtilityFlags() {
  static const auto& flags = *new std::vector<FlagSpec>{
      {"write-out", 'w', FlagType::kString, "simple",
       "set the output format (fields, json, protobuf, simple, table)"},
      {"timeout", 0, FlagType::kDuration, "10s",
       "accepted for etcdutl's sake: a snapshot file is read without a lock"},
  };
  return flags;
}

// One answer with a value for each column.
struct Column {
  std::string head;    // of the table
  std::string field;   // of -w fields
  std::string json;    // name in JSON
  std::string value;   // as simple and table print it
  std::string number;  // as fields and JSON do
};

int Print(Invocation& in, const std::vector<Column>& columns) {
  const std::string& wanted = in.flags.String("write-out");
  const std::optional<Format> format = ParseFormat(wanted);
  if (!format) {
    return Fail(kExitBadFeature, "unsupported output format " + wanted);
  }
  if (*format == Format::kProtobuf) {
    return Fail(kExitError, "protobuf not supported as output format");
  }
  std::vector<std::string> heads, values;
  std::string fields, json;
  for (const Column& column : columns) {
    heads.push_back(column.head);
    values.push_back(column.value);
    fields += fmt::format("\"{}\" : {}\n", column.field, column.number);
    json += fmt::format("{}\"{}\":{}", json.empty() ? "{" : ",", column.json,
                        column.json == "version" ? "\"" + column.number + "\"" : column.number);
  }
  switch (*format) {
    case Format::kFields:
      Out(fields);
      break;
    case Format::kJson:
      Out(json + "}\n");
      break;
    case Format::kTable:
      Out(RenderTable(heads, {values}, TableStyleFromEnvironment()));
      break;
    default:
      Out(fmt::format("{}\n", fmt::join(values, ", ")));
  }
  return kExitOk;
}

// The file's absence in Go's words; everything else as it was found.
std::string FileError(const std::string& path, const Status& status) {
  if (absl::IsNotFound(status)) {
    return fmt::format("stat {}: no such file or directory", path);
  }
  std::string text{Message(status)};
  return text == "bbolt: invalid database" ? "invalid database" : text;
}

int RunStatus(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "snapshot status requires exactly one argument");
  }
  const auto status = snapshot::ReadImageStatus(PosixFileSystem(), in.args[0]);
  if (!status.ok()) {
    return Fail(kExitError, FileError(in.args[0], status.status()));
  }
  return Print(
      in,
      {{"HASH", "Hash", "hash", fmt::format("{:x}", status->hash), std::to_string(status->hash)},
       {"REVISION", "Revision", "revision", std::to_string(status->revision),
        std::to_string(status->revision)},
       {"TOTAL KEYS", "Keys", "totalKey", std::to_string(status->total_keys),
        std::to_string(status->total_keys)},
       {"TOTAL SIZE", "Size", "totalSize", HumanBytes(static_cast<uint64_t>(status->total_bytes)),
        std::to_string(status->total_bytes)},
       {"VERSION", "Version", "version", status->version, status->version}});
}

int RunHashKv(Invocation& in) {
  if (in.args.size() != 1) {
    Fail(kExitError, fmt::format("accepts 1 arg(s), received {}", in.args.size()));
    Err(UsageText(in.program, {in.root, in.command}) + "\n");
    return kExitError;
  }
  const auto hash = snapshot::ReadImageHash(PosixFileSystem(), in.args[0], in.flags.Int("rev"));
  if (!hash.ok()) {
    return Fail(kExitError, FileError(in.args[0], hash.status()));
  }
  const auto column = [](std::string head, std::string field, std::string json, auto number) {
    return Column{std::move(head), std::move(field), std::move(json), std::to_string(number),
                  std::to_string(number)};
  };
  return Print(in, {column("HASH", "Hash", "hash", hash->hash),
                    column("HASH REVISION", "Hash revision", "hashRevision", hash->hash_revision),
                    column("COMPACT REVISION", "Compact revision", "compactRevision",
                           hash->compact_revision)});
}

}  // namespace

Command SnapshotStatusCommand() {
  return {.name = "status",
          .arguments = "<filename>",
          .summary = "Shows what a snapshot file holds",
          .description =
              "Shows hash, revision, number of keys, size and storage version of a snapshot file. "
              "Every page is checked, and the digest at its end if there is one.",
          .run = RunStatus};
}

Command UtilityRoot() {
  Command hashkv{.name = "hashkv",
                 .arguments = "<filename>",
                 .summary = "Prints the hash of a snapshot file's key-value history",
                 .flags = {{"rev", 0, FlagType::kInt, "0",
                            "maximum revision to hash (default: latest revision)"}},
                 .run = RunHashKv};
  Command snapshot{.name = "snapshot",
                   .summary = "Inspects snapshot files",
                   .subcommands = {SnapshotStatusCommand()}};
  return {.name = "mainstayutl",
          .summary = "Works on snapshot files of Mainstay and etcd, without a server",
          .inherited_flags = UtilityFlags(),
          .subcommands = {hashkv, snapshot, CompletionCommand(), VersionCommand()}};
}

}  // namespace mainstay::cli

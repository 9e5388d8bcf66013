#include <fmt/format.h>

#include <iostream>

#include "cli/commands.h"
#include "cli/go_text.h"
#include "cli/kv_requests.h"
#include "cli/session.h"
#include "cli/txn_language.h"
#include "common/status.h"

namespace mainstay::cli {
namespace {

constexpr std::string_view kGroup = "Key-value commands";

int RunGet(Invocation& in) {
  pb::RangeRequest request;
  if (const int code = MakeGet(in.flags, in.args, request); code != kExitOk) {
    return code;
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const absl::StatusOr<pb::RangeResponse> response =
      in.flags.Bool("stream") ? to.client->RangeStream(request, to.session.Timed())
                              : to.client->Range(request, to.session.Timed());
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  const Format format = to.session.printer().format();
  if (in.flags.Bool("count-only") && format != Format::kFields) {
    return Fail(kExitBadArguments, "--count-only is only for `--write-out=fields`");
  }
  if (in.flags.Bool("print-value-only")) {
    if (format != Format::kSimple) {
      return Fail(kExitBadArguments, "print-value-only is only for `--write-out=simple`");
    }
    to.session.set_values_only();
  }
  return Print(to.session.printer().Get(*response));
}

int RunPut(Invocation& in) {
  pb::PutRequest request;
  if (const int code = MakePut(in.flags, in.args, true, request); code != kExitOk) {
    return code;
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const absl::StatusOr<pb::PutResponse> response = to.client->Put(request, to.session.Timed());
  return response.ok() ? Print(to.session.printer().Put(*response))
                       : Fail(kExitError, ErrorText(response.status()));
}

int RunDelete(Invocation& in) {
  pb::DeleteRangeRequest request;
  if (const int code = MakeDelete(in.flags, in.args, request); code != kExitOk) {
    return code;
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto response = to.client->DeleteRange(request, to.session.Timed());
  return response.ok() ? Print(to.session.printer().Delete(*response))
                       : Fail(kExitError, ErrorText(response.status()));
}

int RunCompaction(Invocation& in) {
  if (in.args.size() != 1) {
    return Fail(kExitBadArguments, "compaction command needs 1 argument");
  }
  const Parsed<int64_t> revision = GoParseInt(in.args[0], 10);
  if (!revision.ok()) {
    return Fail(kExitError, revision.error);
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  pb::CompactionRequest request;
  request.set_revision(revision.value);
  request.set_physical(in.flags.Bool("physical"));
  const auto response = to.client->Compact(request, to.session.Timed());
  if (!response.ok()) {
    return Fail(kExitError, ErrorText(response.status()));
  }
  Out(fmt::format("compacted revision {}\n", revision.value));
  return kExitOk;
}

// --- txn
// -------------------------------------------------------------------------------------------------

// The next line, blanks around it cut; empty ends a section. Every line must end with a newline.
int ReadLine(std::string& line) {
  std::getline(std::cin, line);
  if (std::cin.eof() || !std::cin) {
    return Fail(kExitInvalidInput, "EOF");
  }
  const size_t first = line.find_first_not_of(" \t\r\v\f");
  line = first == std::string::npos
             ? ""
             : line.substr(first, line.find_last_not_of(" \t\r\v\f") - first + 1);
  return kExitOk;
}

// One "get …", "put …" or "del …" of a transaction.
int ParseOperation(const std::string& line, pb::RequestOp& op) {
  const absl::StatusOr<std::vector<std::string>> words = SplitWords(line);
  if (!words.ok()) {
    return Fail(kExitInvalidInput, Message(words.status()));
  }
  if (words->size() < 2) {
    return Fail(kExitInvalidInput, fmt::format("invalid txn compare request: {}", line));
  }
  Command verbs;
  verbs.subcommands = {{.name = "put", .flags = PutFlags()},
                       {.name = "get", .flags = GetFlags()},
                       {.name = "del", .flags = DeleteFlags()}};
  const Found found = FindCommand(verbs, *words);
  FlagSet flags;
  for (const FlagSpec& flag : found.path.back()->flags) {
    flags.Add(flag);
  }
  std::vector<std::string> args;
  std::optional<size_t> dash;
  if (found.path.size() == 1 || flags.Parse(found.rest, args, dash).has_value() ||
      flags.help_wanted()) {
    return Fail(kExitInvalidInput, fmt::format("invalid txn request: {}", line));
  }
  const std::string& verb = found.path.back()->name;
  if (verb == "put") {
    return MakePut(flags, args, false, *op.mutable_request_put());
  }
  if (verb == "get") {
    return MakeGet(flags, args, *op.mutable_request_range());
  }
  return MakeDelete(flags, args, *op.mutable_request_delete_range());
}

int ReadComparisons(pb::TxnRequest& request) {
  std::string line;
  while (true) {
    if (const int code = ReadLine(line); code != kExitOk || line.empty()) {
      return code;
    }
    absl::StatusOr<pb::Compare> compare = ParseComparison(line);
    if (!compare.ok()) {
      return Fail(kExitInvalidInput, Message(compare.status()));
    }
    *request.add_compare() = std::move(*compare);
  }
}

int ReadOperations(google::protobuf::RepeatedPtrField<pb::RequestOp>& into) {
  std::string line;
  while (true) {
    if (const int code = ReadLine(line); code != kExitOk || line.empty()) {
      return code;
    }
    if (const int code = ParseOperation(line, *into.Add()); code != kExitOk) {
      return code;
    }
  }
}

int RunTxn(Invocation& in) {
  if (!in.args.empty()) {
    return Fail(kExitBadArguments, "txn command does not accept argument");
  }
  Connected to;
  if (const int code = to.Open(in); code != kExitOk) {
    return code;
  }
  const auto prompt = [&](std::string_view text) {
    if (in.flags.Bool("interactive")) {
      Out(text);
    }
  };
  pb::TxnRequest request;
  prompt("compares:\n");
  if (const int code = ReadComparisons(request); code != kExitOk) {
    return code;
  }
  prompt("success requests (get, put, del):\n");
  if (const int code = ReadOperations(*request.mutable_success()); code != kExitOk) {
    return code;
  }
  prompt("failure requests (get, put, del):\n");
  if (const int code = ReadOperations(*request.mutable_failure()); code != kExitOk) {
    return code;
  }
  const auto response = to.client->Txn(request);
  return response.ok() ? Print(to.session.printer().Txn(*response))
                       : Fail(kExitError, ErrorText(response.status()));
}

}  // namespace

Command GetCommand() {
  return {.name = "get",
          .arguments = "[options] <key> [range_end]",
          .summary = "Reads a key or a range of keys",
          .group = std::string(kGroup),
          .flags = GetFlags(),
          .run = RunGet};
}

Command PutCommand() {
  return {.name = "put",
          .arguments = "[options] <key> <value> (<value> can also be given from stdin)",
          .summary = "Writes a key",
          .description =
              "Writes a key.\n\nA value that starts with '-' would be taken for a flag; put \"--\" "
              "before it:\n\n  put <key> -- <value>\n\nWithout a value (and without "
              "--ignore-value) standard input is read to its end:\n\n  cat file | put <key>",
          .group = std::string(kGroup),
          .flags = PutFlags(),
          .run = RunPut};
}

Command DeleteCommand() {
  return {.name = "del",
          .arguments = "[options] <key> [range_end]",
          .summary = "Removes a key or a range of keys [key, range_end)",
          .group = std::string(kGroup),
          .flags = DeleteFlags(),
          .run = RunDelete};
}

Command TxnCommand() {
  return {
      .name = "txn",
      .arguments = "[options]",
      .summary = "Runs several requests as one transaction",
      .description =
          "Reads a transaction from standard input and runs it at once. It has three parts, each "
          "ended by "
          "an empty line: comparisons, requests for when all of them hold, requests for when one "
          "does "
          "not.\n\n  mod(\"key1\") > \"0\"\n\n  put key1 \"changed\"\n\n  put key1 \"created\"\n  "
          "get key2"
          "\n\nA comparison is target(\"key\") OP \"value\" with target version, create, mod, "
          "value or lease "
          "(in hexadecimal) and OP =, !=, < or >.",
      .group = std::string(kGroup),
      .flags = {{"interactive", 'i', FlagType::kBool, "false", "print what is to be typed next"}},
      .run = RunTxn};
}

Command CompactionCommand() {
  return {.name = "compaction",
          .arguments = "[options] <revision>",
          .summary = "Forgets the history before a revision",
          .group = std::string(kGroup),
          .flags = {{"physical", 0, FlagType::kBool, "false",
                     "wait until the old versions are really gone"}},
          .run = RunCompaction};
}

}  // namespace mainstay::cli

#include "cli/kv_requests.h"

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <iterator>
#include <thread>

#include "cli/go_text.h"
#include "mainstay/client.h"

namespace mainstay::cli {
namespace {

namespace pb = ::etcdserverpb;

constexpr std::string_view kBothRanges =
    "`--prefix` and `--from-key` cannot be set at the same time, choose one";
constexpr std::string_view kTooManyForRange =
    "too many arguments, only accept one argument when `--prefix` or `--from-key` is set";
const std::string kOpenEnd(1, '\0');

// Key and range end for --prefix and --from-key; an empty key is then the whole key space.
template <class Request>
void SetRange(const FlagSet& flags, const std::vector<std::string>& args, Request& request) {
  const bool prefix = flags.Bool("prefix");
  const bool from_key = flags.Bool("from-key");
  request.set_key(args[0]);
  if (args.size() > 1) {
    request.set_range_end(args[1]);
  }
  if (args[0].empty() && (prefix || from_key)) {
    request.set_key(kOpenEnd);
    request.set_range_end(kOpenEnd);
  } else if (prefix) {
    request.set_range_end(client::PrefixEnd(args[0]));
  } else if (from_key) {
    request.set_range_end(kOpenEnd);
  }
}

std::string Upper(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

int SetSort(const FlagSet& flags, pb::RangeRequest& request) {
  const std::string order = Upper(flags.String("order"));
  if (order == "ASCEND") {
    request.set_sort_order(pb::RangeRequest::ASCEND);
  } else if (order == "DESCEND") {
    request.set_sort_order(pb::RangeRequest::DESCEND);
  } else if (!order.empty()) {
    return Fail(kExitBadFeature, fmt::format("bad sort order {}", flags.String("order")));
  }
  const std::string target = Upper(flags.String("sort-by"));
  if (target == "CREATE") {
    request.set_sort_target(pb::RangeRequest::CREATE);
  } else if (target == "MODIFY") {
    request.set_sort_target(pb::RangeRequest::MOD);
  } else if (target == "VALUE") {
    request.set_sort_target(pb::RangeRequest::VALUE);
  } else if (target == "VERSION") {
    request.set_sort_target(pb::RangeRequest::VERSION);
  } else if (!target.empty() && target != "KEY") {
    return Fail(kExitBadFeature, fmt::format("bad sort target {}", flags.String("sort-by")));
  }
  // Ascending by key is the server's own order; Go's client does not ask for it, which keeps the
  // cheap path.
  if (request.sort_target() == pb::RangeRequest::KEY &&
      request.sort_order() == pb::RangeRequest::ASCEND) {
    request.set_sort_order(pb::RangeRequest::NONE);
  }
  return kExitOk;
}

int SetRevisionFilters(const FlagSet& flags, pb::RangeRequest& request) {
  const auto positive = [&](std::string_view name) {
    return std::max<int64_t>(flags.Int(name), 0);
  };
  request.set_min_create_revision(positive("min-create-rev"));
  request.set_max_create_revision(positive("max-create-rev"));
  request.set_min_mod_revision(positive("min-mod-rev"));
  request.set_max_mod_revision(positive("max-mod-rev"));
  if (request.max_create_revision() > 0 &&
      request.min_create_revision() > request.max_create_revision()) {
    return Fail(kExitBadFeature,
                fmt::format("getMinCreateRev(={}) > getMaxCreateRev(={})",
                            request.min_create_revision(), request.max_create_revision()));
  }
  if (request.max_mod_revision() > 0 && request.min_mod_revision() > request.max_mod_revision()) {
    return Fail(kExitBadFeature,
                fmt::format("getMinModRev(={}) > getMaxModRev(={})", request.min_mod_revision(),
                            request.max_mod_revision()));
  }
  return kExitOk;
}

}  // namespace

const std::vector<FlagSpec>& GetFlags() {
  using enum FlagType;
  static const auto& flags = *new std::vector<FlagSpec>{
      {"consistency", 0, kString, "l", "l: linearizable, s: serializable (may be stale)"},
      {"order", 0, kString, "", "ASCEND or DESCEND"},
      {"sort-by", 0, kString, "", "CREATE, KEY, MODIFY, VALUE or VERSION"},
      {"limit", 0, kInt, "0", "at most so many results"},
      {"prefix", 0, kBool, "false", "all keys that start with the key"},
      {"from-key", 0, kBool, "false", "all keys from the key on, in byte order"},
      {"rev", 0, kInt, "0", "read as of this revision"},
      {"keys-only", 0, kBool, "false", "leave the values out"},
      {"count-only", 0, kBool, "false", "only count the keys"},
      {"print-value-only", 0, kBool, "false", "print values without keys (simple format)"},
      {"min-create-rev", 0, kInt, "0", "lowest create revision"},
      {"max-create-rev", 0, kInt, "0", "highest create revision"},
      {"min-mod-rev", 0, kInt, "0", "lowest modification revision"},
      {"max-mod-rev", 0, kInt, "0", "highest modification revision"},
      {"stream", 0, kBool, "false", "receive the answer in chunks (RangeStream)"}};
  return flags;
}

const std::vector<FlagSpec>& PutFlags() {
  using enum FlagType;
  static const auto& flags = *new std::vector<FlagSpec>{
      {"lease", 0, kString, "0", "lease to attach the key to, in hexadecimal"},
      {"prev-kv", 0, kBool, "false", "also print the key as it was before"},
      {"ignore-value", 0, kBool, "false", "keep the key's value"},
      {"ignore-lease", 0, kBool, "false", "keep the key's lease"}};
  return flags;
}

const std::vector<FlagSpec>& DeleteFlags() {
  using enum FlagType;
  static const auto& flags = *new std::vector<FlagSpec>{
      {"prefix", 0, kBool, "false", "all keys that start with the key"},
      {"prev-kv", 0, kBool, "false", "also print what was deleted"},
      {"from-key", 0, kBool, "false", "all keys from the key on, in byte order"},
      {"range", 0, kBool, "false", "delete a range without waiting"}};
  return flags;
}

int ParseConsistency(const std::string& text, bool& serializable) {
  serializable = text == "s";
  if (text != "s" && text != "l") {
    return Fail(kExitBadFeature, fmt::format("unknown consistency flag {}", GoQuote(text)));
  }
  return kExitOk;
}

int MakeGet(const FlagSet& flags, const std::vector<std::string>& args, pb::RangeRequest& request) {
  if (args.empty()) {
    return Fail(kExitBadArguments,
                "get command needs one argument as key and an optional argument as range_end");
  }
  if (flags.Bool("prefix") && flags.Bool("from-key")) {
    return Fail(kExitBadArguments, kBothRanges);
  }
  if (flags.Bool("keys-only") && flags.Bool("count-only")) {
    return Fail(kExitBadArguments,
                "`--keys-only` and `--count-only` cannot be set at the same time, choose one");
  }
  bool serializable = false;
  if (const int code = ParseConsistency(flags.String("consistency"), serializable); code != 0) {
    return code;
  }
  if (args.size() > 1 && (flags.Bool("prefix") || flags.Bool("from-key"))) {
    return Fail(kExitBadArguments, kTooManyForRange);
  }
  request.set_serializable(serializable);
  request.set_limit(flags.Int("limit"));
  request.set_revision(std::max<int64_t>(flags.Int("rev"), 0));
  if (const int code = SetSort(flags, request); code != 0) {
    return code;
  }
  SetRange(flags, args, request);
  request.set_keys_only(flags.Bool("keys-only"));
  request.set_count_only(flags.Bool("count-only"));
  return SetRevisionFilters(flags, request);
}

int MakePut(const FlagSet& flags,
            const std::vector<std::string>& args,
            bool use_stdin,
            pb::PutRequest& request) {
  static constexpr std::string_view kNeedsValue =
      "put command needs 1 argument and input from stdin or 2 arguments";
  if (args.empty()) {
    return Fail(kExitBadArguments, kNeedsValue);
  }
  const bool ignore_value = flags.Bool("ignore-value");
  if (ignore_value && args.size() > 1) {
    return Fail(kExitBadArguments, "put command needs only 1 argument when 'ignore-value' is set");
  }
  request.set_key(args[0]);
  if (!ignore_value) {
    std::string value;
    if (args.size() > 1) {
      value = args[1];
    } else if (use_stdin) {
      value.assign(std::istreambuf_iterator<char>(std::cin), {});
    }
    if (args.size() == 1 && value.empty()) {
      return Fail(kExitBadArguments, kNeedsValue);
    }
    request.set_value(value);
  }
  const Parsed<int64_t> lease = GoParseInt(flags.String("lease"), 16);
  if (!lease.ok()) {
    return Fail(kExitBadArguments,
                fmt::format("bad lease ID ({}), expecting ID in Hex", lease.error));
  }
  request.set_lease(lease.value);
  request.set_prev_kv(flags.Bool("prev-kv"));
  request.set_ignore_value(ignore_value);
  request.set_ignore_lease(flags.Bool("ignore-lease"));
  return kExitOk;
}

int MakeDelete(const FlagSet& flags,
               const std::vector<std::string>& args,
               pb::DeleteRangeRequest& request) {
  if (args.empty() || args.size() > 2) {
    return Fail(kExitBadArguments,
                "del command needs one argument as key and an optional argument as range_end");
  }
  if (flags.Bool("prefix") && flags.Bool("from-key")) {
    return Fail(kExitBadArguments, kBothRanges);
  }
  if (args.size() > 1) {
    if (flags.Bool("prefix") || flags.Bool("from-key")) {
      return Fail(kExitBadArguments, kTooManyForRange);
    }
    if (!flags.Bool("range")) {
      Err(fmt::format(
          "Warning: Keys between {} and {} will be deleted. Please interrupt the command "
          "within next 2 seconds to cancel. You can provide `--range` flag to avoid the "
          "delay.\n",
          GoQuote(args[0]), GoQuote(args[1])));
      std::this_thread::sleep_for(std::chrono::seconds(2));  // the promised pause
    }
  }
  SetRange(flags, args, request);
  request.set_prev_kv(flags.Bool("prev-kv"));
  return kExitOk;
}

}  // namespace mainstay::cli

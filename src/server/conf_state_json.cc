#include "server/conf_state_json.h"

#include <charconv>
#include <vector>

namespace mainstay::server {
namespace {

void AppendList(std::string* out, std::string_view name, const std::vector<MemberId>& ids) {
  if (ids.empty()) {
    return;
  }
  *out += out->size() > 1 ? ",\"" : "\"";
  *out += name;
  *out += "\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    *out += (i == 0 ? "" : ",") + std::to_string(ids[i].value());
  }
  *out += ']';
}

// Just enough JSON for one flat object of number lists and one flag, without white space inside
// tokens.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}
  bool Take(std::string_view token) {
    Blank();
    if (!rest_.starts_with(token)) {
      return false;
    }
    rest_.remove_prefix(token.size());
    return true;
  }
  bool Number(uint64_t* out) {
    Blank();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *out);
    if (error != std::errc()) {
      return false;
    }
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }
  bool Ids(std::vector<MemberId>* out) {
    if (Take("null")) {
      return true;
    }
    if (!Take("[")) {
      return false;
    }
    if (Take("]")) {
      return true;
    }
    do {
      uint64_t id = 0;
      if (!Number(&id)) {
        return false;
      }
      out->push_back(MemberId(id));
    } while (Take(","));
    return Take("]");
  }
  bool Flag(bool* out) {
    if (Take("true")) {
      *out = true;
      return true;
    }
    *out = false;
    return Take("false");
  }
  bool AtEnd() {
    Blank();
    return rest_.empty();
  }

 private:
  void Blank() {
    while (!rest_.empty() &&
           (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t' || rest_[0] == '\r')) {
      rest_.remove_prefix(1);
    }
  }
  std::string_view rest_;
};

bool ParseField(Parser& p, raft::ConfState* out) {
  if (p.Take("\"voters\"")) {
    return p.Take(":") && p.Ids(&out->voters);
  }
  if (p.Take("\"learners\"")) {
    return p.Take(":") && p.Ids(&out->learners);
  }
  if (p.Take("\"voters_outgoing\"")) {
    return p.Take(":") && p.Ids(&out->voters_outgoing);
  }
  if (p.Take("\"learners_next\"")) {
    return p.Take(":") && p.Ids(&out->learners_next);
  }
  return p.Take("\"auto_leave\"") && p.Take(":") && p.Flag(&out->auto_leave);
}

}  // namespace

std::string ConfStateToJson(const raft::ConfState& state) {
  std::string out = "{";
  AppendList(&out, "voters", state.voters);
  AppendList(&out, "learners", state.learners);
  AppendList(&out, "voters_outgoing", state.voters_outgoing);
  AppendList(&out, "learners_next", state.learners_next);
  if (state.auto_leave) {
    out += out.size() > 1 ? ",\"auto_leave\":true" : "\"auto_leave\":true";
  }
  return out + "}";
}

StatusOr<raft::ConfState> ConfStateFromJson(std::string_view json) {
  raft::ConfState out;
  Parser p(json);
  bool ok = p.Take("{");
  if (ok && !p.Take("}")) {
    do {
      ok = ParseField(p, &out);
    } while (ok && p.Take(","));
    ok = ok && p.Take("}");
  }
  if (!ok || !p.AtEnd()) {
    return DataLoss("row confState is no configuration: " + std::string(json));
  }
  return out;
}

}  // namespace mainstay::server

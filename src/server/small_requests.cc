#include "server/small_requests.h"

#include "common/coding.h"

namespace mainstay::server {

std::optional<LeaseGrantRequest> DecodeLeaseGrant(std::string_view bytes) {
  LeaseGrantRequest out;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      out.ttl_s = r.i64();
    } else if (r.field() == 2) {
      out.id = LeaseId(r.i64());
    }
  }
  return r.ok() ? std::optional(out) : std::nullopt;
}

std::optional<LeaseId> DecodeLeaseRevoke(std::string_view bytes) {
  LeaseId id;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      id = LeaseId(r.i64());
    }
  }
  return r.ok() ? std::optional(id) : std::nullopt;
}

std::optional<std::vector<lease::Checkpoint>> DecodeLeaseCheckpoint(std::string_view bytes) {
  std::vector<lease::Checkpoint> out;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() != 1) {
      continue;
    }
    lease::Checkpoint& one = out.emplace_back();
    WireReader inner(r.bytes());
    while (inner.Next()) {
      if (inner.field() == 1) {
        one.id = LeaseId(inner.i64());
      } else if (inner.field() == 2) {
        one.remaining_ttl_seconds = inner.i64();
      }
    }
    if (!inner.ok()) {
      return std::nullopt;
    }
  }
  return r.ok() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<AlarmRequest> DecodeAlarm(std::string_view bytes) {
  AlarmRequest out;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      if (r.varint() > 2) {
        return std::nullopt;
      }
      out.action = static_cast<AlarmRequest::Action>(r.varint());
    } else if (r.field() == 2) {
      out.alarm.member = MemberId(r.varint());
    } else if (r.field() == 3) {
      if (r.varint() > static_cast<uint64_t>(AlarmType::kCorrupt)) {
        return std::nullopt;
      }
      out.alarm.type = static_cast<AlarmType>(r.varint());
    }
  }
  return r.ok() ? std::optional(out) : std::nullopt;
}

std::optional<std::string> DecodeClusterVersion(std::string_view bytes) {
  std::string out;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      out = r.bytes();
    }
  }
  return r.ok() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<MemberAttributes> DecodeMemberAttributes(std::string_view bytes) {
  MemberAttributes out;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      out.member = MemberId(r.varint());
    } else if (r.field() == 2) {
      WireReader inner(r.bytes());
      while (inner.Next()) {
        if (inner.field() == 1) {
          out.name = inner.bytes();
        } else if (inner.field() == 2) {
          out.client_urls.emplace_back(inner.bytes());
        }
      }
      if (!inner.ok()) {
        return std::nullopt;
      }
    }
  }
  return r.ok() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<DowngradeInfoRequest> DecodeDowngradeInfo(std::string_view bytes) {
  DowngradeInfoRequest out;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field() == 1) {
      out.enabled = r.varint() != 0;
    } else if (r.field() == 2) {
      out.version = r.bytes();
    }
  }
  return r.ok() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace mainstay::server

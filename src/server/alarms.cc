#include "server/alarms.h"

#include "backend/backend.h"
#include "common/coding.h"

namespace mainstay::server {
namespace {

std::string EncodeAlarm(AlarmMember alarm) {
  std::string out;
  AppendVarintField(&out, 1, alarm.member.value());
  AppendVarintField(&out, 2, static_cast<uint64_t>(alarm.type));
  return out;
}

}  // namespace

std::string_view AlarmName(AlarmType type) {
  switch (type) {
    case AlarmType::kNone:
      return "NONE";
    case AlarmType::kNoSpace:
      return "NOSPACE";
    case AlarmType::kCorrupt:
      return "CORRUPT";
  }
  return "NONE";
}

void Alarms::Count(AlarmMember alarm, int by) {
  if (alarm.type == AlarmType::kNoSpace) {
    no_space_.fetch_add(by);
  } else if (alarm.type == AlarmType::kCorrupt) {
    corrupt_.fetch_add(by);
  }
  metrics_
      .AddGauge("etcd_debugging_server_alarms",
                "Alarms for every member in cluster. 1 for 'server_id' server with current ID. 2 "
                "for 'alarm_type' type of this alarm",
                {{"server_id", HexId(alarm.member.value())},
                 {"alarm_type", std::string(AlarmName(alarm.type))}})
      .Set(by > 0 ? 1 : 0);
}

void Alarms::Clear() {
  std::set<AlarmMember> old;
  {
    MutexLock lock(mu_);
    old.swap(alarms_);
  }
  for (const AlarmMember& alarm : old) {
    Count(alarm, -1);
  }
}

Status Alarms::Load(std::string_view key) {
  AlarmMember alarm;
  WireReader r(key);
  while (r.Next()) {
    if (r.field() == 1) {
      alarm.member = MemberId(r.varint());
    } else if (r.field() == 2) {
      if (r.varint() > static_cast<uint64_t>(AlarmType::kCorrupt)) {
        return DataLoss("alarm row of unknown type");
      }
      alarm.type = static_cast<AlarmType>(r.varint());
    }
  }
  if (!r.ok()) {
    return DataLoss("alarm row is no AlarmMember");
  }
  bool added = false;
  {
    MutexLock lock(mu_);
    added = alarms_.insert(alarm).second;
  }
  if (added) {
    Count(alarm, 1);
  }
  return absl::OkStatus();
}

bool Alarms::Activate(AlarmMember alarm, backend::WriteBatch& batch) {
  if (alarm.type == AlarmType::kNone) {
    return false;
  }
  {
    MutexLock lock(mu_);
    if (!alarms_.insert(alarm).second) {
      return false;
    }
  }
  backend::PutRow(batch, kAlarmBucket, EncodeAlarm(alarm), "");
  Count(alarm, 1);
  return true;
}

bool Alarms::Deactivate(AlarmMember alarm, backend::WriteBatch& batch) {
  {
    MutexLock lock(mu_);
    if (alarms_.erase(alarm) == 0) {
      return false;
    }
  }
  backend::DeleteRow(batch, kAlarmBucket, EncodeAlarm(alarm));
  Count(alarm, -1);
  return true;
}

void Alarms::DropMember(MemberId member, backend::WriteBatch& batch) {
  for (const AlarmMember& alarm : Get(AlarmType::kNone)) {
    if (alarm.member == member) {
      Deactivate(alarm, batch);
    }
  }
}

std::vector<AlarmMember> Alarms::Get(AlarmType type) const {
  MutexLock lock(mu_);
  std::vector<AlarmMember> out;
  for (const AlarmMember& alarm : alarms_) {
    if (type == AlarmType::kNone || alarm.type == type) {
      out.push_back(alarm);
    }
  }
  return out;
}

bool Alarms::Has(AlarmMember alarm) const {
  MutexLock lock(mu_);
  return alarms_.contains(alarm);
}

}  // namespace mainstay::server

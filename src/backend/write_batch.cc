#include "backend/backend.h"
#include "common/check.h"

namespace mainstay::backend {

void WriteBatch::Put(std::string_view key, std::string_view value) {
  changes_.push_back({data_.size(), static_cast<uint32_t>(key.size()),
                      static_cast<uint32_t>(value.size()), false});
  data_.append(key);
  data_.append(value);
}

void WriteBatch::Delete(std::string_view key) {
  changes_.push_back({data_.size(), static_cast<uint32_t>(key.size()), 0, true});
  data_.append(key);
}

void WriteBatch::Clear() {
  changes_.clear();
  data_.clear();
}

WriteBatch::Change WriteBatch::at(size_t i) const {
  MS_DCHECK(i < changes_.size());
  const Span& span = changes_[i];
  const std::string_view all(data_);
  return {span.is_delete, all.substr(span.offset, span.key_bytes),
          all.substr(span.offset + span.key_bytes, span.value_bytes)};
}

std::string StateKey(std::string_view bucket, std::string_view key) {
  std::string out;
  out.reserve(bucket.size() + key.size() + 2);
  out.push_back('s');
  out.append(bucket);
  out.push_back('\0');
  out.append(key);
  return out;
}

void PutRow(WriteBatch& batch,
            std::string_view bucket,
            std::string_view key,
            std::string_view value) {
  batch.Put(StateKey(bucket, key), value);
}

void DeleteRow(WriteBatch& batch, std::string_view bucket, std::string_view key) {
  batch.Delete(StateKey(bucket, key));
}

Status ForEachRow(const Backend& backend,
                  const Snapshot* snapshot,
                  std::string_view bucket,
                  const std::function<Status(std::string_view, std::string_view)>& row) {
  const std::string lower = StateKey(bucket, "");
  std::string upper = lower;
  upper.back() = '\1';
  const std::unique_ptr<Iterator> it = backend.NewIterator(snapshot, lower, upper);
  for (; it->Valid(); it->Next()) {
    MS_RETURN_IF_ERROR(row(it->key().substr(lower.size()), it->value()));
  }
  return it->status();
}

}  // namespace mainstay::backend

#pragma once
// PROVISIONAL local copy, not committed
#include <string>
#include <string_view>
#include <map>
namespace mainstay::backend {
class WriteBatch { public: std::map<std::string, std::string> rows; };
inline void PutRow(WriteBatch& b, std::string_view bucket, std::string_view key, std::string_view v) { b.rows[std::string(bucket)+'\0'+std::string(key)] = std::string(v); }
inline void DeleteRow(WriteBatch& b, std::string_view bucket, std::string_view key) { b.rows.erase(std::string(bucket)+'\0'+std::string(key)); }
}

// Tree: the ordered, counted key index. A persistent B+tree: what is published never changes, and a
// writer copies the nodes on its path once per version.
//
// Invariants  Leaves hold keys in order; counts_[i] of an inner node is the number of live keys
// under child i. Threads     A published root: any, while its version lives. Editing: "apply".
// Ownership   Nodes, separators and records replaced by an edit go to the editor's garbage and are
// freed when no view
//             that can reach them is left (version.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace mainstay::mvcc {

// One version of a key, as far as the index knows it. Immutable once published.
struct VersionInfo {
  int64_t mod = 0;
  int64_t create = 0;
  int64_t version = 0;
  int64_t lease = 0;
  const VersionInfo* older = nullptr;
  uint32_t sub = 0;
  uint32_t bytes : 31 = 0;  // of the encoded record
  uint32_t tombstone : 1 = 0;
};

// A key and its versions, newest first. Allocated with its key behind it.
struct KeyRecord {
  VersionInfo newest;
  uint32_t key_bytes = 0;
  std::string_view key() const { return {reinterpret_cast<const char*>(this + 1), key_bytes}; }
  bool live() const { return !newest.tombstone; }
  // The version that a reader at `revision` sees; null if the key had none then. May be a
  // tombstone.
  const VersionInfo* At(int64_t revision) const {
    const VersionInfo* v = &newest;
    while (v != nullptr && v->mod > revision) {
      v = v->older;
    }
    return v;
  }
  static KeyRecord* Make(std::string_view key, const VersionInfo& newest);
};

struct Node;

// What edits replaced; freed by Free().
class Garbage {
 public:
  Garbage() = default;
  Garbage(const Garbage&) = delete;
  Garbage& operator=(const Garbage&) = delete;
  Garbage(Garbage&&) = default;
  Garbage& operator=(Garbage&&) = default;
  ~Garbage() { Free(); }
  void Add(const Node* node) { nodes_.push_back(node); }
  // The record alone; its older versions live on.
  void Add(const KeyRecord* record) { blocks_.push_back(record); }
  void Add(const VersionInfo* version) { versions_.push_back(version); }
  void AddSeparator(const char* separator) { blocks_.push_back(separator); }
  void Free();

 private:
  std::vector<const Node*> nodes_;
  std::vector<const void*> blocks_;
  std::vector<const VersionInfo*> versions_;
};

// Edits one working version. `birth` numbers versions; nodes born in this one are edited in place.
class TreeEditor {
 public:
  explicit TreeEditor(const Node* root) : root_(root) {}
  const Node* root() const { return root_; }
  // Starts the next version: every node that exists now is shared with readers.
  void NextVersion() { ++birth_; }
  // Puts `record` in, in the place of a record of the same key, which goes to the garbage (the
  // record alone).
  void Set(const KeyRecord* record, Garbage* garbage);
  // Takes the key out. REQUIRES: it is there.
  void Remove(std::string_view key, Garbage* garbage);
  // Builds a tree of records in key order.
  void BulkLoad(const std::vector<const KeyRecord*>& records);

 private:
  struct Split {
    const Node* right = nullptr;
    const char* separator = nullptr;
  };
  Node* Own(const Node* node, Garbage* garbage);
  Node* SetIn(
      const Node* node, const KeyRecord* record, int* live_delta, Split* split, Garbage* garbage);
  Node* RemoveIn(const Node* node, std::string_view key, int* live_delta, Garbage* garbage);

  const Node* root_;
  uint64_t birth_ = 1;
};

const KeyRecord* FindKey(const Node* root, std::string_view key);
// Live keys before `key`.
int64_t LiveBefore(const Node* root, std::string_view key);
int64_t LiveTotal(const Node* root);
// Frees every node, separator, record and version of a tree that nobody reads.
void DestroyTree(const Node* root);

// Walks records in key order.
class TreeCursor {
 public:
  explicit TreeCursor(const Node* root) : root_(root) {}
  // To the first record at or after `key`.
  void Seek(std::string_view key);
  bool Valid() const { return depth_ > 0; }
  const KeyRecord* record() const;
  void Next();

 private:
  static constexpr int kDepthMax = 16;
  void Descend(const Node* node);
  void Climb();
  const Node* root_;
  struct Step {
    const Node* node;
    int index;
  };
  Step path_[kDepthMax];
  int depth_ = 0;
};

}  // namespace mainstay::mvcc

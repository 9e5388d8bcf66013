#include "mvcc/tree.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "common/check.h"

namespace mainstay::mvcc {

// Separators are length-prefixed strings in blocks of their own, shared by copies of a node.
namespace {

const char* MakeSeparator(std::string_view key) {
  char* block = static_cast<char*>(std::malloc(4 + key.size()));
  MS_CHECK(block != nullptr);
  const auto length = static_cast<uint32_t>(key.size());
  std::memcpy(block, &length, 4);
  std::memcpy(block + 4, key.data(), key.size());
  return block;
}
std::string_view SeparatorKey(const char* block) {
  uint32_t length;
  std::memcpy(&length, block, 4);
  return {block + 4, length};
}

}  // namespace

constexpr int kFanout = 32;

struct Node {
  uint64_t birth;
  uint16_t count;  // records of a leaf, children of an inner node
  bool leaf;
};

namespace {

struct Leaf : Node {
  const KeyRecord* records[kFanout];
};
// separators[i] <= every key under children[i + 1], > every key under children[i].
struct Inner : Node {
  const Node* children[kFanout];
  int64_t counts[kFanout];
  const char* separators[kFanout];
};

const Leaf& AsLeaf(const Node* n) {
  return *static_cast<const Leaf*>(n);
}
const Inner& AsInner(const Node* n) {
  return *static_cast<const Inner*>(n);
}

template <class T>
T* NewNode(uint64_t birth) {
  void* memory = std::malloc(sizeof(T));
  MS_CHECK(memory != nullptr);
  T* node = new (memory) T;
  node->birth = birth;
  node->count = 0;
  node->leaf = std::is_same_v<T, Leaf>;
  return node;
}

// First record with key >= `key`.
int LowerBound(const Leaf& leaf, std::string_view key) {
  const KeyRecord* const* end = leaf.records + leaf.count;
  return static_cast<int>(
      std::lower_bound(leaf.records, end, key,
                       [](const KeyRecord* r, std::string_view k) { return r->key() < k; }) -
      leaf.records);
}
// The child that holds `key`.
int ChildOf(const Inner& inner, std::string_view key) {
  const char* const* end = inner.separators + inner.count - 1;
  return static_cast<int>(
      std::upper_bound(inner.separators, end, key,
                       [](std::string_view k, const char* s) { return k < SeparatorKey(s); }) -
      inner.separators);
}

int64_t LiveIn(const Node* node) {
  int64_t live = 0;
  if (node->leaf) {
    const Leaf& leaf = AsLeaf(node);
    for (int i = 0; i < leaf.count; ++i) {
      live += leaf.records[i]->live() ? 1 : 0;
    }
  } else {
    const Inner& inner = AsInner(node);
    for (int i = 0; i < inner.count; ++i) {
      live += inner.counts[i];
    }
  }
  return live;
}

template <class T>
void InsertAt(T* array, int count, int at, T value) {
  std::memmove(array + at + 1, array + at, static_cast<size_t>(count - at) * sizeof(T));
  array[at] = value;
}
template <class T>
void EraseAt(T* array, int count, int at) {
  std::memmove(array + at, array + at + 1, static_cast<size_t>(count - at - 1) * sizeof(T));
}

}  // namespace

KeyRecord* KeyRecord::Make(std::string_view key, const VersionInfo& newest) {
  void* memory = std::malloc(sizeof(KeyRecord) + key.size());
  MS_CHECK(memory != nullptr);
  auto* record = new (memory) KeyRecord;
  record->newest = newest;
  record->key_bytes = static_cast<uint32_t>(key.size());
  std::memcpy(reinterpret_cast<char*>(record + 1), key.data(), key.size());
  return record;
}

void Garbage::Free() {
  for (const Node* node : nodes_) {
    std::free(const_cast<Node*>(node));
  }
  for (const void* block : blocks_) {
    std::free(const_cast<void*>(block));
  }
  for (const VersionInfo* version : versions_) {
    delete version;
  }
  nodes_.clear();
  blocks_.clear();
  versions_.clear();
}

Node* TreeEditor::Own(const Node* node, Garbage* garbage) {
  if (node->birth == birth_) {
    return const_cast<Node*>(node);  // born in this version: no reader has seen it
  }
  Node* copy;
  if (node->leaf) {
    Leaf* leaf = NewNode<Leaf>(birth_);
    *leaf = AsLeaf(node);
    copy = leaf;
  } else {
    Inner* inner = NewNode<Inner>(birth_);
    *inner = AsInner(node);
    copy = inner;
  }
  copy->birth = birth_;
  garbage->Add(node);
  return copy;
}

void TreeEditor::Set(const KeyRecord* record, Garbage* garbage) {
  if (root_ == nullptr) {
    Leaf* leaf = NewNode<Leaf>(birth_);
    leaf->records[0] = record;
    leaf->count = 1;
    root_ = leaf;
    return;
  }
  int live_delta = 0;
  Split split;
  Node* root = SetIn(root_, record, &live_delta, &split, garbage);
  if (split.right != nullptr) {
    Inner* top = NewNode<Inner>(birth_);
    top->count = 2;
    top->children[0] = root;
    top->children[1] = split.right;
    top->counts[0] = LiveIn(root);
    top->counts[1] = LiveIn(split.right);
    top->separators[0] = split.separator;
    root = top;
  }
  root_ = root;
}

Node* TreeEditor::SetIn(
    const Node* node, const KeyRecord* record, int* live_delta, Split* split, Garbage* garbage) {
  if (node->leaf) {
    Leaf* leaf = static_cast<Leaf*>(Own(node, garbage));
    const int at = LowerBound(*leaf, record->key());
    if (at < leaf->count && leaf->records[at]->key() == record->key()) {
      *live_delta = (record->live() ? 1 : 0) - (leaf->records[at]->live() ? 1 : 0);
      garbage->Add(leaf->records[at]);
      leaf->records[at] = record;
      return leaf;
    }
    *live_delta = record->live() ? 1 : 0;
    Leaf* target = leaf;
    int place = at;
    if (leaf->count == kFanout) {
      Leaf* right = NewNode<Leaf>(birth_);
      // Keys that arrive in order leave full leaves behind.
      const int keep = at == kFanout ? kFanout - 1 : kFanout / 2;
      right->count = static_cast<uint16_t>(kFanout - keep);
      std::memcpy(right->records, leaf->records + keep, right->count * sizeof(leaf->records[0]));
      leaf->count = static_cast<uint16_t>(keep);
      if (at > keep || (at == keep && at == kFanout)) {
        target = right;
        place = at - keep;
      }
      split->right = right;
    }
    InsertAt(target->records, target->count, place, record);
    ++target->count;
    if (split->right != nullptr) {
      split->separator = MakeSeparator(AsLeaf(split->right).records[0]->key());
    }
    return leaf;
  }
  Inner* inner = static_cast<Inner*>(Own(node, garbage));
  const int at = ChildOf(*inner, record->key());
  Split below;
  inner->children[at] = SetIn(inner->children[at], record, live_delta, &below, garbage);
  inner->counts[at] += *live_delta;
  if (below.right == nullptr) {
    return inner;
  }
  inner->counts[at] = LiveIn(inner->children[at]);
  Inner* target = inner;
  int place = at;
  if (inner->count == kFanout) {
    Inner* right = NewNode<Inner>(birth_);
    const int keep = at == kFanout - 1 ? kFanout - 1 : kFanout / 2;
    right->count = static_cast<uint16_t>(kFanout - keep);
    std::memcpy(right->children, inner->children + keep, right->count * sizeof(inner->children[0]));
    std::memcpy(right->counts, inner->counts + keep, right->count * sizeof(inner->counts[0]));
    std::memcpy(right->separators, inner->separators + keep,
                (right->count - 1U) * sizeof(inner->separators[0]));
    split->separator = inner->separators[keep - 1];
    split->right = right;
    inner->count = static_cast<uint16_t>(keep);
    if (at >= keep) {
      target = right;
      place = at - keep;
    }
  }
  InsertAt(target->children, target->count, place + 1, below.right);
  InsertAt(target->counts, target->count, place + 1, LiveIn(below.right));
  InsertAt(target->separators, target->count - 1, place, below.separator);
  ++target->count;
  return inner;
}

void TreeEditor::Remove(std::string_view key, Garbage* garbage) {
  MS_CHECK(root_ != nullptr);
  int live_delta = 0;
  root_ = RemoveIn(root_, key, &live_delta, garbage);
  while (root_ != nullptr && !root_->leaf && root_->count == 1) {
    const Node* child = AsInner(root_).children[0];
    garbage->Add(root_);
    root_ = child;
  }
}

Node* TreeEditor::RemoveIn(const Node* node,
                           std::string_view key,
                           int* live_delta,
                           Garbage* garbage) {
  if (node->leaf) {
    Leaf* leaf = static_cast<Leaf*>(Own(node, garbage));
    const int at = LowerBound(*leaf, key);
    MS_CHECK(at < leaf->count && leaf->records[at]->key() == key);
    *live_delta = leaf->records[at]->live() ? -1 : 0;
    garbage->Add(leaf->records[at]);
    EraseAt(leaf->records, leaf->count, at);
    if (--leaf->count == 0) {
      garbage->Add(leaf);
      return nullptr;
    }
    return leaf;
  }
  Inner* inner = static_cast<Inner*>(Own(node, garbage));
  const int at = ChildOf(*inner, key);
  Node* child = RemoveIn(inner->children[at], key, live_delta, garbage);
  inner->counts[at] += *live_delta;
  if (child != nullptr) {
    inner->children[at] = child;
    return inner;
  }
  if (inner->count == 1) {
    garbage->Add(inner);
    return nullptr;
  }
  const int separator = at > 0 ? at - 1 : 0;
  garbage->AddSeparator(inner->separators[separator]);
  EraseAt(inner->children, inner->count, at);
  EraseAt(inner->counts, inner->count, at);
  EraseAt(inner->separators, inner->count - 1, separator);
  --inner->count;
  return inner;
}

void TreeEditor::BulkLoad(const std::vector<const KeyRecord*>& records) {
  MS_CHECK(root_ == nullptr);
  if (records.empty()) {
    return;
  }
  struct Child {
    const Node* node;
    std::string_view first;
    int64_t live;
  };
  std::vector<Child> level;
  constexpr size_t kFill = kFanout - 2;  // room for the first inserts
  for (size_t i = 0; i < records.size(); i += kFill) {
    Leaf* leaf = NewNode<Leaf>(birth_);
    leaf->count = static_cast<uint16_t>(std::min(kFill, records.size() - i));
    std::memcpy(leaf->records, records.data() + i, leaf->count * sizeof(leaf->records[0]));
    level.push_back({leaf, records[i]->key(), LiveIn(leaf)});
  }
  while (level.size() > 1) {
    std::vector<Child> above;
    for (size_t i = 0; i < level.size(); i += kFill) {
      Inner* inner = NewNode<Inner>(birth_);
      inner->count = static_cast<uint16_t>(std::min(kFill, level.size() - i));
      for (int c = 0; c < inner->count; ++c) {
        const Child& child = level[i + static_cast<size_t>(c)];
        inner->children[c] = child.node;
        inner->counts[c] = child.live;
        if (c > 0) {
          inner->separators[c - 1] = MakeSeparator(child.first);
        }
      }
      above.push_back({inner, level[i].first, LiveIn(inner)});
    }
    level = std::move(above);
  }
  root_ = level[0].node;
}

const KeyRecord* FindKey(const Node* node, std::string_view key) {
  if (node == nullptr) {
    return nullptr;
  }
  while (!node->leaf) {
    const Inner& inner = AsInner(node);
    node = inner.children[ChildOf(inner, key)];
  }
  const Leaf& leaf = AsLeaf(node);
  const int at = LowerBound(leaf, key);
  return at < leaf.count && leaf.records[at]->key() == key ? leaf.records[at] : nullptr;
}

int64_t LiveBefore(const Node* node, std::string_view key) {
  int64_t live = 0;
  if (node == nullptr) {
    return 0;
  }
  while (!node->leaf) {
    const Inner& inner = AsInner(node);
    const int at = ChildOf(inner, key);
    for (int i = 0; i < at; ++i) {
      live += inner.counts[i];
    }
    node = inner.children[at];
  }
  const Leaf& leaf = AsLeaf(node);
  const int at = LowerBound(leaf, key);
  for (int i = 0; i < at; ++i) {
    live += leaf.records[i]->live() ? 1 : 0;
  }
  return live;
}

int64_t LiveTotal(const Node* root) {
  return root == nullptr ? 0 : LiveIn(root);
}

void DestroyTree(const Node* node) {
  if (node == nullptr) {
    return;
  }
  if (node->leaf) {
    const Leaf& leaf = AsLeaf(node);
    for (int i = 0; i < leaf.count; ++i) {
      for (const VersionInfo* v = leaf.records[i]->newest.older; v != nullptr;) {
        const VersionInfo* older = v->older;
        delete v;
        v = older;
      }
      std::free(const_cast<KeyRecord*>(leaf.records[i]));
    }
  } else {
    const Inner& inner = AsInner(node);
    for (int i = 0; i < inner.count; ++i) {
      DestroyTree(inner.children[i]);
      if (i > 0) {
        std::free(const_cast<char*>(inner.separators[i - 1]));
      }
    }
  }
  std::free(const_cast<Node*>(node));
}

void TreeCursor::Seek(std::string_view key) {
  depth_ = 0;
  const Node* node = root_;
  if (node == nullptr) {
    return;
  }
  while (!node->leaf) {
    const Inner& inner = AsInner(node);
    const int at = ChildOf(inner, key);
    path_[depth_++] = {node, at};
    MS_CHECK(depth_ < kDepthMax);
    node = inner.children[at];
  }
  const int at = LowerBound(AsLeaf(node), key);
  path_[depth_++] = {node, at};
  if (at == node->count) {
    Climb();
  }
}

void TreeCursor::Descend(const Node* node) {
  while (!node->leaf) {
    path_[depth_++] = {node, 0};
    MS_CHECK(depth_ < kDepthMax);
    node = AsInner(node).children[0];
  }
  path_[depth_++] = {node, 0};
}

// From the end of a leaf to the next leaf, or to the end of all.
void TreeCursor::Climb() {
  --depth_;
  while (depth_ > 0) {
    Step& step = path_[depth_ - 1];
    if (++step.index < step.node->count) {
      Descend(AsInner(step.node).children[step.index]);
      return;
    }
    --depth_;
  }
}

const KeyRecord* TreeCursor::record() const {
  const Step& step = path_[depth_ - 1];
  return AsLeaf(step.node).records[step.index];
}

void TreeCursor::Next() {
  Step& step = path_[depth_ - 1];
  if (++step.index == step.node->count) {
    Climb();
  }
}

}  // namespace mainstay::mvcc

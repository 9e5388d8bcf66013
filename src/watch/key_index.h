// KeyIndex: which of many keys and key ranges contain a given key. Single keys sit in a hash,
// ranges in an interval tree (a treap by start, each node knowing the greatest end below it), so
// that an event costs a hash lookup and O(log ranges + matches), with 100,000 watchers too.
//
// Threads  One at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"

#include "common/check.h"
#include "env/random.h"

namespace mainstay::watch {

// What a watcher watches: one key, or [key, end), or everything from `key`.
struct KeyRange {
  enum class Kind : uint8_t { kSingle, kHalfOpen, kFromKey };
  Kind kind = Kind::kSingle;
  std::string key;
  std::string end;  // kHalfOpen only

  bool Contains(std::string_view k) const {
    switch (kind) {
      case Kind::kSingle:
        return k == key;
      case Kind::kHalfOpen:
        return k >= key && k < end;
      case Kind::kFromKey:
        return k >= key;
    }
    return false;
  }
};

template <class T>
class KeyIndex {
 public:
  // `range` may go after the call. `slot` (may be null when Remove() is never called) is kept up to
  // date until Remove() and must live as long.
  void Add(const KeyRange& range, T* item, size_t* slot) {
    std::vector<Entry>& list =
        range.kind == KeyRange::Kind::kSingle ? singles_[range.key] : *Insert(range);
    if (slot != nullptr) {
      *slot = list.size();
    }
    list.push_back({item, slot});
    ++size_;
  }

  // REQUIRES: added with this range, and `slot` as Add() keeps it.
  void Remove(const KeyRange& range, size_t slot) {
    if (range.kind == KeyRange::Kind::kSingle) {
      const auto at = singles_.find(range.key);
      MS_CHECK(at != singles_.end());
      TakeOut(&at->second, slot);
      if (at->second.empty()) {
        singles_.erase(at);
      }
    } else {
      Node* node = Find(range);
      MS_CHECK(node != nullptr);
      TakeOut(&node->entries, slot);
      if (node->entries.empty()) {
        Erase(&root_, Bounds(range));
      }
    }
    --size_;
  }

  // Calls `f(T*)` for every item whose range contains `key`. `f` must not change the index.
  template <class F>
  void ForEach(std::string_view key, F f) const {
    if (!singles_.empty()) {
      if (const auto at = singles_.find(key); at != singles_.end()) {
        for (const Entry& entry : at->second) {
          f(entry.item);
        }
      }
    }
    Stab(root_.get(), key, f);
  }

  size_t size() const { return size_; }

 private:
  struct Entry {
    T* item;
    size_t* slot;
  };
  struct Interval {
    std::string start;
    std::string end;
    bool open = false;  // no end
  };
  struct Node {
    Interval interval;
    uint64_t priority = 0;
    std::vector<Entry> entries;
    const Interval* greatest = nullptr;  // the interval of this subtree that ends last
    std::unique_ptr<Node> left;
    std::unique_ptr<Node> right;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  struct BoundsView {
    std::string_view start;
    std::string_view end;
    bool open;
  };

  static BoundsView Bounds(const KeyRange& range) {
    return {range.key, range.end, range.kind == KeyRange::Kind::kFromKey};
  }
  static int Compare(const BoundsView& a, const Interval& b) {
    if (const int c = a.start.compare(b.start); c != 0) {
      return c;
    }
    if (a.open != b.open) {
      return a.open ? 1 : -1;
    }
    return a.open ? 0 : a.end.compare(b.end);
  }
  static bool EndsLater(const Interval& a, const Interval& b) {
    return a.open || (!b.open && a.end > b.end);
  }
  static void Update(Node* node) {
    node->greatest = &node->interval;
    for (const Node* child : {node->left.get(), node->right.get()}) {
      if (child != nullptr && EndsLater(*child->greatest, *node->greatest)) {
        node->greatest = child->greatest;
      }
    }
  }
  static void RotateRight(std::unique_ptr<Node>* at) {
    std::unique_ptr<Node> up = std::move((*at)->left);
    (*at)->left = std::move(up->right);
    Update(at->get());
    up->right = std::move(*at);
    *at = std::move(up);
    Update(at->get());
  }
  static void RotateLeft(std::unique_ptr<Node>* at) {
    std::unique_ptr<Node> up = std::move((*at)->right);
    (*at)->right = std::move(up->left);
    Update(at->get());
    up->left = std::move(*at);
    *at = std::move(up);
    Update(at->get());
  }

  std::vector<Entry>* Insert(const KeyRange& range) {
    std::vector<Entry>* out = nullptr;
    InsertAt(&root_, Bounds(range), &out);
    return out;
  }
  void InsertAt(std::unique_ptr<Node>* at, const BoundsView& bounds, std::vector<Entry>** out) {
    if (*at == nullptr) {
      *at = std::make_unique<Node>();
      (*at)->interval = {std::string(bounds.start), std::string(bounds.end), bounds.open};
      (*at)->priority = priorities_.Next64();
      Update(at->get());
      *out = &(*at)->entries;
      return;
    }
    const int c = Compare(bounds, (*at)->interval);
    if (c == 0) {
      *out = &(*at)->entries;
      return;
    }
    std::unique_ptr<Node>* child = c < 0 ? &(*at)->left : &(*at)->right;
    InsertAt(child, bounds, out);
    if ((*child)->priority > (*at)->priority) {
      c < 0 ? RotateRight(at) : RotateLeft(at);
    } else {
      Update(at->get());
    }
  }

  Node* Find(const KeyRange& range) const {
    const BoundsView bounds = Bounds(range);
    Node* node = root_.get();
    while (node != nullptr) {
      const int c = Compare(bounds, node->interval);
      if (c == 0) {
        return node;
      }
      node = c < 0 ? node->left.get() : node->right.get();
    }
    return nullptr;
  }

  // REQUIRES: it is there. Turns the node down to a leaf, cuts it off, and mends the way up.
  static void Erase(std::unique_ptr<Node>* at, const BoundsView& bounds) {
    const int c = Compare(bounds, (*at)->interval);
    if (c != 0) {
      Erase(c < 0 ? &(*at)->left : &(*at)->right, bounds);
      Update(at->get());
      return;
    }
    Node* left = (*at)->left.get();
    Node* right = (*at)->right.get();
    if (left == nullptr || right == nullptr) {
      std::unique_ptr<Node> rest = std::move(left != nullptr ? (*at)->left : (*at)->right);
      *at = std::move(rest);
      return;
    }
    const bool lift_left = left->priority > right->priority;
    lift_left ? RotateRight(at) : RotateLeft(at);
    Erase(lift_left ? &(*at)->right : &(*at)->left, bounds);
    Update(at->get());
  }

  static void TakeOut(std::vector<Entry>* list, size_t slot) {
    MS_CHECK_LT(slot, list->size());
    (*list)[slot] = list->back();
    if ((*list)[slot].slot != nullptr) {
      *(*list)[slot].slot = slot;
    }
    list->pop_back();
  }

  template <class F>
  static void Stab(const Node* node, std::string_view key, F& f) {
    while (node != nullptr && (node->greatest->open || key < node->greatest->end)) {
      Stab(node->left.get(), key, f);
      if (key < node->interval.start) {
        return;  // all to the right start later still
      }
      if (node->interval.open || key < node->interval.end) {
        for (const Entry& entry : node->entries) {
          f(entry.item);
        }
      }
      node = node->right.get();
    }
  }

  absl::node_hash_map<std::string, std::vector<Entry>, Hash, std::equal_to<>> singles_;
  std::unique_ptr<Node> root_;
  SeededRandom priorities_{0x6D61696E73746179};
  size_t size_ = 0;
};

}  // namespace mainstay::watch

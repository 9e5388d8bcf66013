// Delivers the answers of one batch, then wakes each sink that got any, once.
//
// Threads  One; each task has its own.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "server/reply.h"

namespace mainstay::server {

class Replier {
 public:
  void Deliver(const ReplyTo& to, Reply&& reply) {
    if (to.sink == nullptr) {
      return;
    }
    to.sink->Deliver(to.a, to.b, std::move(reply));
    if (std::find(touched_.begin(), touched_.end(), to.sink) == touched_.end()) {
      touched_.push_back(to.sink);
    }
  }
  void Fail(const ReplyTo& to, Error error) {
    Reply reply;
    reply.error = error;
    Deliver(to, std::move(reply));
  }
  void Flush() {
    for (ReplySink* sink : touched_) {
      sink->Flush();
    }
    touched_.clear();
  }

 private:
  std::vector<ReplySink*> touched_;  // a handful at most
};

}  // namespace mainstay::server

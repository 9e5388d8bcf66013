// Where an answer goes: two integers that mean something to the caller, and its sink.
#pragma once

#include <cstdint>

namespace mainstay::server {

class ReplySink;  // reply.h

// Where an answer goes. `sink` null = nobody waits. Whoever owns `sink` keeps it alive until
// Server::Stop() returned.
struct ReplyTo {
  ReplySink* sink = nullptr;
  uint64_t a = 0;
  uint64_t b = 0;
};

}  // namespace mainstay::server

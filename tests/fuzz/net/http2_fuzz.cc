// Goal: no bytes from a peer harm the HTTP/2 session and the gRPC layer on it.
// Method: libFuzzer drives a session without a socket.
#include "tests/fuzz/net/driver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mainstay::net::fuzzing::Drive(true, {reinterpret_cast<const char*>(data), size});
  return 0;
}

// Goal: no bytes from a peer harm the HTTP/1 session.
// Method: libFuzzer drives a session without a socket.
#include "tests/fuzz/net/driver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mainstay::net::fuzzing::DriveHttp1({reinterpret_cast<const char*>(data), size});
  return 0;
}

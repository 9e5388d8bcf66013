// The JSON gateway: every method of rpc::Services as POST routes. Calls go to the same handlers as
// gRPC's, through the same gate; no connection to ourselves is made.
//
// Threads  The stream's loop.
// Limits   One JSON document: twice the gRPC receive limit. One answer: kAnswerBytesMax.
// Sources  grpc-api 1.4.
#pragma once

#include <memory>

#include "http/exchange.h"
#include "rpc/loop.h"
#include "rpc/services.h"

namespace mainstay::http {

// An answer beyond it is refused with kOverloaded: JSON is made in memory.
inline constexpr size_t kAnswerBytesMax = 256 << 20;

// The sink of a request whose path is one of the gateway's routes, or none of anybody's.
std::unique_ptr<net::StreamSink> StartGateway(rpc::Services& services,
                                              rpc::Loop& loop,
                                              ExchangePtr exchange,
                                              std::string_view path);

}  // namespace mainstay::http

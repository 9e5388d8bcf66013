// The JSON gateway over a WebSocket: each message of the client is JSON of the request, each line
// of the answer a text message, as etcd's grpc-websocket-proxy has it.
//
// Role     Any route of the gateway, whatever its kind; meant for streams (/v3/watch).
// Threads  The stream's loop.
// Limits   One message of the client: twice the gRPC receive limit, as a JSON document. A client
//          that leaves more than net::kUnsentPauseBytes unread is not read either.
// Sources  grpc-api 1.4; tokens come in "sec-websocket-protocol: Bearer, TOKEN" or a cookie
// "token".
#pragma once

#include <memory>
#include <string_view>

#include "net/http.h"
#include "rpc/loop.h"
#include "rpc/services.h"

namespace mainstay::http {

// The sink of a request that WantsWebSocket(), on a route of the gateway or none of anybody's.
std::unique_ptr<net::StreamSink> StartGatewaySocket(rpc::Services& services,
                                                    rpc::Loop& loop,
                                                    net::Stream& stream,
                                                    std::string_view path);

// What the gateway sees of that request: a POST with little of what the client wrote; the token as
// its "authorization".
net::RequestHead SocketRequest(const net::RequestHead& outer, std::string_view path);

}  // namespace mainstay::http

// Goal: WebSocket frames come in whole wherever they are cut, and what RFC 6455 forbids is refused.
// Method: frames written by hand; the RFC's own examples.
#include "http/websocket.h"

#include <gtest/gtest.h>

#include "http/gateway_socket.h"

namespace mainstay::http {
namespace {

// A client's frame: masked.
std::string Frame(uint8_t first, std::string_view payload, bool masked = true) {
  std::string out(1, static_cast<char>(first));
  const std::string head = FrameHead(SocketOpcode::kText, payload.size()).substr(1);
  out += static_cast<char>(static_cast<uint8_t>(head[0]) | (masked ? 0x80 : 0));
  out += head.substr(1);
  constexpr std::string_view kMask = "\x37\xfa\x21\x3d";
  if (masked) {
    out += kMask;
  }
  for (size_t i = 0; i < payload.size(); ++i) {
    out += static_cast<char>(payload[i] ^ (masked ? kMask[i % 4] : 0));
  }
  return out;
}
constexpr uint8_t kText = 0x81, kTextBegin = 0x01, kMore = 0x00, kLast = 0x80, kBinary = 0x82,
                  kClose = 0x88, kPing = 0x89, kPong = 0x8A;

// What a reader says of bytes that come in two pieces, in its order.
std::vector<std::string> Read(std::string_view bytes, size_t cut, size_t max = 1000) {
  std::vector<std::string> out;
  FrameReader reader(
      max, {.on_message = [&](std::string_view m) { out.push_back("message " + std::string(m)); },
            .on_ping = [&](std::string_view p) { out.push_back("ping " + std::string(p)); },
            .on_close = [&](std::string_view p) { out.push_back("close " + std::string(p)); },
            .on_error =
                [&](CloseCode why) {
                  out.push_back("error " + std::to_string(static_cast<int>(why)));
                }});
  reader.Add(bytes.substr(0, cut));
  reader.Add(bytes.substr(cut));
  EXPECT_LE(reader.held_bytes(), max + 200);
  return out;
}
std::vector<std::string> Read(std::string_view bytes) {
  return Read(bytes, 0);
}
using Said = std::vector<std::string>;

TEST(FrameReaderTest, MessagesComeOutWholeWhereverTheBytesAreCut) {
  const std::string big(300, 'b');
  const std::string bytes = Frame(kText, "one") + Frame(kTextBegin, "t") + Frame(kPing, "p") +
                            Frame(kMore, "w") + Frame(kLast, "o") + Frame(kPong, "ignored") +
                            Frame(kBinary, big) + Frame(kText, "") +
                            Frame(kClose,
                                  "\x03\xe8"
                                  "bye");
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    ASSERT_EQ(Read(bytes, cut),
              (Said{"message one", "ping p", "message two", "message " + big, "message ",
                    "close \x03\xe8"
                    "bye"}))
        << "cut at " << cut;
  }
}

TEST(FrameReaderTest, NothingIsReadAfterACloseOrAnError) {
  EXPECT_EQ(Read(Frame(kClose, "") + Frame(kText, "x")), Said{"close "});
  EXPECT_EQ(Read(Frame(kMore, "") + Frame(kText, "x")), Said{"error 1002"});
}

TEST(FrameReaderTest, WhatTheRulesForbidIsRefused) {
  const std::string bad[] = {
      Frame(kText, "x", false),                    // not masked
      Frame(0xC1, "x"),                            // a reserved bit
      Frame(0x83, "x"),                            // an opcode that nobody defined
      Frame(0x8B, ""),                             // nor this one
      Frame(kLast, "x"),                           // the rest of nothing
      Frame(kTextBegin, "x") + Frame(kText, "y"),  // a message in a message
      Frame(0x09, ""),                             // a ping in fragments
      Frame(kPing, std::string(126, 'p')),         // a long one
      Frame(kClose, "x"),                          // half a code
  };
  for (const std::string& bytes : bad) {
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      ASSERT_EQ(Read(bytes, cut), Said{"error 1002"}) << "cut at " << cut;
    }
  }
}

TEST(FrameReaderTest, AMessageBeyondTheLimitIsRefusedByItsLengthAlone) {
  EXPECT_EQ(Read(Frame(kText, std::string(1000, 'x'))).size(), 1u);
  EXPECT_EQ(Read(Frame(kText, std::string(1001, 'x')).substr(0, 8)), Said{"error 1009"});
  EXPECT_EQ(Read(Frame(kTextBegin, std::string(600, 'x')) + Frame(kLast, std::string(401, 'x'))),
            Said{"error 1009"});
  std::string huge = Frame(kText, std::string(70000, 'x')).substr(0, 14);
  huge.replace(2, 8, "\xff\xff\xff\xff\xff\xff\xff\xff");
  EXPECT_EQ(Read(huge), Said{"error 1009"});
}

TEST(FrameReaderTest, StoppedFromInsideItDoesNoMore) {
  int messages = 0;
  FrameReader* self = nullptr;
  FrameReader reader(100, {.on_message =
                               [&](std::string_view) {
                                 ++messages;
                                 self->Stop();
                               },
                           .on_ping = [](std::string_view) {},
                           .on_close = [](std::string_view) {},
                           .on_error = [](CloseCode) {}});
  self = &reader;
  reader.Add(Frame(kText, "a") + Frame(kText, "b"));
  EXPECT_EQ(messages, 1);
}

TEST(WebSocketTest, FrameHeadsOfAllLengths) {
  EXPECT_EQ(FrameHead(SocketOpcode::kText, 5), "\x81\x05");
  EXPECT_EQ(FrameHead(SocketOpcode::kPing, 125), "\x89\x7d");
  EXPECT_EQ(FrameHead(SocketOpcode::kText, 126), std::string("\x81\x7e\x00\x7e", 4));
  EXPECT_EQ(FrameHead(SocketOpcode::kText, 65536),
            std::string("\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10));
  EXPECT_EQ(CloseFrame(CloseCode::kNormal), std::string("\x88\x02\x03\xe8", 4));
}

net::RequestHead Handshake(std::string_view without = "") {
  net::RequestHead head;
  head.method = "GET";
  head.path = "/v3/watch";
  const std::pair<std::string_view, std::string_view> fields[] = {
      {"connection", "keep-alive, Upgrade"},
      {"upgrade", "WebSocket"},
      {"sec-websocket-version", "13"},
      {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}};
  for (const auto& [name, value] : fields) {
    if (name != without) {
      head.headers.Add(name, value);
    }
  }
  return head;
}

TEST(WebSocketTest, HandshakesAreToldFromOtherRequests) {
  EXPECT_TRUE(WantsWebSocket(Handshake()));
  EXPECT_FALSE(WantsWebSocket(Handshake("connection")));
  EXPECT_FALSE(WantsWebSocket(Handshake("upgrade")));
  net::RequestHead other = Handshake("upgrade");
  other.headers.Add("upgrade", "h2c");
  EXPECT_FALSE(WantsWebSocket(other));
  other.headers.Add("upgrade", "websocket");
  EXPECT_TRUE(WantsWebSocket(other));
}

TEST(WebSocketTest, HandshakesOutOfOrderAreRefused) {
  EXPECT_EQ(CheckHandshake(Handshake()), 0);
  EXPECT_EQ(CheckHandshake(Handshake("sec-websocket-version")), 400);
  EXPECT_EQ(CheckHandshake(Handshake("sec-websocket-key")), 400);
  net::RequestHead post = Handshake();
  post.method = "POST";
  EXPECT_EQ(CheckHandshake(post), 405);
  for (const std::string_view key :
       {"", "abc", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ===",
        "dGhlIHNhbXBsZ$Bub25jZQ==", "dGhlIHNhbXBsZSBub25jZQQQ"}) {
    net::RequestHead head = Handshake("sec-websocket-key");
    head.headers.Add("sec-websocket-key", key);
    EXPECT_EQ(CheckHandshake(head), 400) << key;
  }
  net::RequestHead body = Handshake();
  body.headers.Add("content-length", "5");
  EXPECT_EQ(CheckHandshake(body), 400);
}

// RFC 6455 1.3.
TEST(WebSocketTest, TheRfcsKeyHasTheRfcsAnswer) {
  EXPECT_EQ(AcceptKey("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(SocketRequestTest, TheTokenComesFromTheCookieOrTheSubprotocol) {
  using Fields = std::vector<std::pair<std::string, std::string>>;
  const std::pair<Fields, std::string> cases[] = {
      {{{"sec-websocket-protocol", "Bearer, tok.1"}}, "Bearer tok.1"},
      {{{"sec-websocket-protocol", "Bearer,tok.1 "}}, "Bearer tok.1"},
      {{{"cookie", "a=b; token=tok.2; c=d"}}, "Bearer tok.2"},
      {{{"cookie", "a=b"}, {"cookie", "token=tok.2"}}, "Bearer tok.2"},
      {{{"sec-websocket-protocol", "Bearer, tok.1"}, {"cookie", "token=tok.2"}}, "Bearer tok.2"},
      {{{"cookie", "xtoken=no"}, {"sec-websocket-protocol", "chat"}}, ""},
      {{{"authorization", "tok.3"}}, ""},  // not forwarded
      {{}, ""}};
  for (const auto& [fields, expected] : cases) {
    net::RequestHead outer = Handshake();
    for (const auto& [name, value] : fields) {
      outer.headers.Add(name, value);
    }
    EXPECT_EQ(SocketRequest(outer, "/v3/watch").headers.Get("authorization"), expected);
  }
}

TEST(SocketRequestTest, ItIsAPostThatForgetsMostOfWhatTheClientWrote) {
  net::RequestHead outer = Handshake();
  outer.query = "method=GET";
  outer.headers.Add("origin", "http://a.example");
  outer.headers.Add("referer", "http://b.example");
  outer.headers.Add("grpc-metadata-hasleader", "true");
  const net::RequestHead inner = SocketRequest(outer, "/v3/watch");
  EXPECT_EQ(inner.method, "POST");
  EXPECT_EQ(inner.path, "/v3/watch");
  EXPECT_EQ(inner.headers.Get("origin"), "http://a.example");
  EXPECT_EQ(inner.headers.Get("referer"), "http://b.example");
  EXPECT_EQ(inner.headers.size(), 2u);
}

}  // namespace
}  // namespace mainstay::http

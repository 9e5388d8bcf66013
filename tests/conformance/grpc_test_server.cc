// grpc_test_server PORT [CERT KEY]: gRPC's own test service on Mainstay's wire engine, for the
// official interop client and for h2spec. Prints the port that it listens on. Test only.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/coding.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/server.h"

namespace mainstay::net {
namespace {

std::string PayloadOf(size_t size) {
  std::string payload;
  AppendBytesField(&payload, 2, std::string(size, '\0'));
  std::string response;
  AppendBytesField(&response, 1, payload);
  return response;
}

struct Request {
  int64_t response_size = 0;
  size_t payload_bytes = 0;
  std::vector<int64_t> sizes;
  bool has_status = false;
  int status_code = 0;
  std::string status_text;
};

// Both SimpleRequest and StreamingOutputCallRequest: their fields do not collide in what is used
// here.
Request Read(std::string_view bytes, bool streaming) {
  Request out;
  for (WireReader r(bytes); r.Next();) {
    if (r.field() == 2 && !streaming) {
      out.response_size = r.i64();
    } else if (r.field() == 2) {
      int64_t size = 0;
      for (WireReader p(r.bytes()); p.Next();) {
        size = p.field() == 1 ? p.i64() : size;
      }
      out.sizes.push_back(size);
    } else if (r.field() == 3 || (r.field() == 1 && r.type() == WireType::kBytes)) {
      for (WireReader p(r.bytes()); p.Next();) {
        out.payload_bytes += p.field() == 2 ? p.bytes().size() : 0;
      }
    } else if (r.field() == 7) {
      out.has_status = true;
      for (WireReader s(r.bytes()); s.Next();) {
        if (s.field() == 1) {
          out.status_code = static_cast<int>(s.i64());
        } else if (s.field() == 2) {
          out.status_text = s.bytes();
        }
      }
    }
  }
  return out;
}

enum class Kind { kEmpty, kUnary, kOutput, kInput, kFullDuplex, kHalfDuplex };

class TestCall : public GrpcSink {
 public:
  TestCall(GrpcCall& call, Kind kind) : call_(call), kind_(kind) {}
  void OnMessage(Buffer message) override {
    const bool streaming = kind_ != Kind::kUnary;
    if (kind_ == Kind::kInput) {
      size_t bytes = 0;
      for (WireReader r(message.view()); r.Next();) {
        if (r.field() == 1) {
          for (WireReader p(r.bytes()); p.Next();) {
            bytes += p.field() == 2 ? p.bytes().size() : 0;
          }
        }
      }
      total_ += bytes;
      return;
    }
    const Request request = Read(message.view(), streaming);
    if (request.has_status && request.status_code != 0) {
      return call_.Finish(static_cast<GrpcCode>(request.status_code), request.status_text);
    }
    switch (kind_) {
      case Kind::kEmpty:
        answer_ = std::string();
        break;
      case Kind::kUnary:
        answer_ = PayloadOf(static_cast<size_t>(request.response_size));
        break;
      case Kind::kHalfDuplex:
        waiting_.insert(waiting_.end(), request.sizes.begin(), request.sizes.end());
        break;
      default:
        for (const int64_t size : request.sizes) {
          call_.Send(BufferChain(Buffer::Copy(PayloadOf(static_cast<size_t>(size)))));
        }
    }
  }
  void OnHalfClose() override {
    if (kind_ == Kind::kInput) {
      std::string out;
      AppendVarintField(&out, 1, total_);
      answer_ = out;
    }
    for (const int64_t size : waiting_) {
      call_.Send(BufferChain(Buffer::Copy(PayloadOf(static_cast<size_t>(size)))));
    }
    if (answer_) {
      call_.Send(BufferChain(Buffer::Copy(*answer_)));
    }
    call_.Finish(GrpcCode::kOk, "");
  }
  void OnGone(GrpcCode) override {}

 private:
  GrpcCall& call_;
  const Kind kind_;
  std::optional<std::string> answer_;
  std::vector<int64_t> waiting_;
  uint64_t total_ = 0;
};

class TestService : public GrpcRouter {
 public:
  std::unique_ptr<GrpcSink> OnCall(GrpcCall& call) override {
    static constexpr std::pair<std::string_view, Kind> kMethods[] = {
        {"EmptyCall", Kind::kEmpty},          {"UnaryCall", Kind::kUnary},
        {"CacheableUnaryCall", Kind::kUnary}, {"StreamingOutputCall", Kind::kOutput},
        {"StreamingInputCall", Kind::kInput}, {"FullDuplexCall", Kind::kFullDuplex},
        {"HalfDuplexCall", Kind::kHalfDuplex}};
    for (const auto& [name, kind] : kMethods) {
      if (call.path() == "/grpc.testing.TestService/" + std::string(name)) {
        if (const auto echo = call.Metadata("x-grpc-test-echo-initial"); echo.data() != nullptr) {
          call.AddInitialMetadata("x-grpc-test-echo-initial", echo);
        }
        if (const auto echo = call.Metadata("x-grpc-test-echo-trailing-bin");
            echo.data() != nullptr) {
          call.AddTrailer("x-grpc-test-echo-trailing-bin", echo);
        }
        return std::make_unique<TestCall>(call, kind);
      }
    }
    return nullptr;
  }
  bool HasService(std::string_view service) const override {
    return service == "grpc.testing.TestService";
  }
};

// For h2spec: any request is answered with a small page.
class Page : public Handler {
 public:
  class Sink : public StreamSink {
   public:
    explicit Sink(Stream& stream) : stream_(stream) {}
    void OnBody(Buffer) override {}
    void OnEnd() override {
      stream_.Respond(200, {{"content-type", "text/plain"}}, Buffer::Static("hello\n"));
    }

   private:
    Stream& stream_;
  };
  std::unique_ptr<StreamSink> OnRequest(Stream& stream) override {
    return std::make_unique<Sink>(stream);
  }
};

int Main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::fprintf(stderr, "usage: grpc_test_server PORT [CERT KEY]\n");
    return 2;
  }
  std::unique_ptr<TlsContext> tls;
  if (argc == 4) {
    auto made = NewTlsContext({.cert_file = argv[2], .key_file = argv[3]});
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
      return 1;
    }
    tls = *std::move(made);
  }
  TestService service;
  const auto grpc = NewGrpcHandler(service, {.receive_bytes_max = 64 << 20});
  Page page;
  Server server({.max_concurrent_streams = 100, .ping_min_interval = std::chrono::nanoseconds(0)},
                SystemClock());
  const Status listening = server.Listen({.address = "127.0.0.1:" + std::string(argv[1]),
                                          .plaintext = tls == nullptr,
                                          .tls = tls.get(),
                                          .grpc = grpc.get(),
                                          .http = &page});
  const Status started = listening.ok() ? server.Start() : listening;
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.ToString().c_str());
    return 1;
  }
  server.Accept();
  std::printf("%d\n", server.ports()[0]);
  std::fflush(stdout);
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  int signal = 0;
  sigwait(&wanted, &signal);
  return 0;
}

}  // namespace
}  // namespace mainstay::net

int main(int argc, char** argv) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  return mainstay::net::Main(argc, argv);
}

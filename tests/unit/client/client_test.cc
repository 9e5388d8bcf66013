// Goal: the client library's promises: what is retried and what is never, failover, resumed
// watches, joined fragments, lease renewal, tokens. Method: a gRPC server in this process, on port
// 0, whose services do as each test says.
#include "mainstay/client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>

#include "proto/etcdserverpb/rpc.grpc.pb.h"

namespace mainstay::client {
namespace {

using namespace std::chrono_literals;
using grpc::ServerContext;
using WatchStream = grpc::ServerReaderWriter<pb::WatchResponse, pb::WatchRequest>;
using LeaseStream = grpc::ServerReaderWriter<pb::LeaseKeepAliveResponse, pb::LeaseKeepAliveRequest>;

std::string MetadataOf(const ServerContext& context, const char* key) {
  const auto it = context.client_metadata().find(key);
  return it == context.client_metadata().end() ? ""
                                               : std::string(it->second.data(), it->second.size());
}

struct FakeKv : pb::KV::Service {
  grpc::Status Range(ServerContext* context,
                     const pb::RangeRequest*,
                     pb::RangeResponse* response) override {
    return range(*context, *response);
  }
  grpc::Status Put(ServerContext* context, const pb::PutRequest*, pb::PutResponse*) override {
    return put(*context);
  }
  std::function<grpc::Status(ServerContext&, pb::RangeResponse&)> range;
  std::function<grpc::Status(ServerContext&)> put;
};

struct FakeWatch : pb::Watch::Service {
  grpc::Status Watch(ServerContext*, WatchStream* stream) override {
    pb::WatchRequest request;
    if (!stream->Read(&request)) {
      return grpc::Status::OK;
    }
    return watch(++streams, request, *stream);
  }
  std::function<grpc::Status(int, const pb::WatchRequest&, WatchStream&)> watch;
  std::atomic<int> streams{0};
};

struct FakeLease : pb::Lease::Service {
  grpc::Status LeaseKeepAlive(ServerContext*, LeaseStream* stream) override {
    return keep_alive(*stream);
  }
  std::function<grpc::Status(LeaseStream&)> keep_alive;
};

struct FakeAuth : pb::Auth::Service {
  grpc::Status Authenticate(ServerContext*,
                            const pb::AuthenticateRequest* request,
                            pb::AuthenticateResponse* response) override {
    return authenticate(*request, *response);
  }
  std::function<grpc::Status(const pb::AuthenticateRequest&, pb::AuthenticateResponse&)>
      authenticate;
};

class ClientTest : public testing::Test {
 protected:
  void TearDown() override {
    client_.reset();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now());
    }
  }

  // Starts the server and a client of it; `before` are endpoints to try first.
  Client& Start(std::vector<std::string> before = {}, Options options = {}) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&kv_);
    builder.RegisterService(&watch_);
    builder.RegisterService(&lease_);
    builder.RegisterService(&auth_);
    server_ = builder.BuildAndStart();
    before.push_back("127.0.0.1:" + std::to_string(port));
    options.endpoints = before;
    absl::StatusOr<std::unique_ptr<Client>> made = Client::Create(options);
    EXPECT_TRUE(made.ok()) << made.status();
    client_ = std::move(*made);
    return *client_;
  }

  FakeKv kv_;
  FakeWatch watch_;
  FakeLease lease_;
  FakeAuth auth_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
};

pb::WatchResponse Created(int64_t revision) {
  pb::WatchResponse response;
  response.set_created(true);
  response.mutable_header()->set_revision(revision);
  return response;
}

pb::WatchResponse Events(const std::vector<int64_t>& revisions) {
  pb::WatchResponse response;
  for (const int64_t revision : revisions) {
    response.add_events()->mutable_kv()->set_mod_revision(revision);
    response.mutable_header()->set_revision(revision);
  }
  return response;
}

std::vector<int64_t> Revisions(const std::optional<WatchAnswer>& answer) {
  std::vector<int64_t> out;
  for (const mvccpb::Event& event : answer->events) {
    out.push_back(event.kv().mod_revision());
  }
  return out;
}

// Keeps a stream open until the client leaves.
void Hold(WatchStream& stream) {
  pb::WatchRequest request;
  while (stream.Read(&request)) {
  }
}

TEST_F(ClientTest, ReadsAreRepeatedWhenUnavailable) {
  std::atomic<int> calls{0};
  kv_.range = [&](ServerContext&, pb::RangeResponse& response) {
    response.add_kvs()->set_value("v");
    return ++calls < 3 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "etcdserver: no leader")
                       : grpc::Status::OK;
  };
  EXPECT_EQ(Start().Get("k").value(), "v");
  EXPECT_EQ(calls, 3);
}

TEST_F(ClientTest, WritesThatReachedAServerAreNot) {
  std::atomic<int> calls{0};
  kv_.put = [&](ServerContext&) {
    ++calls;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "etcdserver: leader changed");
  };
  const absl::Status status = Start().Put("k", "v");
  EXPECT_EQ(status, absl::UnavailableError("etcdserver: leader changed"));
  EXPECT_EQ(calls, 1);
}

TEST_F(ClientTest, WritesThatReachedNoneGoToTheNextEndpoint) {
  kv_.put = [](ServerContext&) { return grpc::Status::OK; };
  // Port 1 refuses connections.
  Client& client = Start({"127.0.0.1:1", "http://127.0.0.1:1"});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(client.Put("k", "v"), absl::OkStatus());
  }
}

TEST_F(ClientTest, ErrorsCarryCodeAndText) {
  kv_.range = [](ServerContext&, pb::RangeResponse&) {
    return grpc::Status(grpc::StatusCode::OUT_OF_RANGE,
                        "etcdserver: mvcc: required revision has been compacted");
  };
  EXPECT_EQ(Start().Get("k").status(),
            absl::OutOfRangeError("etcdserver: mvcc: required revision has been compacted"));
}

TEST(ClientCreateTest, NoServerMeansATimeoutNotAHang) {
  Options options;
  options.endpoints = {"127.0.0.1:1"};
  const auto client = Client::Create(options);
  ASSERT_TRUE(client.ok());
  pb::PutRequest request;
  EXPECT_EQ((*client)->Put(request, {.timeout = 100ms}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ClientCreateTest, MissingCertificateFilesAreNamed) {
  Options options;
  options.tls.enabled = true;
  options.tls.ca_file = "/no/such/file";
  EXPECT_EQ(Client::Create(options).status(),
            absl::InvalidArgumentError("open /no/such/file: no such file or directory"));
}

TEST_F(ClientTest, TokenIsSentAndRenewedOnce) {
  std::atomic<int> logins{0};
  auth_.authenticate = [&](const pb::AuthenticateRequest& request,
                           pb::AuthenticateResponse& response) {
    EXPECT_EQ(request.name() + "/" + request.password(), "root/pw");
    response.set_token("token-" + std::to_string(++logins));
    return grpc::Status::OK;
  };
  kv_.put = [](ServerContext& context) {
    return MetadataOf(context, "token") == "token-2"
               ? grpc::Status::OK
               : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "etcdserver: invalid auth token");
  };
  Options options;
  options.user = "root";
  options.password = "pw";
  EXPECT_EQ(Start({}, options).Put("k", "v"), absl::OkStatus());
  EXPECT_EQ(logins, 2);
}

TEST_F(ClientTest, AServerWithoutAuthIsNoError) {
  auth_.authenticate = [](const pb::AuthenticateRequest&, pb::AuthenticateResponse&) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                        "etcdserver: authentication is not enabled");
  };
  kv_.put = [](ServerContext& context) {
    EXPECT_EQ(MetadataOf(context, "token"), "");
    return grpc::Status::OK;
  };
  Options options;
  options.user = "root";
  options.password = "pw";
  EXPECT_EQ(Start({}, options).Put("k", "v"), absl::OkStatus());
}

TEST_F(ClientTest, WatchResumesAfterTheLastRevisionSeen) {
  std::mutex mu;
  std::vector<int64_t> starts;
  watch_.watch = [&](int n, const pb::WatchRequest& request, WatchStream& stream) {
    {
      const std::lock_guard lock(mu);
      starts.push_back(request.create_request().start_revision());
    }
    stream.Write(Created(4));
    if (n == 1) {
      stream.Write(Events({5, 6}));
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
    }
    // A server may send again what it is not sure of; the client must not deliver it again.
    stream.Write(Events({6, 7}));
    Hold(stream);
    return grpc::Status::OK;
  };
  const auto watch = Start().StartWatch({.key = "k"});
  EXPECT_EQ(Revisions(watch->Next()), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(Revisions(watch->Next()), (std::vector<int64_t>{7}));
  const std::lock_guard lock(mu);
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 7}));
}

TEST_F(ClientTest, WatchFromNowResumesAtTheCreationRevision) {
  std::atomic<int64_t> second_start{0};
  watch_.watch = [&](int n, const pb::WatchRequest& request, WatchStream& stream) {
    stream.Write(Created(4));
    if (n == 1) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
    }
    second_start = request.create_request().start_revision();
    stream.Write(Events({9}));
    Hold(stream);
    return grpc::Status::OK;
  };
  const auto watch = Start().StartWatch({.key = "k"});
  EXPECT_EQ(Revisions(watch->Next()), (std::vector<int64_t>{9}));
  EXPECT_EQ(second_start, 5);
}

TEST_F(ClientTest, FragmentsAreJoined) {
  watch_.watch = [](int, const pb::WatchRequest&, WatchStream& stream) {
    stream.Write(Created(4));
    pb::WatchResponse part = Events({5, 5});
    part.set_fragment(true);
    stream.Write(part);
    stream.Write(Events({5}));
    Hold(stream);
    return grpc::Status::OK;
  };
  const auto watch = Start().StartWatch({.key = "k", .fragment = true});
  EXPECT_EQ(Revisions(watch->Next()), (std::vector<int64_t>{5, 5, 5}));
}

TEST_F(ClientTest, CompactionEndsAWatchByName) {
  watch_.watch = [](int, const pb::WatchRequest&, WatchStream& stream) {
    stream.Write(Created(4));
    pb::WatchResponse end;
    end.set_canceled(true);
    end.set_compact_revision(3);
    stream.Write(end);
    Hold(stream);
    return grpc::Status::OK;
  };
  const auto watch = Start().StartWatch({.key = "k", .start_revision = 1});
  const std::optional<WatchAnswer> answer = watch->Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->canceled);
  EXPECT_EQ(answer->compact_revision, 3);
  EXPECT_EQ(answer->status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(watch->Next().has_value());
  EXPECT_TRUE(watch->done());
}

TEST_F(ClientTest, AnErrorThatWillNotPassEndsAWatch) {
  watch_.watch = [](int, const pb::WatchRequest&, WatchStream&) {
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "etcdserver: permission denied");
  };
  const auto watch = Start().StartWatch({.key = "k"});
  EXPECT_EQ(watch->Next()->status, absl::PermissionDeniedError("etcdserver: permission denied"));
  EXPECT_EQ(watch_.streams, 1);
}

TEST_F(ClientTest, ProgressIsAskedForAndDelivered) {
  watch_.watch = [](int, const pb::WatchRequest&, WatchStream& stream) {
    stream.Write(Created(4));
    pb::WatchRequest request;
    while (stream.Read(&request)) {
      if (request.has_progress_request()) {
        stream.Write(Events({}));
      }
    }
    return grpc::Status::OK;
  };
  const auto watch = Start().StartWatch({.key = "k"});
  watch->RequestProgress();
  EXPECT_TRUE(watch->Next()->IsProgress());
}

TEST_F(ClientTest, CancelWakesAWaitingReader) {
  watch_.watch = [](int, const pb::WatchRequest&, WatchStream& stream) {
    stream.Write(Created(4));
    Hold(stream);
    return grpc::Status::OK;
  };
  const auto watch = Start().StartWatch({.key = "k"});
  EXPECT_FALSE(watch->Next(1ms).has_value());
  EXPECT_FALSE(watch->done());
  watch->Cancel();
  EXPECT_FALSE(watch->Next().has_value());
  EXPECT_TRUE(watch->done());
}

TEST_F(ClientTest, KeeperRenewsUntilTheLeaseIsGone) {
  lease_.keep_alive = [](LeaseStream& stream) {
    pb::LeaseKeepAliveRequest request;
    for (int n = 1; stream.Read(&request); ++n) {
      EXPECT_EQ(request.id(), 7);
      pb::LeaseKeepAliveResponse response;
      response.set_ttl(n < 3 ? 1 : 0);
      stream.Write(response);
    }
    return grpc::Status::OK;
  };
  const auto keeper = Start().KeepAlive(7);
  EXPECT_EQ(keeper->Next()->ttl(), 1);
  EXPECT_EQ(keeper->Next()->ttl(), 1);
  EXPECT_FALSE(keeper->Next().has_value());
  EXPECT_TRUE(keeper->done());
  EXPECT_EQ(keeper->status(), absl::OkStatus());
}

TEST_F(ClientTest, KeepAliveOnceSaysWhenTheLeaseIsGone) {
  lease_.keep_alive = [](LeaseStream& stream) {
    pb::LeaseKeepAliveRequest request;
    stream.Read(&request);
    stream.Write(pb::LeaseKeepAliveResponse());
    return grpc::Status::OK;
  };
  EXPECT_EQ(Start().LeaseKeepAliveOnce(7).status(),
            absl::NotFoundError("etcdserver: requested lease not found"));
}

TEST(PrefixEndTest, SkipsBytesThatCannotGrow) {
  EXPECT_EQ(PrefixEnd("a"), "b");
  EXPECT_EQ(PrefixEnd("a\xff"), "b");
  EXPECT_EQ(PrefixEnd("\xff"), std::string(1, '\0'));
  EXPECT_EQ(PrefixEnd(""), std::string(1, '\0'));
}

}  // namespace
}  // namespace mainstay::client

// What the tests of this folder share: a member, gRPC C++ stubs to it, short ways to ask.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "proto/etcdserverpb/rpc.grpc.pb.h"
#include "tests/integration/member.h"

namespace mainstay::testing {

namespace pb = etcdserverpb;

inline std::shared_ptr<grpc::Channel> Connect(const TestMember& member) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(member.address(), grpc::InsecureChannelCredentials(), arguments);
}

struct Outcome {
  grpc::StatusCode code;
  std::string text;
  friend bool operator==(const Outcome&, const Outcome&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Outcome& o) {
    return out << o.code << " " << o.text;
  }
};
inline Outcome Of(const grpc::Status& status) {
  return {status.error_code(), status.error_message()};
}
inline const Outcome kFine{grpc::StatusCode::OK, ""};

class RpcTest : public ::testing::Test {
 protected:
  explicit RpcTest(TestMember::Config config = TestMember::DefaultConfig())
      : member_(std::move(config)) {
    Reconnect();
  }
  void Reconnect() {
    channel_ = Connect(member_);
    kv_ = pb::KV::NewStub(channel_);
    watch_ = pb::Watch::NewStub(channel_);
    lease_ = pb::Lease::NewStub(channel_);
    maintenance_ = pb::Maintenance::NewStub(channel_);
    cluster_ = pb::Cluster::NewStub(channel_);
    auth_ = pb::Auth::NewStub(channel_);
  }

  // One unary call with a deadline that only a broken server meets.
  template <class Stub, class Request, class Response>
  static Outcome Call(Stub& stub,
                      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                      const Request& request,
                      Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return Of((stub.*method)(&context, request, response));
  }
  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }

  pb::PutResponse Put(const std::string& key, const std::string& value, int64_t lease = 0) {
    pb::PutRequest request;
    request.set_key(key);
    request.set_value(value);
    request.set_lease(lease);
    pb::PutResponse response;
    EXPECT_EQ(Call(*kv_, &pb::KV::Stub::Put, request, &response), kFine);
    return response;
  }
  Outcome Range(const pb::RangeRequest& request, pb::RangeResponse* response) {
    return Call(*kv_, &pb::KV::Stub::Range, request, response);
  }
  pb::RangeResponse Get(const std::string& key, const std::string& range_end = "") {
    pb::RangeRequest request;
    request.set_key(key);
    request.set_range_end(range_end);
    pb::RangeResponse response;
    EXPECT_EQ(Range(request, &response), kFine);
    return response;
  }
  int64_t Delete(const std::string& key, const std::string& range_end = "") {
    pb::DeleteRangeRequest request;
    request.set_key(key);
    request.set_range_end(range_end);
    pb::DeleteRangeResponse response;
    EXPECT_EQ(Call(*kv_, &pb::KV::Stub::DeleteRange, request, &response), kFine);
    return response.deleted();
  }
  Outcome Txn(const pb::TxnRequest& request, pb::TxnResponse* response) {
    return Call(*kv_, &pb::KV::Stub::Txn, request, response);
  }
  Outcome Compact(int64_t revision, bool physical = false) {
    pb::CompactionRequest request;
    request.set_revision(revision);
    request.set_physical(physical);
    pb::CompactionResponse response;
    return Call(*kv_, &pb::KV::Stub::Compact, request, &response);
  }
  Outcome Grant(int64_t id, int64_t ttl, pb::LeaseGrantResponse* response) {
    pb::LeaseGrantRequest request;
    request.set_id(id);
    request.set_ttl(ttl);
    return Call(*lease_, &pb::Lease::Stub::LeaseGrant, request, response);
  }
  Outcome Revoke(int64_t id) {
    pb::LeaseRevokeRequest request;
    request.set_id(id);
    pb::LeaseRevokeResponse response;
    return Call(*lease_, &pb::Lease::Stub::LeaseRevoke, request, &response);
  }

  TestMember member_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::KV::Stub> kv_;
  std::unique_ptr<pb::Watch::Stub> watch_;
  std::unique_ptr<pb::Lease::Stub> lease_;
  std::unique_ptr<pb::Maintenance::Stub> maintenance_;
  std::unique_ptr<pb::Cluster::Stub> cluster_;
  std::unique_ptr<pb::Auth::Stub> auth_;
};

// A Watch call that a test steps by hand.
class WatchStream {
 public:
  explicit WatchStream(pb::Watch::Stub& stub) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub.Watch(&context_);
  }
  ~WatchStream() {
    context_.TryCancel();
    stream_->Finish();
  }
  void Create(const std::string& key,
              int64_t start,
              const std::string& range_end = "",
              int64_t id = 0,
              bool prev_kv = false) {
    pb::WatchRequest request;
    pb::WatchCreateRequest* create = request.mutable_create_request();
    create->set_key(key);
    create->set_range_end(range_end);
    create->set_start_revision(start);
    create->set_watch_id(id);
    create->set_prev_kv(prev_kv);
    ASSERT_TRUE(stream_->Write(request));
  }
  void Cancel(int64_t id) {
    pb::WatchRequest request;
    request.mutable_cancel_request()->set_watch_id(id);
    ASSERT_TRUE(stream_->Write(request));
  }
  void Progress() {
    pb::WatchRequest request;
    request.mutable_progress_request();
    ASSERT_TRUE(stream_->Write(request));
  }
  void HalfClose() { stream_->WritesDone(); }
  // The next message; an empty one if the stream ended.
  pb::WatchResponse Next() {
    pb::WatchResponse response;
    EXPECT_TRUE(stream_->Read(&response)) << "the stream ended";
    return response;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::WatchRequest, pb::WatchResponse>> stream_;
};

}  // namespace mainstay::testing

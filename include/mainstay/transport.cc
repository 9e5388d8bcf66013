#include "mainstay/internal/transport.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "proto/etcdserverpb/rpc.grpc.pb.h"

namespace mainstay::client {
namespace {

constexpr std::string_view kApiVersion = "3.7.1";
// How long one look at an endpoint lasts while none is connected.
constexpr std::chrono::milliseconds kConnectSlice{20};
constexpr int kReadAttemptsMax = 100;
constexpr std::chrono::milliseconds kRetryPause{25};

struct Target {
  std::string address;  // as gRPC wants it
  std::string host;
  enum class Security { kNever, kAlways, kIfEnabled } security = Security::kIfEnabled;
};

Target ParseEndpoint(std::string_view endpoint) {
  Target target;
  const auto strip = [&](std::string_view scheme, Target::Security security) {
    if (!endpoint.starts_with(scheme)) {
      return false;
    }
    endpoint.remove_prefix(scheme.size());
    target.security = security;
    return true;
  };
  const bool is_unix =
      strip("unixs:", Target::Security::kAlways) || strip("unix:", Target::Security::kIfEnabled);
  if (is_unix) {
    if (endpoint.starts_with("//")) {
      endpoint.remove_prefix(2);
    }
    target.address = "unix:" + std::string(endpoint);
    target.host = "localhost";
    return target;
  }
  strip("https://", Target::Security::kAlways) || strip("http://", Target::Security::kNever);
  endpoint = endpoint.substr(0, endpoint.find('/'));
  target.address = "dns:///" + std::string(endpoint);
  target.host = std::string(endpoint.substr(0, endpoint.rfind(':')));
  return target;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return absl::InvalidArgumentError("open " + path + ": no such file or directory");
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentials(const TlsOptions& tls) {
  std::string ca, cert, key;
  for (const auto& [path, into] : {std::pair(&tls.ca_file, &ca), std::pair(&tls.cert_file, &cert),
                                   std::pair(&tls.key_file, &key)}) {
    if (path->empty()) {
      continue;
    }
    absl::StatusOr<std::string> text = ReadFile(*path);
    if (!text.ok()) {
      return text.status();
    }
    *into = std::move(*text);
  }
  if (!tls.skip_verify) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ca;
    options.pem_cert_chain = cert;
    options.pem_private_key = key;
    return grpc::SslCredentials(options);
  }
  namespace e = grpc::experimental;
  e::TlsChannelCredentialsOptions options;
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<e::NoOpCertificateVerifier>());
  if (!cert.empty()) {
    options.set_certificate_provider(std::make_shared<e::StaticDataCertificateProvider>(
        ca, std::vector<e::IdentityKeyCertPair>{{.private_key = key, .certificate_chain = cert}}));
    options.watch_identity_key_cert_pairs();
  }
  return e::TlsCredentials(options);
}

int Milliseconds(std::chrono::nanoseconds duration) {
  const int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 1, INT_MAX));
}

grpc::ChannelArguments Arguments(const Options& options) {
  grpc::ChannelArguments args;
  const std::chrono::nanoseconds ping =
      std::max<std::chrono::nanoseconds>(options.keepalive_time, std::chrono::seconds(10));
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(ping));
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 3000);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // ours know which calls are writes
  // Channels of one process must not share a connection: check perf opens many on purpose.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetMaxReceiveMessageSize(options.receive_bytes_max);
  args.SetMaxSendMessageSize(options.send_bytes_max);
  args.SetUserAgentPrefix("mainstay-client/3.7.1");
  return args;
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

absl::StatusOr<std::shared_ptr<Transport>> Transport::Create(Options options) {
  if (options.endpoints.empty()) {
    return absl::InvalidArgumentError("etcdclient: no available endpoints");
  }
  std::shared_ptr<Transport> transport(new Transport());
  for (const std::string& endpoint : options.endpoints) {
    const Target target = ParseEndpoint(endpoint);
    const bool secure = target.security == Target::Security::kAlways ||
                        (target.security == Target::Security::kIfEnabled && options.tls.enabled);
    grpc::ChannelArguments args = Arguments(options);
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    if (secure) {
      absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> tls = TlsCredentials(options.tls);
      if (!tls.ok()) {
        return tls.status();
      }
      credentials = std::move(*tls);
      if (!options.tls.server_name.empty()) {
        args.SetSslTargetNameOverride(options.tls.server_name);
      }
    }
    transport->channels_.push_back(grpc::CreateCustomChannel(target.address, credentials, args));
  }
  transport->options_ = std::move(options);
  {
    MutexLock lock(transport->mu_);
    transport->token_ = transport->options_.token;
  }
  return transport;
}

std::shared_ptr<grpc::Channel> Transport::Connected(TimePoint deadline,
                                                    const std::function<bool()>& stopped) {
  const size_t first = next_.fetch_add(1, std::memory_order_relaxed);
  while (true) {
    for (size_t i = 0; i < channels_.size(); ++i) {
      const auto& channel = channels_[(first + i) % channels_.size()];
      if (channel->GetState(true) == GRPC_CHANNEL_READY) {
        return channel;
      }
    }
    const TimePoint now = Clock::now();
    if (now >= deadline || (stopped && stopped())) {
      return nullptr;
    }
    const auto& channel = channels_[first % channels_.size()];
    const grpc_connectivity_state state = channel->GetState(true);
    if (state != GRPC_CHANNEL_READY) {
      channel->WaitForStateChange(state, std::min(deadline, now + kConnectSlice));
    }
  }
}

Transport::TimePoint Transport::Deadline(const CallOptions& call) const {
  const std::chrono::nanoseconds timeout = call.timeout.value_or(options_.command_timeout);
  if (timeout.count() <= 0) {
    return TimePoint::max();
  }
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
}

void Transport::Prepare(grpc::ClientContext& context, TimePoint deadline, bool require_leader) {
  if (deadline != TimePoint::max()) {
    context.set_deadline(deadline);
  }
  context.AddMetadata("client-api-version", std::string(kApiVersion));
  if (require_leader) {
    context.AddMetadata("hasleader", "true");
  }
  MutexLock lock(mu_);
  if (!token_.empty()) {
    context.AddMetadata("token", token_);
  }
}

absl::Status Transport::Login(TimePoint deadline) {
  if (options_.user.empty() || !options_.token.empty()) {
    return absl::OkStatus();
  }
  return Authenticate(deadline);
}

absl::Status Transport::Authenticate(TimePoint deadline) {
  const std::shared_ptr<grpc::Channel> channel = Connected(deadline);
  if (channel == nullptr) {
    return absl::DeadlineExceededError("context deadline exceeded");
  }
  grpc::ClientContext context;
  context.AddMetadata("client-api-version", std::string(kApiVersion));
  if (deadline != TimePoint::max()) {
    context.set_deadline(deadline);
  }
  etcdserverpb::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(options_.password);
  etcdserverpb::AuthenticateResponse response;
  const grpc::Status status =
      etcdserverpb::Auth::NewStub(channel)->Authenticate(&context, request, &response);
  if (status.ok()) {
    MutexLock lock(mu_);
    token_ = response.token();
  } else if (status.error_message() == "etcdserver: authentication is not enabled") {
    return absl::OkStatus();
  }
  return FromGrpc(status);
}

absl::Status Transport::Unary(bool is_read, const CallOptions& call, const Send& send) {
  const TimePoint deadline = Deadline(call);
  bool token_renewed = false;
  for (int attempt = 1;; ++attempt) {
    const std::shared_ptr<grpc::Channel> channel = Connected(deadline);
    if (channel == nullptr) {
      return absl::DeadlineExceededError("context deadline exceeded");
    }
    grpc::ClientContext context;
    Prepare(context, deadline);
    const grpc::Status status = send(channel, context);
    if (status.ok()) {
      return absl::OkStatus();
    }
    const bool token_expired =
        status.error_message() == "etcdserver: invalid auth token" ||
        status.error_message() == "etcdserver: revision of auth store is old";
    if (token_expired && !token_renewed && !options_.user.empty() && options_.token.empty()) {
      token_renewed = true;
      if (const absl::Status login = Authenticate(deadline); !login.ok()) {
        return login;
      }
      continue;
    }
    // A member that knows it has no leader has not taken the write, but only a read may go
    // elsewhere without asking: the text alone does not prove what happened to a write.
    const bool again = is_read && status.error_code() == grpc::StatusCode::UNAVAILABLE &&
                       attempt < kReadAttemptsMax;
    if (!again) {
      return FromGrpc(status);
    }
    if (static_cast<size_t>(attempt) % channels_.size() == 0) {
      // All endpoints had their turn. WaitForStateChange is gRPC's own timed wait.
      const TimePoint until = std::min(deadline, Clock::now() + kRetryPause);
      channel->WaitForStateChange(channel->GetState(false), until);
    }
  }
}

}  // namespace mainstay::client

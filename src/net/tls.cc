#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <mutex>

#include "fmt/format.h"

#include "common/log.h"
#include "common/mutex.h"
#include "env/file_system.h"

namespace mainstay::net {
namespace {

struct CtxFree {
  void operator()(SSL_CTX* ctx) const { SSL_CTX_free(ctx); }
};
using CtxPtr = std::shared_ptr<SSL_CTX>;
struct CrlFree {
  void operator()(X509_CRL* crl) const { X509_CRL_free(crl); }
};

std::string LastError() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_peek_last_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

// What tells whether a file is the one that was read.
struct FileMark {
  ino_t inode = 0;
  off_t size = 0;
  timespec changed{};
  bool operator==(const FileMark& o) const {
    return inode == o.inode && size == o.size && changed.tv_sec == o.changed.tv_sec &&
           changed.tv_nsec == o.changed.tv_nsec;
  }
};
FileMark MarkOf(const std::string& path) {
  struct stat info {};
  if (path.empty() || ::stat(path.c_str(), &info) != 0) {
    return {};
  }
  return {info.st_ino, info.st_size, info.st_mtim};
}

struct CipherName {
  std::string_view go, openssl;
};
// TLS 1.2 suites that Go knows; those of TLS 1.3 are not configurable and are accepted without
// effect.
constexpr CipherName kCiphers[] = {
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"},
    {"TLS_AES_128_GCM_SHA256", ""},
    {"TLS_AES_256_GCM_SHA384", ""},
    {"TLS_CHACHA20_POLY1305_SHA256", ""},
    {"TLS_RSA_WITH_RC4_128_SHA", ""},
    {"TLS_RSA_WITH_3DES_EDE_CBC_SHA", ""},
    {"TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", ""},
    {"TLS_ECDHE_RSA_WITH_RC4_128_SHA", ""},
    {"TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", ""},
};
// Go's own choice for TLS 1.2.
constexpr std::string_view kDefaultCiphers =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-"
    "RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-"
    "AES128-SHA:"
    "ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA";

StatusOr<std::string> CipherList(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    const auto* found = std::find_if(std::begin(kCiphers), std::end(kCiphers),
                                     [&](const CipherName& c) { return c.go == name; });
    if (found == std::end(kCiphers)) {
      return InvalidArgument(fmt::format("unexpected TLS cipher suite \"{}\"", name));
    }
    if (!found->openssl.empty()) {
      out += (out.empty() ? "" : ":") + std::string(found->openssl);
    }
  }
  return out;
}

int VersionNumber(const std::string& name, int otherwise) {
  return name == "TLS1.2" ? TLS1_2_VERSION : name == "TLS1.3" ? TLS1_3_VERSION : otherwise;
}

// h2 if the client offers it. A client that offers only http/1.1 is served without a result, as
// Go's server does.
int SelectAlpn(SSL*,
               const unsigned char** out,
               unsigned char* out_length,
               const unsigned char* in,
               unsigned in_length,
               void*) {
  for (unsigned at = 0; at < in_length; at += 1U + in[at]) {
    if (in[at] == 2 && at + 2 < in_length && in[at + 1] == 'h' && in[at + 2] == '2') {
      *out = in + at + 1;
      *out_length = 2;
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_NOACK;
}

class Context : public TlsContext {
 public:
  explicit Context(TlsOptions options) : options_(std::move(options)) {}

  Status Load() {
    MS_ASSIGN_OR_RETURN(CtxPtr ctx, Build());
    MutexLock lock(mu_);
    cert_mark_ = MarkOf(options_.cert_file);
    key_mark_ = MarkOf(options_.key_file);
    ca_mark_ = MarkOf(options_.ca_file);
    ctx_ = std::move(ctx);
    return absl::OkStatus();
  }

  SSL* NewServer() override {
    CtxPtr ctx = Current();
    return ctx != nullptr ? SSL_new(ctx.get()) : nullptr;
  }

  std::string CheckPeer(SSL* ssl) override {
    if (!RequiresClient()) {
      return {};
    }
    X509* leaf = SSL_get0_peer_certificate(ssl);
    if (leaf == nullptr) {
      return "tls: client didn't provide a certificate";
    }
    if (!options_.allowed_names.empty() &&
        std::none_of(options_.allowed_names.begin(), options_.allowed_names.end(),
                     [&](const std::string& name) { return NameMatches(leaf, name); })) {
      return "client certificate authentication failed";
    }
    if (!options_.allowed_common_names.empty()) {
      std::array<char, 256> name{};
      X509_NAME_get_text_by_NID(X509_get_subject_name(leaf), NID_commonName, name.data(),
                                name.size());
      const auto& allowed = options_.allowed_common_names;
      if (std::find(allowed.begin(), allowed.end(), name.data()) == allowed.end()) {
        return "client certificate authentication failed";
      }
    }
    return options_.crl_file.empty() ? std::string() : CheckRevoked(ssl);
  }

 private:
  bool RequiresClient() const { return options_.client_auth || !options_.ca_file.empty(); }

  static bool NameMatches(X509* leaf, const std::string& name) {
    return X509_check_host(leaf, name.data(), name.size(), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                           nullptr) == 1 ||
           X509_check_ip_asc(leaf, name.c_str(), 0) == 1;
  }

  static std::string RevokedText(X509* certificate) {
    std::string hex;
    const ASN1_INTEGER* serial = X509_get0_serialNumber(certificate);
    for (int i = 0; i < serial->length; ++i) {
      fmt::format_to(std::back_inserter(hex), "{:02x}", serial->data[i]);
    }
    return "transport: certificate serial " + hex + " revoked";
  }

  // By serial number alone, in every certificate that was presented, as etcd does it.
  std::string CheckRevoked(SSL* ssl) const {
    FILE* file = std::fopen(options_.crl_file.c_str(), "rb");
    if (file == nullptr) {
      return "open " + options_.crl_file + ": " + std::generic_category().message(errno);
    }
    const std::unique_ptr<X509_CRL, CrlFree> crl(d2i_X509_CRL_fp(file, nullptr));
    std::fclose(file);
    if (crl == nullptr) {
      return "read " + options_.crl_file + ": " + LastError();
    }
    const STACK_OF(X509)* chain = SSL_get_peer_cert_chain(ssl);
    const auto revoked = [&](X509* certificate) {
      X509_REVOKED* entry = nullptr;
      return X509_CRL_get0_by_serial(crl.get(), &entry, X509_get_serialNumber(certificate)) == 1;
    };
    if (X509* leaf = SSL_get0_peer_certificate(ssl); leaf != nullptr && revoked(leaf)) {
      return RevokedText(leaf);
    }
    for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
      if (X509* const one = sk_X509_value(chain, i); revoked(one)) {
        return RevokedText(one);
      }
    }
    return {};
  }

  CtxPtr Current() {
    const FileMark cert = MarkOf(options_.cert_file);
    const FileMark key = MarkOf(options_.key_file);
    const FileMark ca = MarkOf(options_.ca_file);
    MutexLock lock(mu_);
    if (cert == cert_mark_ && key == key_mark_ && ca == ca_mark_) {
      return ctx_;
    }
    StatusOr<CtxPtr> fresh = Build();
    if (!fresh.ok()) {
      // No way back to the old pair: the operator has replaced it.
      MS_LOG(kWarn, "failed to create peer certificate")
          .Str("cert-file", options_.cert_file)
          .Error(fresh.status().ToString());
      return nullptr;
    }
    MS_LOG(kInfo, "loaded the certificate again").Str("cert-file", options_.cert_file);
    cert_mark_ = cert;
    key_mark_ = key;
    ca_mark_ = ca;
    ctx_ = *std::move(fresh);
    return ctx_;
  }

  StatusOr<CtxPtr> Build() const {
    ERR_clear_error();
    const CtxPtr ctx(SSL_CTX_new(TLS_server_method()), CtxFree());
    SSL_CTX_set_min_proto_version(ctx.get(), VersionNumber(options_.min_version, TLS1_2_VERSION));
    SSL_CTX_set_max_proto_version(ctx.get(), VersionNumber(options_.max_version, 0));
    SSL_CTX_set_options(ctx.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ctx.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    // One recv() for all records that are there, not two for each.
    SSL_CTX_set_read_ahead(ctx.get(), 1);
    SSL_CTX_set_alpn_select_cb(ctx.get(), SelectAlpn, nullptr);
    MS_ASSIGN_OR_RETURN(const std::string ciphers, CipherList(options_.cipher_suites));
    if (SSL_CTX_set_cipher_list(ctx.get(),
                                ciphers.empty() ? kDefaultCiphers.data() : ciphers.c_str()) != 1) {
      return InvalidArgument("tls: cipher suites: " + LastError());
    }
    if (SSL_CTX_use_certificate_chain_file(ctx.get(), options_.cert_file.c_str()) != 1) {
      return InvalidArgument("tls: " + options_.cert_file + ": " + LastError());
    }
    if (SSL_CTX_use_PrivateKey_file(ctx.get(), options_.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx.get()) != 1) {
      return InvalidArgument("tls: " + options_.key_file + ": " + LastError());
    }
    if (RequiresClient()) {
      SSL_CTX_set_verify(ctx.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
      const int loaded =
          options_.ca_file.empty()
              ? SSL_CTX_set_default_verify_paths(ctx.get())
              : SSL_CTX_load_verify_locations(ctx.get(), options_.ca_file.c_str(), nullptr);
      if (loaded != 1) {
        return InvalidArgument("tls: " + options_.ca_file + ": " + LastError());
      }
      if (!options_.ca_file.empty()) {
        SSL_CTX_set_client_CA_list(ctx.get(), SSL_load_client_CA_file(options_.ca_file.c_str()));
      }
    }
    static constexpr unsigned char kSessionContext[] = "mainstay";
    SSL_CTX_set_session_id_context(ctx.get(), kSessionContext, sizeof kSessionContext - 1);
    return ctx;
  }

  const TlsOptions options_;
  Mutex mu_;
  CtxPtr ctx_ ABSL_GUARDED_BY(mu_);
  FileMark cert_mark_ ABSL_GUARDED_BY(mu_);
  FileMark key_mark_ ABSL_GUARDED_BY(mu_);
  FileMark ca_mark_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

StatusOr<std::unique_ptr<TlsContext>> NewTlsContext(TlsOptions options) {
  auto context = std::make_unique<Context>(std::move(options));
  MS_RETURN_IF_ERROR(context->Load());
  return std::unique_ptr<TlsContext>(std::move(context));
}

Status WriteSelfSigned(const std::string& cert_file,
                       const std::string& key_file,
                       const std::vector<std::string>& hosts,
                       int years) {
  ERR_clear_error();
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-521"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), X509_free);
  if (key == nullptr || cert == nullptr) {
    return Internal("tls: " + LastError());
  }
  X509_set_version(cert.get(), 2);
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> serial(BN_new(), BN_free);
  BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY);
  BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(cert.get()));
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), 0);
  X509_time_adj_ex(X509_getm_notAfter(cert.get()), years * 365, 0, nullptr);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "O", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("etcd"), -1, -1, 0);
  X509_set_issuer_name(cert.get(), X509_get_subject_name(cert.get()));
  X509_set_pubkey(cert.get(), key.get());
  std::string names;
  for (const std::string& host : hosts) {
    const bool is_ip =
        host.find(':') != std::string::npos ||
        (!host.empty() && host.find_first_not_of("0123456789.") == std::string::npos);
    names += (names.empty() ? "" : ",") + std::string(is_ip ? "IP:" : "DNS:") + host;
  }
  const auto extend = [&](int nid, const std::string& value) {
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, cert.get(), cert.get(), nullptr, nullptr, 0);
    const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
        X509V3_EXT_conf_nid(nullptr, &ctx, nid, value.c_str()), X509_EXTENSION_free);
    return extension != nullptr && X509_add_ext(cert.get(), extension.get(), -1) == 1;
  };
  if (!extend(NID_basic_constraints, "critical,CA:TRUE") ||
      !extend(NID_key_usage, "critical,digitalSignature,keyCertSign") ||
      !extend(NID_ext_key_usage, "serverAuth") ||
      (!names.empty() && !extend(NID_subject_alt_name, names)) ||
      X509_sign(cert.get(), key.get(), EVP_sha512()) == 0) {
    return Internal("tls: self-signed certificate: " + LastError());
  }
  const auto text = [](auto write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    write(bio.get());
    char* data = nullptr;
    const auto length = BIO_get_mem_data(bio.get(), &data);
    return std::string(data, static_cast<size_t>(length));
  };
  MS_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), key_file, text([&](BIO* bio) {
                                           PEM_write_bio_PrivateKey(bio, key.get(), nullptr,
                                                                    nullptr, 0, nullptr, nullptr);
                                         })));
  return WriteFileAtomically(PosixFileSystem(), cert_file,
                             text([&](BIO* bio) { PEM_write_bio_X509(bio, cert.get()); }));
}

}  // namespace mainstay::net

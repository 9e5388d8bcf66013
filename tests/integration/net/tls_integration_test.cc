// Goal: TLS listeners shake hands with whom they should, on the files as they are now, and wait for
// nobody for ever.
// Method: loopback; authorities, certificates and revocation lists made here; time-outs on a clock
// that the test moves.
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/mutex.h"
#include "tests/integration/net/fixture.h"

namespace mainstay::net {
namespace {

struct Free {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(X509_CRL* p) const { X509_CRL_free(p); }
};

// An authority that signs certificates and revokes them.
class Authority {
 public:
  explicit Authority(const std::string& dir) : dir_(dir), key_(EVP_EC_gen("P-256")) {
    cert_ = Sign(key_.get(), "test authority", "", 1, "critical,CA:TRUE", nullptr);
    WritePem(dir + "/ca", cert_.get(), nullptr);
  }
  std::string ca_file() const { return dir_ + "/ca"; }
  // dir/name.cert and dir/name.key; `sans` as OpenSSL writes them, e.g. "DNS:a,IP:127.0.0.1".
  void Issue(const std::string& name,
             const std::string& common_name,
             const std::string& sans,
             long serial) {
    const std::unique_ptr<EVP_PKEY, Free> key(EVP_EC_gen("P-256"));
    const auto cert = Sign(key.get(), common_name, sans, serial, "CA:FALSE", cert_.get());
    WritePem(dir_ + "/" + name + ".cert", cert.get(), nullptr);
    WritePem(dir_ + "/" + name + ".key", nullptr, key.get());
  }
  // dir/crl in DER, as etcd reads it.
  std::string Revoke(long serial) {
    const std::unique_ptr<X509_CRL, Free> crl(X509_CRL_new());
    X509_CRL_set_version(crl.get(), 1);
    X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(cert_.get()));
    ASN1_TIME* const now = X509_gmtime_adj(nullptr, 0);
    X509_CRL_set1_lastUpdate(crl.get(), now);
    X509_CRL_set1_nextUpdate(crl.get(), now);
    X509_REVOKED* const entry = X509_REVOKED_new();
    ASN1_INTEGER* const number = ASN1_INTEGER_new();
    ASN1_INTEGER_set(number, serial);
    X509_REVOKED_set_serialNumber(entry, number);
    X509_REVOKED_set_revocationDate(entry, now);
    X509_CRL_add0_revoked(crl.get(), entry);
    ASN1_INTEGER_free(number);
    ASN1_TIME_free(now);
    EXPECT_GT(X509_CRL_sign(crl.get(), key_.get(), EVP_sha256()), 0);
    FILE* const file = std::fopen((dir_ + "/crl").c_str(), "wb");
    EXPECT_EQ(i2d_X509_CRL_fp(file, crl.get()), 1);
    std::fclose(file);
    return dir_ + "/crl";
  }

 private:
  std::unique_ptr<X509, Free> Sign(EVP_PKEY* key,
                                   const std::string& common_name,
                                   const std::string& sans,
                                   long serial,
                                   const char* constraints,
                                   X509* issuer) {
    std::unique_ptr<X509, Free> cert(X509_new());
    X509_set_version(cert.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), serial);
    X509_gmtime_adj(X509_getm_notBefore(cert.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                               0);
    if (issuer == nullptr) {
      issuer = cert.get();
    }
    X509_set_issuer_name(cert.get(), X509_get_subject_name(issuer));
    X509_set_pubkey(cert.get(), key);
    Extend(cert.get(), NID_basic_constraints, constraints);
    if (!sans.empty()) {
      Extend(cert.get(), NID_subject_alt_name, sans);
    }
    EXPECT_GT(X509_sign(cert.get(), key_.get(), EVP_sha256()), 0);
    return cert;
  }
  static void Extend(X509* cert, int nid, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, cert, cert, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    EXPECT_EQ(X509_add_ext(cert, extension, -1), 1) << value;
    X509_EXTENSION_free(extension);
  }
  static void WritePem(const std::string& path, X509* cert, EVP_PKEY* key) {
    FILE* const file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr) << path;
    EXPECT_EQ(cert != nullptr
                  ? PEM_write_X509(file, cert)
                  : PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr),
              1);
    std::fclose(file);
  }
  const std::string dir_;
  const std::unique_ptr<EVP_PKEY, Free> key_;
  std::unique_ptr<X509, Free> cert_;
};

class TlsTest : public NetTest {
 protected:
  TlsTest() {
    char name[] = "/tmp/net-tls-XXXXXX";
    MS_CHECK(::mkdtemp(name) != nullptr);
    dir = name;
    Make("one");
  }
  ~TlsTest() override { std::filesystem::remove_all(dir); }
  void Make(const std::string& host) {
    ASSERT_TRUE(WriteSelfSigned(dir + "/cert", dir + "/key", {host, "127.0.0.1"}, 1).ok());
  }
  void ServeTls(TlsOptions options) {
    options.cert_file = dir + "/cert";
    options.key_file = dir + "/key";
    auto made = NewTlsContext(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    tls = *std::move(made);
    Serve({.loops = 1}, {.address = {}, .tls = tls.get()});
  }
  struct Result {
    bool shaken = false;
    std::string alpn, text, names;
    int version = 0;
  };
  // `own`: the client shows dir/own.cert.
  Result Ask(const std::string& alpn, int version_max = 0, const std::string& own = "") {
    Result out;
    Socket socket(port);
    SSL_CTX* ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(ctx, version_max);
    if (!own.empty()) {
      const std::string base = dir + "/" + own;
      EXPECT_EQ(SSL_CTX_use_certificate_chain_file(ctx, (base + ".cert").c_str()), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey_file(ctx, (base + ".key").c_str(), SSL_FILETYPE_PEM), 1);
    }
    SSL* ssl = SSL_new(ctx);
    if (!alpn.empty()) {
      SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(alpn.data()),
                          static_cast<unsigned>(alpn.size()));
    }
    SSL_set_fd(ssl, socket.fd());
    out.shaken = SSL_connect(ssl) == 1;
    if (out.shaken) {
      const unsigned char* chosen = nullptr;
      unsigned n = 0;
      SSL_get0_alpn_selected(ssl, &chosen, &n);
      out.alpn.assign(reinterpret_cast<const char*>(chosen), n);
      out.version = SSL_version(ssl);
      X509* leaf = SSL_get0_peer_certificate(ssl);
      out.names = X509_check_host(leaf, "one", 3, 0, nullptr) == 1 ? "one" : "other";
      if (out.alpn.empty()) {
        const std::string_view request =
            "GET /tls HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        SSL_write(ssl, request.data(), static_cast<int>(request.size()));
        char buffer[4096];
        for (int got = 0; (got = SSL_read(ssl, buffer, sizeof buffer)) > 0;) {
          out.text.append(buffer, static_cast<size_t>(got));
        }
      }
    }
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return out;
  }
  std::string dir;
  std::unique_ptr<TlsContext> tls;
};

TEST_F(TlsTest, ServesHttp1WithoutAlpnAndHttp2WithIt) {
  ServeTls({});
  for (const std::string& alpn : {std::string(), std::string("\x08http/1.1")}) {
    const Result got = Ask(alpn);
    EXPECT_TRUE(got.shaken);
    EXPECT_EQ(got.alpn, "");
    EXPECT_NE(got.text.find("/tls"), std::string::npos);
  }
  EXPECT_EQ(Ask("\x08http/1.1\x02h2").alpn, "h2");
}

// Found by a real kube-apiserver: OpenSSL writes with write(), and SIGPIPE ended the server.
TEST_F(TlsTest, AClientThatGoesAwayMidAnswerEndsOnlyItsConnection) {
  ServeTls({});
  for (int round = 0; round < 20; ++round) {
    Socket socket(port);
    SSL_CTX* ctx = SSL_CTX_new(TLS_client_method());
    SSL* ssl = SSL_new(ctx);
    SSL_set_fd(ssl, socket.fd());
    ASSERT_EQ(SSL_connect(ssl), 1);
    const std::string_view request = "GET /big?50000000 HTTP/1.1\r\nHost: x\r\n\r\n";
    SSL_write(ssl, request.data(), static_cast<int>(request.size()));
    char first = 0;
    EXPECT_EQ(SSL_read(ssl, &first, 1), 1);
    SSL_set_quiet_shutdown(ssl, 1);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    const linger reset{1, 0};
    setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  EXPECT_TRUE(Ask("").shaken);
}

TEST_F(TlsTest, PlaintextGoesOnTheSamePort) {
  ServeTls({});
  Socket socket(port);
  socket.Send("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(socket.Until("/plain").find("/plain"), std::string::npos);
}

TEST_F(TlsTest, TheNextHandshakeUsesANewCertificate) {
  ServeTls({});
  EXPECT_EQ(Ask("").names, "one");
  Make("two");
  EXPECT_EQ(Ask("").names, "other");
}

TEST_F(TlsTest, VersionsAreBounded) {
  ServeTls({.min_version = "TLS1.3"});
  EXPECT_FALSE(Ask("", TLS1_2_VERSION).shaken);
  EXPECT_EQ(Ask("", TLS1_3_VERSION).version, TLS1_3_VERSION);
}

// In TLS 1.3 a client learns with its first read that it is refused, in 1.2 while it shakes hands
// or, if only our own checks refuse it, with its first read too.
class ClientCertTest : public TlsTest {
 protected:
  ClientCertTest() : authority(dir) {
    authority.Issue("alice", "alice", "DNS:alice.example,IP:10.0.0.1", 0x1234);
    authority.Issue("bob", "bob", "DNS:bob.example", 0x5678);
  }
  bool Served(const std::string& own) {
    const bool served = Ask("", 0, own).text.find("/tls") != std::string::npos;
    EXPECT_EQ(Ask("", TLS1_2_VERSION, own).text.find("/tls") != std::string::npos, served);
    return served;
  }
  Authority authority;
};

TEST_F(ClientCertTest, OneOfTheAuthorityIsNeeded) {
  ServeTls({.ca_file = authority.ca_file(), .client_auth = true});
  EXPECT_TRUE(Served("alice"));
  EXPECT_TRUE(Served("bob"));
  EXPECT_FALSE(Served(""));
  EXPECT_FALSE(Ask("", TLS1_2_VERSION).shaken);
  // One of another authority with the same name.
  const std::string other = dir + "/other";
  ASSERT_TRUE(std::filesystem::create_directory(other));
  Authority stranger(other);
  stranger.Issue("alice", "alice", "DNS:alice.example", 0x1234);
  EXPECT_FALSE(Served("other/alice"));
  EXPECT_FALSE(Ask("", TLS1_2_VERSION, "other/alice").shaken);
}

TEST_F(ClientCertTest, ATrustedFileAloneAsksForOneToo) {
  ServeTls({.ca_file = authority.ca_file()});
  EXPECT_TRUE(Served("alice"));
  EXPECT_FALSE(Served(""));
}

TEST_F(ClientCertTest, OnlyAllowedNamesMayComeIn) {
  ServeTls({.ca_file = authority.ca_file(),
            .client_auth = true,
            .allowed_names = {"nobody.example", "alice.example"}});
  EXPECT_TRUE(Served("alice"));
  EXPECT_FALSE(Served("bob"));
}

TEST_F(ClientCertTest, AnAddressIsANameToo) {
  ServeTls({.ca_file = authority.ca_file(), .client_auth = true, .allowed_names = {"10.0.0.1"}});
  EXPECT_TRUE(Served("alice"));
  EXPECT_FALSE(Served("bob"));
}

TEST_F(ClientCertTest, OnlyAllowedCommonNamesMayComeIn) {
  ServeTls({.ca_file = authority.ca_file(),
            .client_auth = true,
            .allowed_common_names = {"carol", "bob"}});
  EXPECT_FALSE(Served("alice"));
  EXPECT_TRUE(Served("bob"));
}

TEST_F(ClientCertTest, ARevokedSerialIsRefusedAndTheListIsReadEachTime) {
  const std::string crl = authority.Revoke(0x1234);
  ServeTls({.ca_file = authority.ca_file(), .crl_file = crl, .client_auth = true});
  EXPECT_FALSE(Served("alice"));
  EXPECT_TRUE(Served("bob"));
  authority.Revoke(0x5678);
  EXPECT_TRUE(Served("alice"));
  EXPECT_FALSE(Served("bob"));
  // A list that cannot be read lets nobody in.
  std::filesystem::resize_file(crl, 10);
  EXPECT_FALSE(Served("alice"));
  std::filesystem::remove(crl);
  EXPECT_FALSE(Served("alice"));
}

TEST_F(ClientCertTest, TheCommonNameReachesTheHandler) {
  ServeTls({.ca_file = authority.ca_file(), .client_auth = true});
  EXPECT_TRUE(Served("alice"));
  MutexLock lock(pages.mu);
  EXPECT_EQ(pages.last_common_name, "alice");
}

TEST_F(TlsTest, ABrokenPairFailsHandshakesUntilItIsMended) {
  ServeTls({});
  EXPECT_TRUE(Ask("").shaken);
  std::filesystem::copy_file(dir + "/key", dir + "/kept");
  std::ofstream(dir + "/key") << "no key";
  EXPECT_FALSE(Ask("").shaken);
  // Plaintext and the process go on; so does TLS, with the next good pair.
  Make("two");
  EXPECT_EQ(Ask("").names, "other");
}

// C36: a handshake that does not come to its end is cut, at whatever byte it stands; what is at
// work stays.
TEST_F(TlsTest, HalfOpenHandshakesAreCut) {
  ServeTls({});
  // A whole ClientHello, to be cut.
  SSL_CTX* ctx = SSL_CTX_new(TLS_client_method());
  SSL* ssl = SSL_new(ctx);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
  SSL_connect(ssl);
  const char* data = nullptr;
  const auto length = static_cast<size_t>(BIO_get_mem_data(out, &data));
  const std::string hello(data, length);
  SSL_free(ssl);
  SSL_CTX_free(ctx);
  ASSERT_GT(hello.size(), 100u);

  std::vector<std::unique_ptr<Socket>> stuck;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5}, hello.size() - 1, hello.size()}) {
    for (int i = 0; i < 10; ++i) {
      stuck.push_back(std::make_unique<Socket>(port));
      stuck.back()->Send(std::string_view(hello).substr(0, bytes));
    }
  }
  Socket fine(port);
  fine.Send("GET /fine HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(fine.Until("/fine").find("/fine"), std::string::npos);
  ASSERT_TRUE(Eventually([&] { return server->connection_count() == stuck.size() + 1; }));
  clock.Advance(seconds(11));
  EXPECT_TRUE(Eventually([&] { return server->connection_count() == 1; }));
  for (const auto& socket : stuck) {
    socket->Rest();
    EXPECT_FALSE(socket->timed_out());
  }
  fine.Send("GET /again HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(fine.Until("/again").find("/again"), std::string::npos);
  EXPECT_TRUE(Ask("").shaken);
}

TEST_F(TlsTest, UnknownCiphersAndMissingFilesAreNamed) {
  const auto cipher = NewTlsContext(
      {.cert_file = dir + "/cert", .key_file = dir + "/key", .cipher_suites = {"TLS_NONE"}});
  EXPECT_NE(cipher.status().ToString().find("TLS_NONE"), std::string::npos);
  const auto missing = NewTlsContext({.cert_file = dir + "/no", .key_file = dir + "/key"});
  EXPECT_NE(missing.status().ToString().find(dir + "/no"), std::string::npos);
}

}  // namespace
}  // namespace mainstay::net

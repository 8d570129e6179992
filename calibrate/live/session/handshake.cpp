#include "calibrate/live/session/handshake.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "calibrate/live/role/options.h"

namespace kvlane::live {
namespace {

constexpr std::size_t kNonceBytes = 32, kProofBytes = 32;
constexpr std::size_t kMostKeys = 256, kMostText = 2048;
using Nonce = std::array<std::byte, kNonceBytes>;
using Proof = std::array<std::byte, kProofBytes>;

struct Hello {
  std::string version;
  Nonce nonce{};
  bool has_secret = false;
};

Nonce random_nonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return nonce;
}

Proof proof_of(const std::string& secret, const char* role, const Nonce& active,
               const Nonce& passive) {
  std::vector<unsigned char> text(role, role + std::char_traits<char>::length(role));
  for (const Nonce* nonce : {&active, &passive}) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(nonce->data());
    text.insert(text.end(), bytes, bytes + kNonceBytes);
  }
  Proof proof{};
  unsigned int length = 0;
  if (::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), text.data(), text.size(),
             reinterpret_cast<unsigned char*>(proof.data()), &length) == nullptr ||
      length != kProofBytes) {
    throw std::runtime_error("HMAC-SHA256 failed");
  }
  return proof;
}

void send_hello(Session& session, const Identity& identity, const Nonce& nonce) {
  std::vector<std::byte> body;
  Writer out(body);
  out.put(kProtocol);
  out.put_text(identity.version);
  out.put_bytes(nonce);
  out.put(static_cast<std::uint8_t>(identity.secret.empty() ? 0 : 1));
  session.send(FrameKind::hello, body);
}

// `told`: the same as the peer sees it, where that differs.
[[noreturn]] void refuse(Session& session, const std::string& reason,
                         const std::string& told = "") {
  session.send_text(FrameKind::refuse, told.empty() ? reason : told);
  session.close();
  throw PeerError(fmt::format("{} was refused: {}", session.peer(), reason));
}

// `passive`: whether to tell the peer why it is refused.
Hello expect_hello(Session& session, const Identity& identity, Duration limit, bool passive) {
  const std::vector<std::byte> body = session.wait(FrameKind::hello, limit);
  Reader in(body);
  const auto protocol = in.get<std::uint32_t>();
  Hello hello;
  hello.version = in.get_text(256);
  if (in.ok() && protocol != kProtocol) {
    // What follows may have another form.
    const std::string ours = fmt::format("{} ({})", kProtocol, identity.version);
    const std::string theirs = fmt::format("{} ({})", protocol, hello.version);
    constexpr const char* kBoth =
        "protocol {} here, {} at the peer; expected the same kvlane on both";
    const std::string reason = fmt::format(kBoth, ours, theirs);
    if (passive) refuse(session, reason, fmt::format(kBoth, theirs, ours));
    throw PeerError(fmt::format("{}: {}", session.peer(), reason));
  }
  const std::span<const std::byte> nonce = in.get_bytes(kNonceBytes);
  hello.has_secret = in.get<std::uint8_t>() != 0;
  if (!in.done()) throw PeerError(session.peer() + " sent a hello that is none");
  std::copy(nonce.begin(), nonce.end(), hello.nonce.begin());
  return hello;
}

std::string secret_problem(bool here, bool there) {
  if (here && !there) return "wrong secret: there is one at the listening side, none at the other";
  if (!here && there) return "wrong secret: there is none at the listening side, one at the other";
  return "wrong secret";
}

bool same(const Proof& a, std::span<const std::byte> b) {
  return b.size() == a.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::vector<std::byte> encode_config(const Config& config) {
  std::vector<std::byte> body;
  Writer out(body);
  out.put(static_cast<std::uint32_t>(config.size()));
  for (const auto& [name, value] : config) {
    out.put_text(name);
    out.put_text(value);
  }
  return body;
}

bool decode_config(std::span<const std::byte> bytes, Config& config) {
  Reader in(bytes);
  const auto count = in.get<std::uint32_t>();
  if (count > kMostKeys) return false;
  config.clear();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    std::string name = in.get_text(kMostText);
    std::string value = in.get_text(kMostText);
    config.emplace_back(std::move(name), std::move(value));
  }
  return in.done();
}

void require_secret(const SocketAddress& listen, const std::string& secret) {
  if (listen.is_loopback() || !secret.empty()) return;
  throw OptionError(
      fmt::format("--listen {}: no secret; expected --secret-file FILE or KVLANE_SECRET, the same "
                  "on both hosts, when listening on anything but loopback",
                  listen.text()));
}

std::string random_secret() {
  std::string secret;
  const Nonce nonce = random_nonce();
  for (std::size_t i = 0; i < 16; ++i) {
    secret += fmt::format("{:02x}", static_cast<unsigned>(nonce[i]));
  }
  return secret;
}

std::string differences(const Config& own, const Config& theirs) {
  std::string text;
  const auto value_of = [](const Config& config, const std::string& name) {
    const auto found = std::find_if(config.begin(), config.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    return found == config.end() ? std::string("nothing") : found->second;
  };
  const auto add = [&](const std::string& name, const std::string& here, const std::string& there) {
    text +=
        fmt::format("{}{}: {} here, {} at the peer", text.empty() ? "" : "; ", name, here, there);
  };
  for (const auto& [name, value] : own) {
    const std::string there = value_of(theirs, name);
    if (there != value) add(name, value, there);
  }
  for (const auto& [name, value] : theirs) {
    if (value_of(own, name) == "nothing" && value != "nothing") add(name, "nothing", value);
  }
  return text;
}

void shake_hands_active(Session& session, const Identity& identity, const Config& config,
                        Duration limit) {
  const Nonce nonce = random_nonce();
  send_hello(session, identity, nonce);
  const Hello theirs = expect_hello(session, identity, limit, false);
  session.send(FrameKind::proof, proof_of(identity.secret, "active", nonce, theirs.nonce));
  if (!same(proof_of(identity.secret, "passive", nonce, theirs.nonce),
            session.wait(FrameKind::proof, limit))) {
    throw PeerError(session.peer() + " does not know the secret");
  }
  session.trust();
  session.send(FrameKind::config, encode_config(config));
  session.wait(FrameKind::accept, limit);
}

Config shake_hands_passive(Session& session, const Identity& identity, const Config& own,
                           const std::vector<std::string>& theirs_only, Duration limit) {
  const Nonce nonce = random_nonce();
  const Hello theirs = expect_hello(session, identity, limit, true);
  send_hello(session, identity, nonce);
  if (!same(proof_of(identity.secret, "active", theirs.nonce, nonce),
            session.wait(FrameKind::proof, limit))) {
    refuse(session, secret_problem(!identity.secret.empty(), theirs.has_secret));
  }
  session.send(FrameKind::proof, proof_of(identity.secret, "passive", theirs.nonce, nonce));
  session.trust();
  Config config;
  if (!decode_config(session.wait(FrameKind::config, limit), config)) {
    refuse(session, "a config that is none");
  }
  Config given;
  std::erase_if(config, [&](const auto& entry) {
    const bool only =
        std::find(theirs_only.begin(), theirs_only.end(), entry.first) != theirs_only.end();
    if (only) given.push_back(entry);
    return only;
  });
  if (const std::string reason = differences(own, config); !reason.empty()) {
    refuse(session, reason, differences(config, own));
  }
  session.send(FrameKind::accept);
  return given;
}

}  // namespace kvlane::live

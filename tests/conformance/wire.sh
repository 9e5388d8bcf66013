#!/usr/bin/env bash
# wire.sh SERVER INTEROP_CLIENT H2SPEC: runs the official gRPC interop cases and h2spec against grpc_test_server,
# over plaintext and over TLS. Exit 77 (skipped) when a tool is missing, 1 when a case fails.
set -u
server=${1:?usage: wire.sh SERVER INTEROP_CLIENT H2SPEC}
interop=${2:-}
h2spec=${3:-}
for tool in "$interop" "$h2spec" openssl; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: no ${tool:-tool given}"
    exit 77
  fi
done
dir=$(mktemp -d)
pid=
stop() {
  [ -n "$pid" ] && kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
  pid=
}
trap 'stop; rm -rf "$dir"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -addext "subjectAltName=DNS:localhost,DNS:foo.test.google.fr,IP:127.0.0.1" \
  -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>/dev/null || exit 1

start() {
  "$server" 0 "$@" >"$dir/port" &
  pid=$!
  for _ in $(seq 200); do
    [ -s "$dir/port" ] && break
    read -r -t 0.05 <> <(:) || true
  done
  port=$(cat "$dir/port")
}

failed=0
cases="empty_unary large_unary client_streaming server_streaming ping_pong empty_stream
  timeout_on_sleeping_server cancel_after_begin cancel_after_first_response status_code_and_message
  special_status_message custom_metadata unimplemented_method unimplemented_service"
check() {
  local name=$1
  shift
  for one in $cases; do
    if ! timeout 30 "$interop" --test_case="$one" --server_host=127.0.0.1 --server_port="$port" "$@" \
      >"$dir/out" 2>&1; then
      echo "FAILED $name $one"
      tail -3 "$dir/out"
      failed=1
    fi
  done
  echo "$name: interop cases done"
}
spec() {
  local name=$1
  shift
  timeout 300 "$h2spec" -h 127.0.0.1 -p "$port" "$@" >"$dir/out" 2>&1 || failed=1
  echo "$name: h2spec: $(grep -E '[0-9]+ tests,' "$dir/out" | tail -1)"
}

start
check plaintext
spec plaintext
stop
start "$dir/cert.pem" "$dir/key.pem"
check TLS --use_tls --use_test_ca --ca_file="$dir/cert.pem" --server_host_override=foo.test.google.fr
spec TLS -t -k
stop
exit $failed

#!/usr/bin/env bash
# run.sh SERVER [ROUNDS] [SEED] [ROUND_MS]: SIGKILL at random moments under load, ROUNDS (500) times; see main.go.
# Exit 77: skipped.
set -eu
command -v go >/dev/null || { echo "skipped: no go toolchain"; exit 77; }
server=$(realpath "$1")
cd "$(dirname "$0")"
go test . >/dev/null  # the checker finds what it must
exec go run . -server "$server" -rounds "${2:-500}" -seed "${3:-1}" -round-ms "${4:-170}"

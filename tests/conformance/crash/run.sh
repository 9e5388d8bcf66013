#!/usr/bin/env bash
# run.sh SERVER [ROUNDS] [SEED]: SIGKILL at random moments under load, ROUNDS (500) times; see main.go. Exit 77: skipped.
set -eu
command -v go >/dev/null || { echo "skipped: no go toolchain"; exit 77; }
server=$(realpath "$1")
cd "$(dirname "$0")"
exec go run . -server "$server" -rounds "${2:-500}" -seed "${3:-1}"

#!/usr/bin/env bash
# systemd_test.sh SOURCE_DIR BIN_DIR: the unit is sound. Where systemd runs, it is started and stopped; elsewhere
# systemd-analyze reads it. Exit 77: skipped.
set -eu
source=$1 bin=$2
command -v systemd-analyze >/dev/null || { echo "skipped: no systemd-analyze"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unit=$work/mainstay-test-$$.service
# The program where it was built, run by whoever runs this test.
sed -e "s#^ExecStart=.*#ExecStart=$bin/mainstay#" -e '/^User=/d' -e '/^Group=/d' -e '/^Documentation=/d' \
  "$source/deploy/systemd/mainstay.service" >"$unit"
findings=$(systemd-analyze verify "$unit" 2>&1 | grep -F "$(basename "$unit")" || true)
[ -z "$findings" ] || { echo "$findings"; exit 1; }
grep -q '^Type=notify$' "$unit"
echo "ok: systemd-analyze finds nothing"
[ -d /run/systemd/system ] || { echo "systemd does not run here: not started"; exit 0; }
cp "$unit" /run/systemd/system/
name=$(basename "$unit")
trap 'systemctl stop "$name" || true; rm -f "/run/systemd/system/$name"; systemctl daemon-reload; rm -rf "$work"' EXIT
systemctl daemon-reload
systemctl start "$name" # Type=notify: returns once READY=1 was sent
systemctl is-active "$name"
systemctl stop "$name"
[ "$(systemctl show -p Result --value "$name")" = success ]
echo "ok: started and stopped"

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# stress-ng, unmodified, for five seconds: ends as it does natively, and leaves the counters at zero.
# test: timeout 120
set -u
cd "$TMPDIR" || exit 2
stressors=(--mq 2 --mlock 2 --fork 2 --clone 2 --vfork 2 --exec 2 --zombie 1 -t 5 --verify)

natively=$(stress-ng "${stressors[@]}" 2>&1)
native=$?
emulated=$("$BUILD/kpemu" run --quiet -- stress-ng "${stressors[@]}" 2>&1)
got=$?
# what either run complains about, without process numbers
complaints() { grep -E 'fail:|error:' <<<"$1" | sed 's/\[[0-9]*\]//' | sort -u; }

if [ "$got" != "$native" ]; then
	echo "FAIL stress_ng_exit_status natively $native, emulated $got"
	echo "$emulated"
	exit 1
fi
echo "ok stress_ng_exit_status"
if [ "$(complaints "$emulated")" != "$(complaints "$natively")" ]; then
	echo "FAIL stress_ng_complaints $(complaints "$emulated" | head -3)"
	exit 1
fi
echo "ok stress_ng_complaints"

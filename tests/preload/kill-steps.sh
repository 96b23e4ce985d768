#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A process is killed at the n-th store of an operation, n = 1, 2, 3 ...: the accounts stay right.
# SECONDS_LIMIT: after so long, operations that remain are only sampled.
# test: timeout 240
. "$(dirname "$0")/lib.sh"

if [ ! -x "$BUILD/kill/kpemu" ]; then
	fail kill_build "there is none"
	finish
fi
"$PYTHON" "$here/kill-steps.py" "${SECONDS_LIMIT:-25}" "$@" |
	sed -E "s,^(ok|FAIL) ,\1 $suite/,"
[ "${PIPESTATUS[0]}" = 0 ] || bad=1
finish

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The launcher, the program, or both are killed at random moments: nothing of ours stays.
# ROUNDS: of each. SEED: of the moments.
. "$(dirname "$0")/lib.sh"

for what in launcher tree both; do
	"$PYTHON" "$here/kill-rounds.py" $what "${ROUNDS:-10}" | sed -E "s,^(ok|FAIL) ,\1 $suite/,"
	[ "${PIPESTATUS[0]}" = 0 ] || bad=1
done
try "$KPEMU" gc
is nothing_is_left_to_remove "" "$(grep kill-rounds <<<"$out$err")"
finish

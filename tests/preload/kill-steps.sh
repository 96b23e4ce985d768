#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A process is killed at the n-th store of an operation, n = 1, 2, 3 ...: the accounts stay right.
# SECONDS_LIMIT: after so long, operations that remain are only sampled; with it, all of them with all
# ALGORITHMS.
# test: timeout 240
. "$(dirname "$0")/lib.sh"

if [ ! -x "$BUILD/kill/kpemu" ]; then
	fail kill_build "there is none"
	finish
fi
# ALGORITHM SECONDS [OPERATION...]
steps_of()
{
	"$PYTHON" "$here/kill-steps.py" "$2" "$1" "${@:3}" | sed -E "s,^(ok|FAIL) ,\1 $suite/,"
	[ "${PIPESTATUS[0]}" = 0 ] || bad=1
}

if [ $# -gt 0 ] || [ -n "${SECONDS_LIMIT:-}" ]; then
	for algorithm in ${ALGORITHMS:-${exact[@]}}; do
		steps_of "$algorithm" "${SECONDS_LIMIT:-25}" "$@"
	done
else
	steps_of percpu 25
	# What differs with the others: updates of the counters that they split.
	for algorithm in "${exact[@]}"; do
		[ "$algorithm" != percpu ] || continue
		steps_of "$algorithm" 5 signal_fill nested_fill signal_burst fork wait_with_pending \
			exit_with_timer setuid_with_pending nested_charges
	done
fi
finish

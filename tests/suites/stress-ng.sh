#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# stress-ng, unmodified, for five seconds: ends as it does natively, and leaves the counters at zero.
# test: timeout 120
set -u
cd "$TMPDIR" || exit 2
bad=0

# what either run complains about, without process numbers
complaints() { grep -E 'fail:|error:' <<<"$1" | sed 's/\[[0-9]*\]//' | sort -u; }

# compare NAME STRESSOR...
compare()
{
	local name=$1 natively native emulated got
	shift
	natively=$(stress-ng "$@" -t 5 --verify 2>&1)
	native=$?
	emulated=$("$BUILD/kpemu" run --quiet -- stress-ng "$@" -t 5 --verify 2>&1)
	got=$?
	if [ "$got" != "$native" ]; then
		echo "FAIL ${name}_exit_status natively $native, emulated $got"
		echo "$emulated"
		bad=1
		return
	fi
	echo "ok ${name}_exit_status"
	if [ "$(complaints "$emulated")" != "$(complaints "$natively")" ]; then
		echo "FAIL ${name}_complaints $(complaints "$emulated" | head -3)"
		bad=1
		return
	fi
	echo "ok ${name}_complaints"
}

compare stress_ng --mq 2 --mlock 2 --fork 2 --clone 2 --vfork 2 --exec 2 --zombie 1
compare stress_ng_signals --sigq 2 --sigpending 2 --sigrt 1 --kill 2 --sigfd 1 --sigsuspend 1 \
	--signal 1 --timer 1
exit $bad

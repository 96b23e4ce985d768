#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# POSIX timers: what they cost, until when, and how a refusal is reported.
. "$(dirname "$0")/lib.sh"

limit=sigpending=3:20
for case in $("$tests/timer" --list); do
	cases "$case" run --uid 1000 --gid 1000 --rlimit $limit -- "$tests/timer" "$case"
	[ -n "$native_why" ] || cases "native/$case" native $limit "$tests/timer" "$case"
done
[ -z "$native_why" ] || skip native "$native_why"

# --- root is not exempt, and the refusal is told ---

cases root run --uid 0 --gid 0 --rlimit $limit -- "$tests/timer" exactly_the_limit
like refusal_is_reported \
	"kpemu: timer_create: EAGAIN: sigpending limit 3 of uid 1000 reached \(3 in use, 1 asked\), [0-9]+ times?, first by timer\[[0-9]+\]" \
	"$("$KPEMU" run --uid 1000 --rlimit $limit -- "$tests/timer" exactly_the_limit 2>&1 >/dev/null |
		grep timer_create)"
finish

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Signals: every way to send one, every way in which one leaves, and what is charged meanwhile.
# test: timeout 300
. "$(dirname "$0")/lib.sh"

# SigQ counts all signals of a uid: natively it takes one that nobody else has.
native_uid=$((1000000 + $$))
limit=sigpending=8:100

# both PROGRAM: each of its cases in a world, and on the real kernel where that is possible.
both()
{
	local program=$1 case
	for case in $("$tests/$program" --list); do
		case $case in
		root_*)
			cases "$case" run --uid 0 --gid 0 --rlimit $limit -- "$tests/$program" "$case"
			[ "$me" != 0 ] ||
				cases "native/$case" native_root $limit "$tests/$program" "$case" ;;
		*)
			cases "$case" run --uid 1000 --gid 1000 --rlimit $limit -- \
				"$tests/$program" "$case"
			[ -n "$native_why" ] ||
				cases "native/$case" native $limit "$tests/$program" "$case" ;;
		esac
	done
}
both signal
both signal-leave
[ -z "$native_why" ] || skip native "$native_why"
finish

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Many at once: the limit holds, the accounts are exact afterwards, and nobody waits for the stopped.
# TIMES: how often the lengthy parts are repeated.
# test: timeout 240
. "$(dirname "$0")/lib.sh"

times=${TIMES:-1}
limits="nproc=60 msgqueue=1940 memlock=65536"
options=()
for word in $limits; do
	options+=(--rlimit "$word")
done

for case in $("$tests/concurrency" --list); do
	start "concurrency-$$" --quiet --uid 1000 "${options[@]}" -- \
		"$tests/concurrency" "$case" "$times"
	until_true $((60 * times + 60)) grep -q '^over' "$TMPDIR/$world.out"
	sed -nE "s,^FAIL ,FAIL $suite/$case/,p" "$TMPDIR/$world.out"
	if ! grep -q '^over' "$TMPDIR/$world.out"; then
		fail "$case" "not over: $(cat "$TMPDIR/$world.out" "$TMPDIR/$world.err")"
		pkill -KILL -P "$launcher"
	else
		is "$case/check" 0 "$("$KPEMU" check --world "$world" >"$TMPDIR/check"; echo $?)"
		until_true 5 eval '[ "$(use_of 1000 nproc)" = 1 ]'
		is "$case/tasks" 1 "$(use_of 1000 nproc)"
		is "$case/bytes" 0 "$(use_of 1000 msgqueue)"
	fi
	stop
	is "$case" 0 "$status"
	case $case in
	forkers_* | queues_*)
		[ -n "$native_why" ] ||
			cases "native/$case" native "$limits" "$tests/concurrency" "$case" "$times" ;;
	esac
done
# Whoever looks in meanwhile sees a world that agrees with itself, and leaves nothing in it.
start "concurrency-$$" --quiet --uid 1000 "${options[@]}" -- \
	sh -c "echo begun; $tests/storm $((3000 * times)); echo over; read wait; exit 0"
said '^begun' || fail watched "$line"
looks=0
wrong=
until grep -q '^over' "$TMPDIR/$world.out" || [ -n "$wrong" ]; do
	for command in stat "stat --json" ps "ps -T --json" check; do
		# shellcheck disable=SC2086 # words
		"$KPEMU" $command --world "$world" >"$TMPDIR/look" 2>&1 ||
			wrong="$wrong$command: $(cat "$TMPDIR/look") "
		looks=$((looks + 1))
	done
done
is watched "" "$wrong"
like watched_often "[1-9][0-9]+" "$looks"
until_true 5 eval '[ "$(use_of 1000 nproc)" = 1 ]'
is watched/tasks 1 "$(use_of 1000 nproc)"
stop

[ -z "$native_why" ] || skip native "$native_why"
finish

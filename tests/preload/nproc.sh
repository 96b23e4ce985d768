#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# NPROC: what counts, until when, and that every call that makes a task is refused at the limit.
# test: timeout 300
. "$(dirname "$0")/lib.sh"

# Nobody here knows what libc says when popen and system may have no child: libc is asked.
libc=(setpriv)
[ "$me" != 0 ] || libc+=("--reuid=$native_uid" "--regid=$native_uid" --clear-groups)
read -r popen_errno system_refused < <("${libc[@]}" "$tests/create" --libc 2>/dev/null)
export SYSTEM_REFUSED=${system_refused-}

# forks_of NAME WANT OPTIONS...: with python3, which has its own way to the system call.
forks='import os, signal, sys
pids = []
while len(pids) < 50:
    try:
        pid = os.fork()
    except OSError as e:
        print(len(pids), e.errno, flush=True)
        break
    if not pid:
        signal.pause()
    pids.append(pid)
else:
    print("no end")
for pid in pids:
    os.kill(pid, signal.SIGKILL)
    os.wait()'
forks_of()
{
	local name=$1 want=$2
	shift 2
	is "$name" "$want" "$(run "$@" -- "$PYTHON" -c "$forks")"
}
forks_of python_four_children "4 11" --uid 1000 --rlimit nproc=5
forks_of limit_one "0 11" --uid 1000 --rlimit nproc=1
forks_of limit_zero "0 11" --uid 1000 --rlimit nproc=0
forks_of hard_limit_is_not_asked "4 11" --uid 1000 --rlimit nproc=5:40
forks_of root_is_exempt "no end" --uid 0 --rlimit nproc=5
forks_of root_without_capabilities_is_exempt "no end" --uid 0 --rlimit nproc=5 \
	--cap-drop sys_admin,sys_resource
forks_of unlimited "no end" --uid 1000 --rlimit nproc=unlimited
[ "$me" = 0 ] || forks_of own_uid "4 11" --rlimit nproc=5

# Every call that makes a task.
for call in $("$tests/create" --list); do
	want=
	if [ "$call" = popen ]; then
		want=$popen_errno
		[ -n "$want" ] || { skip create/popen "$native_why"; continue; }
	fi
	# shellcheck disable=SC2086 # none or one
	cases "create/$call" run --uid 1000 --rlimit nproc=4 -- "$tests/create" "$call" 1000 $want
	[ -n "$native_why" ] ||
		cases "native/create/$call" native nproc=4 "$tests/create" "$call" $native_uid $want
done
[ -z "$native_why" ] || skip native/create "$native_why"

# both PROGRAM: each of its cases in a world, and on the real kernel where that is possible.
both()
{
	local program=$1 case
	for case in $("$tests/$program" --list); do
		if [ "$case" = system_refused ] && [ -z "$SYSTEM_REFUSED" ]; then
			skip "$program/$case" "$native_why"
			continue
		fi
		cases "$program/$case" run --uid 1000 --rlimit nproc=5 -- "$tests/$program" "$case"
		# There an orphan's parent is whoever reaps orphans.
		[ "$case" != orphan_says_parent_is_not_us ] || continue
		[ -n "$native_why" ] ||
			cases "native/$program/$case" native nproc=5 "$tests/$program" "$case"
	done
	[ -z "$native_why" ] || skip "native/$program" "$native_why"
}
both once
both reap

for case in $("$tests/move" --list); do
	cases "move/$case" run --uid 0 --rlimit nproc=6 -- "$tests/move" "$case"
	[ "$me" != 0 ] || cases "native/move/$case" native_root nproc=6 "$tests/move" "$case"
done

# The counters are back at zero while somebody else still lives in the world.
start "nproc-$$" --uid 0 --rlimit nproc=8 -- sh -c "
	for case in fork pthread_create posix_spawn; do
		setpriv --reuid=61235 -- $tests/create \$case 61235
	done
	for case in orphan_killed threads_of_a_killed_process all_children_sigkilled; do
		setpriv --reuid=61235 -- $tests/reap \$case
	done
	echo over; read wait; exit 0"
if said '^over'; then
	is no_verdict_was_bad 0 "$(grep -c ^FAIL "$TMPDIR/$world.out")"
	until_true 5 eval '[ "$(use_of 61235 nproc)" = 0 ]'
	is uid_back_at_zero 0 "$(use_of 61235 nproc)"
	is uid_had_all_of_its_limit 8 \
		"$(stat_value "[r['nproc']['peak'] for r in w['records'] if r['uid'] == 61235][0]")"
	is the_others_are_counted 1 "$(use_of 0 nproc)"
	is check_agrees 0 "$("$KPEMU" check --world "$world" >/dev/null; echo $?)"
else
	fail counters "$line"
fi
stop
is counters_program_ends 0 "$status"

# Refusals are one line for each kind.
try "$KPEMU" run --uid 1000 --rlimit nproc=5 -- "$PYTHON" -c "$forks"
is refusal_is_reported 1 "$(grep -c "^kpemu: fork: EAGAIN: nproc limit 5 of uid 1000 " <<<"$err")"
try "$KPEMU" run --quiet --uid 1000 --rlimit nproc=5 -- "$PYTHON" -c "$forks"
is quiet_says_nothing "" "$err"
finish

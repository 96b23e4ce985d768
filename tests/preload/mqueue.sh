#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Message queues: their charges up to the last close, their rules, and what is left of them.
. "$(dirname "$0")/lib.sh"

limit=msgqueue=291:100000
for case in $("$tests/mqueue" --list); do
	case $case in
	clamped_*)
		cases "$case" run --uid 0 --rlimit msgqueue=unlimited -- "$tests/mqueue" "$case" ;;
	root_*)
		cases "$case" run --uid 0 --gid 0 --rlimit $limit -- "$tests/mqueue" "$case"
		[ "$me" != 0 ] || cases "native/$case" native_root $limit "$tests/mqueue" "$case" ;;
	*)
		cases "$case" run --uid 1000 --gid 1000 --rlimit $limit -- "$tests/mqueue" "$case"
		[ -n "$native_why" ] || cases "native/$case" native $limit "$tests/mqueue" "$case" ;;
	esac
done
[ -z "$native_why" ] || skip native "$native_why"

# --- looked at from outside, and the end of the world ---

start "mqueue-$$" --uid 1000 --gid 1000 --rlimit msgqueue=1000 -- "$tests/mqueue" --leave
if said '^left'; then
	# 2 * (10 + 96) + 1 * (1 + 96)
	is bytes 309 "$(use_of 1000 msgqueue)"
	is queues "kpt-named 212 640 False kpt-nameless 97 600 True" "$(stat_value \
		"*[x for q in w['queues'] for x in (q['name'], q['bytes'], '%o' % q['mode'], q['unlinked'])]")"
	is text 1 "$("$KPEMU" stat --world "$world" | grep -cE ' 0640 +2 +10 +212 +/kpt-named$')"
	is check_agrees "ok: 1 record, 1 task, 2 queues" "$("$KPEMU" check --world "$world")"
	is real_queue_named 1 "$("$tests/mqueue" --probe "$world" kpt-named)"
	is real_queue_of_nameless 1 "$("$tests/mqueue" --probe "$world" kpt-nameless)"
else
	fail outside "$line"
fi
stop
is status 0 "$status"
is leak_reported "kpemu: queue /kpt-named of uid 1000 was left behind (212 bytes charged); it is removed" \
	"$(grep queue "$TMPDIR/$world.err")"
is real_queue_gone 0 "$("$tests/mqueue" --probe "$world" kpt-named)"
is real_queue_of_nameless_gone 0 "$("$tests/mqueue" --probe "$world" kpt-nameless)"
is world_gone "" "$(worlds | grep "$world")"

# What a killed program leaves is seen to as well.
start "mqueue-$$" --uid 1000 --rlimit msgqueue=1000 -- sh -c "echo \$\$; exec $tests/mqueue --leave"
if said '^left'; then
	kill -KILL "$(head -n 1 "$TMPDIR/$world.out")"
fi
stop
is killed 137 "$status"
is killed_leak_reported 1 "$(grep -c 'queue /kpt-named' "$TMPDIR/$world.err")"
is killed_queue_gone 0 "$("$tests/mqueue" --probe "$world" kpt-named)"

# A queue that is unlinked and closed is gone at once, not at the end.
start "mqueue-$$" --uid 1000 --rlimit msgqueue=1000 -- "$PYTHON" -c '
import ctypes, os, sys
rt = ctypes.CDLL(None)
class Attr(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("flags", "maxmsg", "msgsize", "cur", "a", "b", "c", "d")]
attr = Attr(0, 1, 1)
q = rt.mq_open(b"/kpt-soon", os.O_RDWR | os.O_CREAT, 0o600, ctypes.byref(attr))
rt.mq_unlink(b"/kpt-soon")
rt.mq_close(q)
print("closed", q >= 0, flush=True)
sys.stdin.read()'
if said '^closed True'; then
	is closed_bytes 0 "$(use_of 1000 msgqueue)"
	is closed_had_bytes 97 \
		"$(stat_value "[r['msgqueue']['peak'] for r in w['records'] if r['uid'] == 1000][0]")"
	is closed_real_queue 0 "$("$tests/mqueue" --probe "$world" kpt-soon)"
else
	fail closed "$line"
fi
stop

# The names of two worlds do not meet, nor do they meet the real ones.
start "mqueue-$$-a" --uid 1000 --rlimit msgqueue=1000 -- "$tests/mqueue" --leave
said '^left' || fail two_worlds "$line"
try run --world "mqueue-$$-b" --rlimit msgqueue=1000 -- "$tests/mqueue" --leave
is second_world_makes_the_same "0 left" "$status $out"
is real_name_is_free 0 "$("$PYTHON" -c '
import ctypes, os
rt = ctypes.CDLL("librt.so.1", use_errno=True)
print(int(rt.mq_open(b"/kpt-named", os.O_RDONLY) >= 0))')"
stop

# Refusals name what was asked and what was in use.
try "$KPEMU" run --uid 1000 --rlimit msgqueue=100 -- "$tests/mqueue" --leave
is refused_status 1 "$status"
is refusal_is_reported 1 \
	"$(grep -c '^kpemu: mq_open: EMFILE: msgqueue limit 100 bytes of uid 1000 reached (0 bytes in use, 212 bytes asked), 1 time' <<<"$err")"
finish

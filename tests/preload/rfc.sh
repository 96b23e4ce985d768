#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The posted counter designs: programs meet their defects, and do not with the repaired ones.
# test: timeout 120
. "$(dirname "$0")/lib.sh"

# --- each defect, and the right value beside it ---

# line NUMBER POSTED WRONG REPAIRED RIGHT
line()
{
	like "$1" "$1 [^;]*: $2 $3; $4 $5" "$(grep "^$1 " <<<"$out")"
}
try "$BUILD/demo/rfc_defects"
is rfc_defects "0 12 " "$status $(grep -c . <<<"$out") $err"
line 9.1.1 percpu-rfc 3 percpu 0
line 9.1.2 percpu-rfc "20, 1000" percpu "0, 0"
line 9.1.3 percpu-rfc 20 percpu 3
line 9.1.4 percpu-rfc 0 percpu 10
line 9.1.5 percpu-rfc "0, -8" percpu "8, 0"
line 9.1.7 percpu-rfc 4 percpu 0
line 9.2 cache-rfc "16, 16" cache "1, 0"
line 9.2.1 cache-rfc 50 cache 4
line 9.2.2 cache-rfc "0, -32, 64" cache "0, 0, 0"
line 9.2.3 cache-rfc 17 cache 1
line 9.2.4 cache-rfc "13, 8" cache "3, 3"
line 9.2.5 cache-rfc 6 cache 3

# --- what kpemu says of them ---

for alg in percpu-rfc cache-rfc; do
	note="kpemu: --ucounts $alg is defective by design: .*"
	try "$KPEMU" run --ucounts $alg -- true
	like "$alg/note" "$note" "$(grep defective <<<"$err")"
	try run --ucounts $alg -- true
	is "$alg/quiet" "0 " "$status $err"
done
try "$KPEMU" run --ucounts stock -- true
is others_have_no_note "" "$(grep defective <<<"$err")"
try "$KPEMU" run --ucounts percpu_rfc -- true
is unknown "125 kpemu: --ucounts percpu_rfc: not one of atomic, percpu, cache, stock, percpu-rfc, cache-rfc" \
	"$status $err"

# --- kpemu check: a difference is one, and is said to be meant ---

# A segment of two pages locked over a limit of one page, and unlocked.
drift='import ctypes, os, sys
libc = ctypes.CDLL(None)
segment = libc.shmget(0, 8192, 0o1600)
locked = libc.shmctl(segment, 11, None), libc.shmctl(segment, 12, None)
libc.shmctl(segment, 0, None)
print("drifted", *locked, flush=True)
sys.stdin.read()'
for alg in percpu-rfc percpu; do
	start "rfc-$$-$alg" --quiet --ucounts $alg --uid 0 --gid 0 --rlimit memlock=4096 -- \
		"$PYTHON" -c "$drift"
	said drifted
	is "check/$alg/locked" "drifted 0 0" "$line"
	try "$KPEMU" check --world "$world"
	if [ $alg = percpu-rfc ]; then
		is check/$alg "1 memlock of uid 0 in namespace 0: the counter says -2, its objects 0
this world counts with percpu-rfc, whose counters drift by design" "$status $out"
	else
		like check/$alg "0 ok: .*" "$status $out"
	fi
	stop
done

# --- many processes at once, and deaths ---

# Children of vfork and fork that end, and are killed, in the middle of whatever they do.
storm='import os, random, signal, subprocess, time
random.seed(1)
for i in range(4):
    children = [subprocess.Popen(["sh", "-c", "while :; do (kill -USR1 $$; :) & wait; done"],
                                 preexec_fn=lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN))
                for j in range(4)]
    time.sleep(random.uniform(0.01, 0.1))
    for c in children:
        c.send_signal(signal.SIGKILL)
    for c in children:
        c.wait()
print("over")'
for alg in percpu-rfc cache-rfc; do
	try run --ucounts $alg --uid 1000 --userns 2 --rlimit nproc=300 -- "$PYTHON" -c "$storm"
	is "$alg/storm" "0 over" "$status $out"
done
finish

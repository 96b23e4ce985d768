#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What kpemu does, shown with programs of the system. `make demo` runs this; it also runs by itself,
# $BUILD naming a copy of the build directory. It needs no privileges and leaves nothing behind.
#
# Every command is printed and can be pasted into a shell as it is; its output follows. What is
# claimed about an output is checked: exit status 1 and a line on stderr if it does not hold.
set -u
export LC_ALL=C
BUILD=$(realpath "${BUILD:-$(dirname "$0")/../build}")
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-python3}

die()
{
	echo "demo: $*" >&2
	exit 1
}

# Names as one would type them, from the top of the source tree where that is possible.
printf -v kpemu %q "${BUILD#"$PWD"/}/kpemu"
printf -v fill %q "${BUILD#"$PWD"/}/demo/fill"
[ -x "$BUILD/kpemu" ] || die "there is no $BUILD/kpemu: run make first"
# A python3 that is a script starts others before it is python, under limits that are meant for it.
python=$("$PYTHON" -c 'import sys; print(sys.executable)') || die "$PYTHON does not run"
if [ "$python" = "$(command -v python3)" ]; then
	python=python3
else
	printf -v python %q "$python"
fi
uid=$(id -u)

step=0
title()
{
	step=$((step + 1))
	printf '\n%d. %s\n\n' $step "$1"
}

# show COMMAND: print it, run it, print what it says, and keep that for expect. As root every run
# begins with the same warning; the first is enough.
out=
warned=
show()
{
	echo "\$ $1"
	out=$(timeout 30 bash -c "$1" </dev/null 2>&1)
	if [[ $out == "kpemu: running as real root"* ]]; then
		[ -z "$warned" ] || out=${out#*$'\n'}
		warned=1
	fi
	[ -z "$out" ] || echo "$out"
}

# expect REGEX...: each must match a part of a line of the last output.
expect()
{
	local regex
	for regex; do
		grep -qE -- "$regex" <<<"$out" ||
			die "step $step: the output has no line that matches '$regex'"
	done
}

# until_true SECONDS COMMAND...
until_true()
{
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

title 'NPROC: python is the first task of five, so it can have four children.'
show "$kpemu run --uid 1000 --rlimit nproc=5 -- $python -c '
import errno, os
r, w = os.pipe()
children = 0
try:
    while True:
        if os.fork() == 0:
            os.close(w); os.read(r, 1); os._exit(0)
        children += 1
except OSError as e:
    print(children, \"children, then\", errno.errorcode[e.errno])
os.close(w)
for i in range(children): os.wait()'"
expect '^4 children, then EAGAIN$' \
	'^kpemu: fork: EAGAIN: nproc limit 5 of uid 1000 reached \(5 in use, 1 asked\), 1 time,'

title 'Threads are tasks too. fill takes one more of something until it is refused.'
show "$kpemu run --uid 1000 --rlimit nproc=5 -- $fill threads"
expect '^4 threads, then EAGAIN ' '^kpemu: pthread_create: EAGAIN: nproc limit 5 of uid 1000 '

title 'MSGQUEUE: a queue of default size costs 82880 bytes. Forgotten queues are reported.'
show "$kpemu run --uid 1000 --rlimit msgqueue=200000 -- $python -c '
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
n = 0
while libc.mq_open(b\"/demo.%d\" % n, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0: n += 1
print(n, \"queues, then\", errno.errorcode[ctypes.get_errno()])'"
expect '^2 queues, then EMFILE$' \
	'^kpemu: mq_open: EMFILE: msgqueue limit 200000 bytes of uid 1000 ' \
	'^kpemu: queue /demo\.1 of uid 1000 was left behind \(82880 bytes charged\)'

lock_until_refused="
import ctypes, errno, mmap
libc = ctypes.CDLL(None, use_errno=True)
memory = mmap.mmap(-1, 1 << 20)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
n = 0
while libc.mlock(ctypes.c_void_p(start + n * 4096), 4096) == 0: n += 1
print(n, \"pages, then\", errno.errorcode[ctypes.get_errno()])"

title 'MEMLOCK: past the limit mlock says ENOMEM, at a limit of 0 EPERM.'
show "$kpemu run --uid 1000 --rlimit memlock=65536 -- $python -c '$lock_until_refused'"
expect '^16 pages, then ENOMEM$' \
	'^kpemu: mlock: ENOMEM: memlock limit 64 kB of a process of uid 1000 '
show "$kpemu run --uid 1000 --rlimit memlock=0 -- $fill memlock"
expect '^0 locked pages, then EPERM ' '^kpemu: mlock: EPERM: memlock limit 0 kB '

title 'Programs read the limits by getrlimit and in /proc. Under --uid 1000 they are uid 1000.'
limits='--rlimit nproc=20:30 --rlimit msgqueue=200000 \
    --rlimit memlock=65536 --rlimit sigpending=99'
show "$kpemu run --quiet --uid 1000 $limits -- bash -c 'ulimit -a' |
    grep -E 'pending|locked|queues|user proc'"
expect 'max user processes .* 20$' 'POSIX message queues .* 200000$' 'max locked memory .* 64$' \
	'pending signals .* 99$'
show "$kpemu run --quiet --uid 1000 $limits -- cat /proc/self/limits |
    grep -E 'Max (proc|lock|pend|msg)'"
expect '^Max processes +20 +30 ' '^Max locked memory +65536 +65536 ' \
	'^Max pending signals +99 +99 ' '^Max msgqueue size +200000 +200000 '
show "$kpemu run --quiet --uid 1000 --gid 1000 -- \\
    grep -E '^(Uid|Gid|Threads|VmLck|Cap(Prm|Eff)):' /proc/self/status"
expect $'^Uid:\t1000\t1000\t1000\t1000$' $'^Gid:\t1000\t1000\t1000\t1000$' $'^Threads:\t1$' \
	$'^CapEff:\t0000000000000000$'
show "$kpemu run --quiet --uid 1000 -- bash -c 'ps -o euid,ruid,nlwp,comm -p \$\$'"
expect '^ *1000 +1000 +1 ps$'

title 'prlimit changes limits of other processes, and nobody without privileges raises a hard one.'
show "$kpemu run --quiet --uid 1000 --rlimit nproc=20:30 -- bash -c '
prlimit --pid \$\$ --nproc=10:15 && ulimit -Su && ulimit -Hu
prlimit --pid \$\$ --nproc=10:30'"
expect '^10$' '^15$' '^prlimit: .*NPROC.*: Operation not permitted$'

title 'A world can be looked into while it lives. This shell is root in it, whoever you are.'
world=demo
[ ! -e "/dev/shm/kpemu.$uid.$world" ] || world=demo-$$
# What runs in the shell of the world is written to it here, and printed with another prompt.
run="$kpemu run --world $world --uid 0 $limits -- bash"
echo "\$ $run"
coproc in_world { exec bash -c "$run" 2>&1; }
# shellcheck disable=SC2154 # coproc sets it
launcher=$in_world_PID
# Should a step fail: without its programs the world ends.
# shellcheck disable=SC2046
end_world() { kill -KILL $($kpemu ps --world $world | awk 'NR > 1 { print $1 }'); }
trap 'end_world 2>/dev/null' EXIT
trap 'exit 130' INT TERM
hold="setpriv --reuid=1000 --regid=1000 --clear-groups $python -c '
import ctypes, mmap, os, signal, threading
libc = ctypes.CDLL(None)
libc.mq_open(b\"/demo\", os.O_CREAT | os.O_RDWR, 0o600, None)
libc.mq_unlink(b\"/demo\")          # open, but without a name
if os.fork() == 0:
    memory = mmap.mmap(-1, 65536)
    libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory))), 65536)
    threading.Thread(target=signal.pause).start()
    print(\"uid\", os.getuid(), \"holds a queue, 3 tasks and 64 kB of locked memory\", flush=True)
signal.pause()' &"
echo "$world# $hold"
echo "$hold" >&"${in_world[1]}"
out=
until [[ $out == *'of locked memory' ]]; do
	read -r -t 10 out <&"${in_world[0]}" || die "step $step: the program in the world does not start"
	[[ $out == "kpemu: running as real root"* ]] || echo "$out"
done

echo
show "$kpemu ps --world $world"
expect '^ *[0-9]+ +[0-9]+ +[0-9]+ +0 +0 .* bash$' ' 1000 +1000 .* 1 +0 +20 python' \
	' 1000 +1000 .* 2 +64 +20 python'
members="\$($kpemu ps --world $world | awk '\$4 == 1000 { print \$1 }')"
show "ps -o pid,euid,nlwp,comm $members    # from outside: the real uid"
expect "^ *[0-9]+ +$uid +1 python" "^ *[0-9]+ +$uid +2 python"
show "$kpemu stat --world $world"
expect "^world $world: launcher [0-9]+ alive, .* tasks: 4, counters: percpu$" '^ +0 +0 +nproc +tasks +1 +[0-9]+ +0$' \
	'^ +0 +1000 +nproc +tasks +3 +[0-9]+ +0$' '^ +0 +1000 +msgqueue +bytes +82880 +82880 +0$' \
	': 64 kB in 1 process$' ' 82880  /demo \(unlinked\)$'
show "$kpemu check --world $world"
expect '^ok: '

title 'Killed, they hold nothing any more: all counters of uid 1000 are at zero.'
show "kill -KILL $members"
counters="$kpemu stat --world $world --json | $python -c '
import json, sys
for r in json.load(sys.stdin)[\"records\"]:
    if r[\"uid\"] == 1000:
        print({name: v[\"use\"] for name, v in r.items() if type(v) is dict})'"
zero="{'nproc': 0, 'sigpending': 0, 'msgqueue': 0, 'memlock_kb': 0}"
# The shell and the launcher need a moment to reap them.
at_zero() { [ "$(bash -c "$counters" 2>&1)" = "$zero" ]; }
until_true 5 at_zero
show "$counters"
[ "$out" = "$zero" ] || die "step $step: this is not $zero"
show "$kpemu stat --world $world"
expect 'tasks: 1, counters: percpu$' '^ +0 +1000 +nproc +tasks +0 +[0-9]+ +0$' \
	'^ +0 +1000 +msgqueue +bytes +0 +82880 +0$' ': 0 kB in 0 processes$'
show "$kpemu check --world $world"
expect '^ok: .* 0 queues$'

echo "$world# exit"
echo exit >&"${in_world[1]}"
gone() { ! kill -0 "$launcher" 2>/dev/null; }
until_true 5 gone || die "step $step: the shell in the world does not end"
trap - EXIT
show "$kpemu stat --world $world"
expect "^kpemu: world $world does not exist$"
[ ! -e "/dev/shm/kpemu.$uid.$world" ] || die "step $step: /dev/shm/kpemu.$uid.$world is still there"

echo
echo "demo: all $step steps are as they say"

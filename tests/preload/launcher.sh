#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The launcher stands in for the program: its status, signals, terminal, descriptors, environment.
. "$(dirname "$0")/lib.sh"

for part in statuses fatal_signals forwarded to_the_group interrupts stops waited_for orphans \
	terminal many_at_once; do
	cases "$part" "$PYTHON" "$here/launcher.py" "$part"
done

# --- what the program finds is what it would have found ---

# same NAME COMMAND...: the same text natively and in a world of the caller's own identity.
same()
{
	local name=$1
	shift
	is "$name" "$("$@" 2>&1)" "$(run -- "$@" 2>&1)"
}
exec 7</dev/null
same descriptors ls /proc/self/fd
# shellcheck disable=SC2016 # for the inner shell
same descriptor_targets sh -c 'for f in 0 2 7; do readlink /proc/self/fd/$f; done | sed "s/:.*//"'
same signals grep -E '^(Sig(Blk|Ign|Cgt)|ShdPnd|SigPnd):' /proc/self/status
same umask_and_more grep -E '^(Umask|NoNewPrivs|Seccomp|CapBnd):' /proc/self/status
same working_directory pwd
same session ps -o sid=,pgid=,tpgid=,tty=,ni= -p $$
same arguments sh -c 'printf "<%s>" "$0" "$@"' a "" "b c" --uid -- "*"
same options_are_the_program_s echo --uid 5 --quiet --help
same name_of_the_program sh -c 'cat /proc/self/comm; readlink /proc/self/exe'
exec 7<&-
(
	trap '' INT HUP USR1 CHLD
	same ignored_signals grep '^SigIgn:' /proc/self/status
	is sigchld_ignored_by_the_caller 3 "$(run -- sh -c 'exit 3'; echo $?)"
	[ $bad = 0 ]
) || bad=1
is environment "$(env | grep -vE '^(_|KPEMU_|LD_PRELOAD)' | LC_ALL=C sort)" \
	"$(run -- env | grep -vE '^(_|KPEMU_|LD_PRELOAD)' | LC_ALL=C sort)"
is environment_added "KPEMU_TASK KPEMU_WORLD LD_PRELOAD" \
	"$(run -- env | grep -oE '^(KPEMU_[A-Z_]*|LD_PRELOAD)' | LC_ALL=C sort | paste -sd' ')"
# shellcheck disable=SC2016 # for the inner shell
is library_comes_first "$BUILD/libkpemu-preload.so:libm.so.6" \
	"$(LD_PRELOAD=libm.so.6 run -- sh -c 'echo "$LD_PRELOAD"' | tr ' ' :)"

# --- streams ---

is standard_input "hello" "$(echo hello | run -- cat)"
try run -- sh -c 'echo out; echo err >&2'
is standard_output_and_error "0 out err" "$status $out $err"
is large_output 1000000 "$(run -- head -c 1000000 /dev/zero | wc -c)"
is large_pipeline "$(seq 100000 | sha256sum)" "$(seq 100000 | run -- cat | run -- cat | sha256sum)"
run -- yes 2>/dev/null | head -n 1 >/dev/null
is broken_pipe 141 "${PIPESTATUS[0]}"
is timeout 124 "$(timeout 0.3 "$KPEMU" run --quiet sleep 60; echo $?)"

# --- what is said at the end ---

refuse='import os, sys
for i in range(3):
    try:
        os.fork()
    except OSError:
        pass'
try "$KPEMU" run --uid 1000 --rlimit nproc=1 -- "$PYTHON" -c "$refuse"
err=$(grep -v "real root" <<<"$err")
like one_line_for_one_kind \
	"kpemu: fork: EAGAIN: nproc limit 1 of uid 1000 reached \(1 in use, 1 asked\), 3 times, first by [^ ]*\[[0-9]+\]" \
	"$err"
try "$KPEMU" run --uid 1000 --rlimit nproc=1 --rlimit memlock=4096 -- "$PYTHON" -c "$refuse
import ctypes, mmap
m = mmap.mmap(-1, 65536)
ctypes.CDLL(None).mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), 65536)"
err=$(grep -v "real root" <<<"$err")
is two_lines_for_two_kinds "2 1 1" \
	"$(wc -l <<<"$err") $(grep -c '^kpemu: fork: EAGAIN' <<<"$err") $(grep -c '^kpemu: mlock: ENOMEM' <<<"$err")"
try "$KPEMU" run --uid 1000 -- true
is nothing_refused_nothing_said "" "$(grep -v "real root" <<<"$err")"
try "$KPEMU" run --quiet --uid 1000 --rlimit nproc=1 -- "$PYTHON" -c "$refuse"
is quiet "0 " "$status $err"

# --- the program ends before its children ---

try "$KPEMU" run --world "launcher-$$" --uid 1000 -- \
	sh -c 'sleep 3 >/dev/null 2>&1 & echo started'
is program_before_children "0 started" "$status $out"
is who_still_runs_is_told 1 "$(grep -c "programs still run in world launcher-$$" <<<"$err")"
is world_stays yes "$([ -e "/dev/shm/kpemu.$me.launcher-$$" ] && echo yes)"
is world_is_orphaned False "$("$KPEMU" stat --json --world "launcher-$$" |
	of_json "w['world']['launcher_alive']")"
is its_tasks 1 "$("$KPEMU" stat --json --world "launcher-$$" | of_json "w['world']['tasks']")"
until_true 10 [ ! -e "/dev/shm/kpemu.$me.launcher-$$" ]
is last_one_removes_it no "$([ -e "/dev/shm/kpemu.$me.launcher-$$" ] && echo yes || echo no)"

# A terminal multiplexer is a terminal like others.
if command -v tmux >/dev/null; then
	tmux=(env SHELL=/bin/sh TERM=dumb tmux -L "kpt-$$" -f /dev/null)
	"${tmux[@]}" new-session -d -x 80 -y 24 \
		"$KPEMU run --quiet sh -c 'read a; echo \$a \$(tput cols) >$TMPDIR/tmux; exec sleep 60'"
	"${tmux[@]}" send-keys "typed" Enter
	until_true 5 [ -s "$TMPDIR/tmux" ]
	is tmux_reads "typed 80" "$(cat "$TMPDIR/tmux")"
	"${tmux[@]}" kill-server
	until_true 5 [ -z "$(worlds)" ]
	is tmux_hangup_ends_all "" "$(pgrep -f "$TMPDIR/tmux")"
else
	skip tmux "there is no tmux"
fi
finish

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The emulated files under /proc, read by programs that nobody here wrote and in every way there is.
. "$(dirname "$0")/lib.sh"

for case in $("$tests/procfile" --list); do
	cases "$case" run --uid 0 --gid 0 --rlimit nproc=20:30 -- "$tests/procfile" "$case"
	[[ $me != 0 || $case == world_* ]] || cases "native/$case" native_root nproc=20:30 "$tests/procfile" "$case"
done
[ "$me" = 0 ] || skip native "uid 0 needs root"

# --- tools ---

in_world() { run --uid 1000 --gid 2000 --rlimit nproc=20:30 -- "$@" 2>&1; }
uid="Uid: 1000 1000 1000 1000"
row="Max processes 20 30 processes"
uid_line() { sed -n 's/[[:space:]][[:space:]]*/ /g; s/ *$//; /^Uid:/p'; }
row_line() { sed -n 's/  */ /g; s/ *$//; /^Max processes/p'; }

is cat "$uid" "$(in_world cat /proc/self/status | uid_line)"
is cat_limits "$row" "$(in_world cat /proc/self/limits | row_line)"
is cat_standard_input "$uid" "$(in_world sh -c 'cat </proc/self/status' | uid_line)"
is grep "$uid" "$(in_world grep ^Uid: /proc/self/status | uid_line)"
is grep_of_two "2" "$(in_world grep -cE '^(Uid:.1000|Max processes *20 )' /proc/self/status \
	/proc/self/limits | grep -c ':1$')"
is head "$uid" "$(in_world head -n 12 /proc/self/status | uid_line)"
is tail "$uid" "$(in_world tail -n +5 /proc/self/status | uid_line)"
is tac "$uid" "$(in_world tac /proc/self/status | uid_line)"
is awk "1000 20" "$(in_world awk '/^Uid:/ { print $2 } /^Max processes/ { print $3 }' \
	/proc/self/status /proc/self/limits | paste -sd' ')"
is awk_getline 1000 "$(in_world awk 'BEGIN { f = "/proc/self/status"
	while ((getline <f) > 0) if ($1 == "Uid:") print $2 }')"
is sed "1000" "$(in_world sed -n 's/^Uid:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)"
is cut "2000" "$(in_world sh -c "grep ^Gid: /proc/self/status | cut -f2")"
is dd_of_bytes "$uid" "$(in_world dd bs=1 if=/proc/self/status status=none | uid_line)"
is od_finds_the_bytes 1 "$(in_world od -An -c /proc/self/status | tr -d ' \n' |
	grep -c 'Uid:\\t1000')"
is wc_agrees_with_cat "$(in_world sh -c 'cat /proc/$$/limits' | wc -c)" \
	"$(in_world sh -c 'wc -c </proc/$$/limits')"
# shellcheck disable=SC2016 # for the inner shells
{
	is bash_substitution "$uid" "$(in_world bash -c 'echo "$(</proc/self/status)"' | uid_line)"
	is bash_read "Uid: 1000" "$(in_world bash -c 'while read -r a b c; do
		[ "$a" != Uid: ] || echo "$a $b"; done </proc/self/status')"
	is bash_mapfile "1000" "$(in_world bash -c 'mapfile -t a </proc/$$/status
		for l in "${a[@]}"; do [[ $l != Uid:* ]] || set -- $l; done; echo $2')"
	is bash_descriptor "Uid: 1000" "$(in_world bash -c 'exec 5</proc/self/status
		while read -r -u 5 a b c; do [ "$a" != Uid: ] || echo "$a $b"; done')"
	is bash_here_string "$uid" "$(in_world bash -c 'cat <<<"$(cat /proc/$$/status)"' | uid_line)"
	is dash_read "Uid: 1000" "$(in_world dash -c 'while read -r a b c; do
		[ "$a" != Uid: ] || echo "$a $b"; done </proc/self/status')"
	is dash_redirect "$uid" "$(in_world dash -c 'exec 0</proc/$$/status; exec cat' | uid_line)"
	is shell_relative "$uid" "$(in_world sh -c 'cd /proc/$$ && cat status' | uid_line)"
	is shell_relative_below "$uid" "$(in_world sh -c 'cd /proc && cat $$/status' | uid_line)"
	is shell_task "$uid" "$(in_world sh -c 'cat /proc/$$/task/$$/status' | uid_line)"
	is shell_glob "1000" "$(in_world sh -c 'awk "/^Uid/ { print \$2 }" /proc/$$/task/*/status')"
	is test_command yes "$(in_world sh -c '[ -r /proc/self/status ] && [ -f /proc/self/limits ] && echo yes')"
}
is thread_self "$uid" "$(in_world cat /proc/thread-self/status | uid_line)"
is perl_lines "1000" "$(in_world perl -ne 'print((split)[1]) if /^Uid/' /proc/self/status)"
is perl_sysopen "1000" "$(in_world perl -e 'open F, "<", "/proc/$$/status"; sysread F, $t, 9999;
	print $t =~ /^Uid:\t(\d+)/m')"
is python "1000" "$(in_world "$PYTHON" -c 'import os
print(open(f"/proc/{os.getpid()}/status").read().split("Uid:")[1].split()[0])')"
is python_bytes "1000" "$(in_world "$PYTHON" -c 'import os, pathlib
print(pathlib.Path("/proc/self/status").read_bytes().split(b"Uid:")[1].split()[0].decode())')"
is python_low_level "0 1001" "$(run --uid 0 -- "$PYTHON" -c 'import os
fd = os.open("/proc/self/status", os.O_RDONLY)
def uid():
    return os.pread(fd, 9999, 0).split(b"Uid:")[1].split()[1].decode()
first = uid()
os.seteuid(1001)
print(first, uid())')"
is find_by_owner "1000" "$(in_world sh -c 'find /proc/$$ -maxdepth 0 -uid 1000 -printf %U')"

# Every other line is the real file's: as many lines, with the same names, in the same order.
is same_lines "$(cut -d: -f1 /proc/self/status)" "$(in_world cat /proc/self/status | cut -d: -f1)"
is name_line "Name:	cat" "$(in_world cat /proc/self/status | head -n 1)"
is same_limit_names "$(cut -c1-25 /proc/self/limits)" "$(in_world cat /proc/self/limits | cut -c1-25)"
# stat of a task is nobody's but the kernel's.
is stat_unaffected 52 "$(in_world cat /proc/self/stat | wc -w)"

# --- numbers ---

is threads_one 1 "$(in_world awk '/^Threads:/ { print $2 }' /proc/self/status)"
is locked_pages "Vm 16 0" "$(run --uid 1000 --rlimit memlock=65536 -- "$PYTHON" -c '
import ctypes, mmap
libc = ctypes.CDLL(None)
m = mmap.mmap(-1, 65536)
at = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m)))
def locked():
    return open("/proc/self/status").read().split("VmLck:")[1].split()[0]
libc.mlock(at, 16384)
first = locked()
libc.munlockall()
print("Vm", first, locked())')"
is sigq_limit "33" "$(run --rlimit sigpending=33 -- sed -n 's,^SigQ:.*/,,p' /proc/self/status)"

# timer.sh has more about what is counted
is sigq_of_timers "2/33 3" "$(run --uid 1000 --rlimit sigpending=33 -- "$PYTHON" -c '
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
timer = ctypes.c_void_p()
def sigq():
    return open("/proc/self/status").read().split("SigQ:")[1].split()[0]
for i in range(2):
    libc.timer_create(1, None, ctypes.byref(timer))
first = sigq()
libc.timer_create(1, None, ctypes.byref(timer))
print(first, sigq().split("/")[0])')"

# --- files that only a world has ---

# shellcheck disable=SC2016 # for the inner shells
{
	is ucounts_awk "0 1000 2" "$(run --uid 1000 -- sh -c '
		awk "NR > 1 { print \$1, \$2, \$3 }" /proc/kpemu/ucounts; :')"
	is ucounts_by_name "2 2 0" "$(run --uid 1000 -- sh -c '
		awk "NR == 1 { for (i = 1; i <= NF; i++) at[\$i] = i } NR == 2 {
			print at[\"uid\"], \$at[\"nproc\"], \$at[\"msgqueue_refused\"] }" /proc/kpemu/ucounts; :')"
	like events "nproc 0 0 1000 2 2 1 EAGAIN v?fork" "$(run --uid 1000 --rlimit nproc=2 -- sh -c '
		(sleep 0; :) 2>/dev/null
		exec awk "\$1 == \"nproc\" { print \$1, \$2, \$3, \$4, \$5, \$6, \$7, \$8, \$9 }" \
			/proc/kpemu/events')"
	is events_counts "uncovered adopted host_collisions mq_clamped recoveries reaped_dead refusals_lost" \
		"$(run -- awk 'body { print $1 } !NF { body = 1 }' /proc/kpemu/events | paste -sd' ')"
	is kpemu_relative "ns" "$(run -- sh -c 'cd /proc/kpemu/.. 2>/dev/null || cd /proc
		awk "{ print \$1; exit }" kpemu/ucounts')"
	is kpemu_test "dir file unwritten" "$(run -- sh -c '[ -d /proc/kpemu ] && echo dir
		[ -f /proc/kpemu/events ] && echo file
		{ echo x >/proc/kpemu/events; } 2>/dev/null || echo unwritten' | paste -sd' ')"
	is kpemu_stat "444 0 0 /proc/kpemu/events" "$(run --uid 1000 -- stat -c '%a %u %s %n' /proc/kpemu/events)"
}
is kpemu_outside "none" "$(cat /proc/kpemu/ucounts 2>/dev/null || echo none)"
is ucounts_of_several "0 7" "$(run --uid 0 -- "$PYTHON" -c '
import os
os.setresuid(7, 7, 0)
print(*sorted(int(l.split()[1]) for l in open("/proc/kpemu/ucounts").readlines()[1:]))')"

# --- tasks outside the world ---

outside=$$
is outside_status "$(grep -E '^(Name|Uid|Gid|Groups|Cap...):' /proc/$outside/status)" \
	"$(in_world grep -E '^(Name|Uid|Gid|Groups|Cap...):' /proc/$outside/status)"
is outside_limits "$(cat /proc/$outside/limits)" "$(in_world cat /proc/$outside/limits)"
is outside_owner "$(stat -c '%u %g' /proc/$outside/status)" \
	"$(in_world stat -c '%u %g' /proc/$outside/status)"
is another_file "$(cat /proc/version)" "$(in_world cat /proc/version)"
mkdir -p "$TMPDIR/7"
echo "no task's" | tee "$TMPDIR/status" "$TMPDIR/limits" >"$TMPDIR/7/status"
is same_name_elsewhere "no task's" "$(in_world cat "$TMPDIR/status")"
is same_name_relative "no task's" "$(cd "$TMPDIR" && in_world cat limits)"
is same_name_below_a_number "no task's" "$(in_world cat "$TMPDIR/7/status")"
is written_as_ever "new" "$(in_world sh -c "echo new >$TMPDIR/status; cat $TMPDIR/status")"

# The program's own look at somebody who has changed and ended.
is pid_of_a_child "61235 61236" "$(run --uid 0 -- "$PYTHON" -c '
import os, signal
r, w = os.pipe()
pid = os.fork()
if not pid:
    os.setresuid(61235, 61236, 61235)
    os.write(w, b"x")
    signal.pause()
os.read(r, 1)
print(*open(f"/proc/{pid}/status").read().split("Uid:")[1].split()[:2])
os.kill(pid, 9)')"
finish

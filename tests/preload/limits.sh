#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The four limits as programs see and set them, and the real ones as everybody else sees them.
. "$(dirname "$0")/lib.sh"

words="nproc=20:30 memlock=65536:131072 sigpending=33:44 msgqueue=5000:6000"
options=(--uid 1000)
for word in $words; do
	options+=(--rlimit "$word")
done
limited() { run "${options[@]}" -- "$@"; }

for case in $("$tests/limits" --list); do
	cases "$case" limited "$tests/limits" "$case"
	[ -n "$native_why" ] || cases "native/$case" native "$words" "$tests/limits" "$case"
done
[ -z "$native_why" ] || skip native "$native_why"

# Four lines differ from what the shell says without kpemu, and those by the numbers given.
# bash has the soft limits, and with -H the hard ones.
expect_ulimit()
{
	sed -E -e "s/^(max user processes .*\)) .*/\1 $1/" -e "s/^(max locked memory .*\)) .*/\1 $2/" \
		-e "s/^(pending signals .*\)) .*/\1 $3/" -e "s/^(POSIX message queues .*\)) .*/\1 $4/"
}
is bash_ulimit_a "$(bash -c 'ulimit -a' | expect_ulimit 20 64 33 5000)" \
	"$(limited bash -c 'ulimit -a')"
is bash_ulimit_hard "$(bash -c 'ulimit -Ha' | expect_ulimit 30 128 44 6000)" \
	"$(limited bash -c 'ulimit -Ha')"
is bash_ulimit_sets "7 9" "$(limited bash -c 'ulimit -Su 7; ulimit -Hu 9; ulimit -u; ulimit -Hu' | paste -sd' ')"
is bash_ulimit_cannot_raise 1 "$(limited bash -c 'ulimit -Hu 31; echo $?' 2>/dev/null)"
is dash_ulimit "64 20" "$(limited dash -c 'ulimit -l; ulimit -p' | paste -sd' ')"

# The file: four rows with our numbers in the kernel's columns, all others as they are.
row() { printf '%-25s %-20s %-20s %-10s' "$@"; }
expect_rows()
{
	local p m s q
	p=$(row "Max processes" 20 30 processes)
	m=$(row "Max locked memory" 65536 131072 bytes)
	s=$(row "Max pending signals" 33 44 signals)
	q=$(row "Max msgqueue size" 5000 6000 bytes)
	sed -e "s/^Max processes .*/$p/" -e "s/^Max locked memory .*/$m/" \
		-e "s/^Max pending signals .*/$s/" -e "s/^Max msgqueue size .*/$q/"
}
is proc_self_limits "$(cat /proc/self/limits | expect_rows)" "$(limited cat /proc/self/limits)"
is unlimited_row "$(row 'Max processes' unlimited unlimited processes)" \
	"$(run --rlimit nproc=unlimited -- grep '^Max processes' /proc/self/limits)"

is python_getrlimit "(20, 30) (65536, 131072) (5000, 6000) (33, 44)" "$(limited "$PYTHON" -c '
import resource as r
print(r.getrlimit(r.RLIMIT_NPROC), r.getrlimit(r.RLIMIT_MEMLOCK), r.getrlimit(r.RLIMIT_MSGQUEUE),
      r.getrlimit(r.RLIMIT_SIGPENDING))')"
is python_prlimit_of_another "(20, 30) (5, 6) (20, 30)" "$(limited "$PYTHON" -c '
import os, resource as r, signal
pid = os.fork()
if not pid:
    signal.pause()
old = r.prlimit(pid, r.RLIMIT_NPROC, (5, 6))
print(old, r.prlimit(pid, r.RLIMIT_NPROC), r.getrlimit(r.RLIMIT_NPROC))
os.kill(pid, 9)')"
is python_rules "ValueError ValueError" "$(limited "$PYTHON" -c '
import resource as r
def error(new):
    try:
        r.setrlimit(r.RLIMIT_NPROC, new)
    except (ValueError, OSError) as e:
        return type(e).__name__
print(error((6, 5)), error((5, 31)))')"

pr=(prlimit --raw --noheadings -o SOFT,HARD)
is prlimit_of_itself "20 30" "$(limited "${pr[@]}" --nproc)"
# shellcheck disable=SC2016 # for the inner shell
is prlimit_of_another_task "64 131072" "$(limited sh -c '
	prlimit --memlock=64: --pid $$ && prlimit --raw --noheadings -o SOFT,HARD --memlock --pid $$')"
is prlimit_starts_a_program "3 30" "$(limited prlimit --nproc=3: "${pr[@]}" --nproc)"

# SOFT alone sets both; above the host's hard limit is allowed; other names are the kernel's.
is soft_sets_both "20 20" "$(run --rlimit nproc=20 -- "${pr[@]}" --nproc)"
host=$("${pr[@]}" --msgqueue | cut -d' ' -f2)
if [ "$host" != unlimited ]; then
	is above_the_host "$((host + 1)) $((host + 2))" \
		"$(run --rlimit "msgqueue=$((host + 1)):$((host + 2))" -- "${pr[@]}" --msgqueue)"
else
	skip above_the_host "this host has no limit"
fi
is unlimited "unlimited unlimited" "$(run --rlimit memlock=unlimited -- "${pr[@]}" --memlock)"
is unlimited_hard "5 unlimited" "$(run --rlimit memlock=5:unlimited -- "${pr[@]}" --memlock)"
is highest_number "18446744073709551614 unlimited" \
	"$(run --rlimit memlock=18446744073709551614:unlimited -- "${pr[@]}" --memlock)"
is default_is_the_caller_s "$("${pr[@]}" --nproc --memlock --sigpending --msgqueue)" \
	"$(run -- "${pr[@]}" --nproc --memlock --sigpending --msgqueue)"
is real_name "61 62" "$(run --rlimit nofile=61:62 -- "${pr[@]}" --nofile)"

# With CAP_SYS_RESOURCE hard limits rise, without it they do not, whoever the real user is.
raise() { run --uid 0 --rlimit nproc=5 "$@" -- prlimit --nproc=6 "${pr[@]}" --nproc 2>&1; }
is raised_with_capability "6 6" "$(raise)"
like not_raised_without_capability ".*Operation not permitted" "$(raise --cap-drop sys_resource)"
# Only one's own, by uid and gid, unless with the capability.
of_other='import os, resource as r, sys
end, held = os.pipe()
pid = os.fork()
if not pid:
    os.close(held)
    os.read(end, 1)
    os._exit(0)
os.setresuid(int(sys.argv[1]), int(sys.argv[1]), int(sys.argv[1]))
try:
    r.prlimit(pid, r.RLIMIT_NPROC)
    print("ok")
except PermissionError:
    print("EPERM")'
is prlimit_of_another_uid EPERM "$(run --uid 0 -- "$PYTHON" -c "$of_other" 1000)"
is prlimit_with_capability ok "$(run --uid 0 -- "$PYTHON" -c "$of_other" 0)"

# Seen from outside: real hard limits and ids are what they are here; soft ones are the hard ones, so
# that the emulated limits bite first.
real() { awk '/^Max (processes|locked memory|pending signals|msgqueue size)/ { print $(NF - 1) }'; }
start "limits-$$" "${options[@]}" -- "$tests/attach" fork hold
if said '^pid '; then
	pid=${line#pid }
	is outside_hard_limits "$(real </proc/self/limits)" "$(real <"/proc/$pid/limits")"
	is outside_soft_limits "$(real </proc/self/limits)" \
		"$(awk '/^Max (processes|locked memory|pending signals|msgqueue size)/ {
			print $(NF - 2) }' "/proc/$pid/limits")"
	is outside_ids "$(grep -E '^(Uid|Gid|Groups):' /proc/self/status)" \
		"$(grep -E '^(Uid|Gid|Groups):' "/proc/$pid/status")"
	is outside_prlimit "$("${pr[@]}" --nproc | cut -d' ' -f2)" \
		"$("${pr[@]}" --nproc --pid "$pid" | cut -d' ' -f2)"
	is outside_kpemu_ps 20 "$("$KPEMU" ps --json --world "$world" |
		of_json "[p['nproc_limit'] for p in w if p['pid'] == $pid][0]")"
else
	fail outside "$line"
fi
stop

finish

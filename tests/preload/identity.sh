#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Ids and capabilities as the program believes in them, while the real ones stay.
. "$(dirname "$0")/lib.sh"

# Natively it executes itself as another user, who must be able to get at it.
open_to_all=$(mktemp -d /tmp/kpemu-identity.XXXXXX) || exit 2
trap 'rm -rf "$open_to_all" "${own_tmpdir-}"' EXIT
chmod 755 "$open_to_all"
cp "$tests/identity" "$open_to_all"

for case in $("$tests/identity" --list); do
	cases "$case" run --uid 0 --gid 0 --rlimit nproc=40 --rlimit memlock=4096 -- \
		"$tests/identity" "$case"
	[ "$me" != 0 ] || cases "native/$case" native_root "nproc=40 memlock=4096" \
		"$open_to_all/identity" "$case"
done
[ "$me" = 0 ] || skip native "uid 0 needs root"

# --- the options ---

ids() { run "$@" -- sh -c 'id -ru; id -u; id -rg; id -g; id -G' | paste -sd' '; }
is uid_option "1000 1000 $my_gid $my_gid $my_gid" "$(ids --uid 1000)"
is uid_and_gid "1000 1000 2000 2000 2000" "$(ids --uid 1000 --gid 2000)"
is gid_option "$me $me 2000 2000" "$(ids --gid 2000 | cut -d' ' -f1-4)"
is uid_zero "0 0 0 0 0" "$(ids --uid 0 --gid 0)"
is highest_id "4294967294 4294967294" "$(ids --uid 4294967294 | cut -d' ' -f1-2)"
is default_is_the_caller "$(id -ru) $(id -u) $(id -rg) $(id -g) $(id -G)" "$(ids)"

status_of() { run "$@" -- grep -E '^(Uid|Gid|Groups|Cap...):' /proc/self/status | tr '\t' ' '; }
is status_of_user "Uid: 1000 1000 1000 1000
Gid: 2000 2000 2000 2000
Groups:  
CapInh: 0000000000000000
CapPrm: 0000000000000000
CapEff: 0000000000000000
CapBnd: 000001ffffffffff
CapAmb: 0000000000000000" "$(status_of --uid 1000 --gid 2000)"
is status_of_root "Uid: 0 0 0 0
Gid: 0 0 0 0
Groups:  
CapInh: 0000000000000000
CapPrm: 000001ffffffffff
CapEff: 000001ffffffffff
CapBnd: 000001ffffffffff
CapAmb: 0000000000000000" "$(status_of --uid 0 --gid 0)"
# CAP_SYS_RESOURCE is 24, CAP_IPC_LOCK 14.
is status_without_two "CapPrm: 000001fffeffbfff CapEff: 000001fffeffbfff CapBnd: 000001fffeffbfff" \
	"$(status_of --uid 0 --cap-drop sys_resource,CAP_IPC_LOCK | grep -E '^Cap(Prm|Eff|Bnd)' |
		paste -sd' ')"
is status_by_default "$(grep -E '^(Uid|Gid|Groups|Cap...):' /proc/self/status | tr '\t' ' ')" \
	"$(status_of)"

# --- programs that nobody here wrote ---

is whoami_root root "$(run --uid 0 -- whoami)"
try run --uid 61235 -- whoami
is whoami_of_nobody_known 1 "$status"
# shellcheck disable=SC2016 # for the inner shell
is bash_variables "1000 1000" "$(run --uid 1000 -- bash -c 'echo $UID $EUID')"
is perl_variables "1000 1001 1001" "$(run --uid 0 -- perl -e '$) = 5; $< = 1000; $> = 1001;
	print "$< $> ", (split " ", qx(cat /proc/$$/status | grep Uid))[2]')"
is python_sequence "(0, 0, 0) (0, 1000, 0) (0, 0, 0) (1000, 1000, 1000) [] EPERM" \
	"$(run --uid 0 --gid 0 -- "$PYTHON" -c '
import os
said = [os.getresuid()]
os.seteuid(1000)
said.append(os.getresuid())
os.seteuid(0)
said.append(os.getresuid())
os.setgroups([5, 6])
os.setgroups([])
os.setresuid(1000, 1000, 1000)
said += [os.getresuid(), os.getgroups()]
try:
    os.setuid(0)
except PermissionError:
    said.append("EPERM")
print(*said)')"
is setpriv_starts_as_another "61235 61236 7 8" "$(run --uid 0 --gid 0 -- setpriv --reuid 61235 \
	--regid 61236 --groups 7,8 sh -c 'id -u; id -g; grep Groups: /proc/self/status | cut -f2' |
	paste -sd' ' | sed 's/ *$//')"
if capsh=$(PATH=$PATH:/usr/sbin:/sbin command -v capsh); then
	like capsh_of_user "Current: =" "$(run --uid 1000 -- "$capsh" --print | grep '^Current:')"
	like capsh_of_root "Current: =ep.*" "$(run --uid 0 -- "$capsh" --print | grep '^Current:')"
else
	skip capsh "there is no capsh"
fi
mlock_python='import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
m = mmap.mmap(-1, 65536)
at = ctypes.addressof(ctypes.c_char.from_buffer(m))
def lock():
    return ctypes.get_errno() if libc.mlock(ctypes.c_void_p(at), 65536) else 0
print(lock(), libc.munlock(ctypes.c_void_p(at), 65536), end=" ")
os.setuid(1000)
print(lock())'
is ipc_lock_in_python "0 0 12" "$(run --uid 0 --rlimit memlock=4096 -- "$PYTHON" -c "$mlock_python")"
is cap_drop_ipc_lock "12 0 12" \
	"$(run --uid 0 --cap-drop ipc_lock --rlimit memlock=4096 -- "$PYTHON" -c "$mlock_python")"

# --- as other tasks of the world see it, and everybody else ---

start "identity-$$" --uid 0 --gid 0 -- "$PYTHON" -c '
import os, signal, subprocess, sys
pid = os.fork()
if not pid:
    os.setgroups([7, 8])
    os.setresgid(1000, 2000, 3000)
    os.setresuid(1001, 1002, 1003)
    signal.pause()
status = ""
while "\t1003\t" not in status:
    status = open(f"/proc/{pid}/status").read()
rows = [r for r in status.splitlines() if r.startswith(("Uid", "Gid", "Groups", "CapEff"))]
print("status", *[" ".join(r.split()) for r in rows])
ps = subprocess.run(["ps", "-o", "euid=,ruid=,suid=,egid=,rgid=,nlwp=", "-p", str(pid)],
                    stdout=subprocess.PIPE, text=True)
print("ps", *ps.stdout.split())
st = os.stat(f"/proc/{pid}")
print("stat", st.st_uid, st.st_gid, os.stat(f"/proc/{pid}/status").st_uid)
out = subprocess.run(["stat", "-c", "%u %g", f"/proc/{pid}"], stdout=subprocess.PIPE, text=True)
print("stat_program", out.stdout.strip())
out = subprocess.run(["ls", "-nd", f"/proc/{pid}/task"], stdout=subprocess.PIPE, text=True)
print("ls", *out.stdout.split()[2:4])
print("outside", os.stat("/proc/sys").st_uid)
print("child", pid, flush=True)
sys.stdin.read()
os.kill(pid, 9)'
if said '^child '; then
	pid=${line#child }
	told() { sed -n "s/^$1 //p" "$TMPDIR/$world.out"; }
	is another_task_status "Uid: 1001 1002 1003 1002 Gid: 1000 2000 3000 2000 Groups: 7 8 CapEff: 0000000000000000" \
		"$(told status)"
	is ps_columns "1002 1001 1003 2000 1000 1" "$(told ps)"
	is owner_by_python "1002 2000 1002" "$(told stat)"
	is owner_by_stat "1002 2000" "$(told stat_program)"
	is owner_by_ls "1002 2000" "$(told ls)"
	is owner_of_what_is_no_task "$(stat -c %u /proc/sys)" "$(told outside)"
	is real_ids_unchanged "$(grep -E '^(Uid|Gid|Groups|Cap...):' /proc/self/status)" \
		"$(grep -E '^(Uid|Gid|Groups|Cap...):' "/proc/$pid/status")"
	is real_owner_unchanged "$(stat -c '%u %g' /proc/$$)" "$(stat -c '%u %g' "/proc/$pid")"
	is kpemu_ps "1001 1002 1000" "$("$KPEMU" ps --json --world "$world" |
		of_json "*[(p['uid'], p['euid'], p['gid']) for p in w if p['pid'] == $pid][0]")"
else
	fail another_task "$line"
fi
stop

# Threads are counted as the model has them.
is ps_nlwp "1 4" "$(run --uid 1000 -- "$PYTHON" -c '
import os, subprocess, threading, time
def nlwp():
    return subprocess.check_output(["ps", "-o", "nlwp=", "-p", str(os.getpid())], text=True).strip()
first = nlwp()
for i in range(3):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
while open("/proc/self/status").read().split("Threads:")[1].split()[0] != "4":
    pass
print(first, nlwp(), flush=True)
os._exit(0)')"

# Files belong to the real user, whoever the program believes to be.
rm -f "$TMPDIR/made"
run --uid 1000 -- touch "$TMPDIR/made"
is files_belong_to_the_real_user "$me" "$(stat -c %u "$TMPDIR/made")"
if [ "$me" = 0 ]; then
	try "$KPEMU" run --uid 1000 -- true
	is real_root_is_told 1 "$(grep -c "running as real root" <<<"$err")"
else
	printf secret >"$TMPDIR/closed"
	chmod 0 "$TMPDIR/closed"
	try run --uid 0 -- cat "$TMPDIR/closed"
	is emulated_root_reads_nothing_more 1 "$status"
fi
finish

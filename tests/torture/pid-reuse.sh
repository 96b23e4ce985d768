#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Pids come round while tasks that nobody saw end are still in the accounts.
# test: needs root
. "$(dirname "$0")/../preload/lib.sh"

# Pids come round after so many, in a pid namespace of the test's own.
most=4000
inside='mount -t proc none /proc && echo "$1" >/proc/sys/kernel/pid_max && shift && exec "$@"'
if ! unshare -m -p -f sh -c "$inside" - $most true 2>/dev/null; then
	skip all "no pid namespace here can have a pid_max of its own"
	finish
fi

# Children end and are reaped by a system call that nobody sees; then everybody's pids come round
# twice, outside the world; then the limit must be as far away as ever.
cases unseen_and_reused unshare -m -p -f sh -c "$inside" - $most "$PYTHON" -c '
import subprocess, sys
kpemu, program = sys.argv[1:]
p = subprocess.Popen([kpemu, "run", "--quiet", "--uid", "1000", "--rlimit", "nproc=30", "--",
                      program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
for round in range(20):
    print(p.stdout.readline().strip())
    subprocess.run([program, "--spin", "8000"], check=True)
    p.stdin.write("go on\n")
    print(p.stdout.readline().strip())
p.stdin.close()
for line in p.stdout:
    print(line.strip())
sys.exit(p.wait())' "$KPEMU" "$tests/reuse"
finish

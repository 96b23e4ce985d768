#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Thousands of tasks at once: exactly the limit, all of them seen, all of them gone afterwards.
. "$(dirname "$0")/../preload/lib.sh"

many=${MANY:-4000}
forks='import os, signal, sys
pids = []
try:
    while len(pids) <= int(sys.argv[1]):
        pid = os.fork()
        if not pid:
            signal.pause()
        pids.append(pid)
except OSError as e:
    print("forks", len(pids), e.errno, flush=True)
sys.stdin.readline()
for pid in pids:
    os.kill(pid, signal.SIGKILL)
for pid in pids:
    os.waitpid(pid, 0)
print("reaped", flush=True)
sys.stdin.read()'
start "many-$$" --quiet --uid 1000 --rlimit nproc="$many" -- "$PYTHON" -c "$forks" "$many"
until_true 300 grep -q '^forks' "$TMPDIR/$world.out"
is forks "forks $((many - 1)) 11" "$(cat "$TMPDIR/$world.out")"
is ps "$many" "$("$KPEMU" ps --json --world "$world" | of_json 'len(w)')"
is stat "$many" "$(use_of 1000 nproc)"
like check "ok: 1 records?, $many tasks, 0 queues" "$("$KPEMU" check --world "$world")"
echo >&"$hold"
until_true 300 grep -q '^reaped' "$TMPDIR/$world.out"
is afterwards 1 "$(use_of 1000 nproc)"
stop
is status 0 "$status"

# All of them die at once, unreaped, and the next world begins at zero.
start "many-$$" --quiet --uid 1000 --rlimit nproc="$many" -- "$PYTHON" -c "$forks" "$many"
until_true 300 grep -q '^forks' "$TMPDIR/$world.out"
pids=$("$KPEMU" ps --json --world "$world" | of_json '*[p["pid"] for p in w]')
# shellcheck disable=SC2086 # one word a pid
kill -KILL $pids
stop
is killed 137 "$status"
is world_gone "" "$(worlds | grep "$world")"

threads='import _thread, sys, threading, time
threading.stack_size(65536)
n = 0
try:
    while n <= int(sys.argv[1]):
        _thread.start_new_thread(time.sleep, (600,))
        n += 1
except RuntimeError:
    print("threads", n, flush=True)
print(open("/proc/self/status").read().split("Threads:")[1].split()[0], flush=True)
sys.stdin.read()'
start "many-$$" --quiet --uid 1000 --rlimit nproc="$many" -- "$PYTHON" -c "$threads" "$many"
until_true 300 grep -q '^threads' "$TMPDIR/$world.out"
until_true 10 grep -q '^[0-9]' "$TMPDIR/$world.out"
is threads "threads $((many - 1)) $many" "$(paste -sd' ' "$TMPDIR/$world.out")"
is threads_counted "$many" "$(use_of 1000 nproc)"
stop
finish

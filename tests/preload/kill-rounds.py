# SPDX-License-Identifier: GPL-2.0-or-later
"""Kills the launcher, the program's tree, or both, at random moments. Called by kill-rounds.sh.

usage: kill-rounds.py launcher|tree|both ROUNDS

Afterwards the next kpemu run or kpemu gc has removed everything: files of worlds and real queues.
"""
import glob
import os
import random
import select
import signal
import subprocess
import sys
import time

BUILD = os.environ["BUILD"]
KPEMU = BUILD + "/kpemu"
UID = os.getuid()
LIMITS = ["--uid", "1000", "--rlimit", "nproc=60", "--rlimit", "msgqueue=1000",
          "--rlimit", "memlock=20480"]
LIFETIME = 150  # milliseconds of a program that nobody kills
REPORTED = 5

what, rounds = sys.argv[1], int(sys.argv[2])
marker = f"KPT_ROUND={os.getpid()}"
wrong = []
removed_by = {"itself": 0, "kpemu gc": 0, "kpemu run": 0}


def of_round(n):
    """Pids whose environment says that they belong to the round."""
    mark = f"{marker}.{n}".encode()
    pids = []
    for path in glob.iglob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as f:
                if mark in f.read().split(b"\0"):
                    pids.append(int(path.split("/")[2]))
        except OSError:
            pass
    return pids


def kill_tree(n, spared):
    """Until nobody is left to fork another one."""
    for _ in range(200):
        pids = [p for p in of_round(n) if p not in spared]
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    wrong.append(f"round {n}: the tree cannot be killed")


def ended(pipe, seconds=20):
    """All who could write to the pipe have gone."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([pipe], [], [], 0.5)[0] and not os.read(pipe, 4096):
            return True
    return False


def left(world):
    """What there still is of a world: its file, its real queues."""
    files = glob.glob(f"/dev/shm/kpemu.{UID}.{world}*")
    for name in "abcd":
        n = subprocess.run([BUILD + "/tests/mqueue", "--probe", world, name],
                           stdout=subprocess.PIPE, text=True).stdout.strip()
        if n != "0":
            files.append(f"{n} queues /{name}")
    return files


def one_round(n):
    world = f"kill-rounds-{os.getpid()}-{n}"
    r, w = os.pipe()
    launcher = subprocess.Popen([KPEMU, "run", "--quiet", "--world", world, *LIMITS, "--",
                                 BUILD + "/tests/storm", str(LIFETIME)],
                                env=dict(os.environ, KPT_ROUND=f"{marker.split('=')[1]}.{n}"),
                                stdout=w, pass_fds=(w,), start_new_session=True)
    os.close(w)
    time.sleep(random.uniform(0, 0.08))
    if what == "launcher":
        launcher.kill()
    elif what == "tree":
        kill_tree(n, {launcher.pid})
    else:
        os.killpg(launcher.pid, signal.SIGKILL)
        kill_tree(n, set())
    try:
        launcher.wait(20)
    except subprocess.TimeoutExpired:
        wrong.append(f"round {n}: the launcher does not end")
        launcher.kill()
        launcher.wait()
    if not ended(r):
        wrong.append(f"round {n}: processes that do not end: {of_round(n)}")
        kill_tree(n, set())
    os.close(r)
    if not os.path.exists(f"/dev/shm/kpemu.{UID}.{world}"):
        removed_by["itself"] += 1
    elif n % 2:
        subprocess.run([KPEMU, "gc"], stdout=subprocess.DEVNULL)
        removed_by["kpemu gc"] += 1
    else:
        subprocess.run([KPEMU, "run", "--quiet", "true"])
        removed_by["kpemu run"] += 1
    # A process closes its files a moment before it is gone, and a world with one in it stays.
    for _ in range(20):
        if not left(world):
            break
        time.sleep(0.1)
        subprocess.run([KPEMU, "gc"], stdout=subprocess.DEVNULL)
    if rest := left(world):
        wrong.append(f"round {n}: left behind: {rest}")


random.seed(int(os.environ.get("SEED", "1")))
for n in range(rounds):
    one_round(n)
for line in wrong[:REPORTED]:
    print(f"FAIL {what}: {line}")
if not wrong:
    print(f"ok {what} ({rounds} rounds; removed by",
          ", ".join(f"{who} {n}" for who, n in removed_by.items()) + ")")
sys.exit(bool(wrong))

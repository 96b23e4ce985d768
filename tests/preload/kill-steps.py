# SPDX-License-Identifier: GPL-2.0-or-later
"""Goes through the deaths of kill-steps, one step after the other. Called by kill-steps.sh.

usage: kill-steps.py SECONDS ALGORITHM [OPERATION...]

After every death the counters must agree with the objects, as kpemu check says, and a user alone in
its account must have all of its limit. Operations that are not through when the time is over go on
with every seventh step only, so that each is seen to its end.
"""
import os
import subprocess
import sys
import time

BUILD = os.environ["BUILD"]
KPEMU = BUILD + "/kill/kpemu"
PROGRAM = BUILD + "/tests/kill-steps"
LIMITS = ["--rlimit", "nproc=6", "--rlimit", "msgqueue=291", "--rlimit", "memlock=65536"]
WHOLE = "forks=5 queues=3 pages=16"
MOST = 3000
REPORTED = 5

deadline = time.monotonic() + float(sys.argv[1])
ALGORITHM = sys.argv[2]
bad = 0


class World:
    """A survivor in a world, who makes victims and witnesses."""

    def __init__(self, name):
        self.name = name
        self.p = subprocess.Popen([KPEMU, "run", "--quiet", "--world", name, "--ucounts",
                                   ALGORITHM, "--uid", "0", "--gid", "0", *LIMITS, "--", PROGRAM], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, command):
        self.p.stdin.write(command + "\n")
        answer = self.p.stdout.readline().strip()
        return answer or "no answer"

    def check(self):
        r = subprocess.run([KPEMU, "check", "--world", self.name], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
        return "" if r.returncode == 0 else f"check says {r.returncode}: {r.stdout.strip()}"

    def verify(self):
        """An orphan is reaped by the launcher a moment after its end."""
        end = time.monotonic() + 5
        while (got := self.ask("verify")) != WHOLE and time.monotonic() < end:
            pass
        return "" if got == WHOLE else f"want {WHOLE}, got {got}"

    def end(self):
        self.p.stdin.close()
        return self.p.wait(20)


def step_through(world, operation, label, early=0):
    """Returns how many steps it has."""
    global bad
    wrong, n, stride = 0, 1, 1
    while n < MOST:
        answer = world.ask(f"run {operation} {n} {early}")
        why = "" if answer in ("died", "child", "done") else answer
        why = why or world.check() or world.verify() or world.check()
        if why:
            wrong += 1
            if wrong <= REPORTED:
                print(f"FAIL {label}: step {n} ({answer}): {why}".replace("\n", "\\n"), flush=True)
        if answer == "done" or answer == "no answer":
            break
        if time.monotonic() > deadline:
            stride = 7
        n += stride
    else:
        wrong += 1
        print(f"FAIL {label}: no end after {MOST} steps")
    bad += wrong
    if not wrong:
        how = "all" if stride == 1 else "some"
        print(f"ok {label} ({how} of {n - 1} steps)", flush=True)
    return n - 1


def main():
    names = sys.argv[3:] or subprocess.run([PROGRAM, "--list"], stdout=subprocess.PIPE,
                                           text=True).stdout.split()
    fork_steps = 40
    for name in names:
        world = World(f"kill-steps-{os.getpid()}-{ALGORITHM}-{name}"[:48])
        if name == "recovery":
            # Every step that the first one could have died at is a state to recover from.
            early = range(1, fork_steps, 1 if deadline > time.monotonic() + 120 else 5)
            for k in early:
                step_through(world, name, f"{ALGORITHM}/{name}_of_step_{k}", k)
        else:
            steps = step_through(world, name, f"{ALGORITHM}/{name}")
            if name == "fork":
                fork_steps = steps
        status = world.end()
        if status:
            print(f"FAIL {name}: the survivor ended with {status}")
            globals()["bad"] += 1


main()
sys.exit(bad != 0)

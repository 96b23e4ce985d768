# SPDX-License-Identifier: GPL-2.0-or-later
"""Random programs of the calls that are accounted, on the real kernel and in worlds, compared.

usage: differential.py [--programs N] [--seed S] [--ucounts ALG[,ALG...]] [--in-turn] [--jobs J] [--keep DIR]
                       [--corpus DIR] [--steps N] [--show SEED] [FILE...]

Programs are those that differential.c interprets. Those of --corpus and FILEs come first, then N that
chance makes from S. A difference is shrunk to a program that still shows it, which is written to DIR
with what both said. Exit status 1 if there was one.

As root each program runs natively under four real uids that nobody else has; as an ordinary user in a
user namespace, where the user's records begin at zero. A program that does not say twice the same
natively is told, with its number, and compared no further.
"""
import argparse
import concurrent.futures
import glob
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.environ.get("BUILD", "build")
KPEMU = os.path.abspath(BUILD + "/kpemu")
ROOT = os.getuid() == 0
UIDS = range(62000, 63000)
UIDS_AT_ONCE = 200  # a uid comes again only after so many others
BATCH = 20
SLOTS = 12
SECONDS = 60  # for a batch that should take two


# --- programs by chance ---

class Task:
    def __init__(self, leader, parent):
        self.leader = leader
        self.parent = parent
        self.alive = True


SIGS = ["10", "12", "15", "17", "18", "20", "23", "28", "R0", "R1", "R2", "R3"]
HARMLESS = ["17", "18", "23", "28"]  # ignored by default
RT = ["R0", "R1", "R2", "R3"]
BYTES = [0, 96, 97, 98, 193, 194, 291, 300, 400, 500, 700, 1000, 2000]
LOCKED = [0, 6, 4095, 4096, 8191, 8192, 12288, 16384, 24576, 40960, 65536]
HOWS = ["group"] + ["kill"] * 4 + ["queue"] * 5 + ["tgkill"] * 3 + ["tkill", "pidfd", "pidinfo-1", "info-1",
                                                        "info0", "info5", "info-60", "tinfo-1",
                                                        "tinfo-6"]


class Program:
    """Knows roughly what its steps do, so that most can be done."""

    def __init__(self, seed, length=None):
        self.rng = r = random.Random(seed)
        self.name = str(seed)
        self.tasks = {0: Task(0, -1)}
        kind = r.choices(["user", "saved", "caps", "ns", "rootns"], [40, 12, 12, 30, 6])[0]
        if not ROOT:
            kind = "ns"
        self.kind = kind
        ipc = ["ipc"] if r.random() < 0.3 and (ROOT or kind == "ns") else []
        self.lines = [" ".join(["program", self.name, kind, *ipc, *self.limits()])]
        self.segments = 0
        groups = [self.processes, self.threads, self.signals, self.receive, self.timer, self.queue,
                  self.memory, self.shm, self.namespace, self.ids, self.limit, self.probe,
                  self.race, self.notify, self.capability]
        weights = [r.choice([1, 2, 6]) * w for w in (6, 2, 8, 6, 2, 4, 3, 4, 4, 3, 4, 4, 1, 1, 2)]
        for _ in range(length or r.randint(10, 45)):
            line = r.choices(groups, weights)[0]()
            if line:
                self.lines += line.split("\n")

    def limits(self):
        r = self.rng
        return [f"nproc={r.choice([0, 1, 2, 3, 4, 5, 6, 8, 12, 30])}:{r.choice([30, 40])}",
                f"sigpending={r.choice([0, 1, 2, 3, 4, 5, 6, 8, 12, 25])}:{r.choice([25, 60])}",
                f"msgqueue={r.choice(BYTES)}:{r.choice([2000, 5000, 100000])}",
                f"memlock={r.choice(LOCKED)}:{r.choice([65536, 131072])}"]

    # Who.

    def living(self):
        return [s for s, t in self.tasks.items() if t.alive]

    def who(self):
        return self.rng.choice(self.living() or [0])

    def leaders(self):
        return [s for s, t in self.tasks.items() if t.alive and t.leader == s] or [0]

    def leader(self):
        return self.rng.choice(self.leaders())

    def process(self):
        """One that lives, or now and then one that has ended."""
        all_of_them = [s for s, t in self.tasks.items() if t.leader == s]
        return self.rng.choice(self.leaders() if self.rng.random() < 0.9 else all_of_them or [0])

    def free(self):
        free = [s for s in range(SLOTS) if s not in self.tasks]
        return self.rng.choice(free) if free else None

    def ends(self, slot):
        for s, t in list(self.tasks.items()):
            if t.leader == slot and s != slot:
                del self.tasks[s]
            elif t.parent == slot:
                t.parent = -1
        if slot in self.tasks:
            self.tasks[slot].alive = False

    # What.

    def processes(self):
        r = self.rng
        what = r.choices(["spawn", "exit", "wait", "kill", "exec", "cwait"], [10, 2, 8, 3, 3, 1])[0]
        if what == "wait" and all(t.alive for t in self.tasks.values()):
            what = "kill"
        if what == "spawn":
            slot, who = self.free(), self.who()
            if slot is None:
                what = "wait"
            else:
                how = r.choices(["fork", "vfork", "posix", "clone", "clone3", "clone+user",
                                 "clone3+user", "clone+user+ipc", "clone3+user+uts", "clone+ipc"],
                                [10, 3, 3, 2, 2, 4, 2, 1, 1, 1])[0]
                leader = self.tasks[who].leader if who in self.tasks else 0
                self.tasks[slot] = Task(slot, leader)
                self.last_made = slot if "user" in how else None
                return f"{who} spawn {slot} {how}"
        if what in ("wait", "cwait"):
            ended = [s for s, t in self.tasks.items() if not t.alive]
            if not ended:
                return None
            slot = r.choice(ended)
            parent = self.tasks[slot].parent
            who = "c" if parent < 0 else parent
            if r.random() < 0.1:
                who = self.who()
            else:
                del self.tasks[slot]
            return f"{who} wait {slot} {r.choice(['waitpid', 'waitid', 'any'])}"
        if what == "exit":
            who = self.who()
            if len(self.leaders()) < 2 or r.random() < 0.3:
                return None
            self.ends(self.tasks[who].leader)
            return f"{who} exit {r.randint(0, 9)}"
        if what == "kill":
            if len(self.leaders()) < 2:
                return None
            slot = self.leader()
            who = r.choice([self.who(), "c"])
            self.ends(slot)
            return f"{who} send kill {slot} 9"
        who = self.leader()
        for s, t in list(self.tasks.items()):
            if t.leader == who and s != who:
                del self.tasks[s]
        return f"{who} exec {r.choice(['path', 'fd'])}"

    def threads(self):
        r = self.rng
        mine = [s for s, t in self.tasks.items() if t.alive and t.leader != s]
        if mine and r.random() < 0.4:
            slot = r.choice(mine)
            leader = self.tasks[slot].leader
            del self.tasks[slot]
            if r.random() < 0.5:
                return f"{slot} texit"
            return f"{leader} join {slot}"
        slot, who = self.free(), self.who()
        if slot is None or who not in self.tasks:
            return None
        self.tasks[slot] = Task(self.tasks[who].leader, -1)
        return f"{who} thread {slot}"

    def sig(self):
        return self.rng.choice(SIGS)

    def sigs(self):
        return ",".join(sorted(set(self.sig() for _ in range(self.rng.randint(1, 4)))))

    def how(self, slot, who):
        t, w = self.tasks.get(slot), self.tasks.get(who)
        if t and w and t.leader == w.leader and slot != t.leader and self.rng.random() < 0.5:
            return self.rng.choice(["pkill", "pqueue"])
        return self.rng.choice(HOWS)

    def target(self):
        if self.rng.random() < 0.25:
            return self.who()
        return self.process()

    def signals(self):
        r = self.rng
        who, slot = self.who(), self.target()
        if r.random() < 0.05:
            who = "c"
        how = self.how(slot, who)
        if r.random() < 0.5:
            return f"{who} fill {how} {slot} {r.choice(RT + [self.sig()])} {r.randint(1, 9)}"
        return f"{who} send {how} {slot} {self.sig()}"

    def receive(self):
        r = self.rng
        who = self.who()
        what = r.choices(["take", "mask", "action", "sfd", "sfdread"], [6, 3, 3, 1, 2])[0]
        if what == "take":
            return f"{who} take {r.choice(['all', self.sigs(), self.sigs()])} {r.randint(1, 9)}"
        if what == "mask":
            sigs = [s for s in self.sigs().split(",") if s != "20"]
            if r.random() < 0.7:  # those that do not kill
                sigs = [s for s in sigs if s in HARMLESS]
            if not sigs:
                return None
            return f"{who} mask {r.choice(['unblock', 'unblock', 'block'])} {','.join(sigs)}"
        if what == "action":
            sig = r.choice([self.sig(), "17"])
            how = r.choice(["ign", "dfl", "count", "count"])
            if sig == "17" and r.random() < 0.3:
                how = "nocldwait"
            return f"{who} action {sig} {how}"
        if what == "sfd":
            return f"{who} sfd {self.sigs()}"
        return f"{who} sfdread {r.randint(0, 1)} {r.randint(1, 4)}"

    def timer(self):
        r = self.rng
        who = self.who()
        # (A world cannot tell the kernel's own SIGCHLD from that of a timer.)
        sig = r.choice([s for s in SIGS if s != "17"])
        return r.choice([f"{who} timer {r.choice(['sig', 'none', 'tid'])} {sig}",
                         f"{who} timers none {sig} {r.randint(1, 9)}",
                         f"{who} timer sig {sig}",
                         f"{who} timerfire {r.randint(0, 2)}",
                         f"{who} timerdel {r.randint(0, 2)}",
                         f"{who} alarm"])

    def queue(self):
        r = self.rng
        who = self.who()
        most, size = r.choice([(1, 1), (1, 1), (1, 1), (1, 2), (2, 1), (3, 5), (10, 64), (0, 1),
                               (1, 0), (11, 1), (1, 9000)])
        what = r.choices(["open", "fill", "close", "unlink", "sys"], [6, 2, 3, 4, 1])[0]
        if what == "open":
            how = r.choice(["c", "c", "c", "cx", "cp", "cxp", "o", "cn" if r.random() < 0.1 else "c"])
            return f"{who} mqopen q{r.randint(0, 3)} {how} {most} {size}"
        if what == "fill":
            return f"{who} mqfill {r.randint(1, 12)} {most} {size}"
        if what == "close":
            return f"{who} mqclose {r.randint(0, 1)}"
        if what == "unlink":
            return f"{r.choice([who, who, who, 'c'])} mqunlink q{r.randint(0, 2)}"
        name, value = r.choice([("queues_max", r.randint(0, 4)), ("msg_max", r.choice([0, 1, 5, 70000])),
                                ("msgsize_max", r.choice([127, 128, 9000])),
                                ("msg_default", r.choice([1, 3])), ("msgsize_default", 128)])
        return f"{who} mqsys {name} {value}"

    def memory(self):
        r = self.rng
        who = self.who()
        first = r.randint(0, 12)
        return r.choice([f"{who} mlock {first} {r.randint(0, 4)}", f"{who} mlock {first} {r.randint(1, 4)}",
                         f"{who} mlock2 {first} {r.randint(0, 4)}",
                         f"{who} munlock {first} {r.randint(0, 4)}",
                         f"{who} munlockall", f"{who} future {r.randint(1, 6)}",
                         f"{who} maplock {r.randint(1, 5)}", f"{who} unmap {r.randint(0, 1)}"])

    def shm(self):
        r = self.rng
        who = self.who()
        what = r.choices(["get", "lock", "unlock", "rm", "at"], [3, 6, 2, 1, 1])[0]
        if what == "get" or not self.segments:
            h = self.segments
            if h == 8:
                return None
            self.segments += 1
            return f"{who} shmget {h} {r.choice([1, 4096, 4097, 8192, 12288, 20000])} " \
                   f"{r.choice(['600', '666'])}"
        h = r.randrange(self.segments)
        return f"{r.choice([who] * 9 + ['c'])} shm{what} {h}"

    def namespace(self):
        r = self.rng
        what = r.choices(["unshare", "map", "setns", "max", "nest"], [8, 10, 4, 4, 1])[0]
        if what == "unshare":
            who = self.who()
            return f"{who} unshare " + r.choice(["user", "user", "user", "user+ipc", "ipc", "uts",
                                                 "user+uts", "fs", "cgroup", "mnt"])
        if what == "map":
            slot = getattr(self, "last_made", None)
            if slot not in self.tasks or r.random() < 0.4:
                slot = self.leader()
            who = r.choice([slot, slot, self.who(), "c", "c"])
            kinds = ["one", "one", "one", "own", "four", "same", "inner"]
            if who == "c":
                kinds = ["four", "four", "same", "one"]
            return f"{who} map {slot} {r.choice(kinds)}"
        if what == "setns":
            return f"{self.leader()} setns {self.process()} {r.choice(['user', 'user', 'ipc'])}"
        if what == "nest":
            who, deep = self.leader(), r.randint(2, 6)
            return "\n".join(f"{who} unshare user\n{who} map {who} one" for _ in range(deep))
        kind = r.choice(["user", "user", "ipc", "uts", "cgroup", "inotify_instances",
                         "inotify_watches"])
        return f"{self.who()} max {kind} {r.choice([0, 1, 1, 2, 3, -1])}"

    def notify(self):
        r = self.rng
        who = self.who()
        return r.choice([f"{who} inotify", f"{who} watch {r.randint(0, 1)} {r.choice(['/', '/tmp'])}",
                         f"{who} notclose {r.randint(0, 1)}"])

    def capability(self):
        r = self.rng
        return f"{self.who()} cap {r.choice(['drop', 'drop', 'raise'])} {r.choice([5, 7, 14, 21, 24])}"

    def ids(self):
        r = self.rng
        ids = ["u0", "u0", "u1", "u2", "u3", "0", "0", "1", "2", "-", "-"]
        call = r.choice(["setresuid"] * 4 + ["setreuid", "setuid", "seteuid"])
        n = {"setresuid": 3, "setreuid": 2}.get(call, 1)
        args = [r.choice(ids) for _ in range(n)]
        if n == 1 and args[0] == "-":
            args[0] = "u1"
        if "0" == args[0] and self.kind in ("saved", "caps") and r.random() < 0.8:
            args[0] = "-" if n > 1 else "u0"
        return f"{self.who()} ids {call} {' '.join(args)}"

    def limit(self):
        r = self.rng
        name = r.choice(["nproc", "nproc", "sigpending", "sigpending", "msgqueue", "memlock"])
        soft = {"nproc": r.randint(0, 12), "sigpending": r.randint(0, 12),
                "msgqueue": r.choice(BYTES), "memlock": r.choice(LOCKED)}[name]
        hard = "-" if r.random() < 0.85 else r.choice([soft, soft + 20, soft + 100000, "inf"])
        if r.random() < 0.05:
            soft = "inf"
        slot = self.process()
        who = r.choice([slot, slot, slot, self.who(), "c"])
        return f"{who} limit {slot} {name} {soft} {hard}"

    def probe(self):
        r = self.rng
        who = self.who()
        return r.choice([f"{who} forks {r.randint(2, 12)}", f"{who} forks 40",
                         f"{who} threads {r.randint(2, 12)}",
                         f"{who} mqfill 30 1 {r.choice([1, 1, 2])}",
                         f"{who} timers none 10 20"])

    def race(self):
        r = self.rng
        who = ",".join(str(s) for s in self.living())
        slot = self.process()
        return r.choice([f"race {who} fill {r.choice(['queue', 'info-1'])} {slot} {r.choice(RT)} 10",
                         f"race {who} mqgrab 5 1 1",
                         f"race {who} sigchurn R3 10"])


# --- running ---

class Side:
    """How a file of programs is run: natively or in a world."""

    def __init__(self, name, command):
        self.name = name
        self.command = command


def uid_block(n):
    """Uids that no other run of this test on the machine has: a name that the kernel keeps."""
    for first in range(UIDS.start, UIDS.stop - n + 1, n):
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0kpemu-differential-{first}")
        except OSError:
            lock.close()
            continue
        return first, lock
    sys.exit("differential: all uids are in use")


class Lane:
    """One of those that run at once. It has its own uids."""

    def __init__(self, directory, algorithms):
        self.top = directory
        self.directory = tempfile.mkdtemp(dir=directory)
        os.chmod(self.directory, 0o755)
        if ROOT:
            self.uid, self.lock = uid_block(UIDS_AT_ONCE)
        else:
            self.uid = os.getuid()
        args = ["./differential", "--uid", str(self.uid), "--span", str(UIDS_AT_ONCE if ROOT else 4)]
        native = args
        if ROOT:  # in an ipc namespace like the first, which takes with it what a killed run leaves
            native = ["unshare", "--ipc", "setpriv", "--bounding-set=-sys_resource", *args]
        ids = [f"--uid={os.getuid()}", f"--gid={os.getgid()}", "--cap-drop", "sys_resource"]
        self.native = Side("native", native)
        self.worlds = [Side(a or "world", [KPEMU, "run", "--quiet", *(["--ucounts", a] if a else []),
                                           *ids, "--", *args]) for a in algorithms]

    def run(self, side, programs):
        """What each of the programs said, in their order."""
        path = f"{self.directory}/{side.name}.prog"
        with open(path, "w") as f:
            for lines in programs:
                f.write("\n".join(lines) + "\n")
        p = subprocess.Popen([*side.command, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace",
                             start_new_session=True, cwd=self.top)
        try:
            out = p.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out = p.communicate()[0] + "\nTIMEOUT\n"
        if p.returncode:
            out += f"\nexit status {p.returncode}\n"
        said = [text.rstrip("\n") + "\n" for text in ("\n" + out).split("\nprogram ")[1:]]
        return said + [f"nothing\n{out}" if not said else "nothing\n"] * (len(programs) - len(said))


class Comparison:
    def __init__(self, options, directory):
        self.options = options
        self.idle = [Lane(directory, options.ucounts) for _ in range(options.jobs)]
        self.mutex = threading.Lock()
        self.equal = self.steps = self.done = 0
        self.unsteady = []
        self.different = []

    def batch(self, programs, turn=None):
        with self.mutex:
            lane = self.idle.pop()
        try:
            native = lane.run(lane.native, programs)
            for world in lane.worlds if turn is None else [lane.worlds[turn % len(lane.worlds)]]:
                emulated = lane.run(world, programs)
                for lines, a, b in zip(programs, native, emulated):
                    if a == b and ended(a):
                        self.agrees(lines, a)
                    else:
                        self.differs(lane, world, lines, a, b)
        finally:
            with self.mutex:
                self.idle.append(lane)

    def differs(self, lane, world, lines, a, b):
        """Once more alone: another program may have ended the batch, or the kernel is not steady."""
        natively = [lane.run(lane.native, [lines])[0] for _ in range(3)]
        if len({*natively, a} if ended(a) else {*natively}) > 1:
            with self.mutex:
                self.unsteady.append(name_of(lines))
            self.keep("unsteady", world, lines, a, next((n for n in natively if n != a), ""))
            return
        alone = [lane.run(world, [lines])[0] for _ in range(3)]
        if all(x == natively[0] and ended(x) for x in alone) and not (ended(a) and ended(b)):
            self.agrees(lines, natively[0])
            return
        kind = "sometimes"
        if all(x != natively[0] for x in alone):
            kind = "always"
            lines = self.shrink(lane, world, lines)
            a, b = lane.run(lane.native, [lines])[0], lane.run(world, [lines])[0]
        with self.mutex:
            self.different.append(name_of(lines))
        self.keep(kind, world, lines, a, b)

    def agrees(self, lines, said):
        with self.mutex:
            self.equal += 1
            self.steps += len(lines) - 1
            self.done += sum(not s.endswith("= skip") for s in said.split("\n") if " = " in s)

    def shrink(self, lane, world, lines):
        """Without whatever the difference does not need: halves of the steps, then single ones."""
        end = time.monotonic() + self.options.shrink
        head, steps = lines[0], lines[1:]

        def differ(steps):
            return lane.run(lane.native, [[head, *steps]])[0] != lane.run(world, [[head, *steps]])[0]

        size = max(len(steps) // 2, 1)
        while time.monotonic() < end:
            i, smaller = 0, False
            while i < len(steps) and time.monotonic() < end:
                rest = steps[:i] + steps[i + size:]
                if differ(rest):
                    steps, smaller = rest, True
                else:
                    i += size
            if size == 1 and not smaller:
                break
            size = max(size // 2, 1)
        return [head, *steps]

    def keep(self, kind, world, lines, a, b):
        text = "\n".join(lines) + "\n"
        print(f"# {kind} different in {world.name}: {lines[0]}", flush=True)
        print("\n".join("#   " + d for d in first_difference(a, b)), flush=True)
        if not self.options.keep:
            print("\n".join("#   > " + line for line in lines), flush=True)
            return
        os.makedirs(self.options.keep, exist_ok=True)
        base = f"{self.options.keep}/{world.name}-{kind}-{name_of(lines)}"
        for suffix, content in ((".prog", text), (".native", a), (".world", b)):
            with open(base + suffix, "w") as f:
                f.write(content)


def name_of(lines):
    return lines[0].split()[1]


def ended(said):
    """Whatever is not said to its end is no answer."""
    return said.endswith("\nend\n")


def first_difference(a, b):
    a, b = a.split("\n"), b.split("\n")
    n = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    steps = [line for line in a[:n + 1] if " = " in line]
    return [f"step:   {steps[-1] if steps else ''}", f"native: {a[n] if n < len(a) else ''}",
            f"world:  {b[n] if n < len(b) else ''}"]


def programs_in(path):
    programs = []
    with open(path) as f:
        for line in f:
            if line.startswith("program "):
                programs.append([])
            if programs and line.strip() and not line.startswith("#"):
                programs[-1].append(line.strip())
    return programs


def can_be_native(lines):
    return ROOT or lines[0].split()[2] == "ns"


def algorithms(words):
    """The option exists in builds that have several."""
    text = subprocess.run([KPEMU, "run", "--help"], stdout=subprocess.PIPE, text=True).stdout
    if "--ucounts" in text:
        return words.split(",")
    if words != "atomic":
        print(f"# this kpemu has one algorithm only, not {words}")
    return [None]


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--programs", type=int, default=300)
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("--ucounts", default="atomic")
    p.add_argument("--in-turn", action="store_true",
                   help="programs made by chance: some with each algorithm, not all with all")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep")
    p.add_argument("--corpus")
    p.add_argument("--steps", type=int)
    p.add_argument("--shrink", type=float, default=60, help="seconds")
    p.add_argument("--show", type=int)
    p.add_argument("files", nargs="*")
    o = p.parse_args()
    if o.seed is None:
        o.seed = random.SystemRandom().randrange(1 << 30)
    return o


def main():
    o = options()
    os.environ["LD_BIND_NOW"] = "1"  # or each child would find its functions anew
    if o.show is not None:
        print("\n".join(Program(o.show, o.steps).lines))
        return 0
    o.ucounts = algorithms(o.ucounts)
    kept = [p for f in (sorted(glob.glob(o.corpus + "/*.prog")) if o.corpus else []) + o.files
            for p in programs_in(f)]
    left_out = [p for p in kept if not can_be_native(p)]
    kept = [p for p in kept if can_be_native(p)]
    print(f"# seed {o.seed}, {len(kept)} kept programs and {o.programs} by chance, "
          f"{len(left_out)} left out that only root can run natively")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        shutil.copy(BUILD + "/tests/differential", directory)
        os.chmod(directory + "/differential", 0o755)
        c = Comparison(o, directory)
        batches = [kept[i:i + BATCH] for i in range(0, len(kept), BATCH)]
        batches += [range(o.seed + i, o.seed + min(i + BATCH, o.programs))
                    for i in range(0, o.programs, BATCH)]
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            def one(turn, batch):
                if isinstance(batch, list):
                    c.batch(batch)
                else:
                    c.batch([Program(s, o.steps).lines for s in batch], turn if o.in_turn else None)
            for i, f in enumerate([pool.submit(one, i, b) for i, b in enumerate(batches)]):
                f.result()
                if i % 50 == 49:
                    print(f"# {c.equal} equal in {time.monotonic() - start:.0f} s", flush=True)
    seconds = time.monotonic() - start
    print(f"programs={len(kept) + o.programs} comparisons={c.equal + len(c.different) + len(c.unsteady)} "
          f"equal={c.equal} different={len(c.different)} unsteady={len(c.unsteady)} "
          f"steps={c.steps} done={c.done} seconds={seconds:.1f}")
    return 1 if c.different or not c.equal else 0


sys.exit(main())

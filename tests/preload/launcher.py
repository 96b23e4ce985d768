# SPDX-License-Identifier: GPL-2.0-or-later
"""The launcher towards those who start it: statuses, signals, stops, terminals. Called by launcher.sh."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

KPEMU = os.environ["BUILD"] + "/kpemu"
RUN = [KPEMU, "run", "--quiet"]
bad = 0


def verdict(good, name, why=""):
    global bad
    if good:
        print("ok", name)
    else:
        bad += 1
        print("FAIL", name + ":", str(why).replace("\n", "\\n"))


def same(name, want, got):
    verdict(want == got, name, f"want {want!r}, got {got!r}")


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def state(pid):
    """The state letter of a process; "-" if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "-"


def in_own_group():
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


class Started:
    """A program started by the launcher in a process group of its own."""

    def __init__(self, *command, launcher=RUN, **options):
        if not options.pop("same_group", False):
            options["preexec_fn"] = in_own_group
        self.p = subprocess.Popen([*launcher, *command], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, bufsize=1, **options)

    def line(self):
        r, _, _ = select.select([self.p.stdout], [], [], 10)
        return self.p.stdout.readline().strip() if r else "(silence)"

    def end(self, timeout=10):
        try:
            self.p.stdin.close()
            return self.p.wait(timeout)
        except subprocess.TimeoutExpired:
            for number in (signal.SIGKILL, signal.SIGCONT):
                subprocess.run(["pkill", f"-{number}", "-P", str(self.p.pid)], check=False)
                self.p.send_signal(number)
            self.p.wait()
            return "does not end"
        finally:
            self.p.stdout.close()


# A program that says its pid and every signal it gets, and ends at the end of input.
LISTENER = """
import os, signal, sys
def said(n, frame):
    os.write(1, f"{signal.Signals(n).name}\\n".encode())
for s in ("HUP", "TERM", "USR1", "USR2", "WINCH"):
    signal.signal(getattr(signal, "SIG" + s), said)
print(os.getpid(), flush=True)
while os.read(0, 1):
    pass
sys.exit(17)
"""


def statuses():
    for status in (0, 1, 42, 125, 126, 127, 255):
        p = subprocess.run([*RUN, "sh", "-c", f"exit {status}"])
        same(f"exit_{status}", status, p.returncode)


def fatal_signals():
    """The launcher dies as the program did, without a core file of its own."""
    directory = os.environ["TMPDIR"] + "/cores"
    os.mkdir(directory)
    for name in ("HUP", "INT", "QUIT", "ILL", "ABRT", "FPE", "KILL", "SEGV", "PIPE", "ALRM",
                 "TERM", "USR1", "USR2", "BUS", "SYS", "XCPU", "VTALRM"):
        number = getattr(signal, "SIG" + name)
        p = subprocess.run([*RUN, "sh", "-c", f"ulimit -c 0; kill -{name} $$"], cwd=directory,
                           preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        same(f"killed_by_{name}", -number, p.returncode)
    p = subprocess.run([*RUN, "sh", "-c", "kill -34 $$"])
    same("killed_by_real_time_signal", -34, p.returncode)
    same("cores", [], os.listdir(directory))


def forwarded():
    for name in ("TERM", "HUP", "USR1", "USR2"):
        s = Started(sys.executable, "-c", LISTENER)
        s.line()
        s.p.send_signal(getattr(signal, "SIG" + name))
        same(f"forwarded_{name}", "SIG" + name, s.line())
        same(f"forwarded_{name}_status", 17, s.end())
    for name in ("TERM", "HUP", "USR1", "USR2"):
        s = Started("sleep", "60")
        until(lambda: subprocess.run(["pgrep", "-P", str(s.p.pid), "sleep"],
                                     stdout=subprocess.DEVNULL).returncode == 0)
        s.p.send_signal(getattr(signal, "SIG" + name))
        same(f"forwarded_{name}_is_fatal", -getattr(signal, "SIG" + name), s.end())
    s = Started(sys.executable, "-c", LISTENER)
    s.line()
    for i in range(20):
        s.p.send_signal(signal.SIGUSR1)
        if s.line() != "SIGUSR1":
            break
    same("forwarded_twenty_times", 19, i)
    same("forwarded_status", 17, s.end())


def to_the_group():
    """What goes to the whole group reaches the program too. The launcher, who cannot tell it from
    what was meant for itself alone, passes it on, so a handler may see it twice."""
    s = Started(sys.executable, "-c", LISTENER)
    s.line()
    os.killpg(s.p.pid, signal.SIGWINCH)
    same("group_first", "SIGWINCH", s.line())
    for _ in range(10):
        os.killpg(s.p.pid, signal.SIGUSR1)
        time.sleep(0.05)
    s.p.stdin.close()
    text = s.p.stdout.read().split()
    verdict(10 <= len(text) <= 20 and set(text) == {"SIGUSR1"}, "group",
            f"sent 10, got {len(text)}")
    same("group_status", 17, s.p.wait())


def interrupts():
    """INT and QUIT of the terminal are the program's to decide about."""
    s = Started(sys.executable, "-c", LISTENER)
    s.line()
    s.p.send_signal(signal.SIGINT)
    s.p.send_signal(signal.SIGQUIT)
    time.sleep(0.1)
    same("launcher_survives", None, s.p.poll())
    same("then_status", 17, s.end())
    s = Started("sh", "-c", "trap 'exit 9' INT; echo $$; while :; do sleep 0.1; done")
    s.line()
    os.killpg(s.p.pid, signal.SIGINT)
    same("group_interrupted", 9, s.end())
    s = Started("sh", "-c", "echo; exec sleep 60")
    s.line()
    os.killpg(s.p.pid, signal.SIGINT)
    same("group_killed_by_interrupt", -signal.SIGINT, s.end())


def stops():
    for name, send in (("STOP", signal.SIGSTOP), ("TSTP", signal.SIGTSTP), ("TTIN", signal.SIGTTIN)):
        s = Started("sh", "-c", "echo $$; exec sleep 60")
        pid = int(s.line())
        os.kill(pid, send)
        verdict(until(lambda: state(s.p.pid) == "T"), f"stopped_with_program_{name}",
                state(s.p.pid))
        same(f"program_stopped_{name}", "T", state(pid))
        s.p.send_signal(signal.SIGCONT)
        verdict(until(lambda: state(pid) == "S" and state(s.p.pid) in "SR"),
                f"both_continue_{name}", state(pid) + state(s.p.pid))
        os.kill(pid, signal.SIGKILL)
        same(f"then_killed_{name}", -signal.SIGKILL, s.end())
    s = Started("sh", "-c", "echo $$; exec sleep 60")
    pid = int(s.line())
    for i in range(3):
        os.killpg(s.p.pid, signal.SIGTSTP)
        if not until(lambda: state(s.p.pid) == "T" and state(pid) == "T"):
            break
        os.killpg(s.p.pid, signal.SIGCONT)
        if not until(lambda: state(pid) == "S" and state(s.p.pid) in "SR"):
            break
    verdict(i == 2, "group_stops_and_continues", f"round {i}: {state(s.p.pid)} {state(pid)}")
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGTERM)
    same("group_then_killed", -signal.SIGTERM, s.end())


def waited_for():
    """Whoever starts the launcher sees stops, continues and the end as of the program itself."""
    s = Started("sh", "-c", "echo $$; exec sleep 60", same_group=True)
    pid = int(s.line())
    os.kill(pid, signal.SIGSTOP)
    _, status = os.waitpid(s.p.pid, os.WUNTRACED)
    same("stop_seen", (True, signal.SIGSTOP), (os.WIFSTOPPED(status), os.WSTOPSIG(status)))
    s.p.send_signal(signal.SIGCONT)
    _, status = os.waitpid(s.p.pid, os.WCONTINUED)
    same("continue_seen", True, os.WIFCONTINUED(status))
    os.kill(pid, signal.SIGKILL)
    same("end_seen", -signal.SIGKILL, s.end())


def orphans():
    """Orphans are reaped while the program runs, and outlive it in their world."""
    s = Started("sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.05 &) ; done; echo; read x")
    s.line()
    time.sleep(0.3)
    zombies = subprocess.run(["ps", "-o", "stat=", "--ppid", str(s.p.pid)], stdout=subprocess.PIPE,
                             text=True).stdout.split()
    same("no_zombies", [], [z for z in zombies if z.startswith("Z")])
    same("children_of_the_launcher", 1, len(zombies))
    same("status", 1, s.end())


class Terminal:
    """A shell with job control at a terminal of its own."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN):
                signal.signal(number, signal.SIG_DFL)
            os.environ.update(PS1="kpt> ", TERM="dumb")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
        self.text = ""
        self.expect(r"kpt> ")

    def expect(self, regex, seconds=10):
        end = time.monotonic() + seconds
        while not (m := re.search(regex, self.text)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                return None
            try:
                self.text += os.read(self.fd, 4096).decode(errors="replace").replace("\r", "")
            except OSError:
                return None
        self.text = self.text[m.end():]
        return m

    def type(self, text):
        os.write(self.fd, text.encode())

    def close(self):
        self.type("exit\nexit\n")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def terminal():
    """^C, ^Z, fg, bg and reading from the terminal as without kpemu."""
    run = " ".join(RUN)
    t = Terminal()

    def status(want, name):
        t.type("echo status $?\n")
        verdict(t.expect(rf"\nstatus {want}\n"), name, t.text)
        t.expect(r"kpt> ")

    t.type(f"{run} sh -c 'echo ready; read a; echo got $a; exit 4'\n")
    verdict(t.expect(r"\nready\n"), "starts", t.text)
    t.type("typed\n")
    verdict(t.expect(r"got typed\n"), "reads", t.text)
    t.expect(r"kpt> ")
    status(4, "status")
    # One process: a shell that waits for another may miss the key, with or without kpemu.
    t.type(f"{run} sh -c 'echo ready; exec sleep 60'\n")
    t.expect(r"\nready\n")
    t.type("\x03")
    verdict(t.expect(r"kpt> "), "interrupt_ends_it", t.text)
    status(130, "interrupt_status")
    t.type(f"{run} sh -c 'echo ready; read a; echo got $a'\n")
    t.expect(r"\nready\n")
    t.type("\x1a")
    verdict(t.expect(r"Stopped"), "stop_key", t.text)
    t.expect(r"kpt> ")
    status(148, "stop_status")
    t.type("jobs\n")
    verdict(t.expect(r"\n\[1\]\+  Stopped"), "jobs", t.text)
    t.expect(r"kpt> ")
    t.type("fg\n")
    time.sleep(0.3)
    t.type("again\n")
    verdict(t.expect(r"got again\n"), "fg_reads", t.text)
    t.expect(r"kpt> ")
    status(0, "fg_status")
    t.type(f"{run} sh -c 'echo ready; sleep 0.5; exit 6' &\n")
    verdict(t.expect(r"ready\n"), "background", t.text)
    t.type("wait %+\n")
    time.sleep(0.8)
    status(6, "background_status")
    t.type(f"{run} sh -c 'read a; echo got $a' &\n")
    time.sleep(0.4)
    t.type("jobs\n")
    verdict(t.expect(r"\n\[1\]\+  Stopped"), "background_reader_stops", t.text)
    t.type("fg\n")
    time.sleep(0.3)
    t.type("late\n")
    verdict(t.expect(r"got late\n"), "then_reads", t.text)
    t.expect(r"kpt> ")
    t.type(f"{run} sh -c 'tty; ps -o tpgid=,pgid= -p $$ | tr -s \" \"'\n")
    verdict(t.expect(r"\n/dev/pts/\d+\n"), "tty", t.text)
    m = t.expect(r" ?(\d+) (\d+)\n")
    verdict(m and m[1] == m[2], "foreground_group", t.text)
    t.close()


def many_at_once():
    """Names of worlds do not meet."""
    many = [subprocess.Popen([*RUN, "sh", "-c", "exit 3"]) for _ in range(30)]
    same("statuses", {3}, {p.wait() for p in many})


for part in (statuses, fatal_signals, forwarded, to_the_group, interrupts, stops, waited_for,
             orphans, terminal, many_at_once):
    if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
        part()
sys.exit(bad != 0)

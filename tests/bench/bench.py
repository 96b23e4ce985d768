#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What kpemu costs: operations timed natively, under an empty preload library and under kpemu.

The variants are long-lived workers (ops.c) that take turns in an order that rotates, so that a
disturbance meets all of them alike. Differences and ratios are taken between the samples of one
turn; their median and quartiles are printed. The signal operations run under a fourth variant too,
a library whose wrappers only pass the call on: what kpemu takes more than that is what it takes to
charge a signal and to release it. System calls per operation are counted with strace where there is
one: those of 100 operations less those of none.
"""

import argparse
import collections
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

SIGNAL_OPS = ["kill", "raise", "sigqueue", "pending"]
OPS = ["getppid", "mq", "mlock", "fork", "exec", "thread", *SIGNAL_OPS]
VARIANTS = ["native", "empty", "kpemu"]
WRAPPED = "passthrough"
LABELS = {
    "getppid": "getppid",
    "mq": "mq open+close+unlink",
    "mlock": "mlock+munlock",
    "fork": "fork+exit+wait",
    "exec": "fork+exec /bin/true+wait",
    "thread": "pthread create+join",
    "exec alone": "exec alone: exec less fork",
    "kill": "kill to self + handler",
    "raise": "raise + handler",
    "sigqueue": "sigqueue + sigtimedwait",
    "pending": "kill + sigtimedwait",
}
# Turns that an operation takes in each round: more where one sample holds few operations.
TURNS = {"fork": 4, "exec": 4}
COUNTED = 100


def die(text):
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    sys.exit(f"{name}: {text}")


def variants_of(op):
    return [*VARIANTS, WRAPPED] if op in SIGNAL_OPS else VARIANTS


def command(build, variant):
    """The command line and environment that start ops in a variant."""
    ops = os.path.join(build, "tests", "bench", "ops")
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    if variant in ("empty", WRAPPED):
        env["LD_PRELOAD"] = os.path.join(build, "tests", f"lib{variant}.so")
    if variant == "kpemu":
        return [os.path.join(build, "kpemu"), "run", "--quiet", "--", ops], env
    return [ops], env


class Program:
    """A program that lives long and answers each line with one; name is for complaints."""

    def __init__(self, name, argv, env=None):
        self.name = name
        self.process = subprocess.Popen(argv, env=env, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            die(f"{self.name} ended during {request} (status {self.process.wait()})")
        if answer.startswith("error:"):
            die(f"{self.name}, {request}: {answer[6:].strip()}")
        return answer

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            die(f"{self.name} ended with status {self.process.returncode}")


class Worker(Program):
    def __init__(self, build, variant):
        super().__init__(f"the {variant} worker", *command(build, variant))

    def measure(self, op, count):
        """Nanoseconds for one op, averaged over count of them."""
        return float(self.ask(f"{op} {count}"))


def calibrate(workers, op, target_ns):
    """How many ops make one sample of about target_ns, by the slowest variant."""
    count = 1
    while True:
        slowest = max(workers[v].measure(op, count) for v in variants_of(op))
        if slowest * count >= target_ns / 4 or count >= 1 << 24:
            return max(1, round(target_ns / slowest))
        count *= 4


def measure(build, ops, rounds, target_ns):
    """{op: {variant: [ns per op, one a turn]}} and {op: ops in a sample}."""
    variants = dict.fromkeys(v for op in ops for v in variants_of(op))
    workers = {v: Worker(build, v) for v in variants}
    samples = {op: {v: [] for v in variants_of(op)} for op in ops}
    counts = {op: calibrate(workers, op, target_ns) for op in ops}
    for i in range(rounds):
        for op in ops:
            variants = variants_of(op)
            for turn in range(TURNS.get(op, 1)):
                first = (i + turn) % len(variants)
                for variant in variants[first:] + variants[:first]:
                    samples[op][variant].append(workers[variant].measure(op, counts[op]))
    for worker in workers.values():
        worker.end()
    return samples, counts


def spread(values):
    """Median, quartiles, and a 95 % confidence interval of the median by order statistics."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    n = len(values)
    k = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)))
    ordered = sorted(values)
    return {"median": middle, "q1": low, "q3": high, "ci95": [ordered[k], ordered[n - 1 - k]]}


def summary(sample):
    def paired(function, one, other):
        return spread([function(a, b) for a, b in zip(sample[one], sample[other])])

    def difference(a, b):
        return a - b

    def ratio(a, b):
        return a / b

    result = {
        "ns": {v: spread(values) for v, values in sample.items()},
        "kpemu-empty": paired(difference, "kpemu", "empty"),
        "kpemu-native": paired(difference, "kpemu", "native"),
        "kpemu/native": paired(ratio, "kpemu", "native"),
        "kpemu/empty": paired(ratio, "kpemu", "empty"),
    }
    if WRAPPED in sample:
        result["kpemu-passthrough"] = paired(difference, "kpemu", WRAPPED)
    return result


def less(sample, other):
    """What is left of sample's times without other's, turn by turn."""
    return {v: [a - b for a, b in zip(sample[v], other[v])] for v in VARIANTS}


# --- system calls ---

CALL = re.compile(r"^(?:\d+ +)?([a-z_0-9]+)\(")


def trace(build, variant, op, count):
    """Counter of the system calls of ops OP COUNT and all its children."""
    argv, env = command(build, variant)
    with tempfile.NamedTemporaryFile(prefix="kpemu-bench.") as out:
        result = subprocess.run(["strace", "-f", "-qq", "-e", "trace=all", "-e", "signal=none",
                                 "-o", out.name, "--"] + argv + [op, str(count)], env=env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, errors="replace")
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip().splitlines()[-1:] or result.returncode)
        with open(out.name, errors="replace") as lines:
            return collections.Counter(m[1] for m in map(CALL.match, lines) if m)


def calls_per_op(build, op):
    """{variant: {call: times per op}}, without what start and end of the program cost."""
    calls = {}
    for variant in VARIANTS:
        total = trace(build, variant, op, COUNTED)
        total.subtract(trace(build, variant, op, 0))
        calls[variant] = {name: n / COUNTED for name, n in sorted(total.items())
                          if abs(n) >= COUNTED / 10}
    return calls


def count_calls(build, ops):
    """{op: calls_per_op()}, or a reason why there is nothing."""
    if not shutil.which("strace"):
        return "there is no strace"
    try:
        return {op: calls_per_op(build, op) for op in ops}
    except (OSError, RuntimeError) as error:
        return f"strace failed: {error}"


def added(calls, base):
    """The system calls per op that kpemu has more (or fewer) of than another variant."""
    names = sorted(set(calls["kpemu"]) | set(calls[base]))
    differences = {n: calls["kpemu"].get(n, 0) - calls[base].get(n, 0) for n in names}
    return {n: d for n, d in differences.items() if abs(d) >= 0.05}


# --- the tables ---

def duration(ns):
    if abs(ns) < 10_000:
        return f"{ns:.1f} ns"
    return f"{ns / 1000:.1f} us"


def interval(values, show):
    return f"{show(values['median'])} [{show(values['q1'])}, {show(values['q3'])}]"


def table(rows, left=(0,)):
    """Print rows of strings in columns, the columns of left flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = [cell.ljust(width) if i in left else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def print_times(results, rounds):
    print(f"Time per operation, median of {rounds} interleaved rounds; "
          "[ ] is the interquartile range of pairs")
    rows = [["operation", *VARIANTS, "kpemu - empty", "kpemu / native"]]
    for op, result in results.items():
        rows.append([LABELS[op], *(duration(result["ns"][v]["median"]) for v in VARIANTS),
                     interval(result["kpemu-empty"], duration),
                     interval(result["kpemu/native"], lambda x: f"{x:.2f}")])
    table(rows)


def print_charges(results):
    """What the account costs that any wrapper does not."""
    rows = [["charge + release of a signal", "pass-through", "kpemu", "kpemu - pass-through"]]
    for op, result in results.items():
        if op in SIGNAL_OPS:
            rows.append([LABELS[op], *(duration(result["ns"][v]["median"])
                                       for v in (WRAPPED, "kpemu")),
                         interval(result["kpemu-passthrough"], duration)])
    if len(rows) > 1:
        print()
        table(rows)


def print_model(build):
    """The same without the kernel: what the model computes."""
    lines = subprocess.run([os.path.join(build, "tests", "bench", "model")], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    print()
    table([["charge + release in the model alone", "median [quartiles]"]] +
          [[f"{name} signal", interval(dict(zip(("median", "q1", "q3"), map(float, ns))), duration)]
           for name, *ns in map(str.split, lines)])


def print_calls(calls):
    print()
    if isinstance(calls, str):
        print(f"System calls per operation: not measured ({calls})")
        return
    print(f"System calls per operation, over {COUNTED} operations and all processes")
    rows = [["operation", *VARIANTS, "added", "over the empty library"]]
    for op, of_op in calls.items():
        # Both load a library in exec; what any library costs is not what kpemu adds.
        more = added(of_op, "empty")
        rows.append([LABELS[op], *(f"{sum(of_op[v].values()):.3g}" for v in VARIANTS),
                     f"{sum(more.values()):+.3g}",
                     ", ".join(f"{name} {d:+.3g}" for name, d in more.items())])
    table(rows, left=(0, 5))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="build directory (%(default)s)")
    parser.add_argument("--rounds", type=int, default=61, help="at least 31 (%(default)s)")
    parser.add_argument("--ops", default=",".join(OPS), help="comma-separated (%(default)s)")
    parser.add_argument("--sample-ms", type=float, default=15,
                        help="length of one sample (%(default)s)")
    parser.add_argument("--no-calls", action="store_true", help="do not count system calls")
    parser.add_argument("--json", metavar="FILE", help="write everything there as JSON")
    arguments = parser.parse_args()
    arguments.ops = arguments.ops.split(",")
    unknown = set(arguments.ops) - set(OPS)
    if unknown:
        parser.error(f"unknown operation {', '.join(sorted(unknown))}; there are {', '.join(OPS)}")
    if arguments.rounds < 31:
        parser.error("fewer than 31 rounds say little")
    if arguments.sample_ms <= 0:
        parser.error("--sample-ms is a positive number")
    return arguments


def main():
    arguments = parse_arguments()
    build = os.path.abspath(arguments.build)
    samples, counts = measure(build, arguments.ops, arguments.rounds, arguments.sample_ms * 1e6)
    results = {}
    for op in arguments.ops:
        results[op] = summary(samples[op])
        if op == "exec" and "fork" in samples:
            results["exec alone"] = summary(less(samples["exec"], samples["fork"]))
    print_times(results, arguments.rounds)
    print_charges(results)
    if set(arguments.ops) & set(SIGNAL_OPS):
        print_model(build)
    calls = "not asked for" if arguments.no_calls else count_calls(build, arguments.ops)
    print_calls(calls)
    if arguments.json:
        for op in arguments.ops:
            results[op]["ops per sample"] = counts[op]
            results[op]["samples"] = samples[op]
            if not isinstance(calls, str):
                results[op]["calls"] = {**calls[op], "added": added(calls[op], "empty")}
        with open(arguments.json, "w") as out:
            json.dump({"rounds": arguments.rounds, "unit": "ns", "operations": results,
                       "calls not measured": calls if isinstance(calls, str) else None},
                      out, indent=2)
            out.write("\n")


if __name__ == "__main__":
    main()

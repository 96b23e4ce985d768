#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What one addition to a counter costs, and one sum.

Each round takes one sample of each row (counters.c) with one and with two processes, in an order
that rotates. Ratios to the floor, a word that only one thread writes, are taken within a round;
medians and quartiles are printed, of two processes those of the slower one. A sample during which a
process had to wait for its CPU is taken again; what was disturbed each time is kept and counted.
"""

import argparse
import json
import os
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
from bench import Program, die, duration, interval, spread, table  # noqa: E402

FLOOR = "thread_slot"
SUM_CPUS = [2, 64, 384, 1024]
ADDS = {
    "empty_loop": "the loop alone",
    "thread_slot": "per-thread slot: the floor",
    "lazy_add_owner": "lazy counter, its owner",
    "percpu_add": "percpu add",
    "percpu_counter_add_1024": "percpu_counter add, batch 1024",
    "percpu_counter_add": "percpu_counter add, default batch",
    "tree_add": "counter tree add, batch 32",
    "lazy_add_other": "lazy counter, not its owner",
    "shared_atomic": "one shared atomic",
    "split_counter": "split counter",
    "percpu_add_atomic": "percpu add, atomic mode",
}
SUMS = {
    "read": "percpu_counter read",
    "sum": "percpu_counter sum",
    "approximate_sum": "counter tree approximate sum",
    "precise_sum": "counter tree precise sum",
}
GOALS = {"percpu_add": 1.5, "percpu_counter_add_1024": 2, "lazy_add_owner": 1.2}
# A sample counts as undisturbed if each process had its CPU for this part of it.
SHARE = 0.95


class Counters(Program):
    def __init__(self, build):
        program = os.path.join(build, "tests", "bench", "counters")
        try:
            super().__init__("the program", [program])
        except OSError as error:
            die(f"{program}: {error.strerror} (make bench-counters builds it)")
        names = self.ask("rows").split()
        self.rows = dict(zip(names[::2], map(int, names[1::2])))
        mode, cpus, processes = self.ask("about").split()
        self.mode, self.cpus, self.processes = mode, int(cpus), int(processes)

    def measure(self, row, processes, count):
        """[ns per operation of each process], and the least part of the time that one ran."""
        values = list(map(float, self.ask(f"{row} {processes} {count}").split()))
        return values[::2], min(values[1::2])


class Series:
    """The samples of one row with one number of processes."""

    def __init__(self, counters, row, processes, arguments):
        self.counters, self.row, self.processes = counters, row, processes
        self.tries = arguments.again + 1
        self.samples, self.again, self.disturbed = [], 0, 0
        target_ns = arguments.sample_ms * 1e6
        self.count = 8
        while True:
            ns = max(self.counters.measure(row, processes, self.count)[0])
            if ns * self.count >= target_ns / 4 or self.count >= 1 << 30:
                break
            self.count *= 4
        self.count = max(1, round(target_ns / ns))

    def take(self):
        best = ([], -1)
        for i in range(self.tries):
            self.again += i > 0
            best = max(best, self.counters.measure(self.row, self.processes, self.count),
                       key=lambda sample: sample[1])
            if best[1] >= SHARE:
                break
        self.disturbed += best[1] < SHARE
        self.samples.append(best[0])

    def slower(self):
        return [max(sample) for sample in self.samples]


def take_rounds(series, rounds):
    """A sample of each in each round, another one first."""
    for i in range(rounds):
        first = i * 7 % len(series)
        for s in series[first:] + series[:first]:
            s.take()


def argument_parser(doc, sample_ms):
    """What every benchmark of such series can be told; doc is that of its module."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--build", default="build", help="build directory (%(default)s)")
    parser.add_argument("--rounds", type=int, default=61, help="at least 9 (%(default)s)")
    parser.add_argument("--sample-ms", type=float, default=sample_ms,
                        help="length of one sample (%(default)s)")
    parser.add_argument("--again", type=int, default=20, metavar="TIMES",
                        help="take a disturbed sample again at most so often (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write everything there as JSON")
    return parser


def parsed(parser):
    arguments = parser.parse_args()
    if arguments.rounds < 9:
        parser.error("fewer than 9 rounds say little")
    if arguments.sample_ms <= 0 or arguments.again < 0:
        parser.error("--sample-ms is a positive number, --again one from 0")
    return arguments


def measure(counters, arguments):
    """{row: {processes: Series}}"""
    result = {row: {n: Series(counters, row, n, arguments)
                    for n in range(1, min(limit, counters.processes) + 1)}
              for row, limit in counters.rows.items()}
    take_rounds([s for of_row in result.values() for s in of_row.values()], arguments.rounds)
    return result


def summary(series, floor):
    """What is known of one series; floor is that of as many processes."""
    ratios = [a / b for a, b in zip(series.slower(), floor.slower())]
    return {"ns": spread(series.slower()), "ratio": spread(ratios),
            "operations per sample": series.count, "taken again": series.again,
            "disturbed": series.disturbed, "samples": series.samples}


def judge(results):
    """A goal is met if the medians meet it with any number of processes."""
    ratios = {row: {n: s["ratio"]["median"] for n, s in results[row].items()} for row in GOALS}
    return {row: {"goal": goal, "ratio": ratios[row], "met": max(ratios[row].values()) <= goal}
            for row, goal in GOALS.items()}


# --- the tables ---

def print_adds(results, processes, goals):
    head = ["one addition"]
    for n in processes:
        head += [f"{n} process" + ("es" if n > 1 else ""), "/ floor"]
    rows = [[*head, "goal"]]
    for row, label in ADDS.items():
        cells = [label]
        for n in processes:
            of_n = results[row][n]
            cells += [f"{of_n['ns']['median']:.2f} ns",
                      interval(of_n["ratio"], lambda x: f"{x:.2f}")]
        goal = goals.get(row)
        verdict = f"{goal['goal']:.1f} {'met' if goal['met'] else 'missed'}" if goal else ""
        rows.append([*cells, verdict])
    table(rows)


def print_sums(results):
    rows = [["one sum, emulated CPUs:", *map(str, SUM_CPUS)]]
    for row, label in SUMS.items():
        rows.append([label, *(duration(results[f"{row}/{cpus}"][1]["ns"]["median"])
                              for cpus in SUM_CPUS)])
    rows.append(["lazy counter, precise sum",
                 *[duration(results["lazy_sum"][1]["ns"]["median"])] * len(SUM_CPUS)])
    table(rows)


def print_all(results, counters, rounds, left_out, goals):
    per_cpu = {"rseq": "restartable sequences",
               "atomic": "atomics, because there are no restartable sequences"}[counters.mode]
    print(f"Per-CPU memory of {counters.cpus} CPUs, changed by {per_cpu}.")
    print(f"Median of {rounds} interleaved rounds; [ ] is the interquartile range of pairs.")
    disturbed = sum(s["disturbed"] for of_row in results.values() for s in of_row.values())
    if disturbed:
        samples = sum(len(s["samples"]) for of_row in results.values() for s in of_row.values())
        print(f"The machine is busy: {disturbed} of {samples} samples were disturbed each time.")
    print()
    print_adds(results, range(1, counters.processes + 1), goals)
    if left_out:
        print(f"Two processes: left out, {left_out}.")
    print()
    print_sums(results)


def main():
    arguments = parsed(argument_parser(__doc__, 0.5))
    counters = Counters(os.path.abspath(arguments.build))
    series = measure(counters, arguments)
    counters.end()
    results = {row: {n: summary(s, series[FLOOR][n]) for n, s in of_row.items()}
               for row, of_row in series.items()}
    left_out = None if counters.processes > 1 else "this process may run on one CPU only"
    goals = judge(results)
    print_all(results, counters, arguments.rounds, left_out, goals)
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump({"unit": "ns", "rounds": arguments.rounds, "mode": counters.mode,
                       "cpus": counters.cpus, "floor": FLOOR, "goals": goals,
                       "two processes left out": left_out, "rows": results}, out, indent=2)
            out.write("\n")


if __name__ == "__main__":
    main()

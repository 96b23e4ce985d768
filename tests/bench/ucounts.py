#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What charging and releasing a signal costs with each counter algorithm, in a nested namespace.

Each round takes one sample of each case (ucounts.c) with each algorithm, in an order that rotates,
and ratios are taken within a round; medians and quartiles are printed. Of two processes that is what
an operation took on average over both. How often cache lines are touched that several CPUs use is
counted (ucounts-lines.c), not measured. Goals are those of the algorithms percpu and stock.
"""

import json
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
from bench import Program, die, interval, spread, table  # noqa: E402
from counters import Series, argument_parser, parsed, take_rounds  # noqa: E402

LARGE = 1000000
LIMITS = [64, 1000, LARGE]
PATTERNS = {"same": "same CPU", "cross": "other CPU", "burst": "bursts of 16"}
RELATIONS = {"one_namespace": "one namespace", "one_creator": "one creator",
             "own_creators": "two creators"}
# Free units of the creator's record, and processes that want one.
FULL = {(1, 1): "the last unit", (2, 2): "the last two units", (1, 2): "the last unit, for two",
        (0, 1): "none: refused"}
ROOMS = ["last", "full", "stock", "percpu", "plenty"]
# What needs a batch for each CPU; of the others that are split, two units will do.
DEFERRED = ("percpu", "percpu-rfc")
LOSS, GAIN, COST = 0.10, 1.5, 1.2


class Ucounts(Program):
    """Rows are (algorithm, pattern, relation, limit, room)."""

    def __init__(self, build):
        program = os.path.join(build, "tests", "bench", "ucounts")
        try:
            super().__init__("the program", [program])
        except OSError as error:
            die(f"{program}: {error.strerror} (make bench-ucounts builds it)")
        *self.algorithms, self.none = self.ask("algorithms").split()
        self.cpus, self.processes = map(int, self.ask("about").split())
        self.refused = {}

    def measure(self, row, flows, count):
        """[ns per operation of each process], and the least part of the time that one ran."""
        algorithm, pattern, relation, limit, room = row
        *values, refused = map(float, self.ask(
            f"{algorithm} {pattern} {relation} {flows} {limit} {room} {count}").split())
        self.refused.setdefault((row, flows), []).append(refused)
        return values[::2], min(values[1::2])


def cases(processes, limits):
    """(pattern, relation, limit, room, flows) of all that is measured."""
    for pattern in PATTERNS:
        if pattern == "cross" and processes < 2:
            continue
        for limit in limits:
            yield pattern, "one_creator", limit, -1, 1
            if processes > 1:
                for relation in RELATIONS:
                    yield pattern, relation, limit, -1, 2
    for room, flows in FULL:
        if flows <= processes:
            yield "same", "one_creator", 64, room, flows


def calibrated(program, row, flows, arguments):
    """A series that has not been misled by the disturbances of its first samples."""
    series = Series(program, row, flows, arguments)
    least = min(max(program.measure(row, flows, series.count)[0]) for _ in range(3))
    series.count = max(1, round(arguments.sample_ms * 1e6 / least))
    return series


def measure(program, arguments):
    """{(case, algorithm): Series}"""
    result = {}
    for case in cases(program.processes, arguments.limits):
        *row, flows = case
        for algorithm in [*program.algorithms, program.none]:
            result[case, algorithm] = calibrated(program, (algorithm, *row), flows, arguments)
    take_rounds(list(result.values()), arguments.rounds)
    return result


def average(series):
    """Of the processes that charge and release, while all do: their harmonic mean."""
    return [statistics.harmonic_mean(sample) for sample in series.samples]


def paired(function, *samples):
    return spread([function(*values) for values in zip(*samples)])


def count_lines(build, cpus):
    """{(algorithm, cpus, pattern, relation, room): (accesses, transfers)} for one operation."""
    program = os.path.join(build, "tests", "bench", "ucounts-lines")
    out = subprocess.run([program, *map(str, cpus)], check=True, capture_output=True,
                         text=True).stdout
    result = {}
    for line in out.splitlines():
        algorithm, n, pattern, relation, room, _, accesses, transfers, _ = line.split()
        result[algorithm, int(n), pattern, relation, room] = float(accesses), float(transfers)
    return result


# --- goals ---

def untouched(lines, cpus):
    """With the room that each needs, no line is touched that others use, whoever is related."""
    for algorithm, room in (("percpu", "percpu"), ("stock", "stock")):
        for n in cpus:
            worst = max(lines[algorithm, n, "same", relation, room][0] for relation in RELATIONS)
            yield {"goal": f"{algorithm}: shared lines, {n} CPUs, with headroom",
                   "value": worst, "bound": 0, "at most": True}


def losses(times, limits):
    """What two processes of one creator lose, more than two that share nothing."""
    for algorithm in ("percpu", "stock"):
        for limit in limits:
            if algorithm in DEFERRED and limit == 64:
                continue
            def of(relation, flows):
                return times[("same", relation, limit, -1, flows), algorithm]
            more = paired(lambda two, control, one: (two - control) / one,
                          of("one_creator", 2), of("own_creators", 2), of("one_creator", 1))
            yield {"goal": f"{algorithm}: loss by a second process, limit {limit}",
                   "value": more, "bound": LOSS, "at most": True}


def against_atomic(times, limits):
    def of(algorithm, *case):
        return times[case, algorithm]

    for limit in limits:
        case = ("same", "one_creator", limit, -1, 2)
        yield {"goal": f"atomic / stock, 2 processes, limit {limit}",
               "value": paired(lambda a, b: a / b, of("atomic", *case), of("stock", *case)),
               "bound": GAIN, "at most": False}
    for (room, flows), label in FULL.items():
        case = ("same", "one_creator", 64, room, flows)
        if (case, "stock") in times:
            yield {"goal": f"stock / atomic without headroom: {label}",
                   "value": paired(lambda a, b: a / b, of("stock", *case), of("atomic", *case)),
                   "bound": COST, "at most": True}


def judge(lines, times, arguments, processes):
    goals = [*untouched(lines, arguments.cpus)]
    if processes > 1:
        goals += [*losses(times, arguments.limits), *against_atomic(times, arguments.limits)]
    for goal in goals:
        value = goal["value"]["median"] if isinstance(goal["value"], dict) else goal["value"]
        goal["met"] = value <= goal["bound"] if goal["at most"] else value >= goal["bound"]
    return goals


# --- the tables ---

def limit_name(limit):
    return "large" if limit == LARGE else str(limit)


def print_times(times, program, limits):
    algorithms = [*program.algorithms, program.none]
    head = ["charge + release, ns", "limit", "processes", *algorithms]
    rows = [head]
    for case in cases(program.processes, limits):
        pattern, relation, limit, room, flows = case
        who = {1: "1", 2: f"2, {RELATIONS[relation]}"}[flows]
        what = PATTERNS[pattern] if room < 0 else FULL[room, flows]
        rows.append([what, limit_name(limit), who,
                     *(f"{statistics.median(times[case, a]):.1f}" for a in algorithms)])
    table(rows, left=(0, 2))


def print_lines(lines, program, cpus):
    print("Accesses to lines of several CPUs, transfers of such lines; for one operation, same CPU")
    rows = [["CPUs", "what they share", "headroom", *program.algorithms]]
    for n in cpus:
        for relation, label in RELATIONS.items():
            for room in ROOMS:
                of_room = (lines[a, n, "same", relation, room] for a in program.algorithms)
                rows.append([str(n), label, room, *(f"{x:.3g}, {y:.3g}" for x, y in of_room)])
    table(rows, left=(1, 2))


def print_goals(goals):
    rows = [["goal", "measured", "bound", ""]]
    for goal in goals:
        value = goal["value"]
        rows.append([goal["goal"],
                     interval(value, lambda x: f"{x:.2f}") if isinstance(value, dict) else
                     f"{value:g}",
                     f"{'<=' if goal['at most'] else '>='} {goal['bound']:g}",
                     "met" if goal["met"] else "missed"])
    table(rows, left=(0, 3))


def print_all(times, series, lines, goals, program, arguments):
    print(f"Median of {arguments.rounds} interleaved rounds; "
          "[ ] is the interquartile range of pairs.")
    disturbed = sum(s.disturbed for s in series.values())
    if disturbed:
        samples = sum(len(s.samples) for s in series.values())
        print(f"The machine is busy: {disturbed} of {samples} samples were disturbed each time.")
    print()
    print_times(times, program, arguments.limits)
    print(f"{program.none}: the loops alone; for the other CPU, what telling each other takes.")
    if program.processes < 2:
        print("Two processes: left out, this process may run on one CPU only.")
    print()
    print_lines(lines, program, arguments.cpus)
    print()
    print_goals(goals)


def case_name(case, algorithm):
    pattern, relation, limit, room, flows = case
    return "/".join([algorithm, pattern, relation, str(flows), str(limit),
                     "all" if room < 0 else str(room)])


def parse_arguments():
    parser = argument_parser(__doc__, 0.3)
    parser.add_argument("--cpus", default="2,64,256",
                        help="numbers of CPUs to count shared lines for (%(default)s)")
    parser.add_argument("--limits", default=",".join(map(str, LIMITS)),
                        help="limits to measure with (%(default)s)")
    arguments = parsed(parser)
    for name in ("cpus", "limits"):
        try:
            setattr(arguments, name, [int(n) for n in getattr(arguments, name).split(",")])
        except ValueError:
            parser.error(f"--{name}: numbers, with commas between them")
    if not set(arguments.limits) <= set(LIMITS):
        parser.error(f"there are the limits {', '.join(map(str, LIMITS))}")
    return arguments


def main():
    arguments = parse_arguments()
    build = os.path.abspath(arguments.build)
    program = Ucounts(build)
    lines = count_lines(build, arguments.cpus)
    series = measure(program, arguments)
    program.end()
    times = {key: average(s) for key, s in series.items()}
    goals = judge(lines, times, arguments, program.processes)
    print_all(times, series, lines, goals, program, arguments)
    if arguments.json:
        rows = {case_name(*key): {"ns": spread(times[key]), "operations per sample": s.count,
                                  "taken again": s.again, "disturbed": s.disturbed,
                                  "refused": statistics.median(program.refused[s.row, s.processes]),
                                  "samples": s.samples}
                for key, s in series.items()}
        counts = {"/".join(map(str, key)): {"accesses": value[0], "transfers": value[1]}
                  for key, value in lines.items()}
        with open(arguments.json, "w") as out:
            json.dump({"unit": "ns", "rounds": arguments.rounds, "cpus": program.cpus,
                       "processes": program.processes, "algorithms": program.algorithms,
                       "goals": goals, "rows": rows, "lines": counts}, out, indent=2)
            out.write("\n")


if __name__ == "__main__":
    main()

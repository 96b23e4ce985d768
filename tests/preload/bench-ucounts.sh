#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The benchmark of ucounts: it runs everywhere and has all its cases; no time is judged. How often
# lines of several CPUs are touched is counted, the same each time, and is.
#
# test: timeout 300
. "$(dirname "$0")/lib.sh"

# --- lines ---

try "$BUILD/tests/bench/ucounts-lines" 2 64
is lines/status "0 " "$status $err"
counts=$out
is lines/refused "" "$(grep -E '^(atomic|percpu|cache|stock) ' <<<"$counts" | grep -v ' 0\.000$')"

# accesses ALGORITHM PATTERN RELATION ROOM: for each number of CPUs, those for one operation
accesses()
{
	awk -v want="$1 $2 $3 $4" '$1 " " $3 " " $4 " " $5 == want { printf "%s%g", sep, $7; sep = " " }' \
		<<<"$counts"
}

# none ALGORITHM ROOM, some ALGORITHM ROOM: whatever those share who charge
none()
{
	for relation in one_namespace one_creator own_creators; do
		is "lines/$1/$2/$relation" "0 0" "$(accesses "$1" same $relation "$2")"
	done
}

is lines/atomic "2 2" "$(accesses atomic same one_creator plenty)"
is lines/atomic/one_namespace "4 4" "$(accesses atomic same one_namespace plenty)"
is lines/atomic/own_creators "0 0" "$(accesses atomic same own_creators plenty)"
none percpu percpu
none percpu plenty
none stock stock
none stock percpu
none stock plenty
# Namespaces of one creator do not meet in its record, but in one namespace all do.
is lines/cache "0 0" "$(accesses cache same one_creator plenty)"
like lines/cache/one_namespace "[1-9].* [1-9].*" "$(accesses cache same one_namespace plenty)"
# Without room all meet there; for percpu that is less than a batch for each CPU.
for without in "percpu last" "percpu full" "percpu stock" "cache last" "stock last"; do
	like "lines/${without/ //}" "[1-9].* [1-9].*" \
		"$(accesses "${without% *}" same one_creator "${without#* }")"
done
# What one CPU charges and another releases comes back a stock at a time, not each time.
is lines/stock/cross True "$("$PYTHON" -c 'import sys; print(all(
	0 < float(s) < float(a) for s, a in zip(sys.argv[1].split(), sys.argv[2].split())))' \
	"$(accesses stock cross one_creator plenty)" "$(accesses atomic cross one_creator plenty)")"

# --- the benchmark ---

json=$TMPDIR/ucounts.json

# bench COMMAND...: in as little time as it can, started by COMMAND.
bench()
{
	rm -f "$json"
	try "$@" "$PYTHON" "$here/../bench/ucounts.py" --build "$BUILD" --rounds 9 \
		--sample-ms 0.01 --again 0 --cpus 2 --limits 64 --json "$json"
}

# value EXPRESSION: of what was written.
value() { of_json "$1" <"$json"; }

bench env
is status "0 " "$status $err"
is samples True "$(value "all(len(s['samples']) == 9 for s in w['rows'].values())")"
is algorithms True "$(value "set(w['algorithms']) >= {'atomic', 'percpu', 'cache', 'stock'}")"
is cases True "$(value "len({name.split('/', 1)[1] for name in w['rows']}) *
	(len(w['algorithms']) + 1) == len(w['rows'])")"
is refused "0.0 1.0" "$(value "' '.join(str(w['rows'][f'atomic/same/one_creator/1/64/{room}']['refused'])
	for room in (1, 0))")"
like table ".*
same CPU +64 +1 +[0-9.]+ .*
none: refused .*" "$out"
if [ "$(nproc)" = 1 ]; then
	skip two_processes "this machine has one CPU"
else
	is two_processes "True True" "$(value "' '.join(str(any(p in g['goal'] for g in w['goals']))
		for p in ('loss by a second', 'without headroom'))")"
fi

# The CPU that this shell is on is one that it may run on.
bench taskset -c "$(ps -o psr= -p $$ | tr -d ' ')"
is one_cpu "0 " "$status $err"
like one_cpu/reason ".*Two processes: left out, this process may run on one CPU only\..*" "$out"

refused()
{
	try "$PYTHON" "$here/../bench/ucounts.py" --build "$BUILD" "${@:3}"
	like "$1" "[12] .*$2.*" "$status $err"
}
refused few_rounds "fewer than 9 rounds" --rounds 8
refused few_limits "there are the limits 64," --limits 63
refused no_program "ucounts: No such file.*make bench-ucounts" --build /
finish

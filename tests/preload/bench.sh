#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The benchmark of counters: it runs everywhere and has all its rows. No time is judged.
. "$(dirname "$0")/lib.sh"

json=$TMPDIR/counters.json

# bench COMMAND...: in as little time as it can, started by COMMAND.
bench()
{
	rm -f "$json"
	try "$@" "$PYTHON" "$here/../bench/counters.py" --build "$BUILD" --rounds 9 --sample-ms 0.02 \
		--again 0 --json "$json"
}

# value EXPRESSION: of what was written.
value() { of_json "$1" <"$json"; }

adds="empty_loop thread_slot shared_atomic split_counter percpu_add percpu_add_atomic"
adds+=" percpu_counter_add_1024 percpu_counter_add tree_add lazy_add_owner lazy_add_other"
rows="$adds lazy_sum"
for cpus in 2 64 384 1024; do
	rows+=" read/$cpus sum/$cpus approximate_sum/$cpus precise_sum/$cpus"
done

bench env
is status "0 " "$status $err"
is rows "$rows" "$(value "' '.join(w['rows'])")"
is samples True "$(value "all(len(s['samples']) == 9 for r in w['rows'].values() for s in r.values())")"
is times True "$(value "all(s['ns']['median'] > 0 and s['ratio']['median'] > 0
	for r in w['rows'].values() for s in r.values())")"
is goals "lazy_add_owner percpu_add percpu_counter_add_1024" "$(value "' '.join(sorted(w['goals']))")"
like table ".*
percpu add +[0-9.]+ ns .*
counter tree precise sum +[0-9.]+ [nu]s .*" "$out"
both=$(value "' '.join(name for name, r in w['rows'].items() if '2' in r)")
if [ "$(nproc)" = 1 ]; then
	skip two_processes "this machine has one CPU"
else
	is two_processes "$adds None" "$both $(value "w['two processes left out']")"
fi

# The CPU that this shell is on is one that it may run on.
bench taskset -c "$(ps -o psr= -p $$ | tr -d ' ')"
is one_cpu "0 " "$status $err"
is one_cpu/rows "$rows" "$(value "' '.join(name for name, r in w['rows'].items() if list(r) == ['1'])")"
like one_cpu/reason ".*Two processes: left out, this process may run on one CPU only\..*" "$out"

bench env GLIBC_TUNABLES=glibc.pthread.rseq=0
is without_rseq "0 atomic $rows" "$status $(value "w['mode'] + ' ' + ' '.join(w['rows'])")"
like without_rseq/said ".*changed by atomics, because there are no restartable sequences.*" "$out"

refused()
{
	try "$PYTHON" "$here/../bench/counters.py" --build "$BUILD" "${@:3}"
	like "$1" "[12] .*$2.*" "$status $err"
}
refused few_rounds "fewer than 9 rounds" --rounds 8
refused no_program "counters: No such file.*make bench-counters" --build /
finish

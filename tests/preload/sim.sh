#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kpemu sim: what it prints, and what it refuses.
. "$(dirname "$0")/lib.sh"

# refused NAME REGEX ARGS...: one line on standard error, nothing else.
refused()
{
	local name=$1 regex=$2
	shift 2
	try "$KPEMU" sim "$@"
	is "$name" "125 " "$status $out"
	if [[ $err =~ ^kpemu:\ [^$'\n']+$ && $err =~ $regex ]]; then
		ok "$name/message"
	else
		fail "$name/message" "want one line with /$regex/, got '$err'"
	fi
}

# The figures that were published, in their own form, and a table of ours.
memory='nr_cpus,fan_out,one_thread,threads,upstream
2,2,192,264,192
16,16,192,320,416
64,"16,4",192,768,1184
384,"8,8,8",192,6400,6304
1024,"8,8,16",192,13568,16544

nr_cpus,shared,percpu_counter
2,32,192
16,32,416
64,32,1184
384,32,6304
1024,32,16544'
try "$KPEMU" sim memory
is memory "0 $memory" "$status $out"
is memory/error_output "" "$err"

# drift OPTIONS...: lines "counter batch delta bound", without the comments.
drift() { "$KPEMU" sim drift "$@" | grep -v '^#' | tail -n +2 | tr ',' ' '; }
# between NAME LOW HIGH VALUE
between()
{
	if awk -v v="$4" -v low="$2" -v high="$3" 'BEGIN { exit !(v >= low && v <= high) }' </dev/null
	then
		ok "$1"
	else
		fail "$1" "$4 is not within $2..$3"
	fi
}
deltas=$(drift)
like drift_rows 'percpu_counter 768 [0-9.]+ 1150.5
percpu_counter_tree 32 [0-9.]+ 158.5
lazy single-threaded 0 0.0 0.0' "$deltas"
between drift_upstream 820 870 "$(awk 'NR == 1 { print $3 }' <<<"$deltas")"
between drift_tree 90 100 "$(awk 'NR == 2 { print $3 }' <<<"$deltas")"
is drift_is_repeatable "$deltas" "$(drift)"
is drift_seed_matters 1 "$([ "$deltas" != "$(drift --seed 2)" ] && echo 1)"
like drift_says_whose_workload ".*kpemu's own workload, not the program behind.*" \
	"$("$KPEMU" sim drift --steps 10)"
like drift_arity "percpu_counter_tree 32 [0-9.]+ 46.5" "$(drift --arity 512 | sed -n 2p)"
like drift_one_cpu "percpu_counter_tree 32 0.0 0.0" "$(drift --cpus 1 --steps 1000 | sed -n 2p)"
like drift_small "percpu_counter 32 0.5 0.5" "$(drift --cpus 4 --step 31 --pages 124 --steps 1000 | sed -n 1p)"

cpus=$(nproc --all)
if [ "$cpus" -le 1024 ]; then
	try "$KPEMU" sim activation --adds 1000 --rounds 1
	is activation "0 " "$status $err"
	like activation_rows "1,[0-9.]+,[0-9.]+ 2,[0-9.]+,[0-9.]+ 4,[0-9.]+,[0-9.]+" \
		"$(grep -E '^[124],' <<<"$out" | paste -sd' ')"
	like activation_tree ".*single-threaded,[0-9.]+,[0-9.]+,0,0.0
single-threaded again,[0-9.]+,[0-9.]+,6208,158.5.*" "$out"
else
	skip activation "this machine has more CPUs than a tree can be for"
fi

refused no_simulation "which simulation.* memory, drift, activation"
refused unknown_simulation "unknown simulation fly.* memory, drift, activation" fly
refused unknown_option "unknown option --fly" --fly
for part in memory drift activation; do
	refused "$part/unknown_option" "sim $part: unknown option --fly" $part --fly
	refused "$part/operand" "sim $part: unexpected operand x" $part x
	try "$KPEMU" sim $part --help
	is "$part/help" "0 usage: kpemu sim $part" \
		"$status $(head -n 1 <<<"$out" | cut -d' ' -f1-4)"
	like "help/$part" ".*sim $part .*" "$("$KPEMU" help sim)"
done
refused no_cpus "--cpus 0: not a number from 1 to 1024" drift --cpus 0
refused too_many_cpus "--cpus 1025: not a number from 1 to 1024" drift --cpus 1025
refused no_step "--step 0: not a number from 1" drift --step 0
refused no_pages "--pages 0: not a number from 1" drift --pages 0
refused no_steps "--steps x: not a number from 1" drift --steps x
refused negative_seed "--seed -1: not a number" drift --seed -1
refused arity_short "--arity 8,8: .*product is 512, for 384 CPUs" drift --arity 8,8
refused arity_before_cpus "--arity 8,8,8: .*product is 64, for 64 CPUs" drift --arity 8,8,8 --cpus 64
refused arity_of_three "--arity 3,4: not powers of two" drift --cpus 12 --arity 3,4
refused arity_of_words "--arity flat: not powers of two" drift --arity flat
refused arity_of_one_cpu "--arity 2: with one CPU there is no tree" drift --cpus 1 --arity 2
refused missing_argument "sim drift: --arity needs an argument, LIST" drift --arity
refused rounds "--rounds 100: not a number from 1 to 99" activation --rounds 100
refused adds "--adds 0: not a number from 1" activation --adds 0

finish

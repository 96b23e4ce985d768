#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kpemu sim explore: the tests that take no time, what it prints and refuses, and whether it finds
# what has been broken on purpose (the last where there are sources and objects).
# test: timeout 900
. "$(dirname "$0")/lib.sh"

# refused NAME REGEX ARGS...: status 2, one line on standard error, nothing else.
refused()
{
	local name=$1 regex=$2
	shift 2
	try "$KPEMU" sim explore "$@"
	is "$name" "2 " "$status $out"
	if [[ $err =~ ^kpemu:\ [^$'\n']+$ && $err =~ $regex ]]; then
		ok "$name/message"
	else
		fail "$name/message" "want one line with /$regex/, got '$err'"
	fi
}

refused no_test "which test"
refused unknown_test "no test fly; .*--list" fly
refused unknown_option "unknown option --fly" counter-add --fly
refused operand "unexpected operand more" counter-add more
refused cpus_range "--cpus 5: not a number from 1 to 4" counter-add --cpus 5
refused cpus_of_test "--cpus 4: this test is for 2 to 3 CPUs" counter-add --cpus 4
refused ops_range "--ops 0: not a number" counter-add --ops 0
refused mode "--mode fly: it is one of" counter-add --mode fly
refused tso_argument "--tso takes no argument" counter-add --tso=1
refused no_seed "--replay needs an argument" counter-add --replay
refused bad_seed "--replay A1x: not a seed" counter-add --replay A1x
refused strange_seed "--replay A999: no interleaving" litmus-message --replay A999

try "$KPEMU" sim explore --list
is list "0 " "$status $err"
all=$(awk '{ print $1 }' <<<"$out")
is list/described "" "$(awk 'NF < 3' <<<"$out")"
is list/activation 4 "$(grep -c activ <<<"$all")"

# What holds must hold, and to say so is worth nothing unless everything was explored.
holds()
{
	local name=$1
	shift
	try "$KPEMU" sim explore "$@"
	like "$name" "0 .*, complete
$1: holds in every interleaving.*" "$status $out"
}
# bounded N NAME TEST ARGS...: of what takes longer, all with at most N preemptions; tests/torture
# has the rest.
bounded()
{
	local n=$1 name=$2
	shift 2
	try "$KPEMU" sim explore "$@" --mode bound --limit 20000
	like "$name" "0 .*$1: holds in all that were explored.*" "$status $out"
	like "$name/bound" ".*, all of these" "$(grep "at most $n preemptions" <<<"$out")"
}
for test in $all; do
	case $test in
	litmus-store-buffer | rfc-leak | tree-bounds) holds "$test" "$test" ;; # under TSO: below, torture
	limited-add-race | litmus-lost-update | rfc-*) ;;
	split-batch-again | split-batch-full)
		holds "$test" "$test"
		bounded 2 "$test/tso" "$test" --tso ;;
	split-batch-burst | split-batch-join | split-batch-mixed | split-batch-shared | \
		split-stock-death-open | split-stock-keep | split-stock-mixed | split-stock-more | \
		split-stock-open | split-stock-two)
		bounded 2 "$test" "$test"
		bounded 2 "$test/tso" "$test" --tso ;;
	split-batch-open | ucounts-flat-stock | ucounts-opened-percpu | ucounts-siblings-stock)
		bounded 2 "$test" "$test"
		bounded 1 "$test/tso" "$test" --tso ;;
	ucounts-death-cache | ucounts-reuse-cache)
		bounded 1 "$test" "$test"
		bounded 0 "$test/tso" "$test" --tso ;;
	*)
		holds "$test" "$test"
		holds "$test/tso" "$test" --tso ;;
	esac
done
for test in counter-add-atomic lazy-activation lazy-activation-any lazy-activation-remote \
	lazy-activation-sum \
	litmus-relay litmus-wait percpu-add percpu-add-atomic percpu-add-moved tree-add \
	tree-add-sub tree-sum ucounts-charge; do
	holds "$test/3" "$test" --cpus 3
done

# Of the others, three CPUs with two operations are for tests/torture.
for test in counter-add counter-offline counter-sum percpu-alloc ucounts-lookup; do
	holds "$test/3x1" "$test" --cpus 3 --ops 1
done

# What is to be found is found, shown and replayed.
finds()
{
	local name=$1 seed
	shift
	try "$KPEMU" sim explore "$@"
	like "$name" "1 .*VIOLATED: .*CPU 0 +CPU 1.*replay: kpemu sim explore $1 .*" "$status $out"
	seed=$(sed -n 's/^replay: kpemu sim explore //p' <<<"$out")
	# shellcheck disable=SC2086 # options
	try "$KPEMU" sim explore $seed
	like "$name/replay" "1 .*violated: .*" "$status $out"
}
finds limited-add-race limited-add-race
finds litmus-lost-update litmus-lost-update
finds litmus-store-buffer/tso litmus-store-buffer --tso
for test in second-record use-after-free overshoot-percpu lost-units-percpu lost-units-cache; do
	finds "rfc-$test" "rfc-$test"
done
finds rfc-leak/tso rfc-leak --tso
finds bound litmus-lost-update --mode bound
finds pct litmus-lost-update --mode pct --seed 3
finds random litmus-lost-update --mode random --seed 4

# The searches see the same ends, whether they reduce or not.
ends() { "$KPEMU" sim explore "$@" --outcomes | grep outcomes; }
for args in "--ops 2" "--ops 1 --tso" "--cpus 3 --ops 1"; do
	# shellcheck disable=SC2086 # options
	is "ends/mix $args" "$(ends litmus-mix $args --mode plain)" "$(ends litmus-mix $args)"
done
is ends/wait "$(ends litmus-wait --cpus 3 --mode plain)" "$(ends litmus-wait --cpus 3)"

# What is not complete says so.
try "$KPEMU" sim explore counter-add --limit 100
like not_complete "0 .*, not complete
.*at most 0 preemptions.*PCT.*seed 1
.*random.*seed 1
counter-add: holds in all that were explored; that is not every interleaving" "$status $out"

# ^C prints what is known.
"$KPEMU" sim explore counter-add --cpus 3 --limit 100000000 >"$TMPDIR/out" 2>&1 &
sleep 1
kill -INT $!
wait $!
like interrupted "130 .*counter-add: interrupted; no violation so far" "$? $(cat "$TMPDIR/out")"

# At least 200,000 interleavings a minute, on two CPUs with three operations.
try "$KPEMU" sim explore counter-add
rate=$(sed -nE 's/.* ([0-9]+) per minute.*/\1/p' <<<"$out")
is speed 1 "$((rate >= 200000))"

# --- mutants ---

top=$(cd "$here/../.." && pwd)
if [ ! -e "$top/emu/lib/percpu.c" ] || [ ! -e "$BUILD/obj/explore/emu/lib/percpu.o" ]; then
	skip mutants "no sources and objects here"
	finish
fi

# mutant NAME FILE SED-EDIT TEST ARGS...: the program with FILE edited must find a violation. A header
# is HEADER:SOURCE, the source that is compiled again with it.
mutant()
{
	local name=mutants/$1 file=$2 edit=$3 dir=$TMPDIR/mutant unit
	shift 3
	unit=${file#*:} file=${file%:*}
	rm -rf "$dir"
	mkdir -p "$dir/$(dirname "$file")"
	sed -E "$edit" "$top/$file" >"$dir/$file"
	if cmp -s "$top/$file" "$dir/$file"; then
		fail "$name" "the edit changes nothing"
		return
	fi
	[ "$unit" = "$file" ] || cp "$top/$unit" "$dir/mutant.c"
	[ "$unit" = "$file" ] && cp "$dir/$file" "$dir/mutant.c"
	# shellcheck disable=SC2046,SC2086 # flags; names without blanks
	if ! (cd "$top" && $(cut -d'|' -f1 "$BUILD/explore-flags" | sed "s| | -I$dir/include -I$dir |") \
		-w -c -o "$dir/mutant.o" "$dir/mutant.c" && ${CC:-cc} -Wl,--gc-sections -o "$dir/kpemu-explore" "$dir/mutant.o" \
		$(find "$BUILD/obj/explore" -name '*.o' ! -path "*/explore/${unit%.c}.o")) \
		>"$dir/log" 2>&1; then
		fail "$name" "$(head -c 500 "$dir/log")"
		return
	fi
	timeout 120 "$dir/kpemu-explore" "$@" >"$dir/log" 2>&1
	like "$name" "1 .*VIOLATED.*" "$? $(cat "$dir/log")"
}

uc=emu/kernel/ucount.c
pc=emu/lib/percpu_counter.c
tree=emu/lib/percpu_counter_tree.c
mutant barrier_removed $uc '/^void ucounts_begin\(/,/^}/s/smp_mb\(\);//' \
	ucounts-gate-recover tso=1
mutant gate_not_looked_at_again $uc '/^bool ucounts_admitted/,/^}/s/return .*;/return true;/' \
	ucounts-gate-recover-quick
mutant retreat_not_counted $uc 's/atomic64_inc\(&world->retreats\);//' \
	ucounts-gate-check-quick
mutant living_updaters_ignored $uc '/^static bool living_updater/,/^}/s/return true;/return false;/' \
	ucounts-gate-check
mutant gate_opened_too_early $uc \
	's/^.*ucounts_ops\(\)->set\(uc, type, objects\);/gate_open(uc, type);\n&/' \
	ucounts-gate-recover
mutant second_record $uc 's/v = cmpxchg\(cell, 0, (.*)\);/v = 0; WRITE_ONCE(*cell, \1);/' \
	ucounts-lookup
mutant plain_instead_of_atomic emu/kernel/ucount_atomic.c \
	's/\{ word_charge,/{ broken,/;s/^static const struct level_ops/static bool broken(struct ucounts *uc, const struct ucounts *below, enum rlimit_type type, long v, long max, bool keep, long *use)\n{\n\tWRITE_ONCE(uc->rlimit[type].counter, word_read(uc, type) + v);\n\treturn true;\n}\n&/' \
	ucounts-charge
mutant sum_without_second_look $pc \
	'/^int64_t percpu_counter_sum/,/^}/s/if \(READ_ONCE\(c->moves\) == moves\)//' counter-sum
mutant slot_zeroed_before_it_is_read $pc \
	's/move_end\(c, percpu_xchg32\((.*), 0\)\);/percpu_xchg32(\1, 0); move_end(c, percpu_read32(\1));/' \
	counter-offline
mutant slot_read_before_it_is_taken $pc \
	's/move_end\(c, percpu_xchg32\((.*), 0\)\);/{ int32_t v = percpu_read32(\1); percpu_xchg32(\1, 0); move_end(c, v); }/' \
	counter-offline
mutant carry_added_twice $tree 's/old \+ v - carry\)/old + v)/' tree-add
mutant node_not_in_one_step $tree \
	's/while \(!try_cmpxchg\(&node->counter, &old, (.*)\)\);/while (0); WRITE_ONCE(node->counter, \1);/' \
	tree-add-sub
mutant freed_before_activation_done $tree \
	's/^\t\tpublish\(&c\[i\], &p, memory->area\);/&\n\tmemory->free(memory->arg, p.root, nodes_size(c));/' \
	lazy-activation-remote
mutant tree_published_too_early emu/lib/percpu.c \
	'/^void percpu_ptr_set/,/^}/{/smp_store_release/d;s/WRITE_ONCE\(p->area, .*/smp_store_release(\&p->slot, run_of(area, 0) + off - (char *)p);\n&/}' \
	lazy-activation
mutant memory_given_out_twice emu/lib/percpu.c \
	's/while \(!try_cmpxchg\(word, &old, old \| mask\)\);/while (0); WRITE_ONCE(*word, old | mask);/' \
	percpu-alloc
mutant record_claimed_twice emu/world/world.c \
	's/cmpxchg\(\(uint64_t \*\)slot, w, (.*)\) == w;/(WRITE_ONCE(*(uint64_t *)slot, \1), true);/' \
	ucounts-lookup
mutant dead_not_recovered emu/kernel/exit.c \
	'/^static bool settle_word/,/^}/s/if \(READ_ONCE.*/if (0)/' ucounts-death

sc=emu/lib/split_counter.c
sh=include/kpemu/split_counter.h
us=emu/kernel/ucount_split.c
few="mode=bound limit=30000"
# shellcheck disable=SC2086 # two words
split_mutant() { mutant "$@" $few; }
split_mutant late_helper $sc '/^static bool is_still/,/^}/{s/return .*/return true;/;/READ_ONCE/d}' \
	split-stock-open
split_mutant added_in_vain $sh:$us \
	'/^static inline enum split_answer split_add_joined/,/^}/s/^\tfetch_add\(.*\);//' ucounts-last-stock
split_mutant added_while_split $sh:$us \
	'/^static inline enum split_answer split_add_joined/,/^}/s/!\(lo & SPLIT_MODE_MASK\) && //' \
	ucounts-opened-percpu
split_mutant grant_without_tag $sc '/^static void begin_grant/,/^}/s/next_tag\(st\)/tag_of(st)/' \
	split-stock-again
split_mutant grant_twice $sc '/^static void finish_moving/,/^}/{/slot_tag/,/break;/d}' \
	split-stock-open
split_mutant grant_beyond_ceiling $sc 's/room < amount \? room : amount/amount/' split-stock-last
split_mutant joined_twice $sc \
	'/^static bool close_slot/,/^}/s/if \(slot_tag\(w\) == tag_of\(st\)\)//' split-batch-again
split_mutant refused_while_split $sc 's/if \(least >= a->bound\)/if (base_of(st) >= a->bound)/' \
	split-stock-mixed
split_mutant taken_in_beyond_reserve $sc 's/if \(base \+ reserve\(s\) > ceiling_of\(st\)\)/if (0)/' \
	split-batch-shared
split_mutant opened_without_reserve $sh:$sc \
	'/^static inline long split_room/,/^}/s/\(long\)nr \* batch/1/' split-batch-mixed
split_mutant slots_counted_before $sc 's/return s->slots \? .*;/return s->nr;/' split-stock-more
split_mutant set_while_split $sc \
	'/^void split_set/,/^}/{s/if \(mode_of\(st\) != JOINED\)/if (0)/;s/JOINED, credit/mode_of(st), credit/}' \
	ucounts-death-stock
split_mutant ceiling_not_looked_at $sh:$sc \
	's/unlikely\(split_ceiling\(.*\) > limit\)/0/' split-batch-low
split_mutant limit_of_level_passed $us \
	's/split_charge\(&s, v, max,/split_charge(\&s, v, max < LONG_MAX ? max + 1 : max,/' \
	ucounts-siblings-cache
split_mutant levels_not_unwound emu/kernel/ucount.h:$us \
	's/^\t*uncharge_levels\(uc, iter, type, v, ops\);//' ucounts-siblings-cache
split_mutant namespace_not_forgotten emu/kernel/ucount_cache.c \
	'/^static void forget_ns/,/^}/s/split_join\(&s\);//' ucounts-reuse-cache
finish

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# SIGKILL at random moments: nothing is left that the next run or `kpemu gc` does not remove.
# ROUNDS: how often for each of launcher, program tree, both.
# test: timeout 1500
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
world=kill-rounds-$$
path=/dev/shm/kpemu.$me.$world

# The processes of the world, by its name in their environment; the launcher has it in its arguments.
members() { grep -lzxs "KPEMU_WORLD=$path" /proc/[0-9]*/environ | tr -cd '0-9\n'; }
nobody() { [ -z "$(members)" ]; }
gone() { [ ! -e "$path" ]; }

kill_launcher() { kill -KILL "$1"; }
kill_tree() { members | xargs -r kill -KILL 2>/dev/null; members | xargs -r kill -KILL 2>/dev/null; }
kill_both() { kill -KILL "$1"; kill_tree; }

# What is left goes with the next run in odd rounds, with gc in even ones.
clean_up()
{
	if [ $(($1 % 2)) = 1 ]; then
		run -- true
	else
		"$KPEMU" gc >/dev/null
	fi
}

for victim in launcher tree both; do
	left=0
	for ((round = 1; round <= rounds; round++)); do
		run --world "$world" --uid 1000 --rlimit nproc=40 --rlimit msgqueue=4850 -- \
			"$tests/kill-rounds" </dev/null >/dev/null 2>&1 &
		launcher=$!
		sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
		"kill_$victim" $launcher
		wait $launcher 2>/dev/null
		until_true 10 nobody || left=$((left + 1))
		clean_up $round
		gone || { left=$((left + 1)); rm -f "$path"; }
	done
	is "${victim}_killed" "0 left after $rounds rounds" "$left left after $rounds rounds"
done 2>/dev/null
finish

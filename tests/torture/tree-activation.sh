#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Additions that race with the activation of their counters, ten million on emulated CPUs and ten
# million on the real ones: none is lost.
. "$(dirname "$0")/../preload/lib.sh"

for test in adds_and_activation_on_emulated_cpus adds_and_activation_on_real_cpus; do
	try env TREE_ADDS="${TREE_ADDS:-10000000}" "$tests/unit" --filter "tree_race/$test"
	is "$test" "0 Tested: 1 | Passing: 1 | Failing: 0 | Crashing: 0" \
		"$status $(grep -ho 'Tested: .*' <<<"$out$err" | sed 's/ *$//')"
done

finish

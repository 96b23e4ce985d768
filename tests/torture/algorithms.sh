#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every case of the oracle and every scenario under each exact algorithm, ten runs in a row.
. "$(dirname "$0")/../preload/lib.sh"

for ((run = 1; run <= ${RUNS:-10}; run++)); do
	for what in oracle scenarios; do
		try "$here/../compare.sh" $what
		[ "$status" = 0 ] || grep -A2 ^DIFF <<<"$out"
		is "$what/run_$run" 0 "$status"
	done
done
finish

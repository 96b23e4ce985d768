#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Eight processes add 20 million times each to counters in shared memory, at both kinds of areas,
# while they are moved, stopped and continued. As in the unit tests, there with 200,000.
# test: timeout 3600
set -u
log=$(PERCPU_ADDS=${PERCPU_ADDS:-20000000} "$BUILD/tests/unit" --color=never --verbose=1 \
	--filter 'percpu/processes_*' 2>&1)
status=$?
verdicts=$(sed -nE 's/^\[PASS\] (percpu::[a-z_0-9]*).*/ok \1/p; s/^\[FAIL\] (percpu::[a-z_0-9]*).*/FAIL \1/p
	s/^\[SKIP\] (percpu::processes_[a-z_0-9]*): (.*)/skip \1: \2/p' <<<"$log")
echo "$verdicts"
if [ $status != 0 ]; then
	echo "$log" | grep -E '^\[----\]' | head -n 40
elif ! grep -q '^ok ' <<<"$verdicts"; then
	echo "FAIL percpu: nothing was tested"
	status=1
fi
exit $status

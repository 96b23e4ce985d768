#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# As in the short tests, 10,000 other programs each time, whose seed is printed, with all algorithms.
# test: timeout 14400
SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "# seed $SEED"
export SEED
ALL=1 PROGRAMS=${PROGRAMS:-10000} exec bash "$(dirname "$0")/../preload/differential.sh"

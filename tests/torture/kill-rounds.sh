#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Two hundred rounds of each kind of kill.
# test: timeout 3000
ROUNDS=${ROUNDS:-200} exec bash "$(dirname "$0")/../preload/kill-rounds.sh"

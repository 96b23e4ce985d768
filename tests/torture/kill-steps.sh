#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every step of every operation, and every pair of a death and a death over its recovery.
SECONDS_LIMIT=3000 exec bash "$(dirname "$0")/../preload/kill-steps.sh"

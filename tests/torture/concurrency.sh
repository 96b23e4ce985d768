#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Many at once, for a long time.
TIMES=${TIMES:-20} exec bash "$(dirname "$0")/../preload/concurrency.sh"

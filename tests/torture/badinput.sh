#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# As in the short tests, with more damaged worlds.
FUZZ_ROUNDS=${FUZZ_ROUNDS:-1000} exec bash "$(dirname "$0")/../preload/badinput.sh"

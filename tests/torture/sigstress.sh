#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# As in the short tests, for 1000 rounds.
ROUNDS=${ROUNDS:-1000} exec bash "$(dirname "$0")/../preload/sigstress.sh"

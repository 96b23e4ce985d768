#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# As in the short tests, with more of stress-ng.
STRESS_SECONDS=${STRESS_SECONDS:-60} exec bash "$(dirname "$0")/../preload/programs.sh"

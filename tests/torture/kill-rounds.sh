#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# 200 rounds of each way to be killed.
ROUNDS=${ROUNDS:-200} exec bash "$(dirname "$0")/../preload/kill-rounds.sh"

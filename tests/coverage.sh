#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Line coverage of every source file below DIR in the objects of OBJDIR, by gcov alone.
# Usage: tests/coverage.sh OBJDIR DIR
set -eu
cd "$(dirname "$0")/.."
objdir=$1
dir=$2

find "$objdir/$dir" -name '*.gcno' | LC_ALL=C sort | while read -r notes; do
	"${GCOV:-gcov}" -n -o "$(dirname "$notes")" "$notes" 2>/dev/null
done | awk -v dir="$dir/" '
	/^File / { file = substr($2, 2, length($2) - 2); next }
	/^Lines executed:/ && index(file, dir) == 1 && file ~ /\.c$/ {
		sub(/^Lines executed:/, "")
		split($0, part, /% of /)
		printf "%6.1f%%  %5d lines  %s\n", part[1], part[2], file
		all += part[2]; hit += part[1] * part[2] / 100
		file = ""
	}
	END { printf "%6.1f%%  %5d lines  all\n", all ? 100 * hit / all : 0, all }'

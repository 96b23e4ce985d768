#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kpemu sim explore on three CPUs with two operations each, and on two with three: what takes
# minutes. Each must hold, and the numbers of interleavings and whether they were all are printed.
# test: timeout 14400
. "$(dirname "$0")/../preload/lib.sh"

for test in $("$KPEMU" sim explore --list | awk '{ print $1 }'); do
	case $test in
	litmus-* | limited-add-race | ucounts-death | rfc-*) continue ;;
	esac
	for tso in "" --tso; do
		# shellcheck disable=SC2086 # an option or none
		try "$KPEMU" sim explore "$test" --cpus 3 $tso --limit ${EXPLORE_LIMIT:-40000000}
		echo "# ${out//$'\n'/$'\n'# }"
		is "$test${tso:+/tso}" 0 "$status"
	done
done

# On two CPUs, what tests/preload has only some of.
for test in $("$KPEMU" sim explore --list | awk '/^split-|^ucounts-.*-(cache|stock) / { print $1 }'); do
	for tso in "" --tso; do
		# shellcheck disable=SC2086 # an option or none
		try "$KPEMU" sim explore "$test" $tso --limit ${EXPLORE_LIMIT:-40000000}
		echo "# ${out//$'\n'/$'\n'# }"
		is "$test/2${tso:+/tso}" 0 "$status"
	done
done
try "$KPEMU" sim explore tree-bounds --tso
echo "# ${out//$'\n'/$'\n'# }"
is tree-bounds/2/tso 0 "$status"
finish

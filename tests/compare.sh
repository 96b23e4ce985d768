#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The cases of the oracle or the scenarios, under each algorithm that must be exact, side by side.
#   compare.sh oracle|scenarios
# Which of them: exact.sh. Lines as of check.sh, with the algorithm before the case; exit 1 on any
# difference.
set -u
cd "$(dirname "$0")/.." || exit 2
what=$1
. tests/exact.sh
log=$(mktemp -d "${TMPDIR:-/tmp}/kpemu-compare.XXXXXX") || exit 2
trap 'rm -rf "$log"' EXIT
export MQ_LOCK=$log/mq
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM

check()
{
	case $what in
	oracle)
		ONLY=$oracle_only ORACLE_BUILD=$BUILD/tests/oracle/$1 tests/oracle/check.sh "$BUILD/kpemu" run \
			--uid 0 --gid 0 --cap-drop sys_resource --ucounts "$1" -- ;;
	scenarios)
		ONLY=$scenarios_only SCENARIO_BUILD=$BUILD/tests/scenarios/$1 KPEMU_RUN_OPTIONS="--ucounts $1" \
			tests/scenarios/check.sh "$BUILD/kpemu" ;;
	esac
}

bad=0
for algorithm in "${exact[@]}"; do
	check "$algorithm" >"$log/$algorithm" 2>&1 || touch "$log/bad" &
done
wait
for algorithm in "${exact[@]}"; do
	sed -E "s,^(ok|DIFF|skip) ,\1 $algorithm/," "$log/$algorithm"
	! grep -q '^DIFF' "$log/$algorithm" || bad=1
done
[ ! -e "$log/bad" ] && [ $bad = 0 ]

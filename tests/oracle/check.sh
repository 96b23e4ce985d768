#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Compare the oracle programs with expected.tsv. Usage: check.sh [COMMAND PREFIX...]
#   check.sh                                                   on the real kernel (as root)
#   check.sh kpemu run --uid 0 --gid 0 --cap-drop sys_resource --      under kpemu (as anybody)
# ONLY='regex' selects cases; ORACLE_BUILD is where the programs are built, else a scratch directory.
# Prints one line per agreement or difference and a total; exit 1 on any difference.
[ $# -gt 0 ] && [ -e "$1" ] && set -- "$(realpath "$1")" "${@:2}"
out=; [ -n "$ORACLE_BUILD" ] && out=$(realpath -m "$ORACLE_BUILD")
cd "$(dirname "$0")" || exit 2
[ -n "$out" ] || { out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT; } || exit 2
mkdir -p "$out" || exit 2
for p in sig mq lock nproc ns; do
	[ "$out/$p" -nt $p.c ] || ${CC:-gcc} -O1 -g -w -o "$out/$p" $p.c -lrt -lpthread || exit 2
done
pass=0; fail=0
while IFS=$'\t' read -r id setup want; do
	[ "$id" = case-id ] && continue
	[[ $id =~ ${ONLY:-.} ]] || continue
	for p in sig mq lock nproc ns; do grep -q "\"$id\"" $p.c && prog=$p && break; done
	# The queues of all that run at once are charged to one real user.
	lock=(); [ -n "$MQ_LOCK" ] && [[ $id =~ mq ]] && lock=(flock "$MQ_LOCK")
	got=$("${lock[@]}" timeout 40 "$@" "$out/$prog" "$id" 2>/dev/null </dev/null | sed -n "s/^$id: //p")
	if [ "$got" = "$want" ]; then
		pass=$((pass+1)); echo "ok $id"; else
		fail=$((fail+1)); printf 'DIFF %s\n  want: %s\n  got:  %s\n' "$id" "$want" "$got"; fi
done < expected.tsv
echo "$pass passed, $fail failed"; [ $fail = 0 ]

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Compare the scenario programs with expected.tsv.
#   check.sh               on the real kernel (as root)
#   check.sh KPEMU         under kpemu, KPEMU being the command (as anybody)
# ONLY='regex' selects files; SCENARIO_BUILD is where the programs are built, else a scratch directory.
# Prints one line per agreement or difference and a total; exit 1 on any difference.
kp=$1; [ -n "$kp" ] && [ -e "$kp" ] && kp=$(realpath "$kp")
out=; [ -n "$SCENARIO_BUILD" ] && out=$(realpath -m "$SCENARIO_BUILD")
cd "$(dirname "$0")" || exit 2
[ -n "$out" ] || { out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT; } || exit 2
src=$PWD; mkdir -p "$out" || exit 2; chmod 755 "$out"; pass=0; fail=0
while IFS=$'\t' read -r f who lim want; do
	case $f in file) continue;; esac
	[[ $f =~ ${ONLY:-.} ]] || continue
	n=${f%.c}; uid=470${n%%-*}
	[ "$out/$n" -nt "$src/$f" ] || ${CC:-gcc} -O1 -w -o "$out/$n" "$src/$f" -pthread -lrt || exit 2
	cmd=()
	if [ -n "$kp" ]; then
		[ "$who" = root ] && uid=0
		cmd=("$kp" run ${KPEMU_RUN_OPTIONS} --uid $uid --gid $uid)
		for l in $lim; do [ "$l" = - ] || cmd+=(--rlimit "${l#--}"); done
		cmd+=(--)
	else
		[ "$who" = root ] || cmd=(setpriv --reuid=$uid --regid=$uid --clear-groups)
		[ "$lim" = - ] || cmd+=(prlimit $lim)
	fi
	# The queues of all that run at once are charged to one real user.
	lock=(); [ -n "$MQ_LOCK" ] && [[ $f =~ mq ]] && lock=(flock "$MQ_LOCK")
	got=$(cd "$out" && "${lock[@]}" timeout 30 "${cmd[@]}" "$out/$n" 2>/dev/null </dev/null | paste -sd'|' | sed 's/|/ | /g')
	if [ "$got" = "$want" ]; then
		pass=$((pass+1)); echo "ok $f"; else
		fail=$((fail+1)); printf 'DIFF %s\n  want: %s\n  got:  %s\n' "$f" "$want" "$got"; fi
done < expected.tsv
echo "$pass passed, $fail failed"; [ $fail = 0 ]

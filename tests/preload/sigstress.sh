#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Signals of all kinds between many threads: in every pause the emulated number of pending ones is
# the real kernel's. ROUNDS: how many pauses; SEED: repeats a run's choices; OPTIONS: for sigstress.
# test: timeout 600
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-40}
seed=()
[ -z "${SEED-}" ] || seed=(--seed "$SEED")
read -ra more <<<"${OPTIONS-}"

# The real number is that of a real uid: as root, take one that nobody else has.
alone=()
[ -n "$native_why" ] || alone=(setpriv "--reuid=$native_uid" "--regid=$native_uid" --clear-groups)

# stress NAME PREFIX... -- OPTIONS...
stress()
{
	local name=$1 prefix=()
	shift
	while [ "$1" != -- ]; do
		prefix+=("$1")
		shift
	done
	shift
	# Whoever was killed and is not reaped would still hold entries in the next run.
	try "$tests/reaper" timeout -k 5 $((60 + 2 * rounds)) ${alone[@]+"${alone[@]}"} \
		${prefix[@]+"${prefix[@]}"} "$tests/sigstress" --rounds "$rounds" \
		${seed[@]+"${seed[@]}"} "$@" ${more[@]+"${more[@]}"}
	if [ "$(tail -n 1 <<<"$out")" != "rounds=$rounds equal=$rounds" ] || [ "$status" != 0 ]; then
		fail "$name" "status $status: $(tail -n 1 <<<"$out"): $out $err"
		return
	fi
	ok "$name"
	like "$name/pending" "[1-9][0-9]+" "$(grep -oE 'max=[0-9]+' <<<"$out" | cut -d= -f2)"
	is "$name/siginfo" 0 "$(sed -nE 's/.*badinfo=([0-9]+).*/\1/p' <<<"$out")"
	[[ $out != *lost=* ]] || is "$name/lost" 0 "$(sed -nE 's/.* lost=([0-9]+).*/\1/p' <<<"$out")"
}

world=("$KPEMU" run --quiet --uid 1000)
stress plain "${world[@]}" --
stress ignored "${world[@]}" -- --ignored
# Where nobody jumps out of handlers, it can be told that no signal got lost.
stress no_jumps "${world[@]}" -- --without jump
stress native/plain --
stress native/ignored -- --ignored
stress native/no_jumps -- --without jump
finish

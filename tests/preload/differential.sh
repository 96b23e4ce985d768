#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Random programs say in a world what they say on the real kernel, step by step. PROGRAMS: how many;
# SEED: of which; DIFF_UCOUNTS: in worlds of which algorithms, each of them a part of the programs, or
# with ALL=1 all; KEEP: where programs go that differ.
# test: timeout 600
. "$(dirname "$0")/lib.sh"

programs=${PROGRAMS:-240}
algorithms=${DIFF_UCOUNTS:-$(IFS=,; echo "${exact[*]}")}

if ! unshare --user true 2>/dev/null; then
	skip all "this host makes no user namespaces"
	finish
fi
[ "$me" = 0 ] || skip uids "only root can give a program real uids of its own: in user namespaces only"
try timeout -k 5 $((60 + programs * 2)) "$PYTHON" "$here/differential.py" --programs "$programs" \
	--seed "${SEED:-1}" --ucounts "$algorithms" --corpus "$here/../differential" \
	$([ -n "${ALL-}" ] || echo --in-turn) ${KEEP:+--keep "$KEEP"}
echo "# $(tail -n 1 <<<"$out")"
if [ "$status" = 0 ]; then
	ok "$algorithms"
else
	fail "$algorithms" "status $status: $out $err"
fi
finish

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# User namespaces: what a program finds in a world is what it finds on the real kernel.
# test: timeout 120
. "$(dirname "$0")/lib.sh"

# Root looks for an ordinary user's answers: uid 0 is exempt from much.
as_user=() user=$me group=$my_gid
if [ "$me" = 0 ]; then
	user=47310 group=47310
	as_user=(setpriv --reuid=$user --regid=$group --clear-groups)
fi
limits=()
for l in nproc sigpending msgqueue; do
	limits+=(--rlimit "$l=$(prlimit --noheadings --raw --output SOFT,HARD "--$l" | tr ' ' :)")
done
program=$tests/userns
in_world() { run --uid "$user" --gid "$group" "${limits[@]}" -- "$@" 2>&1 </dev/null; }
native() { "${as_user[@]}" "$@" 2>&1 </dev/null; }

# Programs of a build below a directory of root's are copied to where the user can read them.
if [ "$me" = 0 ]; then
	chmod a+rx "$TMPDIR"
	cp "$program" "$TMPDIR/userns" && chmod a+rx "$TMPDIR/userns"
	program=$TMPDIR/userns
fi

if native unshare --user true >/dev/null; then
	for case in $("$program" --list); do
		# What others of the uid do counts on the real kernel.
		if [ "$me" != 0 ] && [[ $case =~ ^(nproc|signals|prior_pending|created_over_limit|queues)$ ]]; then
			skip "$case" "comparing needs a uid of its own"
			continue
		fi
		is "$case" "$(native "$program" "$case")" "$(in_world "$program" "$case")"
	done
else
	skip native "this host makes no user namespaces"
fi

# --- programs that nobody here wrote ---

if in_world true >/dev/null && command -v unshare >/dev/null; then
	is unshare_map_root "0 0" "$(in_world unshare --user --map-root-user sh -c 'echo $(id -u) $(id -g)')"
	is unshare_nested "0" "$(in_world unshare -Ur unshare -Ur id -u)"
	is unshare_uts_and_ipc "0" "$(in_world unshare -Uri --uts id -u)"
fi

finish

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

# --- options ---

nested() { run --uid 1000 --gid 1000 --rlimit nproc=4 "$@" 2>&1 </dev/null; }
is userns_option "1000" "$(nested --userns 3 -- sh -c 'id -u')"
is userns_map "0 0 4294967295" "$(nested --userns 2 -- cat /proc/self/uid_map | tr -s ' ' | sed 's/^ //')"
is userns_too_deep 125 "$(nested --userns 34 -- true >/dev/null; echo $?)"
is userns_depth_left "33 No space left on device" "$(nested --userns 33 -- unshare -U true |
	sed 's/.*failed: /33 /')"
start "userns-$$" --uid 1000 --gid 1000 --userns 2 --rlimit nproc=7 -- sh -c 'echo up; read x'
said up
is stat_levels "2" "$("$KPEMU" stat --world "$world" --json | of_json 'max(n["level"] for n in w["user_namespaces"])')"
is stat_maximum "7" "$("$KPEMU" stat --world "$world" --json | of_json 'w["user_namespaces"][0]["nproc"]')"
like check_levels "ok: .*" "$("$KPEMU" check --world "$world")"
stop
is sysctl_user "1" "$(nested --sysctl user.max_user_namespaces=1 -- cat /proc/sys/user/max_user_namespaces)"
is sysctl_mqueue "2" "$(nested --sysctl fs.mqueue.queues_max=2 -- cat /proc/sys/fs/mqueue/queues_max)"
is sysctl_bounds "unshare: unshare failed: No space left on device" \
	"$(nested --sysctl user.max_user_namespaces=0 -- unshare -U true)"
is sysctl_unknown 125 "$(nested --sysctl user.max_dogs=0 -- true >/dev/null; echo $?)"
is sysctl_range 125 "$(nested --sysctl fs.mqueue.msg_max=0 -- true >/dev/null; echo $?)"
is refusal_names_level \
	"kpemu: unshare: ENOSPC: user_namespaces limit 0 of uid 1000 reached (0 in use, 1 asked), 1 time" \
	"$("$KPEMU" run --uid 1000 --gid 1000 --sysctl user.max_user_namespaces=0 -- unshare -U true 2>&1 |
		sed -n 's/, first by.*//; /ENOSPC/p')"

finish

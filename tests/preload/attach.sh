#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The world is found again after everything that could lose it, each alone and in pairs.
. "$(dirname "$0")/lib.sh"

# What a program sees that is alone in the world with uid 1000 and limit 7: its own task and six
# more. Who waits for it counts as well.
seen() { echo "nproc=7 uid=1000,1000,1000 status=${2-1000} forks=$1"; }
limits=(--uid 1000 --rlimit nproc=7)

# looks NAME FORKS COMMAND...: the command ends in a look.
looks()
{
	local name=$1 forks=$2
	shift 2
	try run "${limits[@]}" -- "$@"
	is "$name" "0 $(seen "$forks")" "$status $out$err"
}

attach=$tests/attach
looks start 6 "$attach" look
looks fork 5 "$attach" fork look
looks fork_fork 4 "$attach" fork fork look
looks exec 6 "$attach" exec look
looks exec_exec 6 "$attach" exec exec look
looks fork_exec 5 "$attach" fork exec look
looks execve_empty_environment 6 "$attach" execve-empty look
looks execle_empty_environment 6 "$attach" execle-empty look
looks execle_then_exec 6 "$attach" execle-empty exec look
looks cleared_environment_exec 6 "$attach" clear-environment exec look
looks env_i 6 env -i "$attach" look
looks env_i_fork_exec 5 env -i "$attach" fork exec look
looks close_range 6 "$attach" close-range look
looks close_range_fork 5 "$attach" close-range fork look
looks close_range_exec 6 "$attach" close-range exec look
looks close_range_cloexec_exec 6 "$attach" close-on-exec exec look
looks close_range_empty_environment 6 "$attach" close-range execve-empty look
looks closefrom_exec 6 "$attach" close-from exec look
looks daemon 5 "$attach" daemon look
looks daemon_exec 5 "$attach" daemon exec look
looks daemon_close_range_empty_environment 5 "$attach" daemon close-range execve-empty look
looks exec_with_threads 6 "$attach" threads exec look
looks exec_from_thread 6 "$attach" thread-exec look
looks exec_from_thread_with_threads 6 "$attach" threads thread-exec look
looks exec_by_shell 6 sh -c "exec $attach look"
looks child_of_shell 5 sh -c "$attach look; :"
looks child_of_python 5 "$PYTHON" -c 'import subprocess, sys
sys.exit(subprocess.call(sys.argv[1:], env={}, close_fds=True))' "$attach" look

# Other environment variables are the program's alone, and LD_PRELOAD of its own stays in force.
try run -- env -i A=1 env
is env_i_adds "A=1 KPEMU_TASK KPEMU_WORLD LD_PRELOAD " \
	"$(sed -E 's/^((KPEMU_|LD_)[A-Z]*)=.*/\1/' <<<"$out" | LC_ALL=C sort | tr '\n' ' ')"

# Found means counted: by the commands outside too.
start "attach-$$" "${limits[@]}" -- "$attach" close-range execve-empty fork hold
said '^pid '
pid=${line#pid }
is ps_sees_fork "2 (1000, 1000)" "$("$KPEMU" ps --json --world "$world" |
	of_json "len(w), *{(p['uid'], p['euid']) for p in w}")"
is ps_knows_pid True "$("$KPEMU" ps --json --world "$world" |
	of_json "$pid in [p['pid'] for p in w]")"
is stat_counts 2 "$(use_of 1000 nproc)"
stop
is ends 0 "$status"
is world_gone "" "$(worlds | grep "attach-$$")"

# Mounts and chroot need an administrator.
inside()
{
	local name=$1 want=$2
	shift 2
	if [ -n "$admin_why" ]; then
		skip "$name" "$admin_why"
		return
	fi
	try ${admin[@]+"${admin[@]}"} unshare -m "$@"
	is "$name" "0 $want" "$status $out$err"
}

# $1: where the world's program changes its root to. The steps follow.
in_chroot='dir=$1; shift
mount --rbind /proc "$dir/proc" || exit
exec "$0" run --quiet --uid 1000 --rlimit nproc=7 -- "$@"'
no_proc='dir=$1; shift
exec "$0" run --quiet --uid 1000 --rlimit nproc=7 -- "$@"'

inside private_shm "$(seen 6)" "$KPEMU" run --quiet "${limits[@]}" -- "$attach" shm look
inside private_shm_fork "$(seen 5)" "$KPEMU" run --quiet "${limits[@]}" -- \
	"$attach" shm fork look
inside private_shm_exec "$(seen 6)" "$KPEMU" run --quiet "${limits[@]}" -- \
	"$attach" shm exec look
inside private_shm_exec_fork_exec "$(seen 5)" "$KPEMU" run --quiet "${limits[@]}" -- \
	"$attach" shm exec fork exec look
inside private_shm_close_range_empty_environment "$(seen 6)" "$KPEMU" run --quiet \
	"${limits[@]}" -- "$attach" shm close-range execve-empty look

# A root directory with the program, what it is linked with, and no library of ours.
root=$TMPDIR/root
copy_in()
{
	local file
	for file; do
		mkdir -p "$root$(dirname "$file")"
		cp -L "$file" "$root$file"
	done
}
# shellcheck disable=SC2046 # one word a file
copy_in "$attach" $(ldd "$attach" | grep -oE '/[^ ]+')
mkdir -p "$root/proc"

inside chroot "$(seen 6)" sh -c "$in_chroot" "$KPEMU" "$root" "$attach" "chroot=$root" look
inside chroot_fork "$(seen 5)" sh -c "$in_chroot" "$KPEMU" "$root" "$attach" \
	"chroot=$root" fork look
inside chroot_exec "$(seen 6)" sh -c "$in_chroot" "$KPEMU" "$root" "$attach" \
	"chroot=$root" exec look
inside chroot_exec_exec "$(seen 6)" sh -c "$in_chroot" "$KPEMU" "$root" "$attach" \
	"chroot=$root" exec exec look
inside chroot_close_range_empty_environment "$(seen 6)" sh -c "$in_chroot" "$KPEMU" "$root" \
	"$attach" "chroot=$root" close-range execve-empty look
inside chroot_fork_exec_fork "$(seen 4)" sh -c "$in_chroot" "$KPEMU" "$root" "$attach" \
	"chroot=$root" fork exec fork look
inside chroot_without_proc "$(seen 6 -1)" sh -c "$no_proc" "$KPEMU" "$root" "$attach" \
	"chroot=$root" look
inside chroot_without_proc_fork "$(seen 5 -1)" sh -c "$no_proc" "$KPEMU" "$root" "$attach" \
	"chroot=$root" fork look

# Neither the library's path nor /proc leads to it there: the program runs, not entered, and the
# run says so. It is counted by its parent.
unentered='exec "$0" run --uid 1000 --rlimit nproc=7 -- "$@"'
if [ -n "$admin_why" ]; then
	skip chroot_exec_without_library "$admin_why"
else
	try ${admin[@]+"${admin[@]}"} sh -c "$unentered" "$KPEMU" "$attach" "chroot=$root" exec look
	is chroot_exec_without_library_runs 0 "$status"
	is chroot_exec_without_library_warned 1 "$(grep -c "without the library" <<<"$err")"
fi

# With the library at its path, /proc is not needed.
copy_in "$BUILD/libkpemu-preload.so"
inside chroot_exec_without_proc "$(seen 6 -1)" sh -c "$no_proc" "$KPEMU" "$root" "$attach" \
	"chroot=$root" exec look
inside chroot_close_range_exec_without_proc "$(seen 6 -1)" sh -c "$no_proc" "$KPEMU" "$root" \
	"$attach" "chroot=$root" close-range exec look
finish

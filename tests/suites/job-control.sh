#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Job control and traps of an interactive bash in a terminal, natively and emulated.
# test: timeout 300
set -u
cd "$TMPDIR" || exit 2
bad=0
if ! command -v tmux >/dev/null; then
	echo "skip job_control there is no tmux"
	exit 0
fi

# A server of our own: its sessions end with it.
server=kpemu-$$
export TMUX_TMPDIR=$TMPDIR
t() { tmux -L "$server" -f /dev/null "$@"; }
trap 't kill-server 2>/dev/null' EXIT

# Lines and keys that are typed; what must be on the screen within ten seconds.
line() { t send-keys -l -- "$1" && t send-keys Enter; }
key() { t send-keys "$1"; }
shows()
{
	local i
	for ((i = 0; i < 200; i++)); do
		if t capture-pane -p -S - | grep -qE "$2"; then
			echo "ok job_control/$label/$1"
			return
		fi
		sleep 0.05
	done
	echo "FAIL job_control/$label/$1: nothing like /$2/"
	t capture-pane -p -S - | sed -n 's/./    &/p'
	bad=1
}

# No typed line may look like what it is expected to print: hence the quotes inside words.
session()
{
	label=$1
	shift
	t new-session -d -x 100 -y 200 "$@"
	line "PS1='% '; set -b; echo rea''dy"
	shows starts '^ready'

	line 'sleep 1000'
	sleep 0.5
	key C-z
	shows stopped '^\[1\]\+ +Stopped +sleep 1000'
	line 'bg'
	shows background '^\[1\]\+ sleep 1000 &'
	line 'jobs -r'
	shows running '^\[1\]\+ +Running +sleep 1000 &'
	line 'fg'
	sleep 0.5
	key C-c
	line 'echo fore''ground=$?'
	shows interrupted '^foreground=130'

	line "trap 'echo tra''pped INT' INT; trap 'echo tra''pped USR1' USR1"
	line 'kill -USR1 $$; echo af''ter-usr1'
	shows trap_of_usr1 '^trapped USR1'
	shows goes_on '^after-usr1'
	sleep 0.2
	key C-c
	shows trap_of_int '^trapped INT'

	line "bash -c 'trap \"echo in''ner INT; exit 7\" INT; echo wait''ing; while :; do sleep 0.1; done'"
	shows inner_starts '^waiting'
	key C-c
	shows inner_trap 'inner INT$'
	line 'echo inner''-status=$?'
	shows inner_status '^inner-status=7'

	line 'sleep 1001 & sleep 1002 &'
	line 'kill -STOP %1; kill -TERM %2; wait %2; echo ter''med=$?'
	shows terminated '^termed=143'
	shows stopped_by_kill '^\[1\]\+ +Stopped +sleep 1001'
	line 'kill -CONT %1; kill -RTMIN+3 %1; wait %1; echo rt''min=$?'
	shows ended_by_real_time '^rtmin=165'

	line "trap 'echo child''ren' CHLD; (exit 3); trap - CHLD"
	shows trap_of_chld '^children'
	line "sleep 1003 | cat; echo pipe''line=\${PIPESTATUS[*]}"
	sleep 0.5
	key C-z
	shows pipeline_stopped '^\[[0-9]\]\+ +Stopped +sleep 1003 \| cat'
	line 'kill %%; fg; echo pipe''line-end'
	shows pipeline_ended '^pipeline-end'
	line 'exit'
	for ((i = 0; i < 100; i++)); do
		t has-session 2>/dev/null || break
		sleep 0.05
	done
	if t has-session 2>/dev/null; then
		echo "FAIL job_control/$label/ends: it is still there"
		bad=1
		t kill-server
	else
		echo "ok job_control/$label/ends"
	fi
}

shell=(bash --norc --noprofile -i)
session native "${shell[@]}"
session emulated "$BUILD/kpemu" run --quiet -- "${shell[@]}"
exit $bad

# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # the variables are for the tests that read this file
# What the whole-program tests share: verdicts, programs in a world, and their native counterparts.

set -u
BUILD=${BUILD:-build}
BUILD=$(realpath "$BUILD")
PYTHON=$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')
own_tmpdir=
if [ -z "${TMPDIR-}" ]; then
	TMPDIR=$(mktemp -d)
	own_tmpdir=$TMPDIR
	trap 'rm -rf "$own_tmpdir"' EXIT
fi
export BUILD PYTHON TMPDIR

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../exact.sh"
KPEMU=$BUILD/kpemu
tests=$BUILD/tests
me=$(id -u)
my_gid=$(id -g)
suite=$(basename "$0" .sh)
bad=0

# --- verdicts ---

one_line() { printf '%s' "$1" | head -c 2000 | awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }'; }

ok() { printf 'ok %s/%s\n' "$suite" "$1"; }
skip() { printf 'skip %s/%s %s\n' "$suite" "$1" "$2"; }
fail()
{
	bad=$((bad + 1))
	printf 'FAIL %s/%s: %s\n' "$suite" "$1" "$(one_line "$2")"
}

# is NAME WANT GOT
is()
{
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		fail "$1" "want '$2', got '$3'"
	fi
}

# like NAME REGEX GOT: the whole of GOT, which may have several lines
like()
{
	if [[ $3 =~ ^($2)$ ]]; then
		ok "$1"
	else
		fail "$1" "want /$2/, got '$3'"
	fi
}

# cases LABEL COMMAND...: a program that prints verdicts of its own. They are one of ours, unless
# some are bad.
cases()
{
	local label=$1 text status
	shift
	text=$("$@" 2>"$TMPDIR/cases.err" </dev/null)
	status=$?
	sed -nE "s,^(FAIL|skip) ,\1 $suite/$label/,p" <<<"$text"
	if grep -q '^FAIL ' <<<"$text"; then
		bad=$((bad + 1))
	elif [ $status != 0 ]; then
		fail "$label" "exit status $status: $(cat "$TMPDIR/cases.err")"
	elif grep -q '^ok ' <<<"$text"; then
		ok "$label"
	elif ! grep -q '^skip ' <<<"$text"; then
		fail "$label" "it tested nothing"
	fi
}

# The last line of a test script.
finish() { [ $bad = 0 ]; exit; }

# --- programs in a world ---

run() { "$KPEMU" run --quiet "$@"; }

# The exit status of a command in $status, its standard output in $out, its standard error in $err.
try()
{
	out=$("$@" 2>"$TMPDIR/try.err" </dev/null)
	status=$?
	err=$(<"$TMPDIR/try.err")
}

# start NAME OPTIONS... -- PROG...: in the background, in world NAME. What it writes goes to
# $TMPDIR/NAME.out and .err; its standard input ends with stop.
start()
{
	world=$1
	shift
	rm -f "$TMPDIR/$world."*
	mkfifo "$TMPDIR/$world.in"
	"$KPEMU" run --world "$world" "$@" <"$TMPDIR/$world.in" \
		>"$TMPDIR/$world.out" 2>"$TMPDIR/$world.err" &
	launcher=$!
	exec {hold}>"$TMPDIR/$world.in"
}

# said REGEX: wait, ten seconds at most, until the started program has written such a line; $line.
said()
{
	local i
	for ((i = 0; i < 500; i++)); do
		line=$(grep -m 1 -E "$1" "$TMPDIR/$world.out" 2>/dev/null) && return 0
		kill -0 "$launcher" 2>/dev/null || break
		sleep 0.02
	done
	line=$(grep -m 1 -E "$1" "$TMPDIR/$world.out") && return 0
	line="nothing like /$1/: $(cat "$TMPDIR/$world.out" "$TMPDIR/$world.err")"
	return 1
}

# stop: end its input and wait for it; $status.
stop()
{
	exec {hold}>&-
	wait "$launcher"
	status=$?
}

# until_true SECONDS COMMAND...: try again and again.
until_true()
{
	local end=$((${EPOCHREALTIME/./} + $1 * 1000000))
	shift
	until "$@"; do
		[ "${EPOCHREALTIME/./}" -lt $end ] || return 1
		sleep 0.02
	done
}

# of_json EXPRESSION <JSON: a Python expression of `w`.
of_json() { "$PYTHON" -c 'import json, sys; w = json.load(sys.stdin); print('"$1"')'; }

# stat_value EXPRESSION: of the started world, from outside.
stat_value() { "$KPEMU" stat --json --world "$world" | of_json "$1"; }

# use_of UID LIMIT: what record UID of the started world holds now.
use_of() { stat_value "([r['$2']['use'] for r in w['records'] if r['uid'] == $1] or [0])[0]"; }

# files of worlds of this user
worlds() { find /dev/shm -maxdepth 1 -name "kpemu.$me.*" 2>/dev/null | LC_ALL=C sort; }

# --- the same programs on the real kernel ---

# A uid of its own, because the kernel counts per uid. Only root can give it to a program.
native_uid=61234
native_why=
if [ "$me" != 0 ]; then
	native_why="another uid needs root"
elif ! setpriv --reuid=$native_uid --regid=$native_uid --clear-groups \
	test -x "$tests" 2>/dev/null; then
	native_why="uid $native_uid cannot reach $tests"
fi

# native LIMITS PROG...: with real limits, words as prlimit(1) spells them, as the private uid.
# native_root: the same as root. They end when all of their orphans have.
native()
{
	local limits=$1
	shift
	native_root "$limits" setpriv --reuid=$native_uid --regid=$native_uid --clear-groups "$@"
}
native_root()
{
	local limit options=()
	for limit in $1; do
		options+=("--$limit")
	done
	shift
	"$tests/reaper" prlimit "${options[@]}" "$@"
}

# --- mounts and chroot ---

# What makes the caller an administrator of mounts: nothing, or a user namespace of its own.
admin=()
admin_why=
[ "$me" = 0 ] || admin=(unshare -Ur)
if ! ${admin[@]+"${admin[@]}"} unshare -m mount -t tmpfs none /mnt 2>/dev/null; then
	admin_why="this host lets uid $me mount nothing, in a user namespace either"
fi

# private_shm: start the test again where nobody else's worlds are in /dev/shm. Root only: for others
# it would take another uid.
private_shm()
{
	[ "$me" = 0 ] && [ -z "$admin_why" ] && [ -z "${PRIVATE_SHM-}" ] || return 0
	[ -z "$own_tmpdir" ] || { rm -rf "$own_tmpdir"; unset TMPDIR; }
	PRIVATE_SHM=1 exec unshare -m sh -c 'mount -t tmpfs none /dev/shm && exec bash "$0"' "$0"
}

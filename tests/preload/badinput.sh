#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Whatever cannot be: one line on standard error, the right exit status, and nothing left behind.
# FUZZ_ROUNDS: how many damaged worlds are looked at.
# test: timeout 240
. "$(dirname "$0")/lib.sh"
private_shm

shm() { find /dev/shm -mindepth 1 -maxdepth 1 -user "$me" 2>/dev/null | LC_ALL=C sort; }

# refused NAME STATUS REGEX COMMAND...
refused()
{
	local name=$1 want=$2 regex=$3 before
	shift 3
	before=$(shm)
	try "$@"
	is "$name" "$want" "$status"
	if [[ $err =~ ^kpemu:\ [^$'\n']+$ && $err =~ $regex && -z $out ]]; then
		ok "$name/message"
	else
		fail "$name/message" "want one line with /$regex/, got '$err' and '$out'"
	fi
	[ "$(shm)" = "$before" ] || fail "$name/left" "$(comm -13 <(echo "$before") <(shm))"
}
run_refused()
{
	local name=$1 want=$2 regex=$3
	shift 3
	refused "$name" "$want" "$regex" "$KPEMU" run "$@"
}

# --- words ---

refused no_command 125 "which command.* run, stat, ps, check, gc, doctor" "$KPEMU"
refused unknown_command 125 "unknown command fly.* run, stat" "$KPEMU" fly
run_refused no_program 125 "which program"
run_refused no_program_after_dashes 125 "which program" --
run_refused unknown_option 125 "unknown option --fly" --fly -- true
run_refused unknown_letter 125 "unknown option -y" -y true
run_refused missing_argument 125 "uid.*needs an argument" --uid
run_refused argument_too_many 125 "quiet takes no argument" --quiet=1 true
for command in stat ps check gc doctor; do
	refused "$command/unknown_option" 125 "unknown option --fly" "$KPEMU" $command --fly
	refused "$command/operand" 125 "unexpected operand x" "$KPEMU" $command x
	try "$KPEMU" $command --help
	is "$command/help" "0 usage: kpemu $command" "$status $(head -n 1 <<<"$out" | cut -d' ' -f1-3)"
done
try "$KPEMU" run --help
is run/help 0 "$status"
try "$KPEMU" --version
like version "0 kpemu [0-9.]+" "$status $out"

# --- limits, ids, capabilities ---

names="as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, sigpending, stack"
run_refused unknown_limit 125 "--rlimit procs=1: unknown limit.*$names" --rlimit procs=1 true
run_refused no_limit_name 125 "unknown limit" --rlimit =1 true
run_refused upper_case_limit 125 "unknown limit" --rlimit NPROC=1 true
run_refused limit_without_value 125 "value is missing" --rlimit nproc true
for value in "" -1 +1 x 0x10 1k " 1" "1 " 1.5 18446744073709551615 18446744073709551616 \
	99999999999999999999999 1: :1 1:2:3 : Unlimited; do
	run_refused "limit_value_'$value'" 125 "--rlimit nproc=.* below 2.64 - 1.* 'unlimited'" \
		--rlimit "nproc=$value" true
done
run_refused soft_above_hard 125 "soft limit is above the hard one" --rlimit nproc=5:4 true
run_refused unlimited_above_hard 125 "soft limit is above the hard one" \
	--rlimit nproc=unlimited:4 true
for id in "" -1 x 4294967295 4294967296 1:2 root; do
	run_refused "uid_'$id'" 125 "--uid (needs an argument|$id: not a number from 0 to 4294967294)" --uid "$id" true
	run_refused "gid_'$id'" 125 "--gid (needs an argument|$id: not a number from 0 to 4294967294)" --gid "$id" true
done
for cap in "" x sys_resources 24 "sys_admin," ",sys_admin" "sys_admin,x" "sys_admin sys_resource" \
	a_name_that_is_longer_than_any_capability_has; do
	run_refused "cap_'$cap'" 125 "is no capability|needs an argument" --cap-drop "$cap" true
done
# What only the kernel can refuse. Root may raise limits where it has the capability.
if (ulimit -n 100; ulimit -n 200) 2>/dev/null; then
	skip real_limit_too_high "the caller may raise hard limits"
else
	run_refused real_limit_too_high 125 "kpemu: --rlimit nofile.*not permitted" --quiet \
		--rlimit nofile=1000000000 true
fi

# --- programs ---

run_refused program_missing 127 "kpemu-no-such-program: No such file" --quiet kpemu-no-such-program
run_refused program_path_missing 127 "No such file" --quiet /nowhere/at/all
run_refused program_below_a_file 126 "Not a directory" --quiet /bin/sh/x
run_refused program_empty 127 "No such file" --quiet ""
run_refused program_directory 126 "Permission denied" --quiet /tmp
echo 'echo hello' >"$TMPDIR/plain"
run_refused program_not_executable 126 "Permission denied" --quiet "$TMPDIR/plain"
printf '#!/nowhere/interpreter\n' >"$TMPDIR/orphaned"
chmod +x "$TMPDIR/plain" "$TMPDIR/orphaned"
run_refused interpreter_missing 127 "No such file|does not exist" --quiet "$TMPDIR/orphaned"
mkdir "$TMPDIR/path" && cp "$TMPDIR/plain" "$TMPDIR/path/kpt-plain" && chmod -x "$TMPDIR/path/kpt-plain"
PATH=$TMPDIR/path:$PATH run_refused program_in_path_not_executable 126 "Permission denied" \
	--quiet kpt-plain
try run "$TMPDIR/plain"
is script_without_interpreter_line "0 hello" "$status $out"
(
	unset PATH
	try "$KPEMU" run --quiet true
	is no_path 0 "$status"
	[ $bad = 0 ]
) || bad=1

# Not entered, but run: with one warning, or with --strict not at all.
uncovered()
{
	local name=$1 why=$2 want=$3
	shift 3
	try "$KPEMU" run --quiet --uid 1000 -- "$@"
	is "$name" "$want" "$status $out"
	like "$name/warned" "kpemu: $1.* $why.*cannot be entered, only counted" "$err"
	run_refused "$name/strict" 125 "$1.* $why.*cannot be entered" --quiet --strict -- "$@"
	try "$KPEMU" run --uid 1000 -- sh -c '"$@"; "$@"; exit 0' - "$@"
	is "$name/child_reported_once" 1 \
		"$(grep -c "^kpemu: 1 program could not be entered: ${1##*/} ($why), 2 times" <<<"$err")"
}
uncovered static "static" "42 static $me" "$tests/exec-static"
for mode in u+s g+s; do
	cp /bin/sleep "$TMPDIR/setid"
	chmod "$mode" "$TMPDIR/setid"
	uncovered "set_id_$mode" "set-.*privileged" "0 " "$TMPDIR/setid" 0
done
if [ "$me" = 0 ] && setcap=$(PATH=$PATH:/usr/sbin:/sbin command -v setcap) &&
	cp /bin/sleep "$TMPDIR/capable" && "$setcap" cap_net_raw+ep "$TMPDIR/capable" 2>/dev/null; then
	uncovered file_capabilities "set-.*privileged" "0 " "$TMPDIR/capable" 0
else
	skip file_capabilities "no file can be given capabilities here"
fi
# What a program that cannot be entered starts is entered again.
try "$KPEMU" run --quiet --uid 1000 --rlimit nproc=7 -- "$tests/exec-static" "$tests/attach" look
is static_in_between "0 nproc=7 uid=1000,1000,1000 status=1000 forks=6" "$status $out"

# --- kpemu itself ---

run_refused nested 125 "already inside .*world" --quiet -- "$KPEMU" run true
mkdir "$TMPDIR/alone" "$TMPDIR/a b"
cp "$KPEMU" "$TMPDIR/alone"
cp "$KPEMU" "$BUILD/libkpemu-preload.so" "$TMPDIR/a b"
refused library_missing 125 "preload library is neither beside" "$TMPDIR/alone/kpemu" run true
refused library_path_with_a_blank 125 "preload library has a blank" "$TMPDIR/a b/kpemu" run true
mkdir "$TMPDIR/bin" "$TMPDIR/lib"
cp "$KPEMU" "$TMPDIR/bin"
cp "$BUILD/libkpemu-preload.so" "$TMPDIR/lib"
is installed_beside "1000" "$("$TMPDIR/bin/kpemu" run --quiet --uid 1000 id -u)"
(ulimit -v 40000; run_refused no_address_space 125 "no world can be made" --quiet true
	[ $bad = 0 ]) || bad=1
if [ -w /dev/full ]; then
	for command in doctor --version; do
		"$KPEMU" $command >/dev/full 2>"$TMPDIR/err"
		is "full_output_of_$command" "125 kpemu: standard output: No space left on device" \
			"$? $(cat "$TMPDIR/err")"
	done
fi
"$KPEMU" run --quiet sh -c 'exit 5' <&- >&- 2>&-
is without_standard_files 5 $?

# --- worlds ---

refused stat/no_world 125 "there is no world of uid $me" "$KPEMU" stat
refused stat/missing_world 125 "world kpt-none does not exist" "$KPEMU" stat --world kpt-none
fifty=$(printf '%050d' 0)
for name in "" . .. .a a. a/b "a b" "a	b" ä "*" "${fifty:1}"; do
	run_refused "world_name_'$name'" 125 "not a name of a world|needs an argument" --world "$name" true
	refused "stat/world_name_'$name'" 125 "not a name of a world|needs an argument" "$KPEMU" stat --world "$name"
done
is longest_world_name 0 "$(run --world "${fifty:2}" true; echo $?)"

first=badinput-$$-a
start "$first" -- "$tests/attach" hold
said '^pid ' || fail start "$line"
run_refused world_in_use 125 "--world $first: that world exists, its launcher is process $launcher" \
	--quiet --world "$first" true
"$KPEMU" run --quiet --world "badinput-$$-b" -- sleep 60 &
second=$!
until_true 5 [ -e "/dev/shm/kpemu.$me.badinput-$$-b" ]
for command in stat ps check; do
	refused "$command/several_worlds" 125 "several worlds: $first, badinput-$$-b; .*--world" \
		"$KPEMU" $command
done
kill $second
wait $second 2>/dev/null
try "$KPEMU" stat
is stat/only_world 0 "$status"

# A file under another name than its own is no world of that name. It goes with gc, which leaves the
# living world alone.
world_file=/dev/shm/kpemu.$me.$first
copy=/dev/shm/kpemu.$me.badinput-$$-copy
cp --sparse=always "$world_file" "$copy"
refused copy/stat 125 "world badinput-$$-copy is not a world, or damaged" "$KPEMU" stat \
	--world "badinput-$$-copy"
try "$KPEMU" gc
is copy/gone "0 no" "$status $([ -e "$copy" ] && echo yes || echo no)"
is copy/original_lives 0 "$("$KPEMU" stat --world "$first" >/dev/null; echo $?)"

# Everybody in the world is killed, so that it is left. It is then damaged in many ways.
pid=$(sed -n 's/^pid //p' "$TMPDIR/$first.out")
kill -KILL "$launcher" "$pid"
stop 2>/dev/null
until_true 5 [ ! -e "/proc/$pid" ]
cp --sparse=always "$world_file" "$TMPDIR/world"
bad_world=$first
copy=$world_file
copy_world() { cp --sparse=always "$TMPDIR/world" "$copy"; }
damaged()
{
	local name=$1 regex=$2
	for command in stat ps check; do
		refused "$name/$command" 125 "world $bad_world $regex" "$KPEMU" $command \
			--world "$bad_world"
	done
	try "$KPEMU" gc
	is "$name/gc" "0 removed $copy: it $regex" "$status $out"
	is "$name/gone" no "$([ -e "$copy" ] && echo yes || echo no)"
	rm -f "$copy"
}
not_a_world="is not a world, or damaged"
# put OFFSET BYTES: into the header, which is the last page.
header=$(($(stat -c %s "$world_file") - 4096))
# shellcheck disable=SC2059 # the bytes are escapes
put() { printf "$2" | dd of="$copy" bs=1 seek="$((header + $1))" conv=notrunc status=none; }

: >"$copy"
damaged empty "$not_a_world"
copy_world; truncate -s 100 "$copy"
damaged truncated_to_nothing "$not_a_world"
copy_world; truncate -s -100 "$copy"
damaged truncated_in_the_header "$not_a_world"
copy_world; truncate -s -4096 "$copy"
damaged truncated_before_the_header "$not_a_world"
copy_world; truncate -s +4096 "$copy"
damaged longer "$not_a_world"
head -c 8192 /dev/urandom >"$copy"
damaged garbage "$not_a_world"
copy_world; put 0 '\0'
damaged without_magic "$not_a_world"
copy_world; put 8 '\77'
damaged another_abi "was made by another version of kpemu"
copy_world; put 12 '\1'
damaged another_header_size "$not_a_world"
copy_world; put 16 '\1\1\1'
damaged another_size "$not_a_world"
copy_world; put 56 '\1/../\0'
damaged name_with_slashes "$not_a_world"
copy_world; put 128 '\1'
damaged another_layout "$not_a_world"

# Undamaged it is a world whose people are gone.
copy_world
is left/check 0 "$("$KPEMU" check --world "$bad_world" >/dev/null; echo $?)"
is left/nobody_is_in_it 0 "$(world=$bad_world; stat_value "w['world']['tasks']")"
try "$KPEMU" gc
is left/gc "0 removed world $bad_world" "$status $out"

# Nothing of what is in it is believed: no command crashes or runs for ever.
"$PYTHON" - "$KPEMU" "$TMPDIR/world" "$copy" "$bad_world" "${FUZZ_ROUNDS:-10}" >"$TMPDIR/fuzz" <<'END'
import os, random, shutil, subprocess, sys
kpemu, world, copy, name, rounds = sys.argv[1:]
random.seed(1)
wrong = 0
for round in range(int(rounds)):
    subprocess.run(["cp", "--sparse=always", world, copy], check=True)
    fd = os.open(copy, os.O_RDWR)
    size, at, data = os.fstat(fd).st_size, 0, []
    while True:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        end = os.lseek(fd, at, os.SEEK_HOLE)
        data.append((at, end))
        at = end
    layout = size - 4096, size - 4096 + 600  # what is verified there stays as it is
    for _ in range(200):
        start, end = random.choice(data)
        where = random.randrange(start, min(end, start + random.choice((64, 4096, 1 << 20))))
        if layout[0] - 8 < where < layout[1]:
            continue
        os.pwrite(fd, random.choice((os.urandom(8), b"\xff" * 8, b"\0" * 8, b"\x02\x01\0\0\0\0\0\0")), where)
    os.close(fd)
    for command in (["stat", "--world", name], ["stat", "--json", "--world", name],
                    ["ps", "--world", name], ["ps", "-T", "--json", "--world", name],
                    ["check", "--world", name]):
        try:
            r = subprocess.run([kpemu, *command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, timeout=20)
            if r.returncode not in (0, 1, 125):
                wrong += 1
                print(round, command[0], "ended with", r.returncode)
        except subprocess.TimeoutExpired:
            wrong += 1
            print(round, command[0], "does not end")
    os.unlink(copy)
print("wrong", wrong)
END
is hostile_worlds "wrong 0" "$(tail -n 3 "$TMPDIR/fuzz" | paste -sd' ')"
rm -f "$copy"

# What is no file of ours.
ln -s "$TMPDIR/world" "$copy"
refused link/stat 125 "world $bad_world " "$KPEMU" stat --world "$bad_world"
rm "$copy"
mkfifo "$copy"
refused fifo/stat 125 "world $bad_world is not a regular file" "$KPEMU" stat --world "$bad_world"
refused fifo/run 125 "--world $bad_world: .* is not a regular file" "$KPEMU" run --quiet \
	--world "$bad_world" true
try "$KPEMU" gc
like fifo/gc "0 kpemu: $copy is not a regular file: left alone" "$status $err"
is fifo/left_alone yes "$([ -p "$copy" ] && echo yes)"
rm "$copy"
if [ "$me" = 0 ]; then
	copy_world
	chown 12345 "$copy"
	for command in stat ps check; do
		refused "foreign/$command" 125 "world $bad_world belongs to another user" \
			"$KPEMU" $command --world "$bad_world"
	done
	refused foreign/run 125 "belongs to another user" "$KPEMU" run --quiet \
		--world "$bad_world" true
	try "$KPEMU" gc
	like foreign/gc "0 kpemu: $copy belongs to another user: left alone" "$status $err"
	is foreign/left_alone yes "$([ -e "$copy" ] && echo yes)"
	rm "$copy"
else
	skip foreign "a file of another user needs root"
fi

# Leftover rubbish under the wanted name is no hindrance.
head -c 8192 /dev/urandom >"$copy"
is rubbish_makes_way 0 "$(run --world "$bad_world" true; echo $?)"
is rubbish_is_gone "" "$(worlds)"

# --- /dev/shm ---

# in_shm NAME OPTIONS SCRIPT: with a tmpfs of OPTIONS at /dev/shm; verdicts are lines of SCRIPT.
in_shm()
{
	if [ -n "$admin_why" ]; then
		skip "$1" "$admin_why"
		return
	fi
	try ${admin[@]+"${admin[@]}"} unshare -m sh -c "mount -t tmpfs -o $2 none /dev/shm && $3" \
		- "$KPEMU" "$PYTHON"
}
# shellcheck disable=SC2016 # for the inner shells
{
	in_shm full size=1m 'head -c 2m /dev/zero >/dev/shm/x 2>/dev/null
		"$1" run --quiet true; echo $?; ls /dev/shm'
	[ -n "$admin_why" ] || is full "125 x|kpemu: no world can be made: /dev/shm is full or too small, or ulimit -v is" \
		"$(paste -sd' ' <<<"$out")|$err"
	in_shm read_only ro '"$1" run --quiet true; echo $?'
	[ -n "$admin_why" ] || like read_only "125 kpemu: no world can be made.*" "$out $err"
	# Every size at which the world gets a little further: an error or a run, never a signal.
	in_shm sizes size=4k 'for k in 4 8 16 32 48 64 80 96 112 128 144 160 176 192 224 256 320 384 448 512; do
			mount -t tmpfs -o size=${k}k none /dev/shm
			"$1" run --quiet --uid 1000 sh -c "exit 3" 2>/dev/null; echo $?
			ls -A /dev/shm
		done'
	if [ -z "$admin_why" ]; then
		is too_small_or_enough "125 3 " "$(sort -u <<<"$out" | tr '\n' ' ')"
		is enough_in_the_end 3 "$(tail -n 1 <<<"$out")"
	fi
	# Full while programs run: what needs room is refused, and nothing dies of it.
	in_shm filled_while_running size=2m '"$1" run --quiet --uid 1000 --rlimit nproc=unlimited "$2" -c "
import os, errno
with open(\"/dev/shm/x\", \"wb\", 0) as f:
    try:
        while True:
            f.write(bytes(4096))
    except OSError:
        pass
pids = []
try:
    while len(pids) < 3000:
        pid = os.fork()
        if not pid:
            os.read(0, 1)
            os._exit(0)
        pids.append(pid)
except OSError as e:
    print(errno.errorcode[e.errno], len(pids) < 3000)
for pid in pids:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
os.unlink(\"/dev/shm/x\")
" ; echo $?; ls /dev/shm'
	[ -n "$admin_why" ] || is filled_while_running "EAGAIN True 0" "$(paste -sd' ' <<<"$out")"
	try ${admin[@]+"${admin[@]}"} unshare -m sh -c '
		mkdir "$1/dev" && : >"$1/dev/null" && mount --bind /dev/null "$1/dev/null" &&
		mount --rbind "$1/dev" /dev && "$2" run --quiet true; echo $?' - "$TMPDIR" "$KPEMU"
	if [ -n "$admin_why" ]; then
		skip missing "$admin_why"
	else
		is missing "125 kpemu: no world can be made: /dev/shm is missing" "$out $err"
	fi
}
finish

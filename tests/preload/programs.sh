#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Programs that nobody here wrote say in a world what they say without one.
# STRESS_SECONDS: how long stress-ng runs, each time.
# test: timeout 240
. "$(dirname "$0")/lib.sh"

# same NAME COMMAND...: output and exit status, natively, as oneself, and as an emulated user whose
# limits are high enough.
same()
{
	local name=$1 want got
	shift
	want=$("$@" 2>&1 </dev/null; echo "status $?")
	got=$(run -- "$@" 2>&1 </dev/null; echo "status $?")
	is "$name" "$want" "$got"
	got=$(run --uid 1000 --rlimit nproc=200 -- "$@" 2>&1 </dev/null; echo "status $?")
	is "$name/as_user" "$want" "$got"
}
cd "$TMPDIR" || exit
mkdir files
for i in 1 2 3 4 5 6 7 8 9; do
	seq "$i" 100 >"files/$i"
done

# shellcheck disable=SC2016 # for the inner shells
for shell in bash dash; do
	same "$shell/pipes" $shell -c 'seq 1000 | grep 7 | sort -r | head -n 3; echo $?'
	same "$shell/background_and_wait" $shell -c 'for i in 1 2 3 4 5 6 7 8; do
			(sleep 0.0$i; exit $i) & p="$p $!"; done
		for i in $p; do wait $i; echo $?; done'
	same "$shell/subshells" $shell -c '(echo a; (echo b; exit 3); echo $?; (kill -TERM $$ 2>/dev/null; exit 4)); echo $?' </dev/null
	same "$shell/substitution" $shell -c 'echo "$(echo $(echo $(echo deep)))" $(exit 5); echo $?'
	same "$shell/traps" $shell -c 'trap "echo exit trap" EXIT; trap "echo usr1" USR1; kill -USR1 $$; exit 6'
	same "$shell/killed_child" $shell -c '$0 -c "kill -TERM \$\$"; echo $?' $shell
	same "$shell/here_document" $shell -c 'cat <<END | tr a-z A-Z
some $((1 + 2)) text
END'
	same "$shell/deep_nesting" $shell -c 'f() { [ $1 -gt 0 ] && (f $(($1 - 1))) || echo bottom; }; f 20'
	same "$shell/exec" $shell -c 'exec env -i /bin/echo replaced'
	same "$shell/missing_program" $shell -c 'kpt-no-such-program 2>/dev/null; echo $?; /tmp 2>/dev/null; echo $?'
done
same bash/pipe_status bash -c 'false | true | (exit 3); echo "${PIPESTATUS[@]}"'
same bash/process_substitution bash -c 'diff <(seq 5) <(seq 6); echo $?; tee >(wc -l) <files/1 >/dev/null; wait; echo'
same bash/coprocess bash -c 'coproc cat; echo through >&"${COPROC[1]}"; read -r a <&"${COPROC[0]}"; echo $a; kill $COPROC_PID; wait $COPROC_PID; echo $?'
same bash/wait_n bash -c '(sleep 0.2; exit 2) & (exit 1) & wait -n; echo $?; wait -n; echo $?'
same bash/jobs bash -c 'sleep 60 & p=$!; sleep 61 & q=$!; jobs | cut -c1-20; kill $p $q; wait $p; echo $?; wait $q; echo $?'
same bash/foreground bash -mc 'set -m; (sleep 0.2; exit 4) & fg >/dev/null; echo $?' 2>/dev/null
same bash/disown bash -c 'setsid sh -c "sleep 0.1; echo late" & wait; echo done'

same python/subprocess "$PYTHON" -c '
import subprocess as s
print(s.run(["sh", "-c", "exit 7"]).returncode, s.run(["sh", "-c", "kill -9 $$"]).returncode)
print(s.check_output("echo shell; cat", shell=True, input=b"in\n"))
a = s.Popen(["seq", "5"], stdout=s.PIPE)
print(s.check_output(["tac"], stdin=a.stdout), a.wait())
print([p.wait() for p in [s.Popen(["sh", "-c", f"exit {i}"]) for i in range(10)]])
try:
    s.run(["sleep", "60"], timeout=0.2)
except s.TimeoutExpired:
    print("timeout")
print(s.run(["env"], env={"A": "1"}, stdout=s.PIPE, close_fds=True).stdout.count(b"A=1"))
print(s.run(["sh", "-c", "ps -o sid= -p $$ | wc -l"], start_new_session=True, stdout=s.PIPE).stdout)'
same python/multiprocessing "$PYTHON" -c '
import multiprocessing as m, os
def f(x): return x * x
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        with m.get_context(how).Pool(3) as pool:
            print(how, pool.map(abs, range(-5, 5)))
    q = m.Queue()
    p = m.Process(target=q.put, args=("through",))
    p.start(); print(q.get()); p.join(); print(p.exitcode)
    with m.Pool(2) as pool: print(pool.map(f, range(4)))'
same python/threads "$PYTHON" -c '
import threading, concurrent.futures as c
with c.ThreadPoolExecutor(8) as e: print(sum(e.map(lambda x: x + 1, range(100))))
with c.ProcessPoolExecutor(2) as e: print(list(e.map(abs, [-1, -2])))
t = [threading.Thread(target=lambda: None) for _ in range(50)]
[x.start() for x in t]; [x.join() for x in t]; print(threading.active_count())'
same python/low_level "$PYTHON" -c '
import os, pty, signal, sys
pid = os.fork()
if not pid: os._exit(3)
print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 4"], os.environ)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
pid, fd = pty.fork()
if not pid: os.execlp("sh", "sh", "-c", "tty >/dev/null; exit $?")
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(os.system("exit 5") >> 8, os.popen("echo popen").read(), os.spawnlp(os.P_WAIT, "true", "true"))
print(os.waitid(os.P_PID, os.posix_spawn("/bin/true", ["true"], {}), os.WEXITED).si_status)
try: os.wait()
except ChildProcessError: print("none left")'
same python/asyncio "$PYTHON" -c '
import asyncio
async def one(i):
    p = await asyncio.create_subprocess_exec("sh", "-c", f"exit {i}")
    return await p.wait()
async def main(): print(await asyncio.gather(*(one(i) for i in range(8))))
asyncio.run(main())'

if command -v perl >/dev/null; then
	same perl/fork perl -e '$| = 1; for my $i (1 .. 5) { my $p = fork; exit $i unless $p; push @p, $p }
		for (@p) { waitpid $_, 0; print $? >> 8, "\n" } print wait, "\n"'
	same perl/system perl -e 'print system("exit 3") >> 8, " ", system("true"), " ", `echo ticks`;
		open P, "-|", "seq 3"; print <P>; close P; open P, "|-", "cat"; print P "in\n"; close P;
		print $?, "\n"; exec "echo", "replaced"'
fi
same awk/pipes awk 'BEGIN { while (("seq 3" | getline x) > 0) print x; print system("exit 4");
	print "b\na" | "sort"; close("sort") }'
same find/exec find files -type f -exec basename {} \; -quit
same find/exec_each sh -c 'find files -type f -exec wc -l {} \; | sort'
same find/exec_all sh -c 'find files -type f -exec cat {} + | sort -n | tail -n 2'
same xargs/parallel sh -c 'seq 40 | xargs -P 4 -n 1 sh -c "exit \$((\$0 > 38))"; echo $?'
same xargs/parallel_output sh -c 'ls files | xargs -P 4 -I {} sh -c "head -n 1 files/{}" | sort'
same coreutils/timeout sh -c 'timeout 0.2 sleep 60; echo $?; timeout -s KILL 0.2 sleep 60; echo $?; nice -n 1 nohup true; echo $?; env -i A=1 sh -c "echo \$A"'
same coreutils/sort_parallel sh -c 'seq 50000 -1 1 | sort -n --parallel=4 -S 1M | sha256sum'
same coreutils/split sh -c 'seq 100 | split -l 30 --filter="wc -l"'
same tar/gzip sh -c 'tar czf - files | tar tzf - | sort'
same util_linux/flock flock files/1 -c 'echo locked'
same util_linux/setsid setsid -w sh -c 'exit 7'
same util_linux/setpriv setpriv --no-new-privs sh -c 'echo $0'
same procps/ps_of_itself sh -c 'ps -o comm=,nlwp=,stat= -p $$ | cut -c1-12'
same procps/pgrep sh -c 'sleep 77.7 & pgrep -P $$ -x sleep | wc -l; kill $!'
same ldd sh -c 'ldd /bin/sh | grep -c libc.so'

if command -v make >/dev/null; then
	{
		printf 'all: %s\n' "$(seq -s ' ' -f 't%g' 24)"
		printf 't%%:\n\t@sleep 0.01; echo $@ >made.$@; (exit 0)\n'
		printf 'bad:\n\t@exit 3\nsub:\n\t@$(MAKE) -s -f makefile all; ls made.* | wc -l\n'
	} >makefile
	same make/parallel make -s -j 8 -f makefile all
	is make/made 24 "$(find . -name 'made.*' | wc -l)"
	same make/jobserver env -u MAKEFLAGS make -s -j 4 -f makefile sub
	same make/failing sh -c 'make -s -f makefile bad; echo $?'
fi
if command -v "${CC:-cc}" >/dev/null; then
	printf '#include <stdio.h>\nint main(void) { return puts("compiled") < 0; }\n' >hello.c
	same compiler sh -c "${CC:-cc} -O2 -pipe -o hello hello.c && ./hello"
fi

# --- stress-ng ---

seconds=${STRESS_SECONDS:-2}
stress=(stress-ng --mq 2 --mlock 2 --fork 2 --clone 2 --vfork 2 --exec 2 --zombie 1
	-t "$seconds" --verify --temp-path "$TMPDIR")
# What it says: its exit status, how many lines of failures, how many stressors it left out.
stress_verdict()
{
	local status
	"$@" >"$TMPDIR/stress" 2>&1 </dev/null
	status=$?
	echo "status $status"
	grep -cE '^stress-ng: (fail|error):' "$TMPDIR/stress"
	grep -c 'skipping the stressor' "$TMPDIR/stress"
}
if command -v stress-ng >/dev/null; then
	want=$(stress_verdict "${stress[@]}")
	is stress_ng "$want" "$(stress_verdict run -- "${stress[@]}")"
	[ $bad = 0 ] || sed 's/^/  /' "$TMPDIR/stress"
	# Under limits that bite it goes on all the same.
	is stress_ng_at_limits 0 "$(run --uid 1000 --rlimit nproc=40 --rlimit msgqueue=100000 \
		--rlimit memlock=65536 -- "${stress[@]}" >"$TMPDIR/stress" 2>&1; echo $?)"
	[ $bad = 0 ] || sed 's/^/  /' "$TMPDIR/stress"
else
	skip stress_ng "there is no stress-ng"
fi
finish

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""names-coverage: prove that the interposition table knows every libc symbol whose system call
is emulated.

    names-coverage.py NAMES.DEF [LIBC]            judge the table
    names-coverage.py --list CALL[,CALL] [LIBC]   show who issues and who reaches a system call
    names-coverage.py --self-test [LIBC]          judge made-up tables with known faults

libc calls itself without its PLT, so wrapping execve() does not catch execv(): each public entry
must be wrapped on its own, or left alone for a stated reason.  This disassembles libc (x86-64),
finds which system calls every function issues and which functions it calls, and compares that
with the table:

    SYS(name, ...) FUN(name, ...) HAND(name) ALIAS(name, target)    wrapped
    LEFT(name, "reason")                                            deliberately not wrapped
    CALL(nr, ...)                                   a number that is emulated in syscall(3)

What is emulated is taken from the CALL lines.  How far a symbol is followed depends on the call:

    own    its own body; local helpers within two hops; a mere jump to an exported issuer
           (stat => fstatat)
    near   own, and direct callers of an exported issuer: their answer depends on the caller's
           emulated identity
    deep   everything that can get there (STOP ends the search)

The calls in DEEP and NEAR are judged that way, all others `own`: mmap, openat and the like are
issued inside half of libc through malloc, locale and stdio.  Calls through pointers (stdio tables,
ld.so) cannot be seen; INDIRECT names those that count.

One line per finding, then `N passed, N failed` (libc symbols); exit status 1 if there is a finding,
2 if the judgement could not be made.  In the paths shown, -> is a call, => a jump, ~> a function
whose address is taken, #> one in a table whose address is taken.
"""

import bisect
import collections
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile

DEEP = set("""
    clone clone3 fork vfork execve execveat wait4 waitid unshare setns chroot
    setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset
    prlimit64 getrlimit setrlimit
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    mlock mlock2 munlock mlockall munlockall""".split())

NEAR = set("""
    getuid geteuid getgid getegid getresuid getresgid getgroups capget getppid""".split())

# The deep search does not go on to the callers of these; they themselves are still judged.
STOP = {
    # failure paths, called from everywhere
    "abort", "__libc_fatal", "__assert_fail", "__assert", "__assert_perror_fail",
    "__stack_chk_fail", "__chk_fail",
    "__fortify_fail",
    # allocation
    "malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "aligned_alloc",
    "valloc", "pvalloc",
    # libc asks these for page size, processors and NOFILE, none of which is an emulated limit
    "sysconf", "getdtablesize",
    # start-up, before the program
    "__libc_early_init", "__libc_start_main",
}

# Reached through a pointer, or too deep for `own` although it does what its caller asks:
# symbol -> (system calls, how).
INDIRECT = {
    "pclose": ("wait4", "stdio table, _IO_proc_close"),
    "fclose": ("wait4", "of a popen stream: stdio table, _IO_proc_close"),
    "freopen": ("wait4 open openat", "opens the caller's path; of a popen stream: _IO_proc_close"),
    "freopen64": ("wait4 open openat", "as freopen"),
    "fopen": ("open openat", "opens the caller's path: _IO_file_open"),
    "fopen64": ("open openat", "opens the caller's path: _IO_file_open"),
    "opendir": ("open openat", "opens the caller's path"),
    "scandir": ("open openat", "opens the caller's path"),
    "scandir64": ("open openat", "opens the caller's path"),
    "sbrk": ("brk", "moves the break by the caller's increment"),
}

FRONT_SIZE = 64       # bytes; a longer function that ends in a jump to an issuer is no mere front
HELPER_HOPS = 2
OTHER_LIBS = ("ld-linux-x86-64.so", "libm.so", "libutil.so", "librt.so", "libpthread.so",
              "libdl.so", "libanl.so", "libresolv.so", "libcrypt.so", "libmvec.so",
              "libthread_db.so", "libnsl.so")
ARROW = {"call": "->", "jmp": "=>", "lea": "~>", "table": "#>"}


FORWARD = """
.text
.macro fn name, vis=local
\\vis \\name
.type \\name,@function
\\name: .cfi_startproc
.endm
.macro end name
.cfi_endproc
.size \\name,.-\\name
.endm
fn arch, .local
 mov %rsi,%rax
 syscall
 ret
end arch
fn inner, .local
 mov 8(%rsp),%rsi
 call arch
 ret
end inner
fn outer, .local
 sub $8,%rsp
 push 16(%rsp)
 call inner
 add $16,%rsp
 ret
end outer
fn by_reg, .globl
 mov $61,%esi
 call arch
 ret
end by_reg
fn by_stack, .globl
 push $257
 call inner
 pop %rax
 ret
end by_stack
fn twice, .globl
 mov $59,%eax
 push %rax
 call outer
 pop %rax
 ret
end twice
fn cold, .globl
 mov $240,%eax
 test %edi,%edi
 jne far
 ret
end cold
fn either, .globl
 mov $149,%edx
 test %edi,%edi
 je 1f
 mov $325,%edx
1: push %rbx
 mov %edx,%eax
 syscall
 pop %rbx
 ret
end either
fn far, .local
 syscall
 ret
end far
"""


class Failure(Exception):
    """The judgement cannot be made at all."""


def run(*argv, **kw):
    try:
        r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           universal_newlines=True, env=dict(os.environ, LC_ALL="C"), **kw)
    except OSError as e:
        raise Failure("%s: %s" % (argv[0], e.strerror))
    if r.returncode:
        raise Failure("%s: %s" % (argv[0], (r.stderr.strip().splitlines() or ["failed"])[-1]))
    return r.stdout


# ------------------------------------------------------------------------------------- the library

REG = {}
for _r in "abcd":
    for _n in ("r%sx", "e%sx", "%sx", "%sl", "%sh"):
        REG[_n % _r] = _r
for _r in ("si", "di", "bp", "sp"):
    for _n in ("r%s", "e%s", "%s", "%sl"):
        REG[_n % _r] = _r
for _k in range(8, 16):
    for _n in ("r%d", "r%dd", "r%dw", "r%db"):
        REG[_n % _k] = "r%d" % _k
VOLATILE = {"a", "c", "d", "si", "di", "r8", "r9", "r10", "r11"}
READ_ONLY = {"cmp", "test", "push", "bt", "nop", "ret", "prefetcht0"}
PREFIX = {"notrack", "lock", "bnd", "rep", "repz", "repnz", "data16", "cs", "ds"}
NO_FALL = {"jmp", "ret", "ud2", "hlt"}
SPLIT = re.compile(r"(?:[^,(]|\([^)]*\))+")
STACK_LOAD = re.compile(r"^mov (?:0x[0-9a-f]+)?\(%rsp\)")


class Library:
    """Functions of one shared object, the system calls each issues, and their call graph."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, "rb") as f:
                self.data = f.read()
        except OSError as e:
            raise Failure("%s: %s" % (path, e.strerror))
        if self.data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", self.data, 18)[0] != 62:
            raise Failure("%s: not an x86-64 ELF object" % path)
        self.read_sections()
        self.read_symbols()
        self.read_relocations()
        self.disassemble()
        self.find_functions()
        self.find_calls()
        self.find_edges()

    def read_sections(self):
        d = self.data
        off, = struct.unpack_from("<Q", d, 0x28)
        size, num, strndx = struct.unpack_from("<HHH", d, 0x3A)
        raw = [struct.unpack_from("<IIQQQQIIQQ", d, off + i * size) for i in range(num)]
        if not raw:
            raise Failure("%s: no section headers" % self.path)
        names = raw[strndx][4]
        self.sections = {}
        self.loaded = []                        # (address, size, file offset) with contents
        for s in raw:
            end = d.index(b"\0", names + s[0])
            self.sections[d[names + s[0]:end].decode()] = (s[3], s[5], s[4])
            if s[3] and s[1] != 8:
                self.loaded.append((s[3], s[5], s[4]))

    def word(self, addr):
        for start, size, off in self.loaded:
            if start <= addr < start + size:
                return struct.unpack_from("<Q", self.data, off + addr - start)[0]
        return None

    def read_symbols(self):
        self.at = collections.defaultdict(set)      # address -> names of functions
        self.addresses = collections.defaultdict(set)
        self.size = {}
        self.public = set()                         # names with a version that programs may use
        self.exported = set()                       # all names, data too
        for line in run("readelf", "--dyn-syms", "-W", self.path).splitlines():
            f = line.split()
            if len(f) < 8 or not f[0][:-1].isdigit() or f[6] == "UND":
                continue
            name, _, version = f[7].partition("@")
            self.exported.add(name)
            if f[3] not in ("FUNC", "IFUNC"):
                continue
            addr = int(f[1], 16)
            self.at[addr].add(name)
            self.addresses[name].add(addr)
            self.size[addr] = int(f[2], 0)
            if version.lstrip("@") != "GLIBC_PRIVATE":
                self.public.add(name)

    def read_relocations(self):
        self.got = {}                               # slot -> function it is bound to
        self.pointer = {}                           # data word -> address it holds
        for line in run("readelf", "-r", "-W", self.path).splitlines():
            f = line.split()
            if len(f) < 4 or not f[2].startswith("R_X86_64_"):
                continue
            kind = f[2][9:]
            if kind in ("GLOB_DAT", "JUMP_SLO", "JUMP_SLOT", "64") and len(f) > 4:
                self.got[int(f[0], 16)] = int(f[3], 16)
            elif kind.startswith(("IRELATIV", "RELATIVE")):
                self.got[int(f[0], 16)] = self.pointer[int(f[0], 16)] = int(f[3], 16)
        start, size, off = self.sections.get(".relr.dyn", (0, 0, 0))
        base = 0
        for k in range(0, size, 8):
            entry, = struct.unpack_from("<Q", self.data, off + k)
            if not entry & 1:
                self.pointer[entry] = self.word(entry)
                base = entry + 8
            else:
                for bit in range(63):
                    if entry >> (bit + 1) & 1:
                        self.pointer[base + 8 * bit] = self.word(base + 8 * bit)
                base += 63 * 8

    def disassemble(self):
        self.ins = []                               # (address, mnemonic, operands, target or None)
        self.index = {}
        for line in run("objdump", "-d", "--no-show-raw-insn", self.path).splitlines():
            if not line.startswith(" "):
                continue
            addr, sep, text = line.partition(":\t")
            if not sep:
                continue
            text, _, note = text.partition("#")
            part = text.split(None, 1)
            while len(part) > 1 and part[0] in PREFIX:
                part = part[1].split(None, 1)
            op = part[0] if part else ""
            if op in ("callq", "jmpq", "retq", "leaq", "pushq", "popq"):
                op = op[:-1]
            arg = part[1].strip() if len(part) > 1 else ""
            target = None
            if note and "(%rip)" in arg:
                target = int(note.split()[0], 16)
            elif (op == "call" or op[:1] == "j") and arg[:1].isalnum():
                target = int(arg.split()[0], 16)
            addr = int(addr, 16)
            self.index[addr] = len(self.ins)
            self.ins.append((addr, op, arg, target))
        if not self.ins:
            raise Failure("%s: objdump shows no code" % self.path)

    def frames(self):
        """Start addresses from .eh_frame, which also names the functions that have no symbol."""
        base, size, off = self.sections.get(".eh_frame", (0, 0, 0))
        d, p, end = self.data, off, off + size
        encoding = {}

        def skip_leb(p):
            while d[p] & 0x80:
                p += 1
            return p + 1

        while p < end:
            length, = struct.unpack_from("<I", d, p)
            if not length or length == 0xFFFFFFFF:
                p += 4
                continue
            q = p + 4
            cie, = struct.unpack_from("<I", d, q)
            if not cie:
                e = d.index(b"\0", q + 5)
                aug = d[q + 5:e].decode("latin-1")
                a = skip_leb(skip_leb(skip_leb(e + 1)))
                enc = 0
                if aug[:1] == "z":
                    a = skip_leb(a)
                    for c in aug[1:]:
                        if c == "R":
                            enc = d[a]
                            a += 1
                        elif c == "L":
                            a += 1
                        elif c == "P":
                            a += 1 + {0: 8, 2: 2, 3: 4, 4: 8}.get(d[a] & 7, 4)
                encoding[p] = enc
            elif encoding.get(q - cie) == 0x1B:     # pc-relative, signed 32 bits, as always
                start, = struct.unpack_from("<i", d, q + 4)
                yield base + (q + 4 - off) + start
            p = q + length

    def find_functions(self):
        plt = [self.sections[n] for n in (".plt", ".plt.got", ".plt.sec") if n in self.sections]
        self.stub = {}
        for addr, op, arg, target in self.ins:
            if op == "jmp" and arg[:1] == "*" and target in self.got and self.in_any(addr, plt):
                self.stub[addr] = self.got[target]
        self.plt = plt
        starts = {a for a in self.at if a in self.index}
        starts.update(a for a in self.frames() if a in self.index)
        for addr, op, arg, target in self.ins:
            if op == "call" and arg[:1] != "*" and target is not None:
                target = self.through(target)
                if target in self.index:
                    starts.add(target)
        self.starts = starts
        self.sorted_starts = sorted(starts)

    @staticmethod
    def in_any(addr, sections):
        return any(s <= addr < s + n for s, n, _ in sections)

    def through(self, target):
        for skip in (0, 4):                         # a stub may begin with endbr64
            if target + skip in self.stub:
                return self.stub[target + skip]
        return target

    def function(self, addr):
        i = bisect.bisect_right(self.sorted_starts, addr) - 1
        return self.sorted_starts[i] if i >= 0 else None

    # ------------------------------------------------------------- which number is in the register

    def values(self, at, reg):
        """What `reg` can hold just before instruction `at`: ints, ("entry", reg) or "?text"."""
        found, seen, work = set(), set(), [(at, reg)]
        while work:
            state = work.pop()
            if state in seen:
                continue
            seen.add(state)
            if len(seen) > 5000:
                found.add("?too far")
                break
            j, r = state
            addr = self.ins[j][0]
            before = list(self.jumps.get(addr, ()))
            if addr in self.starts:
                if not before or addr in self.called or addr in self.at:
                    found.add(("entry", r))
            elif j and self.ins[j - 1][1] not in NO_FALL:
                before.append(j - 1)
            for k in before:
                _, op, arg, _ = self.ins[k]
                if op[:1] == "j":
                    work.append((k, r))
                elif op == "call":
                    if r in VOLATILE:
                        found.add("?call")
                    else:
                        work.append((k, r))
                elif op == "syscall":
                    if r in ("a", "c", "r11"):
                        found.add("?syscall")
                    else:
                        work.append((k, r))
                else:
                    part = SPLIT.findall(arg)
                    dst = part[-1].strip() if part else ""
                    if dst[:1] != "%" or REG.get(dst[1:]) != r or op in READ_ONLY:
                        work.append((k, r))
                        continue
                    src = part[0].strip() if len(part) > 1 else ""
                    if op[:3] == "mov" and src[:1] == "$":
                        found.add(int(src[1:], 16) & 0xFFFFFFFF)
                    elif op in ("mov", "movslq", "movl", "movq") and src[1:] in REG:
                        work.append((k, REG[src[1:]]))
                    elif op[:4] == "cmov" and src[1:] in REG:
                        work += [(k, REG[src[1:]]), (k, r)]
                    elif op in ("xor", "sub") and src == dst:
                        found.add(0)
                    else:
                        found.add("?%s %s" % (op, arg))
        return found

    def find_calls(self):
        """Fill self.issues: function -> numbers.

        A function that takes the number as an argument leaves the question to its callers."""
        self.jumps = collections.defaultdict(list)
        self.called = set()
        sites = collections.defaultdict(list)       # callee -> instruction numbers
        for i, (addr, op, arg, target) in enumerate(self.ins):
            if target is None or arg[:1] == "*":
                continue
            if op[:1] == "j":
                self.jumps[target].append(i)
                if target in self.starts:
                    sites[target].append(i)
            elif op == "call":
                target = self.through(target)
                self.called.add(target)
                sites[target].append(i)
        self.issues = collections.defaultdict(set)
        self.unresolved = []
        forward, work = set(), []

        def note(i, found):
            f = self.function(self.ins[i][0])
            for v in found:
                if isinstance(v, int):
                    self.issues[f].add(v)
                    continue
                how = v[1] if v[0] == "entry" else "stack" if STACK_LOAD.match(v[1:]) else None
                if how is None or self.at.get(f, set()) & self.public:
                    self.unresolved.append((self.ins[i][0], f, v))
                elif (f, how) not in forward:
                    forward.add((f, how))
                    work.append((f, how))

        for i, (addr, op, arg, target) in enumerate(self.ins):
            if op == "syscall":
                note(i, self.values(i, "a"))
        while work:
            f, how = work.pop()
            for i in sites[f]:
                note(i, self.values(i, how) if how != "stack" else self.pushed(i))

    def pushed(self, i):
        """The number passed on the stack at a call: the last word pushed or stored there."""
        for k in range(i - 1, max(i - 24, 0), -1):
            addr, op, arg, _ = self.ins[k]
            if op == "call" or self.ins[k + 1][0] in self.starts:
                break
            if op == "push":
                src = arg
            elif op[:3] == "mov" and arg.endswith(",(%rsp)"):
                src = arg[:-7]
            else:
                continue
            if src[:1] == "$":
                return {int(src[1:], 16) & 0xFFFFFFFF}
            if src[1:] in REG:
                return self.values(k, REG[src[1:]])
            return {"?mov " + src}
        return set()

    def find_edges(self):
        self.edges = collections.defaultdict(dict)  # function -> {callee: how}
        for addr, op, arg, target in self.ins:
            if target is None or self.in_any(addr, self.plt):
                continue
            if op == "call" or op[:1] == "j":
                if arg[:1] == "*":
                    target = self.got.get(target)
                    if not target:
                        continue
                to = [(self.function(self.through(target)), "call" if op == "call" else "jmp")]
            elif op == "lea" and target in self.starts:
                to = [(target, "lea")]
            elif op == "lea" and target in self.pointer:
                to = []
                while target in self.pointer and len(to) < 24:
                    if self.pointer[target] in self.starts:
                        to.append((self.pointer[target], "table"))
                    target += 8
            else:
                continue
            f = self.function(addr)
            for g, how in to:
                if g is not None and g != f:
                    self.edges[f].setdefault(g, how)
        self.callers = collections.defaultdict(list)
        for f, to in self.edges.items():
            for g, how in to.items():
                self.callers[g].append((f, how))

    # ---------------------------------------------------------------------------- who reaches what

    def label(self, f):
        names = self.at.get(f)
        if not names:
            return "local_%x" % f
        return min(names, key=lambda n: (n not in self.public, n[:1] == "_", n))

    def reach(self, number, depth):
        """{function: (next function or None, how)} of all that get to system call `number`.

        `depth` is own, near or deep; see the top."""
        issuers = [f for f, numbers in self.issues.items() if number in numbers]
        via = {f: (None, "") for f in issuers}
        stops = {a for n in STOP for a in self.addresses.get(n, ())} if depth == "deep" else set()
        hops = {f: 0 for f in issuers}
        work = collections.deque(issuers)
        while work:
            g = work.popleft()
            if g in stops:
                continue
            for f, how in self.callers[g]:
                if f in via:
                    continue
                if depth != "deep":
                    if how not in ("call", "jmp"):
                        continue
                    if g in self.at:
                        front = how == "jmp" and f in self.at and self.size.get(f, 0) <= FRONT_SIZE
                        near = depth == "near" and f in self.at and hops[g] == 0
                        if not front and not near:
                            continue
                    elif hops[g] >= HELPER_HOPS:
                        continue
                via[f] = (g, how)
                hops[f] = hops[g] + 1
                work.append(f)
        return via

    def path_of(self, f, via):
        text = self.label(f)
        while via[f][0] is not None:
            f, how = via[f]
            text += " %s %s" % (ARROW[how], self.label(f))
        return text


def compiler():
    return os.environ.get("CC", "cc").split() or ["cc"]


def numbers():
    """System call name -> number, from the headers that the wrappers are compiled against."""
    cc = compiler()
    table = {}
    for line in run(*(cc + ["-E", "-dM", "-"]), input="#include <asm/unistd.h>\n").splitlines():
        f = line.split()
        if len(f) == 3 and f[1].startswith("__NR_") and f[2].isdigit():
            table[f[1][5:]] = int(f[2])
    if "clone" not in table:
        raise Failure("%s: <asm/unistd.h> names no system calls" % cc[0])
    return table


def find_libc():
    try:
        with open("/proc/self/maps") as f:
            for line in f:
                path = line.split(None, 5)[-1].strip()
                if re.search(r"/libc(\.so\.6|-2\.\d+\.so)$", path):
                    return path
    except OSError:
        pass
    for argv in (["gcc", "-print-file-name=libc.so.6"], ["ldconfig", "-p"],
                 ["/sbin/ldconfig", "-p"]):
        try:
            for word in run(*argv).split():
                if word.endswith("/libc.so.6") and os.path.exists(word):
                    return word
        except Failure:
            pass
    raise Failure("libc.so.6 not found; name it on the command line")


# --------------------------------------------------------------------------------------- the table

WRAPS = ("SYS", "FUN", "HAND", "ALIAS")
KINDS = WRAPS + ("LEFT", "CALL")
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*',
                   re.S | re.M)


class Table:
    def __init__(self, text):
        self.wrapped, self.left, self.calls = {}, {}, {}       # name -> line
        self.targets = []
        self.faults = []
        strings = []

        def blank(m):
            t = m.group()
            if t[0] == '"':
                strings.append(t[1:-1])
                return '"%d"' % (len(strings) - 1) + "\n" * t.count("\n")
            return " " + "\n" * t.count("\n")

        text = TOKEN.sub(blank, text)
        for line, kind, arg in self.entries(text):
            name = arg[0]
            if kind not in KINDS:
                self.fault(name or kind, "line %d: unknown kind of line %s()", line, kind)
                continue
            if not re.match(r"[A-Za-z_]\w*$", name):
                self.fault(name or kind, "line %d: no name in %s()", line, kind)
                continue
            into = self.left if kind == "LEFT" else self.calls if kind == "CALL" else self.wrapped
            if name in into:
                self.fault(name, "line %d: %s again; first on line %d", line, kind, into[name])
            else:
                into[name] = line
            if kind == "LEFT":
                reason = "".join(strings[int(n)] for n in re.findall(r'"(\d+)"', ",".join(arg[1:])))
                if not reason.strip():
                    self.fault(name, "line %d: LEFT without a reason", line)
            elif kind == "ALIAS":
                self.targets.append((name, arg[1] if len(arg) > 1 else "", line))
        for name in sorted(set(self.wrapped) & set(self.left)):
            self.fault(name, "both wrapped (line %d) and LEFT (line %d)",
                       self.wrapped[name], self.left[name])
        for name, target, line in self.targets:
            if target not in self.wrapped:
                self.fault(name, "line %d: ALIAS of %s, which is not wrapped",
                           line, target or "nothing")

    def fault(self, name, text, *args):
        self.faults.append((name, text % args))

    def entries(self, text):
        """(line, macro, [arguments]) of every macro call at the outermost level."""
        pos, line, counted = 0, 1, 0
        for m in iter(lambda: re.compile(r"([A-Za-z_]\w*)\s*\(").search(text, pos), None):
            line += text.count("\n", counted, m.start())
            counted = m.start()
            stray = text[pos:m.start()].replace(";", " ").split()
            if stray:
                self.fault(stray[0], "line %d: stray text before %s()", line, m.group(1))
            depth, arg, pos = 1, [""], m.end()
            while depth and pos < len(text):
                c = text[pos]
                pos += 1
                depth += (c == "(") - (c == ")")
                if c == "," and depth == 1:
                    arg.append("")
                elif depth:
                    arg[-1] += c
            if depth:
                self.fault(arg[0].strip() or m.group(1), "line %d: %s( is not closed",
                           line, m.group(1))
            yield line, m.group(1), [a.strip() for a in arg]
        if text[pos:].replace(";", " ").split():
            self.fault(text[pos:].split()[0], "stray text after the last line")

    def __contains__(self, name):
        return name in self.wrapped or name in self.left


def depth_of(call):
    return "deep" if call in DEEP else "near" if call in NEAR else "own"


def needed(lib, calls, nr):
    """{public name: [why, ...]} for the emulated `calls`."""
    why = collections.defaultdict(list)
    for call in sorted(calls):
        if call not in nr:
            continue
        via = lib.reach(nr[call], depth_of(call))
        reached = {}
        for f in via:
            for name in lib.at.get(f, ()):
                if name in lib.public and (name not in reached or via[f][0] is None):
                    reached[name] = lib.path_of(f, via) if via[f][0] is not None else ""
        for name, (which, how) in INDIRECT.items():
            if call in which.split():
                for addr in lib.addresses.get(name, ()):
                    for alias in lib.at[addr]:
                        if alias in lib.public:
                            reached.setdefault(alias, how)
        for name, path in reached.items():
            why[name].append((call, path))
    if calls and "syscall" in lib.public:
        why["syscall"].append(("any call by number", ""))
    return why


def other_library(lib, name):
    here = os.path.dirname(os.path.realpath(lib.path))
    for path in sorted(glob.glob(here + "/*.so.*")):
        base = os.path.basename(path)
        if base.startswith(OTHER_LIBS):
            try:
                out = run("nm", "-D", "--defined-only", path)
            except Failure:
                continue
            if re.search(r" \w %s(@|$)" % re.escape(name), out, re.M):
                return base
    return None


def judge(table, lib, nr):
    """(number of symbols judged, [(symbol, finding), ...], [note, ...])"""
    findings, notes = list(table.faults), []
    for call in table.calls:
        if call not in nr:
            findings.append((call, "line %d: CALL of a name that <asm/unistd.h> does not know"
                             % table.calls[call]))
    why = needed(lib, table.calls, nr)
    judged = set(why)
    for name in sorted(why):
        if name not in table:
            calls = ", ".join(c for c, _ in why[name])
            path = min((p for _, p in why[name]), key=len)
            findings.append((name, "%s %s%s: neither wrapped nor LEFT" %
                             ("reaches" if path else "issues", calls, path and " (%s)" % path)))
    if table.calls and "syscall" in table.left:
        findings.append(("syscall", "is LEFT although CALL lines rely on it"))
    for name in sorted(set(table.wrapped) | set(table.left)):
        judged.add(name)
        if name not in lib.exported:
            where = other_library(lib, name)
            if where:
                notes.append("%s is not in libc but in %s" % (name, where))
            else:
                line = table.wrapped.get(name) or table.left.get(name)
                findings.append((name, "line %d: libc does not export this name" % line))
    reported = {n for n, _ in findings}
    for name in sorted(table.wrapped):
        for addr in lib.addresses.get(name, ()):
            for alias in sorted(lib.at[addr] - {name}):
                judged.add(alias)
                if alias not in table and alias not in reported:
                    reported.add(alias)
                    findings.append((alias, "is the same function as %s, which is wrapped: add it"
                                     % name))
    judged.update(n for n, _ in findings)
    return len(judged), findings, notes


def report(judged, findings, notes, out=sys.stdout):
    for note in notes:
        print("note: " + note, file=out)
    for name, text in findings:
        print("FAIL %s: %s" % (name, text), file=out)
    failed = len({n for n, _ in findings})
    print("%d passed, %d failed" % (judged - failed, failed), file=out)
    return 1 if findings else 0


# ------------------------------------------------------------------------------------- self-checks

def self_test(lib, nr):
    """Each check: a made-up table and what must be found in it."""
    calls = DEEP | NEAR | set("mmap munmap mremap brk open openat stat newfstatat statx".split())
    calls = sorted(calls & set(nr))
    base = {n: 'SYS(%s, int, void)' % n for n in needed(lib, calls, nr)}
    for n in list(base):
        for addr in lib.addresses[n]:
            for alias in lib.at[addr]:
                base.setdefault(alias, "ALIAS(%s, %s)" % (alias, n))
    base["sigaction"] = ("SYS(sigaction, int, (int sig, void (*handler)(int),\n"
                         "    void *(old)), (sig, handler, old))")
    base["__sigaction"] = "ALIAS(__sigaction, sigaction) ALIAS(waitpid, wait4);"
    base.pop("waitpid")
    base["getpid"] = 'LEFT(getpid, "real (always)") /* not FUN(this, ...) */'
    head = "// made up\n#ifndef SYS\n# define SYS(name, \\\n ...)\n#endif\n"

    def text(lines, *more):
        body = [lines[n] for n in sorted(lines)] + ["CALL(%s, x)" % c for c in calls] + list(more)
        return head + "\n".join(body) + "\n"

    def without(*names):
        return {n: l for n, l in base.items() if n not in names}

    checks = []

    def check(title, good):
        checks.append((title, good))
        print("%s %s" % ("ok  " if good else "FAIL", title))

    def expect(title, source, *want):
        _, findings, _ = judge(Table(source), lib, nr)
        got = sorted(n for n, _ in findings)
        good = got == sorted(want)
        check(title + ("" if good else ": found %s" % (got[:8] or "nothing")), good)

    def issues(name, *which):
        return all(any(nr[c] in lib.issues.get(a, ()) for a in lib.addresses[name]) for c in which)

    def reaches(name, call, depth="deep"):
        via = lib.reach(nr[call], depth)
        return any(a in via for a in lib.addresses[name])

    # the analysis, against what is known of every glibc
    for pair in """mq_open mq_open; mlock mlock; setresuid setresuid; seteuid setresuid;
            execve execve; getuid getuid; munmap munmap; chroot chroot; wait4 wait4""".split(";"):
        name, call = pair.split()
        check("%s() issues %s" % (name, call), issues(name, call))
    for pair in """system clone; system execve; popen wait4; execlp execve; fork clone;
            daemon clone; posix_spawnp clone; pthread_create clone; wordexp execve;
            initgroups setgroups; ulimit prlimit64; sysconf prlimit64; mq_notify clone;
            timer_create clone; aio_read clone; waitpid wait4;
            mq_getattr mq_getsetattr""".split(";"):
        name, call = pair.split()
        check("%s() reaches %s" % (name, call), reaches(name, call))
    for pair in """strlen clone; printf clone; malloc clone; qsort prlimit64; fopen execve;
            getenv wait4; setlocale setresuid; abort clone""".split(";"):
        name, call = pair.split()
        check("%s() does not reach %s" % (name, call), not reaches(name, call))
    check("fopen() is no direct issuer of openat", not reaches("fopen", "openat", "own"))
    check("malloc() is no direct issuer of mmap", not reaches("malloc", "mmap", "own"))
    check("only syscall() and the all-threads set*id have numbers that stay unknown",
          all("syscall" in lib.at.get(f, ()) or f not in lib.at for _, f, _ in lib.unresolved))

    # numbers handed on as arguments, as glibc does since 2.41: __syscall_cancel(a1..a6, nr)
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/t.s", "w") as f:
            f.write(FORWARD)
        run(*compiler(), "-shared", "-nostdlib", "-o", d + "/t.so", d + "/t.s")
        other = Library(d + "/t.so")
        got = {n: [c for c in (59, 61, 149, 240, 257, 325) if min(a) in other.reach(c, "own")]
               for n, a in other.addresses.items()}
        check("numbers handed on in a register, on the stack and twice; helpers: %s" % got,
              got == {"by_reg": [61], "by_stack": [257], "twice": [59], "cold": [240],
                      "either": [149, 325]})

    # the tables
    judged, findings, _ = judge(Table(text(base)), lib, nr)
    expect("a complete table", text(base))
    check("a complete table judges over 100 symbols (%d)" % judged, judged > 100)
    for name in ("mq_open", "execvp", "fork", "setegid", "wordexp", "stat", "pclose", "eaccess",
                 "sbrk", "syscall"):
        if name in base:
            lines = without(name)
            orphans = [n for n, l in lines.items() if l == "ALIAS(%s, %s)" % (n, name)]
            expect("missing name: %s" % name, text(lines), name, *orphans)
    expect("LEFT covers as well",
           text(without("wordexp"), 'LEFT(wordexp, "runs sh; its children\n are (not) counted")'))
    expect("LEFT without a reason", text(without("wordexp"), 'LEFT(wordexp, "")'), "wordexp")
    expect("a typo is a name that libc lacks",
           text(without("execvp"), "FUN(exevcp, int)"), "execvp", "exevcp")
    expect("a duplicate", text(base, "SYS(mq_open, int)"), "mq_open")
    expect("a duplicate of another kind", text(base, "HAND(mq_open)"), "mq_open")
    expect("a duplicate CALL", text(base, "CALL(mq_open, x)"), "mq_open")
    expect("wrapped and LEFT", text(base, 'LEFT(mq_open, "no")'), "mq_open")
    expect("an unclosed line", text(base, "SYS(nice, int"), "nice")
    expect("stray text", text(base, "nice SYS(nice, int)"), "nice")
    expect("an unknown kind of line", text(base, "SYZ(mq_open, int)"), "mq_open")
    expect("an unknown system call", text(base, "CALL(mq_opne, x)"), "mq_opne")
    expect("ALIAS of nothing wrapped", text(base, "ALIAS(getpgrp, getpgid)"), "getpgrp")
    expect("syscall() LEFT", text(without("syscall"), 'LEFT(syscall, "no")'), "syscall")
    expect("a commented-out line does not count",
           text(without("wordexp"), "/* SYS(wordexp, int) */", "// SYS(wordexp, int)"), "wordexp")
    expect("aliases at one address", head + "SYS(vfork, int, void)\n", "__vfork")
    expect("a table without CALL asks for nothing", head + "SYS(getppid, int, void)\n")
    if other_library(lib, "sqrt"):
        j, f, n = judge(Table(text(base, "FUN(sqrt, double)")), lib, nr)
        check("a name of another library is a note", not f and len(n) == 1 and "libm" in n[0])
    failed = sum(not good for _, good in checks)
    print("%d passed, %d failed" % (len(checks) - failed, failed))
    return 1 if failed else 0


def listing(lib, nr, calls):
    for call in calls:
        if call not in nr:
            raise Failure("%s: no such system call" % call)
        depth = depth_of(call)
        via = lib.reach(nr[call], depth)
        print("%s (%s)" % (call, depth))
        for f in sorted(via, key=lambda f: (via[f][0] is not None, lib.label(f))):
            if f in lib.at:
                path = lib.path_of(f, via).partition(" ")[2]
                print("  %-7s %s%s" % ("" if lib.at[f] & lib.public else "private",
                                       "/".join(sorted(lib.at[f])), path and "  " + path))


def main(argv):
    usage = ("usage: names-coverage.py NAMES.DEF [LIBC] | --list CALL[,CALL...] [LIBC] | "
             "--self-test [LIBC]")
    if "-h" in argv or "--help" in argv:
        print(__doc__.strip())
        return 0
    mode = argv.pop(0) if argv and argv[0] in ("--self-test", "--list") else None
    least, most = (0, 1) if mode == "--self-test" else (1, 2)
    if not least <= len(argv) <= most or any(a.startswith("-") for a in argv):
        print(usage, file=sys.stderr)
        return 2
    try:
        what = argv.pop(0) if mode != "--self-test" else None
        table = None
        if mode is None:
            try:
                with open(what, encoding="utf-8") as f:
                    table = Table(f.read())
            except (OSError, UnicodeDecodeError) as e:
                raise Failure("%s: %s" % (what, getattr(e, "strerror", None) or "not text"))
            if not table.wrapped or not table.calls:
                raise Failure("%s: no %s lines: not the interposition table"
                              % (what, "CALL" if table.wrapped else "SYS or FUN"))
        lib, nr = Library(argv[0] if argv else find_libc()), numbers()
        if mode == "--self-test":
            return self_test(lib, nr)
        if mode == "--list":
            listing(lib, nr, what.split(","))
            return 0
        return report(*judge(table, lib, nr))
    except Failure as e:
        print("names-coverage: %s" % e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

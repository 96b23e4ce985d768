#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The dependency direction, in what sources include and in what objects call:
#   - an #include may only go down the layers;
#   - an installed header includes installed headers only;
#   - nothing inside the preload library calls a name that the library itself exports, because
#     such a call would come back in through the wrapper;
#   - the library exports the names of preload/names.def and nothing else, and needs only libc.
# The last two look at what is in $BUILD, as far as it has been built. Offenders are printed as
# FILE: WHAT.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 2
build=${BUILD:-build}
nm=${NM:-nm}
objdump=${OBJDUMP:-objdump}

# What the files of a directory may include, as patterns of paths below the top. System headers
# are free.
layers='
include/kpemu/            ^include/kpemu/
include/kpemu/(world|libc)\.h ^include/kpemu/(atomic|libc)\.h
emu/lib/                  ^(emu/lib/|include/kpemu/(atomic|rseq|split_counter|percpu[a-z_]*)\.h)
emu/world/                ^(emu/(lib|world)/|include/kpemu/(atomic|world|libc)\.h)
emu/(kernel|ipc|mm|fs)/   ^(emu/(lib|world|kernel|ipc|mm|fs)|include/kpemu)/
emu/sim/                  ^(emu/(lib|world|kernel|ipc|mm|fs|sim)|include/kpemu)/
emu/cmd/                  ^(emu|include/kpemu)/
preload/                  ^(preload|emu/(lib|world|kernel|ipc|mm|fs)|include/kpemu)/
'

sources()
{
	find include/kpemu emu preload -name '*.[chS]' -o -name '*.def' | sort
}

check_includes()
{
	awk '
	# a/b/../c and a/./c are a/c
	function clean(path) {
		while (sub(/\/\.\//, "/", path) || sub(/[^\/]+\/\.\.\//, "", path)) ;
		return path
	}
	# The path below the top of what FILE includes, or nothing for a system header.
	function resolve(file, name, quoted,   path) {
		path = file
		sub(/[^\/]*$/, "", path)
		path = clean(path name)
		if (quoted && path in source)
			return path
		if (name ~ /^(emu|preload|demo|tests)\//)
			return clean(name)
		return name ~ /^kpemu\// || ("include/" name) in source ? clean("include/" name) : ""
	}
	FILENAME == ARGV[1] { if (NF) { where[++n] = "^" $1; what[n] = $2 } next }
	FILENAME == ARGV[2] { source[$0]; next }
	{
		file = $0; sub(/:.*/, "", file)
		name = substr($0, length(file) + 2)
		quoted = name ~ /"/
		sub(/^[^<"]*[<"]/, "", name); sub(/[>"].*/, "", name)
		path = resolve(file, name, quoted)
		for (i = 1; path != "" && i <= n; i++)
			if (file ~ where[i] && path !~ what[i])
				print file ": " path
	}' <(echo "$layers") <(sources) <(sources |
		xargs -r grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]')
}

# The names that the preload library exports, one a line, sorted.
table_names()
{
	sed -nE 's/^(SYS|FUN|HAND|ALIAS)\([[:space:]]*([A-Za-z0-9_]+)[[:space:]]*[,)].*/\2/p' \
		preload/names.def 2>/dev/null | sort -u
}

check_objects()
{
	# aliases.o is nothing but jumps from one exported name to another
	find "$1"/emu/{lib,world,kernel,ipc,mm,fs} "$1/preload" -name '*.o' \
		! -path '*/preload/aliases.o' 2>/dev/null | sort |
		xargs -r "$nm" -A -u | awk '
		FILENAME == ARGV[1] { exported[$1]; next }
		{ symbol = $NF; sub(/@.*/, "", symbol) }
		symbol in exported { file = $1; sub(/:$/, "", file); print file ": " symbol }
		' <(table_names) -
}

check_library()
{
	local exports
	[ -e "$1" ] || return
	exports=$("$nm" -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//' | sort -u)
	table_names | comm -23 - <(echo "$exports") |
		sed "s,.*,$1: does not export & of preload/names.def,"
	table_names | comm -13 - <(echo "$exports") |
		sed -n "s,..*,$1: exports & that is not in preload/names.def,p"
	"$objdump" -p "$1" | awk -v library="$1" '
		$1 == "NEEDED" && $2 != "libc.so.6" { print library ": needs " $2 }'
}

offenders=$(
	check_includes
	for dir in "$build" "$build/kill"; do
		check_objects "$dir/obj"
		check_library "$dir/libkpemu-preload.so"
	done
)
if [ -n "$offenders" ]; then
	echo "$offenders"
	echo "FAIL check-layers: $(wc -l <<<"$offenders") offenders"
	exit 1
fi
echo "ok check-layers"

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Python's own tests of signals: each ends as it does natively.
# test: timeout 600
set -u
cd "$TMPDIR" || exit 2

# Distributions keep the tests in a package of their own (libpython3-testsuite).
python=
for candidate in "$PYTHON" /usr/bin/python3; do
	"$candidate" -c 'import test.test_signal' 2>/dev/null && python=$candidate && break
done
if [ -z "$python" ]; then
	echo "skip python_signal no python3 here has test.test_signal"
	exit 0
fi

# results COMMAND...: a line for each test, and the exit status.
results()
{
	"$@" "$python" -m test -v test_signal >"$TMPDIR/out" 2>&1
	echo "status $?"
	sed -nE 's/^(test_[a-zA-Z0-9_]+) .*\.\.\. (ok|FAIL|ERROR|skipped).*/\1 \2/p' "$TMPDIR/out" | sort
}

natively=$(results)
emulated=$(results "$BUILD/kpemu" run --quiet --)
if [ "$(wc -l <<<"$natively")" -lt 10 ]; then
	echo "FAIL python_signal natively there are only: $(paste -sd' ' <<<"$natively")"
	exit 1
fi
if [ "$natively" != "$emulated" ]; then
	echo "FAIL python_signal $(diff <(echo "$natively") <(echo "$emulated") | grep '^[<>]' | paste -sd' ')"
	cat "$TMPDIR/out"
	exit 1
fi
echo "ok python_signal"

# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # for those who read this file
# What must be as the kernel has it: the algorithms, and the cases that can be answered so far (as
# regular expressions): all of the oracle, all scenarios but those of RSS.
exact=(atomic percpu cache stock)
oracle_only=${ORACLE_ONLY:-.}
scenarios_only=${SCENARIOS_ONLY:-'^(0|1|20|22|23|25|35|38|42|43)'}

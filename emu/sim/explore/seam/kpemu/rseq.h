/* SPDX-License-Identifier: GPL-2.0-or-later */
/* include/kpemu/rseq.h as the explorer has it: a critical section is one step. */
#ifndef KPEMU_RSEQ_H
#define KPEMU_RSEQ_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/sim/explore/seam.h"

#define __rseq_offset seam_rseq_offset
#define __rseq_size   seam_rseq_size

#define RSEQ_HERE 1

#define seam_slot_at(op, at, base, stride, cpus, size, a, b) \
	((void)(at), seam_slot(op, base, stride, cpus, size, a, b, SEAM_SITE("slot of this CPU")))

#define rseq_add64(at, base, stride, cpus, v) \
	seam_slot_at(SLOT_ADD, at, base, stride, cpus, 8, v, 0)
#define rseq_add32(at, base, stride, cpus, v) \
	seam_slot_at(SLOT_ADD, at, base, stride, cpus, 4, v, 0)
#define rseq_add_within32(at, base, stride, cpus, v, bound) \
	seam_slot_at(SLOT_WITHIN, at, base, stride, cpus, 4, v, bound)
#define rseq_add_within8(at, base, stride, cpus, v, bound) \
	seam_slot_at(SLOT_WITHIN, at, base, stride, cpus, 1, v, bound)
#define rseq_cmpxchg32(at, base, stride, cpus, old, new) \
	seam_slot_at(SLOT_CMPXCHG, at, base, stride, cpus, 4, old, new)
#define rseq_cmpxchg8(at, base, stride, cpus, old, new) \
	seam_slot_at(SLOT_CMPXCHG, at, base, stride, cpus, 1, old, new)

#define rseq_cpu_id(at) ((void)(at), seam_cpu(SEAM_SITE("number of this CPU")))

#endif

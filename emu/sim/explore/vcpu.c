/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Virtual CPUs: coroutines that stop before each step, the steps, and store buffers. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <kpemu/sched.h>

#include "emu/sim/explore/engine.h"

#define FORCED_MAX 1000 /* looks at nothing new, of all threads, before that is a livelock */
#define PID_FIRST  1000 /* of the task of CPU 0 */

struct engine eng = { .me = MAIN };
struct event events[STEPS_MAX];
struct access pool[POOL_MAX];

const long seam_rseq_offset = 16; /* anything but 0 */
const unsigned int seam_rseq_size = 32;

/* What others can see of a thread: whether it has been killed, and where it is. */
static uint8_t stopped[THREADS_MAX] EXPLORE_STATE;
static uint8_t dead[THREADS_MAX] EXPLORE_STATE; /* stopped, and all its stores are in memory */
static uint8_t on_cpu[THREADS_MAX] EXPLORE_STATE;
/* What a test's step() looks at. Writes of it touch `visible`, so their order matters. */
#define WATCHED_MAX 64
static struct access watched[WATCHED_MAX];
static unsigned int nr_watched;
static uint8_t visible;

unsigned int explore_cpus(void)
{
	return eng.cpus;
}

unsigned int explore_ops(void)
{
	return eng.ops;
}

/* --- coroutines --- */

void coroutine_switch(void **save, void *load);
__asm__(".text\n"
	".type coroutine_switch, @function\n"
	"coroutine_switch:\n\t"
	"pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
	"movq %rsp, (%rdi)\n\t"
	"movq %rsi, %rsp\n\t"
	"popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\t"
	"ret\n"
	".size coroutine_switch, . - coroutine_switch\n");

static void *bail[5]; /* of __builtin_setjmp() in vcpu_run(); the stack that it leaves is dropped */

static void save_own(int id)
{
	if (id == MAIN)
		return;
	eng.thread[id].self = percpu_self;
	eng.thread[id].task = current;
}

static void load_own(int id)
{
	percpu_self = id == MAIN ? (struct percpu_self){ 0 } : eng.thread[id].self;
	current = id == MAIN ? eng.main_task : eng.thread[id].task;
}

static void **sp_of(int id)
{
	return id == MAIN ? &eng.main_sp : &eng.thread[id].sp;
}

static void switch_to(int id)
{
	int from = eng.me;

	save_own(from);
	load_own(id);
	eng.me = id;
	coroutine_switch(sp_of(from), *sp_of(id));
}

static __attribute__((noreturn)) void leave(enum verdict verdict)
{
	eng.verdict = verdict;
	__builtin_longjmp(bail, 1);
}

void explore_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(eng.why, sizeof(eng.why), fmt, ap);
	va_end(ap);
	leave(FAILED);
}

/* --- who can take a step --- */

static bool stays(int id)
{
	return eng.thread[id].ended || stopped[id];
}

static bool can_step(int id)
{
	const struct thread *t = &eng.thread[id];

	if (stays(id))
		return false;
	switch (t->waits) {
	case WAITS_CHANGE:
		return t->woken;
	case WAITS_FLUSH:
		return !t->buffer_n;
	case WAITS_VICTIM:
		return !eng.thread[t->victim].buffer_n;
	default:
		return true;
	}
}

static mask_t enabled(void)
{
	mask_t m = 0;

	for (unsigned int id = 0; id < eng.threads; id++) {
		if (can_step(id))
			m |= 1 << id;
		if (eng.thread[id].buffer_n)
			m |= 1 << (FLUSHER + id);
	}
	return m;
}

/*
 * Only threads are left that wait for a change. They look again in turn: a loop that gives up after
 * a number of looks does so, one that never does is a finding. MAIN: there are none.
 */
static int forced(void)
{
	mask_t waiting = 0;

	for (unsigned int id = 0; id < eng.threads; id++)
		if (!stays(id))
			waiting |= 1 << id;
	if (!waiting)
		return MAIN;
	if (++eng.forced > FORCED_MAX)
		explore_fail("livelock: threads wait, and nobody is left to change anything");
	if (!(waiting & ~eng.asked))
		eng.asked = 0;
	waiting &= ~eng.asked;
	eng.asked |= waiting & -waiting;
	return __builtin_ctz(waiting);
}

/* --- steps --- */

static struct event *step_begin(int id)
{
	struct event *e = &events[eng.depth];
	bool is_new = eng.depth + 1 >= eng.nr_nodes;

	e->id = id;
	e->first = eng.pool_n;
	e->n = 0;
	if (is_new)
		memcpy(e->clock, eng.last_clock[id], sizeof(e->clock));
	return e;
}

static void touch_access(struct event *e, const struct access *a)
{
	if (eng.pool_n == POOL_MAX)
		explore_fail("too many accesses");
	pool[eng.pool_n++] = *a;
	e->n++;
}

static void touch(struct event *e, const void *p, unsigned int size, bool write, bool own)
{
	touch_access(e, &(struct access){ (uintptr_t)p, size, write, own });
}

static bool overlap(const struct access *a, const struct access *b)
{
	return a->addr < b->addr + b->size && b->addr < a->addr + a->size;
}

static bool has_read(const struct thread *t, const struct access *a)
{
	if (t->reads_all || !t->nr_reads)
		return true;
	for (unsigned int i = 0; i < t->nr_reads; i++)
		if (overlap(&t->reads[i], a))
			return true;
	return false;
}

/* Threads that have read what has been written now may look again. */
static void wake_readers(const struct event *e, const struct access *a)
{
	for (unsigned int id = 0; id < eng.threads; id++)
		if (id != e->id && id + FLUSHER != e->id && !eng.thread[id].woken &&
		    has_read(&eng.thread[id], a))
			eng.thread[id].woken = true;
}

static void note_read(struct thread *t, const void *p, unsigned int size)
{
	struct access a = { (uintptr_t)p, size, false, false };

	for (unsigned int i = 0; i < t->nr_reads; i++)
		if (t->reads[i].addr == a.addr && t->reads[i].size == a.size)
			return;
	if (t->nr_reads < READS_MAX)
		t->reads[t->nr_reads++] = a;
	else
		t->reads_all = true;
}

static bool is_watched(const struct access *a)
{
	for (unsigned int i = 0; i < nr_watched; i++)
		if (overlap(&watched[i], a))
			return true;
	return false;
}

static void watch(const void *p, unsigned int size)
{
	struct access a = { (uintptr_t)p, size, false, false };

	for (unsigned int i = 0; i < nr_watched; i++)
		if (watched[i].addr == a.addr && watched[i].size >= size)
			return;
	if (nr_watched == WATCHED_MAX)
		explore_fail("step() looks at too much");
	watched[nr_watched++] = a;
	eng.watched_grew = true;
}

/* The invariant that must hold between steps. */
static void check_step(void)
{
	int me = eng.me;

	save_own(me);
	eng.me = MAIN;
	load_own(MAIN);
	eng.in_step = true;
	eng.test->step();
	eng.in_step = false;
	eng.me = me;
	load_own(me);
}

static struct buffered *buffered_nth(struct thread *t, unsigned int n)
{
	return &t->buffer[(t->buffer_first + n) % BUFFER_MAX];
}

/* What was stored during step @e cannot become visible before it. */
static void date_stores(struct thread *t, const struct event *e)
{
	for (unsigned int i = 0; i < t->buffer_n; i++) {
		struct buffered *b = buffered_nth(t, i);

		if (b->fresh)
			memcpy(b->clock, e->clock, sizeof(b->clock));
		b->fresh = false;
	}
}

/* What follows up to the thread's next step is done together with this one. */
static void step_end(struct event *e, const struct seam_site *at)
{
	eng.open = e;
	eng.at = at;
}

/* The thread has come to its next step, or to its end: the one before is over. */
static void step_leave(void)
{
	struct event *e = eng.open;
	bool seen = false;

	if (!e)
		return;
	eng.open = NULL;
	if (e->id < FLUSHER && eng.test->mortal >> e->id & 1)
		touch(e, &stopped[e->id], 1, false, false);
	for (unsigned int i = e->first; i < e->first + e->n; i++) {
		if (!pool[i].write)
			continue;
		seen |= is_watched(&pool[i]);
		wake_readers(e, &pool[i]);
	}
	if (seen)
		touch(e, &visible, 1, true, false);
	if (eng.mode == MODE_DPOR && eng.depth + 1 >= eng.nr_nodes)
		dpor_step(e);
	memcpy(eng.last_clock[e->id], e->clock, sizeof(e->clock));
	if (e->id < FLUSHER)
		date_stores(&eng.thread[e->id], e);
	eng.depth++;
	if (!e->forced)
		eng.asked = 0;
}

static uint64_t raw_load(const void *p, unsigned int size)
{
	uint64_t v = 0;

	memcpy(&v, p, size);
	return v;
}

static void raw_store(void *p, unsigned int size, uint64_t v)
{
	memcpy(p, &v, size);
}

/* The oldest store of @id's buffer becomes visible. */
static void flush(int id)
{
	struct thread *t = &eng.thread[id];
	struct buffered *b = &t->buffer[t->buffer_first];
	struct event *e = step_begin(id + FLUSHER);

	clock_join(e->clock, b->clock);
	memory_check(b->p, b->size, b->at);
	if (eng.record)
		trace_step(id, b->at, "%s becomes visible: %#lx -> %#lx", b->at->text,
			   (long)raw_load(b->p, b->size), (long)b->v);
	raw_store(b->p, b->size, b->v);
	touch(e, b->p, b->size, true, false);
	t->buffer_first = (t->buffer_first + 1) % BUFFER_MAX;
	t->buffer_n--;
	step_end(e, b->at);
	step_leave();
}

/* The next step is whose? Steps of flushers are taken at once. MAIN: all have ended. */
static int next_thread(void)
{
	for (;;) {
		mask_t m = enabled();
		bool only_forced = !m;
		int id;

		if (eng.depth >= STEPS_MAX - 1)
			explore_fail("more than %d steps", STEPS_MAX - 2);
		if (eng.test->step)
			check_step();
		if (only_forced) {
			id = forced();
			if (id == MAIN)
				return MAIN;
			m = 1 << id;
		}
		events[eng.depth].forced = only_forced;
		id = eng.mode == MODE_DPOR ? dpor_choose(m) : search_choose(m);
		if (id == MAIN)
			leave(REDUNDANT);
		eng.schedule[eng.depth] = id;
		eng.chosen = eng.depth + 1;
		if (id < FLUSHER) {
			eng.running = id;
			return id;
		}
		flush(id - FLUSHER);
	}
}

/* --- what a thread sees: memory with what its own buffer has --- */

static void view_enter(struct thread *t)
{
	for (unsigned int i = 0; i < t->buffer_n; i++) {
		struct buffered *b = buffered_nth(t, i);

		b->memory = raw_load(b->p, b->size);
		raw_store(b->p, b->size, b->v);
	}
}

/* A plain store to the same place has become part of the buffered one. */
static void view_leave(struct thread *t)
{
	for (unsigned int i = t->buffer_n; i-- > 0;) {
		struct buffered *b = buffered_nth(t, i);

		b->v = raw_load(b->p, b->size);
		raw_store(b->p, b->size, b->memory);
	}
}

/* Stop before a step until it is this thread's turn. */
static struct event *turn(enum waits waits)
{
	struct event *e;
	int id;

	step_leave();
	eng.thread[eng.me].waits = waits;
	view_leave(&eng.thread[eng.me]);
	if (eng.starting) {
		switch_to(MAIN);
	} else {
		id = next_thread();
		if (id != eng.me)
			switch_to(id);
	}
	view_enter(&eng.thread[eng.me]);
	e = step_begin(eng.me);
	for (unsigned int i = 0; i < eng.thread[eng.me].nr_early; i++)
		touch_access(e, &eng.thread[eng.me].early[i]);
	eng.thread[eng.me].nr_early = 0;
	if (waits == WAITS_FLUSH)
		clock_join(e->clock, eng.last_clock[eng.me + FLUSHER]);
	return e;
}

/* --- store buffers --- */

static enum waits drained(void)
{
	return eng.tso ? WAITS_FLUSH : WAITS_NOT;
}

/* The newest buffered store that overlaps; NULL: none. */
static struct buffered *find_buffered(struct thread *t, const void *p, unsigned int size)
{
	for (unsigned int i = t->buffer_n; i-- > 0;) {
		struct buffered *b = buffered_nth(t, i);

		if ((char *)b->p < (const char *)p + size &&
		    (const char *)p < (char *)b->p + b->size)
			return b;
	}
	return NULL;
}

static bool covers(const struct buffered *b, const void *p, unsigned int size)
{
	return (char *)b->p <= (const char *)p && (const char *)p + size <= (char *)b->p + b->size;
}

/* A load waits for a store that it can get only a part of. */
static enum waits load_waits(const void *p, unsigned int size)
{
	struct buffered *b = find_buffered(&eng.thread[eng.me], p, size);

	return b && !covers(b, p, size) ? WAITS_FLUSH : WAITS_NOT;
}

/* What a load of the running thread gets, as an access of @e. */
static uint64_t load_now(struct event *e, const void *p, unsigned int size)
{
	touch(e, p, size, false, find_buffered(&eng.thread[eng.me], p, size));
	return raw_load(p, size);
}

static void buffer_store(void *p, unsigned int size, uint64_t v, const struct seam_site *at)
{
	struct thread *t = &eng.thread[eng.me];
	struct buffered *b = buffered_nth(t, t->buffer_n++);

	*b = (struct buffered){ .p = p, .size = size, .v = v, .at = at, .fresh = true };
	b->memory = raw_load(p, size);
	raw_store(p, size, v);
}

/* --- the seam --- */

uint64_t seam_load(const void *p, unsigned int size, const struct seam_site *at)
{
	struct event *e;
	uint64_t v;

	if (!memory_shared(p)) {
		if (eng.in_step)
			watch(p, size);
		return raw_load(p, size);
	}
	e = turn(load_waits(p, size));
	memory_check(p, size, at);
	v = load_now(e, p, size);
	note_read(&eng.thread[eng.me], p, size);
	if (eng.record)
		trace_step(eng.me, at, "%s is %#lx", at->text, (long)v);
	step_end(e, at);
	return v;
}

void seam_store(void *p, unsigned int size, uint64_t v, const struct seam_site *at)
{
	struct event *e;

	if (!memory_shared(p)) {
		raw_store(p, size, v);
		return;
	}
	if (eng.tso && eng.thread[eng.me].buffer_n < BUFFER_MAX && !eng.starting) {
		memory_check(p, size, at);
		if (eng.record)
			trace_step(eng.me, at, "%s = %#lx, buffered", at->text, (long)v);
		buffer_store(p, size, v, at);
		return;
	}
	e = turn(drained());
	memory_check(p, size, at);
	if (eng.tso) {
		if (eng.record)
			trace_step(eng.me, at, "%s = %#lx, buffered", at->text, (long)v);
		step_end(e, at);
		buffer_store(p, size, v, at);
		return;
	}
	if (eng.record)
		trace_step(eng.me, at, "%s: %#lx -> %#lx", at->text, (long)raw_load(p, size),
			   (long)v);
	raw_store(p, size, v);
	touch(e, p, size, true, false);
	step_end(e, at);
}

static uint64_t apply(enum seam_op op, uint64_t old, uint64_t v)
{
	switch (op) {
	case SEAM_ADD:
		return old + v;
	case SEAM_OR:
		return old | v;
	case SEAM_ANDNOT:
		return old & ~v;
	default:
		return v;
	}
}

uint64_t seam_rmw(enum seam_op op, void *p, unsigned int size, uint64_t v,
		  const struct seam_site *at)
{
	struct event *e;
	uint64_t old;

	if (!memory_shared(p)) {
		old = raw_load(p, size);
		raw_store(p, size, apply(op, old, v));
		return old;
	}
	e = turn(drained());
	memory_check(p, size, at);
	old = raw_load(p, size);
	raw_store(p, size, apply(op, old, v));
	touch(e, p, size, true, false);
	note_read(&eng.thread[eng.me], p, size);
	if (eng.record)
		trace_step(eng.me, at, "%s: %#lx -> %#lx, locked", at->text, (long)old,
			   (long)raw_load(p, size));
	step_end(e, at);
	return old;
}

bool seam_cmpxchg(void *p, unsigned int size, uint64_t *old, uint64_t new,
		  const struct seam_site *at)
{
	struct event *e = NULL;
	uint64_t want = *old, found;
	bool done, shared = memory_shared(p);

	if (shared) {
		e = turn(drained());
		memory_check(p, size, at);
	}
	found = raw_load(p, size);
	done = !memcmp(&found, &want, size);
	if (done)
		raw_store(p, size, new);
	*old = found;
	if (!shared)
		return done;
	touch(e, p, size, done, false);
	note_read(&eng.thread[eng.me], p, size);
	if (eng.record && done)
		trace_step(eng.me, at, "%s: %#lx -> %#lx, exchanged", at->text, (long)found,
			   (long)raw_load(p, size));
	else if (eng.record)
		trace_step(eng.me, at, "%s is %#lx, not exchanged", at->text, (long)found);
	step_end(e, at);
	return done;
}

bool seam_cmpxchg128(void *p, uint64_t old0, uint64_t old1, uint64_t new0, uint64_t new1,
		     const struct seam_site *at)
{
	uint64_t old[2] = { old0, old1 }, new[2] = { new0, new1 };
	struct event *e = NULL;
	bool done, shared = memory_shared(p);

	if (shared) {
		e = turn(drained());
		memory_check(p, sizeof(old), at);
	}
	done = !memcmp(p, old, sizeof(old));
	if (done)
		memcpy(p, new, sizeof(new));
	if (!shared)
		return done;
	touch(e, p, sizeof(old), done, false);
	note_read(&eng.thread[eng.me], p, sizeof(old));
	if (eng.record)
		trace_step(eng.me, at, "%s: %s %#lx, %#lx", at->text,
			   done ? "exchanged for" : "not exchanged for", (long)new0, (long)new1);
	step_end(e, at);
	return done;
}

void seam_mb(const struct seam_site *at)
{
	if (eng.me == MAIN || !eng.thread[eng.me].buffer_n)
		return;
	struct event *e = turn(WAITS_FLUSH);

	if (eng.record)
		trace_step(eng.me, at, "barrier");
	step_end(e, at);
}

void seam_yield(const struct seam_site *at)
{
	struct thread *t = &eng.thread[eng.me];
	struct event *e;

	if (eng.me == MAIN)
		return;
	e = turn(WAITS_CHANGE);
	for (unsigned int i = 0; i < t->nr_reads; i++)
		touch(e, (void *)t->reads[i].addr, t->reads[i].size, false, false);
	t->nr_reads = 0;
	t->reads_all = t->woken = false;
	if (eng.record)
		trace_step(eng.me, at, e->forced ? "waited, for nothing" : "waited");
	step_end(e, at);
	if (!e->forced && ++t->waited > WAITED_MAX && eng.mode != MODE_REPLAY) {
		step_leave();
		leave(UNFAIR);
	}
}

int seam_cpu(const struct seam_site *at)
{
	if (eng.me == MAIN)
		return 0;
	return eng.test->moves ? (int)seam_load(&on_cpu[eng.me], 1, at) : on_cpu[eng.me];
}

static bool slot_new(enum seam_slot_op op, int64_t old, int64_t a, int64_t b, int64_t *new)
{
	if (op == SLOT_CMPXCHG) {
		*new = b;
		return old == a;
	}
	*new = old + a;
	return op == SLOT_ADD || (*new >= -b &&*new <= b);
}

static int64_t extend(uint64_t v, unsigned int size)
{
	unsigned int shift = 64 - 8 * size;

	return (int64_t)(v << shift) >> shift;
}

/*
 * On the own CPU nothing comes in between, and nobody else stores there, so the one store may wait
 * in the buffer. A thread that is moved takes its stores along: the switch is a barrier.
 */
bool seam_slot(enum seam_slot_op op, char *base, const uint32_t *stride, const uint32_t *cpus,
	       unsigned int size, int64_t a, int64_t b, const struct seam_site *at)
{
	bool buffers = eng.tso && !eng.test->moves, done;
	struct event *e;
	int64_t old, new;
	char *slot;

	if (eng.me == MAIN) {
		done = *cpus && slot_new(op, extend(raw_load(base, size), size), a, b, &new);
		if (done)
			raw_store(base, size, new);
		return done;
	}
	e = turn(buffers && eng.thread[eng.me].buffer_n < BUFFER_MAX ? WAITS_NOT : drained());
	touch(e, stride, sizeof(*stride), false, false);
	touch(e, cpus, sizeof(*cpus), false, false);
	if (eng.test->moves)
		touch(e, &on_cpu[eng.me], 1, false, false);
	slot = base + (uint64_t)on_cpu[eng.me] * *stride;
	done = on_cpu[eng.me] < *cpus;
	if (done) {
		memory_check(slot, size, at);
		old = extend(buffers ? load_now(e, slot, size) : raw_load(slot, size), size);
		done = slot_new(op, old, a, b, &new);
		if (!buffers)
			touch(e, slot, size, done, false);
		if (eng.record)
			trace_step(eng.me, at, "slot of CPU %d: %ld -> %ld%s", on_cpu[eng.me],
				   (long)old, done ? (long)new : (long)old,
				   done && buffers ? ", buffered" :
				   done            ? "" :
						     ", left");
	} else if (eng.record) {
		trace_step(eng.me, at, "no slot");
	}
	if (done && !buffers)
		raw_store(slot, size, new);
	step_end(e, at);
	if (done && buffers)
		buffer_store(slot, size, new, at);
	return done;
}

/* kill(pid, 0) of a virtual CPU's task. */
static long is_there(long pid, const struct seam_site *at)
{
	unsigned int id = pid - PID_FIRST;

	if (id >= eng.threads)
		return -ESRCH;
	return seam_load(&dead[id], 1, at) ? -ESRCH : 0;
}

long seam_sys(const struct seam_site *at, long nr, long a, long b, long c)
{
	(void)c;
	switch (nr) {
	case SYS_sched_yield:
		seam_yield(at);
		return 0;
	case SYS_mmap:
		return memory_mmap(b);
	case SYS_munmap:
		memory_munmap((void *)a, b);
		return 0;
	case SYS_madvise:
		return 0;
	case SYS_kill:
		return is_there(a, at);
	case SYS_tgkill:
		return is_there(b, at);
	}
	return -ENOSYS;
}

static const struct seam_site helper_site = { "helper", "", "", 0 };

/* Whoever is told of a death finds the stores of the dead: the kernel has locked and switched. */
void explore_kill(unsigned int thread)
{
	struct event *e = turn(WAITS_NOT);

	stopped[thread] = 1;
	eng.thread[thread].killed_at = eng.depth;
	touch(e, &stopped[thread], 1, true, false);
	if (eng.record)
		trace_step(eng.me, &helper_site, "kills CPU %u", thread);
	if (eng.thread[thread].buffer_n) {
		step_end(e, &helper_site);
		eng.thread[eng.me].victim = thread;
		e = turn(WAITS_VICTIM);
		clock_join(e->clock, eng.last_clock[thread + FLUSHER]);
	}
	dead[thread] = 1;
	touch(e, &dead[thread], 1, true, false);
	step_end(e, &helper_site);
}

void explore_place(unsigned int thread, unsigned int cpu)
{
	on_cpu[thread] = cpu;
}

void explore_move(unsigned int thread, unsigned int cpu)
{
	struct event *e = turn(WAITS_NOT);

	on_cpu[thread] = cpu;
	touch(e, &on_cpu[thread], 1, true, false);
	if (eng.record)
		trace_step(eng.me, &helper_site, "moves thread %u to CPU %u", thread, cpu);
	step_end(e, &helper_site);
}

bool explore_killed(unsigned int thread)
{
	return seam_load(&dead[thread], 1, SEAM_SITE("killed?"));
}

int explore_last(void)
{
	return eng.running;
}

static bool touches(const struct event *e, const struct access *where)
{
	for (unsigned int i = e->first; i < e->first + e->n; i++)
		if (overlap(&pool[i], where))
			return true;
	return false;
}

/* The step that is not over yet is at events[eng.depth]. */
unsigned int explore_steps(const void *p, size_t size)
{
	struct access where = { (uintptr_t)p, size, false, false };
	unsigned int n = 0;

	for (unsigned int i = 0; i <= eng.depth; i++)
		if (events[i].id % FLUSHER == eng.me && (i < eng.depth || eng.open) &&
		    (!p || touches(&events[i], &where)))
			n++;
	return n;
}

/* --- plain accesses --- */

/*
 * The sources of the model and of tests are compiled with -fsanitize=thread, and these functions
 * are what the compiler calls then. A plain access is no step, but a part of the step before it:
 * what that step is in conflict with depends on it.
 */
static bool is_part(const struct access *list, unsigned int n, const struct access *a)
{
	for (unsigned int i = 0; i < n; i++)
		if (list[i].addr <= a->addr && a->addr + a->size <= list[i].addr + list[i].size &&
		    list[i].write >= a->write && list[i].own == a->own)
			return true;
	return false;
}

static void plain(const void *p, unsigned int size, bool write)
{
	struct access a = { (uintptr_t)p, size, write, false };
	struct thread *t;

	if (!memory_ours(p))
		return;
	if (eng.in_step)
		watch(p, size);
	if (eng.me == MAIN)
		return;
	t = &eng.thread[eng.me];
	if (!eng.open) {
		if (t->nr_early < EARLY_MAX && !is_part(t->early, t->nr_early, &a))
			t->early[t->nr_early++] = a;
		return;
	}
	memory_check(p, size, eng.at);
	a.own = !write && find_buffered(t, p, size);
	if (!is_part(&pool[eng.open->first], eng.open->n, &a))
		touch_access(eng.open, &a);
}

#define PLAIN(kind, write, size)                 \
	void __tsan_##kind##size(const void *p); \
	void __tsan_##kind##size(const void *p)  \
	{                                        \
		plain(p, size, write);           \
	}
#define PLAIN_ALL(read, is_write)                                                                 \
	PLAIN(read, is_write, 1)                                                                  \
	PLAIN(read, is_write, 2) PLAIN(read, is_write, 4) PLAIN(read, is_write, 8)                \
		PLAIN(read, is_write, 16) PLAIN(unaligned_##read, is_write, 2)                    \
			PLAIN(unaligned_##read, is_write, 4) PLAIN(unaligned_##read, is_write, 8) \
				PLAIN(unaligned_##read, is_write, 16) void __tsan_##read##_range( \
					const void *p, unsigned long size);                       \
	void __tsan_##read##_range(const void *p, unsigned long size)                             \
	{                                                                                         \
		plain(p, size, is_write);                                                         \
	}
PLAIN_ALL(read, false)
PLAIN_ALL(write, true)

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
	(void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

/* --- one interleaving --- */

static void thread_main(void)
{
	int id = eng.me;

	eng.test->thread(id);
	step_leave();
	eng.thread[id].ended = true;
	view_leave(&eng.thread[id]);
	switch_to(eng.starting ? MAIN : next_thread());
	abort();
}

static void make_coroutine(struct thread *t)
{
	void **sp = (void **)(t->stack + STACK_SIZE);

	*--sp = NULL; /* as if called from a 16-byte aligned stack */
	*--sp = (void *)thread_main;
	for (int i = 0; i < 6; i++)
		*--sp = NULL;
	t->sp = sp;
}

static void reset(void)
{
	memory_restore();
	eng.depth = eng.pool_n = eng.forced = eng.chosen = 0;
	eng.open = NULL;
	eng.asked = 0;
	eng.running = MAIN;
	memset(eng.last_clock, 0, sizeof(eng.last_clock));
	for (unsigned int id = 0; id < eng.threads; id++) {
		struct thread *t = &eng.thread[id];

		t->ended = t->woken = t->reads_all = false;
		t->nr_reads = t->buffer_n = t->buffer_first = t->waited = t->nr_early = 0;
		t->self = (struct percpu_self){ 0 };
		t->task = id < eng.cpus ? explore_task(id) : eng.main_task;
		make_coroutine(t);
	}
}

bool vcpu_setup(void)
{
	if (__builtin_setjmp(bail))
		return false;
	for (unsigned int id = 0; id < eng.cpus; id++)
		on_cpu[id] = id;
	if (eng.test->setup)
		eng.test->setup();
	if (eng.test->step)
		check_step();
	eng.watched_grew = false;
	return true;
}

/* Steps that threads have not taken because they were killed. */
static void look_at_the_dead(void)
{
	for (unsigned int id = 0; id < eng.threads; id++) {
		uint16_t clock[IDS_MAX];

		if (!stopped[id] || eng.thread[id].ended)
			continue;
		memcpy(clock, eng.last_clock[id], sizeof(clock));
		clock_join(clock, eng.last_clock[id + FLUSHER]);
		dpor_never(id, eng.thread[id].killed_at, clock);
	}
}

void vcpu_run(void)
{
	eng.verdict = HELD;
	if (!__builtin_setjmp(bail)) {
		int first;

		reset();
		eng.starting = true;
		for (unsigned int id = 0; id < eng.threads; id++)
			switch_to(id);
		eng.starting = false;
		first = next_thread();
		if (first != MAIN)
			switch_to(first);
		if (eng.mode == MODE_DPOR)
			look_at_the_dead();
		explore_note_end();
		if (eng.test->check)
			eng.test->check();
		memory_audit();
	}
	eng.starting = eng.in_step = false;
	eng.me = MAIN;
	load_own(MAIN);
	eng.schedule_n = eng.chosen;
	if (eng.depth > eng.deepest)
		eng.deepest = eng.depth;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	explore_fail("access to unmapped memory at %p", info->si_addr);
}

void vcpu_init(void)
{
	size_t each = STACK_SIZE + 4096;
	char *p = mmap(NULL, each * (THREADS_MAX + 1), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction sa = { .sa_sigaction = on_fault,
				.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	if (p == MAP_FAILED)
		abort();
	for (int i = 0; i <= THREADS_MAX; i++, p += each) {
		mprotect(p, 4096, PROT_NONE);
		if (i < THREADS_MAX)
			eng.thread[i].stack = p + 4096;
		else
			sigaltstack(&(stack_t){ .ss_sp = p + 4096, .ss_size = STACK_SIZE }, NULL);
	}
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locked memory in the model: the map, admission, reconciliation, many threads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <kpemu/mlock.h>
#include <kpemu/sched.h>
#include <kpemu/world.h>

#include "emu/mm/lockmap.h"
#include "emu/mm/vma.h"
#include "tests/unit/unit_world.h"

static struct task_struct *task;
static struct mm_struct *mm;

static void set_limit(uint64_t bytes)
{
	task->rlim[UCOUNT_RLIMIT_MEMLOCK] = (struct rlim){ bytes, RLIM_INF };
}

static void setup(void)
{
	unit_world();
	task = task_adopt(NULL, getpid(), getpid());
	cr_assert_not_null(task);
	current = task;
	cred_init(&task->cred, 4242, 4242);
	mm = task_mm(task);
	cr_assert_not_null(mm);
	set_limit(4 * PAGE_SIZE);
}

TestSuite(mlock, .init = setup, .timeout = 60);

/*
 * Addresses that are mapped and never locked for real: with MM_HOST_REFUSED a reconciliation
 * leaves the model's bits there alone.
 */
static uint64_t fake_pages(uint64_t pages)
{
	void *p = mmap(NULL, pages * PAGE_SIZE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	fetch_or(&mm->flags, (uint32_t)MM_HOST_REFUSED);
	return (uintptr_t)p / PAGE_SIZE;
}

/* mlock() as the hook does it, without the real call. */
static long lock_as(struct task_struct *t, uint64_t start, uint64_t len, struct refusal *why)
{
	struct mlock_op op;
	long ret;

	memset(why, 0, sizeof(*why));
	mlock_begin(&op, t, mm);
	ret = mlock_charge(&op, start, len, why);
	if (!ret)
		ret = mlock_settle(&op, op.first, op.end);
	mlock_end(&op);
	return ret;
}

static long lock_pages(uint64_t first, uint64_t pages)
{
	struct refusal why;

	return lock_as(task, first * PAGE_SIZE, pages * PAGE_SIZE, &why);
}

static void unlock_as(struct task_struct *t, uint64_t first, uint64_t pages)
{
	struct mlock_op op;

	mlock_begin(&op, t, mm);
	mlock_release(&op, first, first + pages, NULL);
	mlock_end(&op);
}

static void unlock_pages(uint64_t first, uint64_t pages)
{
	unlock_as(task, first, pages);
}

static int64_t locked(void)
{
	return atomic64_read(&mm->locked_vm);
}

static uint64_t weight(void)
{
	return lockmap_count(mm, 0, LOCKMAP_END);
}

static unsigned int used_pages(void)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < table_high_water(TABLE_PAGE_DESC); i++)
		n += slot_state(*(uint64_t *)table_slot(TABLE_PAGE_DESC, i)) != SLOT_FREE;
	return n;
}

/* The map */

#define WINDOWS 12
#define WINDOW  1500 /* pages */

static bool naive[WINDOWS][WINDOW];

/* Windows that lie across the borders of leaves, far apart and one next to the other. */
static uint64_t window_page(int w)
{
	static const uint64_t leaves[WINDOWS] = {
		1, 2, 3, 64, 65, 1000, 99999, 1 << 20, 1 << 21, 1 << 25, 1 << 29, 1 << 30
	};

	return (leaves[w] << 15) - 700;
}

static uint64_t naive_count(int w, int from, int to)
{
	uint64_t n = 0;

	for (int i = from; i < to; i++)
		n += naive[w][i];
	return n;
}

static uint64_t naive_first_clear(int w, int from, int to)
{
	while (from < to && naive[w][from])
		from++;
	return window_page(w) + from;
}

static void naive_fill(int w, int from, int to, bool value)
{
	for (int i = from; i < to; i++)
		naive[w][i] = value;
}

static void random_map_step(void)
{
	int w = rand() % WINDOWS, from = rand() % WINDOW;
	int to = from + rand() % (WINDOW - from + 1);
	uint64_t first = window_page(w) + from, end = window_page(w) + to;
	uint64_t had = naive_count(w, from, to), clear = naive_first_clear(w, from, to);
	struct lockmap_undo undo;

	cr_assert_eq(lockmap_count(mm, first, end), had);
	cr_assert_eq(lockmap_first_clear(mm, first, end), clear);
	switch (rand() % 4) {
	case 0:
		cr_assert_eq(lockmap_prepare(mm, first, end), 0);
		cr_assert_eq(lockmap_set(mm, first, end), to - from - had);
		naive_fill(w, from, to, true);
		break;
	case 1:
		cr_assert_eq(lockmap_clear(mm, first, end, NULL), had);
		naive_fill(w, from, to, false);
		break;
	case 2:
		cr_assert_eq(lockmap_clear(mm, first, end, &undo), had);
		cr_assert_not(undo.lost);
		cr_assert_eq(lockmap_count(mm, first, end), 0);
		cr_assert_eq(lockmap_restore(mm, &undo), had);
		break;
	case 3:
		cr_assert_eq(lockmap_test(mm, window_page(w) + from % WINDOW),
			     naive[w][from % WINDOW]);
		break;
	}
}

Test(mlock, map_random_operations_as_naive)
{
	uint64_t all = 0, clear;

	srand(1);
	for (int i = 0; i < 30000; i++)
		random_map_step();
	for (int w = 0; w < WINDOWS; w++)
		all += naive_count(w, 0, WINDOW);
	cr_assert_eq(weight(), all);
	/* A range across everything, by looking at the leaves that exist. */
	clear = naive_count(2, 100, WINDOW) + naive_count(3, 0, WINDOW) + naive_count(4, 0, 50);
	cr_assert_eq(lockmap_clear(mm, window_page(2) + 100, window_page(4) + 50, NULL), clear);
	cr_assert_eq(weight(), all - clear);
}

Test(mlock, map_unknown_ranges_are_clear)
{
	cr_assert_eq(lockmap_count(mm, 0, LOCKMAP_END), 0);
	cr_assert_eq(lockmap_first_clear(mm, 77, 99), 77);
	cr_assert_eq(lockmap_first_clear(mm, 77, 77), 77);
	cr_assert_eq(lockmap_clear(mm, 5, 1 << 30, NULL), 0);
	cr_assert_eq(lockmap_prepare(mm, 9, 9), 0);
	cr_assert_eq(used_pages(), 0);
}

Test(mlock, map_undo_of_a_large_range_says_so)
{
	struct lockmap_undo undo;

	cr_assert_eq(lockmap_prepare(mm, 0, 10000), 0);
	lockmap_set(mm, 0, 10000);
	cr_assert_eq(lockmap_clear(mm, 0, 10000, &undo), 10000);
	cr_assert(undo.lost);
	cr_assert_eq(lockmap_restore(mm, &undo), 64 * LOCKMAP_UNDO_WORDS);
}

Test(mlock, map_more_leaves_than_a_directory_holds)
{
	enum {
		LEAVES = 2000
	};

	for (uint64_t i = 0; i < LEAVES; i++) {
		uint64_t page = i * 7 << 15 | i;

		cr_assert_eq(lockmap_prepare(mm, page, page + 1), 0);
		cr_assert_eq(lockmap_set(mm, page, page + 1), 1);
	}
	for (uint64_t i = 0; i < LEAVES; i++)
		cr_assert(lockmap_test(mm, i * 7 << 15 | i));
	cr_assert_eq(weight(), LEAVES);
	cr_assert_eq(used_pages(), LEAVES + (LEAVES + 511) / 512);
	lockmap_free(mm);
	cr_assert_eq(used_pages(), 0);
	cr_assert_eq(weight(), 0);
}

Test(mlock, map_range_beyond_the_directories_takes_no_page)
{
	cr_assert_eq(lockmap_prepare(mm, 0, (MM_DIRS * 512ull + 1) << 15), -ENOMEM);
	cr_assert_eq(used_pages(), 0);
}

/* A page that was allocated by somebody who died before linking it goes with the others. */
Test(mlock, mm_free_finds_lost_pages)
{
	uint32_t ref = slot_ref(table_index(TABLE_MM, mm), mm->slot);

	lock_pages(fake_pages(1), 1);
	cr_assert_not_null(table_alloc(TABLE_PAGE_DESC, ref));
	cr_assert_not_null(table_alloc(TABLE_PAGE_DESC, ref + 1));
	cr_assert_eq(used_pages(), 4);
	lockmap_free(mm);
	cr_assert_eq(used_pages(), 1);
}

Test(mlock, mm_free_of_a_new_mm)
{
	struct mm_struct *other = mm_alloc(task_ref(task));

	cr_assert_not_null(other);
	cr_assert_neq(other, mm);
	cr_assert_eq(slot_state(other->slot), SLOT_NEW);
	mm_free(other);
	cr_assert_eq(slot_state(other->slot), SLOT_FREE);
	/* The next user finds nothing of the last one's. */
	other = mm_alloc(task_ref(task));
	cr_assert(mm_idle(other));
	cr_assert_eq(other->flags | other->gate | other->dir[0] | other->updater[0], 0);
}

/* Every allocation fails once: the answer is ENOMEM, and nothing but unused pages is left. */
Test(mlock, charge_world_without_pages)
{
	uint64_t first = fake_pages(3 << 15);
	unsigned int n, filler = 0;
	uint64_t *spare[8];
	long ret;

	set_limit(RLIM_INF);
	for (n = 0; n < 8; n++)
		spare[n] = table_alloc(TABLE_PAGE_DESC, 1);
	while (table_alloc(TABLE_PAGE_DESC, 1))
		filler++;
	cr_assert_eq(filler + n, WORLD_PAGES);
	for (n = 0; n < 8; n++) {
		for (unsigned int i = 0; i < n; i++)
			table_free(TABLE_PAGE_DESC, spare[i]);
		ret = lock_pages(first, 2 << 15);
		if (!ret)
			break;
		cr_assert_eq(ret, -ENOMEM);
		cr_assert_eq(locked(), 0);
		cr_assert_eq(weight(), 0);
		lockmap_free(mm);
		cr_assert_eq(used_pages(), WORLD_PAGES - n);
		for (unsigned int i = 0; i < n; i++)
			spare[i] = table_alloc(TABLE_PAGE_DESC, 1);
	}
	cr_assert(n == 3 || n == 4, "done with %u pages", n);
	cr_assert_eq(locked(), 2 << 15);
	cr_assert_eq(weight(), 2 << 15);
}

/* Admission */

Test(mlock, charge_up_to_the_limit)
{
	uint64_t p = fake_pages(16);
	struct refusal why;

	cr_assert_eq(lock_pages(p, 4), 0);
	cr_assert_eq(locked(), 4);
	cr_assert_eq(mm_locked_kb(task), 16);
	cr_assert_eq(lock_as(task, (p + 8) * PAGE_SIZE, 1, &why), -ENOMEM);
	cr_assert_eq(why.err, ENOMEM);
	cr_assert_eq(why.type, UCOUNT_RLIMIT_MEMLOCK);
	cr_assert_eq(why.level, 0);
	cr_assert_eq(why.ns, INIT_USER_NS);
	cr_assert_eq(why.uid, 4242);
	cr_assert_eq(why.pid, getpid());
	cr_assert_eq(why.use, 4);
	cr_assert_eq(why.limit, 4);
	cr_assert_eq(why.asked, 1);
	cr_assert_eq(locked(), 4);
	unlock_pages(p + 1, 2);
	cr_assert_eq(locked(), 2);
	cr_assert_eq(lock_pages(p + 8, 2), 0);
}

Test(mlock, charge_limit_zero)
{
	uint64_t p = fake_pages(4);
	struct refusal why;

	set_limit(0);
	cr_assert_eq(lock_as(task, p * PAGE_SIZE, 2 * PAGE_SIZE, &why), -EPERM);
	cr_assert_eq(why.err, EPERM);
	cr_assert_eq(why.limit, 0);
	cr_assert_eq(why.asked, 2);
	cr_assert_eq(lock_pages(p, 0), -EPERM);
	/* Not 0, and yet not a page. */
	set_limit(4095);
	cr_assert_eq(lock_pages(p, 0), 0);
	cr_assert_eq(lock_pages(p, 1), -ENOMEM);
	set_limit(8191);
	cr_assert_eq(lock_pages(p, 1), 0);
	cr_assert_eq(lock_pages(p, 2), -ENOMEM);
}

Test(mlock, charge_capable_is_not_limited)
{
	uint64_t p = fake_pages(100);

	set_limit(0);
	task->cred.cap_effective = 1ull << CAP_IPC_LOCK;
	cr_assert_eq(lock_pages(p, 100), 0);
	cr_assert_eq(locked(), 100);
	task->cred.cap_effective = 0;
	cr_assert_eq(lock_pages(p, 1), -EPERM);
	/* In a namespace of one's own the capability is none. */
	task->cred.cap_effective = CAP_FULL_SET;
	task->cred.user_ns = INIT_USER_NS + 1;
	cr_assert_eq(lock_pages(p, 1), -EPERM);
}

Test(mlock, charge_overlap_counts_once)
{
	uint64_t p = fake_pages(16);
	struct refusal why;

	cr_assert_eq(lock_pages(p, 3), 0);
	cr_assert_eq(lock_pages(p, 3), 0);
	cr_assert_eq(locked(), 3);
	cr_assert_eq(lock_pages(p, 4), 0);
	cr_assert_eq(locked(), 4);
	cr_assert_eq(lock_as(task, p * PAGE_SIZE, 5 * PAGE_SIZE, &why), -ENOMEM);
	cr_assert_eq(why.asked, 1);
}

Test(mlock, charge_lowered_limit_refuses_what_is_locked)
{
	uint64_t p = fake_pages(16);

	set_limit(8 * PAGE_SIZE);
	cr_assert_eq(lock_pages(p, 6), 0);
	set_limit(4 * PAGE_SIZE);
	cr_assert_eq(lock_pages(p + 8, 1), -ENOMEM);
	cr_assert_eq(lock_pages(p, 6), -ENOMEM);
	cr_assert_eq(lock_pages(p, 2), -ENOMEM);
	cr_assert_eq(locked(), 6);
}

Test(mlock, charge_rounding_and_wrapping)
{
	uint64_t p = fake_pages(16), addr = p * PAGE_SIZE;
	struct refusal why;

	cr_assert_eq(lock_as(task, addr + 100, PAGE_SIZE, &why), 0);
	cr_assert_eq(locked(), 2);
	cr_assert_eq(lock_as(task, addr + 100, 0, &why), 0);
	cr_assert_eq(locked(), 2);
	cr_assert_eq(lock_as(task, -PAGE_SIZE, 2 * PAGE_SIZE, &why), -EINVAL);
	cr_assert_eq(why.err, 0);
	/* The limit comes first. */
	cr_assert_eq(lock_as(task, -PAGE_SIZE, 4 * PAGE_SIZE, &why), -ENOMEM);
	/* Rounding up to a page wraps to length 0, which the kernel takes for success. */
	cr_assert_eq(lock_as(task, addr, UINT64_MAX, &why), 0);
	cr_assert_eq(locked(), 2);
	cr_assert_eq(weight(), 2);
}

Test(mlock, future_charge_at_the_limit)
{
	uint64_t p = fake_pages(16);
	struct refusal why = { 0 };
	struct mlock_op op;

	mlock_begin(&op, task, mm);
	cr_assert_eq(mlock_future_charge(&op, 3, EAGAIN, &why), 0);
	cr_assert_eq(locked(), 3);
	cr_assert_eq(mlock_settle(&op, p, p + 3), 0);
	cr_assert_eq(mlock_future_charge(&op, 2, EAGAIN, &why), -EAGAIN);
	cr_assert_eq(why.err, EAGAIN);
	cr_assert_eq(why.use, 3);
	cr_assert_eq(why.asked, 2);
	/* Over pages that are locked: the whole size is asked for, and counted once. */
	cr_assert_eq(mlock_future_charge(&op, 1, ENOMEM, &why), 0);
	cr_assert_eq(mlock_settle(&op, p, p + 1), 0);
	cr_assert_eq(locked(), 3);
	cr_assert_eq(mlock_future_charge(&op, 1, ENOMEM, &why), 0);
	mlock_cancel(&op);
	cr_assert_eq(locked(), 3);
	mlock_end(&op);
}

Test(mlock, settle_up_to_a_hole)
{
	uint64_t p = fake_pages(16);
	struct refusal why = { 0 };
	struct mlock_op op;

	cr_assert_eq(lock_pages(p, 1), 0);
	mlock_begin(&op, task, mm);
	cr_assert_eq(mlock_charge(&op, p * PAGE_SIZE, 4 * PAGE_SIZE, &why), 0);
	cr_assert_eq(op.first, p);
	cr_assert_eq(op.end, p + 4);
	cr_assert_eq(op.first_new, p + 1);
	cr_assert_eq(locked(), 4);
	cr_assert_eq(mlock_settle(&op, p, p + 2), 0);
	mlock_end(&op);
	cr_assert_eq(locked(), 2);
	cr_assert_eq(weight(), 2);
}

Test(mlock, lift_moves_the_charge)
{
	uint64_t p = fake_pages(16), q = fake_pages(16);
	struct refusal why = { 0 };
	struct lockmap_undo was;
	struct mlock_op op;

	cr_assert_eq(lock_pages(p, 2), 0);
	cr_assert_eq(lock_pages(q, 1), 0);
	mlock_begin(&op, task, mm);
	cr_assert_eq(mlock_future_charge(&op, 1, EAGAIN, &why), 0);
	cr_assert_eq(mlock_lift(&op, p, p + 2, &was), 2);
	cr_assert_eq(locked(), 4);
	cr_assert_not(lockmap_test(mm, p));
	/* Back, and once more. */
	mlock_drop(&op, &was);
	cr_assert_eq(op.charged, 1);
	cr_assert_eq(locked(), 4);
	cr_assert_eq(mlock_lift(&op, p, p + 2, &was), 2);
	cr_assert(lockmap_undo_test(&was, p + 1) && !lockmap_undo_test(&was, p + 2));
	/* Onto a page that was locked itself. */
	cr_assert_eq(mlock_settle(&op, q, q + 3), 0);
	mlock_end(&op);
	cr_assert_eq(locked(), 3);
	cr_assert_eq(weight(), 3);
}

Test(mlock, restore_after_a_failed_unmap)
{
	uint64_t p = fake_pages(16);
	struct lockmap_undo undo;
	struct mlock_op op;

	cr_assert_eq(lock_pages(p + 1, 1), 0);
	cr_assert_eq(lock_pages(p + 3, 2), 0);
	mlock_begin(&op, task, mm);
	cr_assert_eq(mlock_release(&op, p, p + 4, &undo), 2);
	cr_assert_eq(locked(), 1);
	mlock_restore(&op, &undo);
	mlock_end(&op);
	cr_assert_eq(locked(), 3);
	cr_assert(lockmap_test(mm, p + 1) && lockmap_test(mm, p + 3));
	cr_assert_not(lockmap_test(mm, p) || lockmap_test(mm, p + 2));
}

Test(mlock, mlockall_check_in_the_kernels_order)
{
	struct refusal why = { 0 };
	struct mlock_op op;

	mlock_begin(&op, task, mm);
	cr_assert_eq(mlockall_check(&op, 0, 1, &why), -EINVAL);
	cr_assert_eq(mlockall_check(&op, 8, 1, &why), -EINVAL);
	cr_assert_eq(mlockall_check(&op, MCL_ONFAULT, 1, &why), -EINVAL);
	cr_assert_eq(why.err, 0);
	cr_assert_eq(mlockall_check(&op, MCL_CURRENT, 4, &why), 0);
	cr_assert_eq(mlockall_check(&op, MCL_CURRENT, 5, &why), -ENOMEM);
	cr_assert_eq(why.use + why.asked, 5);
	cr_assert_eq(mlockall_check(&op, MCL_FUTURE, 5, &why), 0);
	set_limit(0);
	cr_assert_eq(mlockall_check(&op, MCL_FUTURE, 5, &why), -EPERM);
	cr_assert_eq(why.err, EPERM);
	cr_assert_eq(mlockall_check(&op, 8, 5, &why), -EINVAL);
	task->cred.cap_effective = 1ull << CAP_IPC_LOCK;
	cr_assert_eq(mlockall_check(&op, MCL_CURRENT, 5, &why), 0);
	mlock_end(&op);
}

/* do_mlock() of the kernel, page by page. */
#define FIELD 200

static bool field[FIELD];

static int64_t field_count(int from, int to)
{
	int64_t n = 0;

	for (int i = from; i < to; i++)
		n += field[i];
	return n;
}

static long naive_mlock(int from, int to, int64_t limit)
{
	int64_t all = field_count(0, FIELD), want = all + to - from;

	if (want > limit)
		want -= field_count(from, to);
	if (want > limit)
		return -ENOMEM;
	for (int i = from; i < to; i++)
		field[i] = true;
	return 0;
}

Test(mlock, charge_random_calls_as_naive)
{
	uint64_t p = fake_pages(FIELD);
	int64_t limit = 60;

	srand(2);
	for (int i = 0; i < 2000; i++) {
		int from = rand() % FIELD, to = from + rand() % 40;

		if (to > FIELD)
			to = FIELD;
		if (rand() % 50 == 0)
			limit = 1 + rand() % 100;
		set_limit(limit * PAGE_SIZE + rand() % PAGE_SIZE);
		if (rand() % 3) {
			cr_assert_eq(lock_pages(p + from, to - from), naive_mlock(from, to, limit));
		} else {
			unlock_pages(p + from, to - from);
			memset(field + from, 0, to - from);
		}
		cr_assert_eq(locked(), field_count(0, FIELD));
	}
	cr_assert_eq(weight(), field_count(0, FIELD));
}

/* Reconciliation */

static char *real_pages(int pages)
{
	char *p = mmap(NULL, pages * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	return p;
}

static uint64_t page(const void *p)
{
	return (uintptr_t)p / PAGE_SIZE;
}

/* By number: the mlock() of a sanitizer does nothing. */
static void really_lock(char *p, int pages)
{
	if (syscall(SYS_mlock, p, pages * PAGE_SIZE))
		cr_skip_test("the host locks not even %d pages: %s", pages, strerror(errno));
}

Test(mlock, reconcile_with_the_kernels_list)
{
	char *p = real_pages(16);

	really_lock(p + 4 * PAGE_SIZE, 2);
	munmap(p + 10 * PAGE_SIZE, 2 * PAGE_SIZE);
	set_limit(RLIM_INF);
	cr_assert_eq(lock_pages(page(p), 5), 0);
	cr_assert_eq(lock_pages(page(p) + 9, 2), 0);
	mlock_reconcile(task);
	/* Not locked, not mapped: gone. Locked behind our back: taken over. */
	cr_assert_eq(locked(), 2, "%ld pages", (long)locked());
	cr_assert_eq(weight(), 2);
	cr_assert(lockmap_test(mm, page(p) + 4) && lockmap_test(mm, page(p) + 5));
	cr_assert_eq(mm->gate, 0);
}

Test(mlock, reconcile_after_the_host_refused)
{
	char *p = real_pages(16);

	munmap(p + 10 * PAGE_SIZE, 2 * PAGE_SIZE);
	set_limit(RLIM_INF);
	fetch_or(&mm->flags, (uint32_t)MM_HOST_REFUSED);
	cr_assert_eq(lock_pages(page(p) + 8, 3), 0);
	mlock_reconcile(task);
	cr_assert_eq(locked(), 2);
	cr_assert_not(lockmap_test(mm, page(p) + 10));
}

Test(mlock, reconcile_before_a_refusal)
{
	char *p = real_pages(4), *q = real_pages(4);

	cr_assert_eq(lock_pages(page(p), 4), 0);
	munmap(p, 4 * PAGE_SIZE); /* as libc does, out of sight */
	cr_assert_eq(lock_pages(page(q), 4), 0);
	cr_assert_eq(locked(), 4);
	cr_assert_eq(lockmap_count(mm, page(q), page(q) + 4), 4);
}

Test(mlock, reconcile_repairs_what_a_dead_task_left)
{
	uint64_t p = fake_pages(4);

	cr_assert_eq(lock_pages(p, 2), 0);
	/* A task that is no more was charged 2 pages, and another was reconciling. */
	atomic64_add_return(2, &mm->locked_vm);
	mm->updater[5] = 0x7fff0001;
	mm->gate = 0x7fff0002;
	cr_assert_eq(lock_pages(p + 2, 2), 0);
	cr_assert_eq(locked(), 4);
	cr_assert_eq(mm->updater[5], 0);
	cr_assert_eq(mm->gate, 0);
}

Test(mlock, reconcile_not_inside_a_call)
{
	uint64_t p = fake_pages(8);
	struct refusal why = { 0 };
	struct mlock_op outer, inner;

	mlock_begin(&outer, task, mm);
	cr_assert_eq(mlock_charge(&outer, p * PAGE_SIZE, 2 * PAGE_SIZE, &why), 0);
	/* A handler: what the interrupted call has charged must not get lost. */
	mlock_begin(&inner, task, mm);
	cr_assert_eq(inner.updater, -1);
	cr_assert_eq(mlock_charge(&inner, (p + 4) * PAGE_SIZE, 3 * PAGE_SIZE, &why), -ENOMEM);
	cr_assert_eq(mlock_charge(&inner, (p + 4) * PAGE_SIZE, 2 * PAGE_SIZE, &why), 0);
	mlock_reconcile(task);
	cr_assert_eq(mlock_settle(&inner, inner.first, inner.end), 0);
	mlock_end(&inner);
	cr_assert_eq(locked(), 4);
	cr_assert_eq(mlock_settle(&outer, outer.first, outer.end), 0);
	mlock_end(&outer);
	cr_assert_eq(locked(), 4);
	cr_assert_eq(weight(), 4);
}

Test(mlock, host_locked_vm_counts)
{
	char *p = real_pages(4);
	int64_t before = host_locked_vm();

	cr_assert(before >= 0);
	really_lock(p, 3);
	cr_assert_eq(host_locked_vm(), before + 3);
}

struct seen {
	uint64_t start;
	struct vma vma;
	int n;
	uint64_t last;
};

static int see(const struct vma *vma, void *arg)
{
	struct seen *s = arg;

	cr_assert(vma->start >= s->last && vma->end > vma->start);
	s->last = vma->end;
	s->n++;
	if (vma->start == s->start)
		s->vma = *vma;
	return 0;
}

static int stop_at_second(const struct vma *vma, void *arg)
{
	(void)vma;
	return ++*(int *)arg == 2;
}

Test(mlock, vma_walk_sees_flags)
{
	char *p = mmap(NULL, 3 * PAGE_SIZE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct seen maps = { .start = (uintptr_t)p + PAGE_SIZE }, smaps = maps;
	int n = 0;

	really_lock(p + PAGE_SIZE, 1);
	cr_assert_eq(vma_walk(false, see, &maps), maps.n);
	cr_assert_eq(vma_walk(true, see, &smaps), smaps.n);
	cr_assert_eq(maps.n, smaps.n);
	cr_assert_eq(maps.vma.end, maps.start + PAGE_SIZE);
	cr_assert(maps.vma.read && maps.vma.shared && !maps.vma.write && !maps.vma.exec);
	cr_assert(smaps.vma.locked && !smaps.vma.special && smaps.vma.read && smaps.vma.shared);
	cr_assert_eq(vma_walk(true, stop_at_second, &n), 2);
	cr_assert_eq(n, 2);
}

/* Threads */

#define THREADS 8

struct worker {
	pthread_t thread;
	uint64_t page; /* of its own field, or of the common one */
	unsigned int seed;
	long refused, passed;
	bool field[64];
	bool failed;
};

static _Atomic bool over_limit;

static struct task_struct *my_task(void)
{
	current = task_adopt(NULL, syscall(SYS_gettid), getpid());
	return current;
}

static void *random_worker(void *arg)
{
	struct worker *w = arg;
	struct task_struct *t = my_task();
	struct refusal why;

	for (int i = 0; i < 1000 && t; i++) {
		int from = rand_r(&w->seed) % 64, n = rand_r(&w->seed) % (65 - from);
		bool lock = rand_r(&w->seed) % 2;

		if (lock && lock_as(t, (w->page + from) * PAGE_SIZE, n * PAGE_SIZE, &why)) {
			w->refused++;
			continue;
		}
		if (!lock)
			unlock_as(t, w->page + from, n);
		memset(w->field + from, lock, n);
		w->passed++;
		if (locked() > 150)
			over_limit = true;
	}
	w->failed = !t;
	return NULL;
}

static void run_workers(struct worker *w, void *(*fn)(void *))
{
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&w[i].thread, NULL, fn, &w[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		cr_assert_not(w[i].failed);
	}
}

Test(mlock, threads_stay_within_the_limit)
{
	uint64_t p = fake_pages(THREADS * 64), n = 0;
	struct worker w[THREADS] = { 0 };
	long refused = 0, passed = 0;

	set_limit(150 * PAGE_SIZE);
	for (int i = 0; i < THREADS; i++)
		w[i] = (struct worker){ .page = p + i * 64, .seed = i };
	run_workers(w, random_worker);
	for (int i = 0; i < THREADS; i++) {
		refused += w[i].refused;
		passed += w[i].passed;
		for (int k = 0; k < 64; k++) {
			cr_assert_eq(lockmap_test(mm, w[i].page + k), w[i].field[k]);
			n += w[i].field[k];
		}
	}
	cr_assert_not(over_limit);
	cr_assert_eq(locked(), n);
	cr_assert_eq(weight(), n);
	cr_assert(refused && passed);
}

static void *same_pages_worker(void *arg)
{
	struct worker *w = arg;
	struct task_struct *t = my_task();
	struct refusal why;

	for (int i = 0; i < 2000 && t; i++) {
		w->refused += !!lock_as(t, w->page * PAGE_SIZE, 64 * PAGE_SIZE, &why);
		if (i % 3 == 0)
			unlock_as(t, w->page + i % 64, 1);
	}
	w->failed = !t;
	return NULL;
}

/* All lock the same pages, which are exactly the limit: one after the other, none is refused. */
Test(mlock, threads_lock_the_same_pages)
{
	struct worker w[THREADS];
	uint64_t p = fake_pages(64);
	long refused = 0;

	set_limit(64 * PAGE_SIZE);
	for (int i = 0; i < THREADS; i++)
		w[i] = (struct worker){ .page = p };
	run_workers(w, same_pages_worker);
	for (int i = 0; i < THREADS; i++)
		refused += w[i].refused;
	cr_assert_eq(refused, 0);
	cr_assert_eq(locked(), weight());
}

static void *leaves_worker(void *arg)
{
	struct worker *w = arg;
	uint64_t n = 0;

	for (uint64_t leaf = 0; leaf < 700; leaf++) {
		uint64_t first = leaf << 15 | 7;

		w->failed |= lockmap_prepare(mm, first, first + 3) != 0;
		n += lockmap_set(mm, first, first + 3);
	}
	w->passed = n;
	return NULL;
}

/* The same leaves made by all at once: there is one of each, and every bit is counted once. */
Test(mlock, threads_make_the_same_leaves)
{
	struct worker w[THREADS] = { 0 };
	long n = 0;

	run_workers(w, leaves_worker);
	for (int i = 0; i < THREADS; i++)
		n += w[i].passed;
	cr_assert_eq(n, 3 * 700);
	cr_assert_eq(weight(), 3 * 700);
	cr_assert_eq(used_pages(), 702);
}

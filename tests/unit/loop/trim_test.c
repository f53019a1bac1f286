/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/trim.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "test.h"

enum {
	BLOCKS = 64 * 1024,
	BLOCK = 1024,
	LOOK_MS = 20,
	LOOKS_MAX = 500,
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool own_allocator = true;
#elif defined(__has_feature)
static const bool own_allocator = __has_feature(address_sanitizer) ||
				  __has_feature(thread_sanitizer) ||
				  __has_feature(memory_sanitizer);
#else
static const bool own_allocator = false;
#endif

static int64_t resident_kib(void)
{
	autofree char *text = NULL;
	int64_t all = 0, resident = 0;

	works(file_read(AT_FDCWD, "/proc/self/statm", 256, &text, NULL));
	eq_int(sscanf(text, "%" SCNd64 " %" SCNd64, &all, &resident), 2);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Two peaks, since the second is the one that a wrong idea of the first would hide. Each is over
 * when its memory is free, not when it stops growing: nothing is given back in between. */
TEST(what_a_peak_needed_is_given_back_when_it_is_free)
{
	autofree void **blocks = NULL;
	struct trim *t;
	autoptr(loop) l = NULL;

	if (own_allocator)
		skip_because("needs the allocator of libc, which sanitizers replace");
	blocks = xnew_n(void *, BLOCKS);
	works(loop_new(&l));
	t = trim_new(l, LOOK_MS);
	for (int peak = 0; peak < 2; peak++) {
		void *last;
		int64_t high;

		for (int i = 0; i < BLOCKS; i++)
			blocks[i] = memset(xmalloc(BLOCK), 1, BLOCK);
		last = xmalloc(BLOCK); /* what is before it in the heap is not its end */
		for (int i = 0; i < 10; i++)
			(void)loop_turn(l, LOOK_MS); /* looks, and finds all of it in use */
		high = resident_kib();
		is_true(high > BLOCKS * BLOCK / 1024);
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		for (clock_t busy = clock(); clock() < busy + 2 * LOOK_MS * CLOCKS_PER_SEC / 1000;)
			; /* whoever frees so much has been busy */
		for (int i = 0; i < LOOKS_MAX && resident_kib() > high / 2; i++)
			(void)loop_turn(l, LOOK_MS);
		is_true(resident_kib() <= high / 2);
		free(last);
	}
	trim_free(t);
}

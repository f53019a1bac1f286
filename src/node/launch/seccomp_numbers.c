/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/seccomp.h>
#include <stddef.h>

#include "base/macros.h"
#include "node/launch/seccomp_priv.h"

/*
 * A filter that answers by the number of a call, and asks another one about those where an argument
 * decides:
 *
 *   another architecture?    →  the verdict on foreign calls
 *   a tree of comparisons    →  the verdict of a range of numbers
 *   what is left             →  the other filter
 *
 * Neighbours with one verdict are one range, and there are few of these. A slot installs the filter
 * while its Pod waits, and the kernel translates every instruction of it each time.
 */
enum {
	RANGES_MAX = 256, /* a comparison skips the left half of a tree, at most 255 instructions */
	X32_BIT = 0x40000000, /* numbers from here on are those of a foreign ABI */
};

struct range {
	uint32_t first, verdict;
};

struct writer {
	struct range ranges[RANGES_MAX];
	size_t n_ranges;
	struct sock_filter *out;
	size_t n;
};

static bool add_range(struct writer *w, uint32_t first, uint32_t verdict)
{
	if (w->n_ranges && w->ranges[w->n_ranges - 1].verdict == verdict)
		return true;
	if (w->n_ranges == RANGES_MAX)
		return false;
	w->ranges[w->n_ranges++] = (struct range){ first, verdict };
	return true;
}

static bool find_ranges(struct writer *w, const struct call_verdicts *v)
{
	for (uint32_t nr = 0; nr < CALLS_MAX; nr++)
		if (!add_range(w, nr, v->of[nr]))
			return false;
	return add_range(w, CALLS_MAX, v->other) && add_range(w, X32_BIT, v->foreign);
}

static void emit(struct writer *w, struct sock_filter i)
{
	w->out[w->n++] = i;
}

/* The tree of n ranges from this one on has 2 * n - 1 instructions; the last one that was written
 * is at end, where the other filter begins. */
static void emit_tree(struct writer *w, const struct range *r, size_t n, size_t end)
{
	size_t left = n / 2;

	if (n == 1 && r->verdict == CALL_BY_ARGUMENT) {
		emit(w, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(end - w->n - 1)));
	} else if (n == 1) {
		emit(w, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, r->verdict));
	} else {
		emit(w, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, r[left].first,
						     (uint8_t)(2 * left - 1), 0));
		emit_tree(w, r, left, end);
		emit_tree(w, r + left, n - left, end);
	}
}

struct err *seccomp_numbers(const struct call_verdicts *v, const struct sock_fprog *by_argument,
			    struct sock_fprog *ret)
{
	const struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v->arch, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, v->foreign),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct writer w = { .n_ranges = 0 };
	size_t end;

	if (!find_ranges(&w, v))
		return err_new(ERR_INTERNAL, "the system call filter has more than %d ranges",
			       RANGES_MAX);
	end = ARRAY_LEN(head) + 2 * w.n_ranges - 1;
	if (end + by_argument->len > BPF_MAXINSNS)
		return err_new(ERR_INTERNAL, "the system call filter is too long");
	w.out = xnew_n(struct sock_filter, end + by_argument->len);
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		emit(&w, head[i]);
	emit_tree(&w, w.ranges, w.n_ranges, end);
	for (size_t i = 0; i < by_argument->len; i++)
		emit(&w, by_argument->filter[i]);
	*ret = (struct sock_fprog){ (unsigned short)w.n, w.out };
	return NULL;
}

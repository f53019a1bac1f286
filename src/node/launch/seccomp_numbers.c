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
	RANGES_MAX = 240, /* the farthest answer is that many instructions away, and at most 255 */
	ANSWERS_MAX = 8,
	X32_BIT = 0x40000000, /* numbers from here on are those of a foreign ABI */
};

struct writer {
	struct {
		uint32_t first, verdict;
	} ranges[RANGES_MAX];
	size_t n_ranges;
	uint32_t answers[ANSWERS_MAX]; /* the verdicts, each once; the other filter comes after them
					*/
	size_t n_answers;
	struct sock_filter *out;
	size_t n;
	size_t tree_end;
};

static bool add_answer(struct writer *w, uint32_t verdict)
{
	for (size_t i = 0; i < w->n_answers; i++)
		if (w->answers[i] == verdict)
			return true;
	if (w->n_answers == ANSWERS_MAX)
		return false;
	w->answers[w->n_answers++] = verdict;
	return true;
}

static bool add_range(struct writer *w, uint32_t first, uint32_t verdict)
{
	if (w->n_ranges && w->ranges[w->n_ranges - 1].verdict == verdict)
		return true;
	if (w->n_ranges == RANGES_MAX)
		return false;
	w->ranges[w->n_ranges].first = first;
	w->ranges[w->n_ranges++].verdict = verdict;
	return verdict == CALL_BY_ARGUMENT || add_answer(w, verdict);
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

/* Where the answer to a range is, or that there is none and the other filter begins. */
static size_t answer_at(const struct writer *w, size_t range)
{
	size_t i = 0;

	while (i < w->n_answers && w->answers[i] != w->ranges[range].verdict)
		i++;
	return w->tree_end + i;
}

/* A comparison sends the lower half of n ranges one way and the upper half another: to a tree of
 * comparisons, one less than it has ranges, or straight to the answer. */
static void emit_tree(struct writer *w, size_t range, size_t n)
{
	size_t left = n / 2, right = n - left, after = w->n + 1;
	size_t low = left == 1 ? answer_at(w, range) : after;
	size_t high = right == 1 ? answer_at(w, range + left) : after + left - 1;

	emit(w,
	     (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, w->ranges[range + left].first,
					  (uint8_t)(high - after), (uint8_t)(low - after)));
	if (left > 1)
		emit_tree(w, range, left);
	if (right > 1)
		emit_tree(w, range + left, right);
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

	if (!find_ranges(&w, v) || w.n_ranges < 2)
		return err_new(ERR_INTERNAL, "the system call filter has too many ranges");
	w.tree_end = ARRAY_LEN(head) + w.n_ranges - 1;
	w.out = xnew_n(struct sock_filter, w.tree_end + w.n_answers + by_argument->len);
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		emit(&w, head[i]);
	emit_tree(&w, 0, w.n_ranges);
	for (size_t i = 0; i < w.n_answers; i++)
		emit(&w, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, w.answers[i]));
	for (size_t i = 0; i < by_argument->len; i++)
		emit(&w, by_argument->filter[i]);
	*ret = (struct sock_fprog){ (unsigned short)w.n, w.out };
	return NULL;
}

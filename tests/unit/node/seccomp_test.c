/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>

#include "base/file.h"
#include "node/launch/launch_priv.h"
#include "test.h"

/*
 * The filter as the kernel would run it: an interpreter of the few instructions that a filter may
 * have, over every call of tests/data/seccomp. A line there is
 *
 *   ABI NUMBERS ARGUMENT-0 ARGUMENT-1 ARGUMENT-2 VERDICT [name]
 *
 * where NUMBERS is one number or a range, and VERDICT is "allow" or the number of an error.
 */
TEST(the_system_call_filter_compiles_to_a_tree_that_fits)
{
	struct sock_fprog filter = { 0 };

	works(seccomp_compile(&filter));
	is_true(filter.len > 100 && filter.len < 4096);
	free(filter.filter);
}

static const struct {
	const char *name;
	uint32_t arch, bit; /* bit: part of every number */
} abis[] = {
	{ "x86_64", AUDIT_ARCH_X86_64, 0 }, { "x32", AUDIT_ARCH_X86_64, 0x40000000 },
	{ "i386", AUDIT_ARCH_I386, 0 },     { "aarch64", AUDIT_ARCH_AARCH64, 0 },
	{ "arm", AUDIT_ARCH_ARM, 0 },
};

static bool jump(const struct sock_filter *i, uint32_t acc)
{
	switch (BPF_OP(i->code)) {
	case BPF_JEQ:
		return acc == i->k;
	case BPF_JGT:
		return acc > i->k;
	case BPF_JGE:
		return acc >= i->k;
	case BPF_JSET:
		return acc & i->k;
	default:
		break;
	}
	fail_msg("unknown jump %#x", i->code);
	return false;
}

static uint32_t evaluate(const struct sock_fprog *p, const struct seccomp_data *data)
{
	uint32_t acc = 0;

	for (size_t at = 0; at < p->len; at++) {
		const struct sock_filter *i = &p->filter[at];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			is_true(i->k <= sizeof(*data) - 4);
			memcpy(&acc, (const char *)data + i->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			at += i->k;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			is_true(BPF_CLASS(i->code) == BPF_JMP && BPF_SRC(i->code) == BPF_K);
			at += jump(i, acc) ? i->jt : i->jf;
			break;
		}
	}
	fail_msg("the filter has no end");
	return 0;
}

static uint32_t verdict_of(const char *word)
{
	if (!strcmp(word, "allow"))
		return SECCOMP_RET_ALLOW;
	return SECCOMP_RET_ERRNO | (uint32_t)strtoul(word, NULL, 10);
}

static uint32_t number(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(abis); i++)
		if (!strcmp(abis[i].name, word))
			return (uint32_t)i;
	fail_msg("unknown ABI %s", word);
	return 0;
}

/* Returns how many calls the line was about. */
static size_t check_line(const struct sock_fprog *p, char *line)
{
	char *words[7] = { 0 }, *save = NULL, *end;
	struct seccomp_data data = { 0 };
	uint32_t abi, last;
	size_t n = 0;

	for (char *w = strtok_r(line, " ", &save); w && n < ARRAY_LEN(words);
	     w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	is_true(n >= 6);
	abi = number(words[0]);
	data.arch = abis[abi].arch;
	data.nr = (int)strtoul(words[1], &end, 10);
	last = *end == '-' ? (uint32_t)strtoul(end + 1, NULL, 10) : (uint32_t)data.nr;
	for (size_t i = 0; i < 3; i++)
		data.args[i] = strtoull(words[2 + i], NULL, 16);
	n = last - (uint32_t)data.nr + 1;
	for (uint32_t nr = (uint32_t)data.nr; nr <= last; nr++) {
		uint32_t want = verdict_of(words[5]), got;

		data.nr = (int)(nr | abis[abi].bit);
		got = evaluate(p, &data);
		if (got != want)
			fail_msg("%s %u %s %s %s %s: verdict %#x instead of %#x", words[0], nr,
				 words[2], words[3], words[4], words[6] ? words[6] : "", got, want);
	}
	return n;
}

static void check_list(const char *path, uint32_t arch)
{
	autofree char *text = NULL;
	struct sock_fprog filter = { 0 };
	char *save = NULL;
	size_t n = 0;

	works(file_read(AT_FDCWD, path, 1 << 20, &text, NULL));
	works(seccomp_compile_for(arch, &filter));
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		if (*l != '#')
			n += check_line(&filter, l);
	is_true(n > 4 * 601);
	free(filter.filter);
}

TEST(every_call_of_every_abi_gets_the_listed_verdict_on_x86_64)
{
	check_list(TEST_DATA "/seccomp/x86_64.txt", AUDIT_ARCH_X86_64);
}

TEST(every_call_of_every_abi_gets_the_listed_verdict_on_arm64)
{
	check_list(TEST_DATA "/seccomp/aarch64.txt", AUDIT_ARCH_AARCH64);
}

/* The lists are of filters for named machines; what a sandbox gets is the one for this machine. */
TEST(the_filter_of_a_sandbox_is_the_one_for_this_machine)
{
	struct sock_fprog own = { 0 }, named = { 0 };

	works(seccomp_compile(&own));
#if defined(__x86_64__)
	works(seccomp_compile_for(AUDIT_ARCH_X86_64, &named));
#elif defined(__aarch64__)
	works(seccomp_compile_for(AUDIT_ARCH_AARCH64, &named));
#else
#error "this architecture has no list in tests/data/seccomp"
#endif
	eq_int(own.len, named.len);
	is_true(!memcmp(own.filter, named.filter, own.len * sizeof(*own.filter)));
	free(own.filter);
	free(named.filter);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/capability.h"
#include "api/cay/team.h"
#include "base/mem.h"
#include "outlet/outlet_priv.h"
#include "test.h"

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })
static const char *const nobody[] = { NULL };

static size_t rank(const char *const *hosts, const char *const *of, const char *const *agents,
		   const char *const *granted)
{
	const struct credential_view v = { .hosts = hosts, .agents = of };
	const struct capabilities c = { .credentials = granted };

	return credential_rank(&v, "github",
			       &(struct credential_ask){ "api.github.example", agents, &c });
}

TEST(a_credential_is_used_if_every_agent_may)
{
	const struct {
		const char *const *hosts, *const *of, *const *agents, *const *granted;
		bool used;
	} rows[] = {
		{ LIST("api.github.example"), LIST("*"), LIST("a"), LIST("github"), true },
		{ LIST("API.GitHub.example"), LIST("*"), LIST("a"), LIST("git*"), true },
		{ LIST("x.example", "*.github.example"), LIST("a", "b"), LIST("b", "a"),
		  LIST("github"), true },
		{ LIST("*"), LIST("a*"), LIST("a1", "a2"), LIST("*"), true },
		{ LIST("github.example"), LIST("*"), LIST("a"), LIST("*"), false },
		{ LIST("*.api.github.example"), LIST("*"), LIST("a"), LIST("*"), false },
		{ LIST("*"), LIST("a"), LIST("a", "b"), LIST("*"), false },
		{ LIST("*"), nobody, LIST("a"), LIST("*"), false },
		{ LIST("*"), LIST("*"), LIST("a"), LIST("gitlab"), false },
		{ LIST("*"), LIST("*"), LIST("a"), nobody, false },
		{ LIST("*"), LIST("*"), nobody, LIST("*"), false },
		{ nobody, LIST("*"), LIST("a"), LIST("*"), false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!!rank(rows[i].hosts, rows[i].of, rows[i].agents, rows[i].granted) !=
		    rows[i].used)
			print_message("row %zu\n", i);
		eq_int(!!rank(rows[i].hosts, rows[i].of, rows[i].agents, rows[i].granted),
		       rows[i].used);
	}
}

TEST(the_most_precise_host_comes_first)
{
	static const char *const better[] = { "api.github.example", "*.github.example", "*.example",
					      "*" };

	for (size_t i = 1; i < ARRAY_LEN(better); i++)
		is_true(rank(LIST(better[i - 1]), LIST("*"), LIST("a"), LIST("*")) >
			rank(LIST(better[i]), LIST("*"), LIST("a"), LIST("*")));
	eq_int(rank(LIST("*", "*.example"), LIST("*"), LIST("a"), LIST("*")),
	       rank(LIST("*.example"), LIST("*"), LIST("a"), LIST("*")));
}

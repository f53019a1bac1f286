/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"
#include "json/json.h"
#include "test.h"
#include "workload/workload_priv.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

TEST(audiences_are_one_to_four_and_nothing_that_could_be_misread)
{
	static const struct {
		const char *query;
		size_t n; /* 0: it is refused */
	} rows[] = {
		{ "audience=a", 1 },
		{ "x=y&audience=https%3A%2F%2Fa.example%2Fb%3Fc", 1 },
		{ "audience=a&audience=b&audience=c&audience=d", 4 },
		{ "audience=" A64 A64 A64 A64, 1 },
		{ "audience=%c3%a4", 1 },
		{ "", 0 },
		{ "Audience=a", 0 },
		{ "audience", 0 },
		{ "audience=", 0 },
		{ "audience=a&audience=", 0 },
		{ "audience=a&audience=%61", 0 },
		{ "audience=a&audience=b&audience=c&audience=d&audience=e", 0 },
		{ "audience=" A64 A64 A64 A64 "a", 0 },
		{ "audience=a%20b", 0 },
		{ "audience=a+b", 0 },
		{ "audience=a%0ab", 0 },
		{ "audience=a%00b", 0 },
		{ "audience=a%7fb", 0 },
		{ "audience=%c3", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char **list = NULL;
		size_t n = 0;
		struct err *e = audiences_read(rows[i].query, &list);

		while (list && list[n])
			n++;
		eq_int(n, rows[i].n);
		if (rows[i].n)
			works(e);
		else
			fails(e, ERR_INVALID);
		audiences_free(list);
	}
}

TEST(a_trust_domain_is_one_of_spiffe)
{
	static const char *const good[] = { "cluster.local", "a", "a-b_c.0" };
	static const char *const bad[] = { "", "A", "a/b", "a:1", "a b", "ä" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		works(trust_domain_check(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		fails(trust_domain_check(bad[i]), ERR_INVALID);
}

static char *claims_of(const struct subject *s)
{
	char first[] = "a", second[] = "b";
	char *audiences[] = { first, second, NULL };

	return claims_write(s, &(struct claims_spec){ .issuer = "https://i/identity",
						      .id = "7",
						      .audiences = audiences,
						      .now_s = 1000 });
}

TEST(a_token_names_the_sandbox_and_who_acts_if_somebody_does)
{
	char id[] = "spiffe://d/ns/n/sandbox/s", ns[] = "n", name[] = "s", agent[] = "coder";
	char session[] = "t1", user[] = "alice", none[] = "";
	struct subject s = { .id = id, .ns = ns, .name = name };
	autofree char *nobody = claims_of(&s), *no_user = NULL, *all = NULL;

	eq_str(nobody,
	       "{\"iss\":\"https://i/identity\",\"sub\":\"spiffe://d/ns/n/sandbox/s\","
	       "\"aud\":[\"a\",\"b\"],\"iat\":1000,\"nbf\":1000,\"exp\":1300,\"jti\":\"7\"}");
	s.acted = true;
	s.actor = (struct gate_actor){ .agent = agent, .session = session, .user = none };
	no_user = claims_of(&s);
	is_true(strstr(no_user, ",\"act\":{\"sub\":\"cay:agent:n:coder\",\"session\":\"t1\"}}"));
	s.actor.user = user;
	all = claims_of(&s);
	is_true(strstr(all, "\"session\":\"t1\",\"user\":\"alice\"}}"));
}

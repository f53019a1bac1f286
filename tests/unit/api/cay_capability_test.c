/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/capability.h"
#include "api_test.h"
#include "base/arena.h"
#include "base/buf.h"

TEST(patterns_match_and_contain)
{
	static const struct {
		const char *outer, *inner;
		bool is;
	} rows[] = {
		{ "*", "", true },           { "*", "anything", true },
		{ "git-*", "git-", true },   { "git-*", "git-push", true },
		{ "git-*", "git", false },   { "git-*", "git-*", true },
		{ "git-*", "git-p*", true }, { "git-*", "gi*", false },
		{ "git-*", "*", false },     { "a*b", "ab", true },
		{ "a*b", "a*b", true },      { "a*b", "a*", false },
		{ "aba*aba", "aba", false }, { "aba*aba", "abaaba", true },
		{ "*a*b*", "xaxbx", true },  { "*a*b*", "xbxax", false },
		{ "a", "a", true },          { "a", "b", false },
		{ "a", "a*", false },        { "", "", true },
		{ "", "a", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		eq_int(pattern_matches(rows[i].outer, rows[i].inner), rows[i].is);
		eq_int(pattern_contains(rows[i].outer, rows[i].inner), rows[i].is);
	}
}

TEST(hosts_match_and_contain)
{
	static const struct {
		const char *outer, *inner;
		bool matches, contains;
	} rows[] = {
		{ "example.org", "example.org", true, true },
		{ "example.org", "EXAMPLE.org", true, true },
		{ "Example.ORG", "example.org.", true, true },
		{ "example.org", "a.example.org", false, false },
		{ "*.example.org", "a.example.org", true, true },
		{ "*.example.org", "a.b.Example.org.", true, true },
		{ "*.example.org", "example.org", false, false },
		{ "*.example.org", ".example.org", false, false },
		{ "*.example.org", "badexample.org", false, false },
		{ "*.example.org", "*.example.org", false, true },
		{ "*.example.org", "*.a.example.org", false, true },
		{ "*.example.org", "*.badexample.org", false, false },
		{ "*.a.example.org", "*.example.org", false, false },
		{ "*.example.org", "*", false, false },
		{ "*", "*", false, true },
		{ "*", "10.0.0.1", true, true },
		{ "*", "", false, true },
		{ "*.0.1", "10.0.0.1", false, false },
		{ "*.1.2.3.4", "::ffff:1.2.3.4", false, false },
		{ "::1", "::1", true, true },
		{ "a*b", "a*b", false, true },
		{ "a*b", "axb", false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		eq_int(host_matches(rows[i].outer, rows[i].inner), rows[i].matches);
		eq_int(host_contains(rows[i].outer, rows[i].inner), rows[i].contains);
	}
}

TEST(rights_are_read_and_written)
{
	autobuf b = { 0 };
	autoptr(json_doc) d = doc("['lifecycle','fly','exec',3]");
	unsigned set = rights_read(json_root(d));

	eq_int(set, 1U << RIGHT_EXEC | 1U << RIGHT_LIFECYCLE);
	rights_write(set, &b);
	eq_str(buf_str(&b), "exec, lifecycle");
	buf_clear(&b);
	rights_write(0, &b);
	eq_str(buf_str(&b), "none");
	eq_int(right_named("fly"), RIGHT_MAX_);
	eq_int(right_named("ports"), RIGHT_PORTS);
}

TEST(who_names_no_capabilities_has_no_way_out)
{
	autoptr(arena) a = arena_new();
	autoptr(json_doc) d = json_doc_new();
	struct capabilities c;

	capabilities_read(NULL, a, &c);
	eq_json(capabilities_write(&c, d),
		"{'rights':['exec','read','write','ports'],'egress':[],"
		"'credentials':[],'tools':['*'],'runtimeClasses':['*']}");
	is_false(capabilities_reach(&c, "example.org", 443, "GET", "/"));
	capabilities_read_ceiling(NULL, a, &c);
	eq_json(capabilities_write(&c, d),
		"{'rights':['exec','read','write','ports','lifecycle'],"
		"'credentials':['*'],'tools':['*'],'runtimeClasses':['*']}");
	is_true(capabilities_reach(&c, "example.org", 443, NULL, NULL));
}

TEST(a_place_is_reached_by_host_port_method_and_path)
{
	static const struct {
		const char *host;
		int64_t port;
		const char *method, *path;
		bool is;
	} rows[] = {
		{ "api.example.org", 443, "GET", "/v1/x", true },
		{ "api.example.org", 443, "GET", "/v2", false },
		{ "api.example.org", 443, "POST", "/v1/x", false },
		{ "api.example.org", 80, "GET", "/v1/x", false },
		{ "api.example.org", 443, NULL, "/v1/x", false },
		{ "api.example.org", 443, "GET", NULL, false },
		{ "a.example.com", 8080, NULL, NULL, true },
		{ "a.example.com", 443, NULL, NULL, false },
		{ "example.com", 8080, NULL, NULL, false },
	};
	autoptr(arena) a = arena_new();
	autoptr(json_doc) d =
		doc("{'egress':[{'host':'api.example.org','methods':['GET'],'paths':['/v1/*']},"
		    "{'host':'*.example.com','ports':[8080]}]}");
	struct capabilities c;

	capabilities_read(json_root(d), a, &c);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(capabilities_reach(&c, rows[i].host, rows[i].port, rows[i].method,
					  rows[i].path),
		       rows[i].is);
}

TEST(what_exceeds_is_named)
{
#define OUTER                                                                            \
	"{'rights':['exec','read'],'egress':[{'host':'*.example.org','ports':[443,80]}," \
	"{'host':'api.example.com','methods':['GET'],'paths':['/v1/*','/v2/*']}],"       \
	"'credentials':['git-*'],'tools':['search'],'runtimeClasses':['gvisor'],'maxSandboxes':3}"
#define WITH(more) "{'rights':['exec'],'tools':[],'runtimeClasses':[],'maxSandboxes':1" more "}"
	static const struct {
		const char *inner, *path, *why;
	} rows[] = {
		{ OUTER, "", "" },
		{ WITH(""), "", "" },
		{ "{'rights':['read','exec','lifecycle'],'tools':[],'runtimeClasses':[],"
		  "'maxSandboxes':0}",
		  "rights[2]", "lifecycle" },
		{ WITH(",'egress':[{'host':'a.example.org'},{'host':'example.org'}]"),
		  "egress[1].host", "example.org" },
		{ WITH(",'egress':[{'host':'a.example.org','ports':[80,81]}]"),
		  "egress[0].ports[1]", "81" },
		{ WITH(",'egress':[{'host':'api.example.com'}]"), "egress[0].methods",
		  "everything" },
		{ WITH(",'egress':[{'host':'api.example.com','methods':['GET','PUT']}]"),
		  "egress[0].paths", "everything" },
		{ WITH(",'egress':[{'host':'api.example.com','methods':['GET','PUT'],"
		       "'paths':['/v2/x']}]"),
		  "egress[0].methods[1]", "PUT" },
		{ WITH(",'egress':[{'host':'api.example.com','methods':['GET'],"
		       "'paths':['/v2/x','/v3']}]"),
		  "egress[0].paths[1]", "/v3" },
		{ WITH(",'credentials':['git-a','*']"), "credentials[1]", "*" },
		{ "{'rights':[],'tools':['search','run'],'runtimeClasses':[],'maxSandboxes':1}",
		  "tools[1]", "run" },
		{ "{'rights':[],'tools':[],'maxSandboxes':1}", "runtimeClasses[0]", "*" },
		{ "{'rights':[],'tools':[],'runtimeClasses':[],'maxSandboxes':4}", "maxSandboxes",
		  "4" },
		{ "{'rights':[],'tools':[],'runtimeClasses':[]}", "maxSandboxes", "no limit" },
	};
	autoptr(arena) a = arena_new();
	autoptr(json_doc) o = doc(OUTER);
	struct capabilities outer;

	capabilities_read(json_root(o), a, &outer);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf path = { 0 }, why = { 0 };
		autoptr(json_doc) d = doc(rows[i].inner);
		struct capabilities inner;

		capabilities_read(json_root(d), a, &inner);
		eq_int(capabilities_contain(&outer, &inner, &path, &why), !*rows[i].path);
		eq_str(buf_str(&path), rows[i].path);
		eq_str(buf_str(&why), rows[i].why);
		eq_int(capabilities_contain(&outer, &inner, NULL, NULL), !*rows[i].path);
	}
}

TEST(places_together_may_contain_what_none_does)
{
	autoptr(arena) a = arena_new();
	autoptr(json_doc) o =
		doc("{'egress':[{'host':'a','ports':[80]},{'host':'a','ports':[443]}]}");
	autoptr(json_doc) i = doc("{'egress':[{'host':'a','ports':[443,80]}]}");
	struct capabilities outer, inner;

	capabilities_read(json_root(o), a, &outer);
	capabilities_read(json_root(i), a, &inner);
	is_true(capabilities_contain(&outer, &inner, NULL, NULL));
	is_true(capabilities_contain(&inner, &outer, NULL, NULL));
}

TEST(nothing_in_common_does_not_become_everything)
{
#define PLACE(more) "{'egress':[{'host':'a'" more "}]}"
	static const struct {
		const char *x, *y, *both;
	} rows[] = {
		{ PLACE(",'methods':['GET']"), PLACE(",'methods':['PUT']"), "[]" },
		{ PLACE(",'paths':['/a']"), PLACE(",'paths':['/b']"), "[]" },
		{ PLACE(",'ports':[80]"), PLACE(""), "[]" },
		{ PLACE(",'methods':['GET']"), PLACE(",'paths':['/b']"),
		  "[{'host':'a','ports':[443],'methods':['GET'],'paths':['/b']}]" },
		{ PLACE(",'paths':['/ab*']"), PLACE(",'paths':['*bc']"),
		  "[{'host':'a','ports':[443],'paths':['/ab*bc','/abc']}]" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(arena) a = arena_new();
		autoptr(json_doc) x = doc(rows[i].x);
		autoptr(json_doc) y = doc(rows[i].y);
		autoptr(json_doc) d = json_doc_new();
		struct capabilities p, q, both;

		capabilities_read(json_root(x), a, &p);
		capabilities_read(json_root(y), a, &q);
		capabilities_meet(&p, &q, a, &both);
		eq_json(json_get(capabilities_write(&both, d), "egress"), rows[i].both);
	}
}

/* The rest is about capabilities at random. */

enum {
	CASES = 10000,
	SEED = 20261117,
};

struct dice {
	uint64_t state;
	struct arena *a;
	int number; /* of the case */
};

static unsigned pick(struct dice *r, unsigned n)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return (unsigned)((r->state >> 11) % n);
}

static struct dice dice_of(int number)
{
	struct dice r = { .state = SEED + (uint64_t)number * 0x9e3779b97f4a7c15, .number = number };

	r.a = arena_new();
	for (int i = 0; i < 4; i++)
		(void)pick(&r, 2);
	return r;
}

static void holds_in(const struct dice *r, bool is, const char *what)
{
	if (is)
		return;
	print_error("case %d of seed %d: %s\n", r->number, SEED, what);
	fail();
}
#define holds(r, x) holds_in((r), (x), #x)

static const char *word(struct dice *r, unsigned max)
{
	char *s = arena_alloc(r->a, max + 1);
	unsigned len = pick(r, max + 1);

	for (unsigned i = 0; i < len; i++)
		s[i] = (char)('a' + pick(r, 2));
	return s;
}

static const char *a_pattern(struct dice *r)
{
	const char *head = word(r, 3);

	return pick(r, 3) ? arena_printf(r->a, "%s*%s", head, word(r, 3)) : head;
}

static const char *const *patterns(struct dice *r, unsigned max)
{
	unsigned n = pick(r, max + 1);
	const char **list = arena_new_n(r->a, const char *, n + 1);

	for (unsigned i = 0; i < n; i++)
		list[i] = a_pattern(r);
	return list;
}

static const char *a_host(struct dice *r, bool pattern)
{
	static const char *const hosts[] = { "x", "y.x", "z.y.x", "y", "1.2.3.4" };
	static const char *const more[] = { "*", "*.x", "*.y.x", "*.y" };
	unsigned i = pick(r, ARRAY_LEN(hosts) + (pattern ? ARRAY_LEN(more) : 0));

	return i < ARRAY_LEN(hosts) ? hosts[i] : more[i - ARRAY_LEN(hosts)];
}

static const int64_t some_ports[] = { 443, 80, 22 };
static const char *const some_methods[] = { "GET", "PUT", "POST" };

static struct egress an_egress(struct dice *r)
{
	struct egress e = { .host = a_host(r, true) };
	int64_t *ports = arena_new_n(r->a, int64_t, 3);
	const char **methods = arena_new_n(r->a, const char *, 4);
	unsigned which = pick(r, 8), n = 0;

	for (unsigned i = 0; i < 3; i++)
		if (which & 1U << i)
			ports[e.n_ports++] = some_ports[i];
	which = pick(r, 8);
	for (unsigned i = 0; i < 3; i++)
		if (which & 1U << i)
			methods[n++] = some_methods[i];
	e.ports = ports;
	e.methods = methods;
	e.paths = patterns(r, 2);
	return e;
}

static struct capabilities some(struct dice *r)
{
	struct egress *egress = arena_new_n(r->a, struct egress, 4);
	struct capabilities c = { .rights = pick(r, RIGHTS_ALL + 1),
				  .egress = egress,
				  .n_egress = pick(r, 5),
				  .all_egress = !pick(r, 8),
				  .credentials = patterns(r, 3),
				  .tools = patterns(r, 3),
				  .runtime_classes = patterns(r, 3),
				  .max_sandboxes = (int64_t)pick(r, 5) - 1 };

	for (size_t i = 0; i < c.n_egress; i++)
		egress[i] = an_egress(r);
	return c;
}

/* Less of a pattern: something in the place of its star. */
static const char *less_of(struct dice *r, const char *p)
{
	const char *star = strchr(p, '*');

	if (!star || !pick(r, 3))
		return p;
	return arena_printf(r->a, "%.*s%s%s%s%s", (int)(star - p), p, word(r, 2),
			    pick(r, 2) ? "*" : "", word(r, 2), star + 1);
}

static const char *const *fewer(struct dice *r, const char *const *list, bool any)
{
	const char **ret;
	size_t n = 0;

	while (list[n])
		n++;
	ret = arena_new_n(r->a, const char *, n + 1);
	if (any && !n) /* of paths, none are all */
		return list;
	for (size_t i = n = 0; list[i]; i++)
		if (pick(r, 4) || (any && !i))
			ret[n++] = less_of(r, list[i]);
	return ret;
}

/* Contained in c by the way it is made. */
static struct capabilities narrow(struct dice *r, const struct capabilities *c)
{
	struct egress *egress = arena_new_n(r->a, struct egress, c->n_egress + 1);
	struct capabilities ret = { .rights = c->rights & pick(r, RIGHTS_ALL + 1),
				    .egress = egress,
				    .all_egress = c->all_egress && pick(r, 2),
				    .credentials = fewer(r, c->credentials, false),
				    .tools = fewer(r, c->tools, false),
				    .runtime_classes = fewer(r, c->runtime_classes, false),
				    .max_sandboxes = c->max_sandboxes };

	if (c->max_sandboxes > 0)
		ret.max_sandboxes = pick(r, (unsigned)c->max_sandboxes + 1);
	if (ret.all_egress)
		return ret;
	for (size_t i = 0; i < c->n_egress; i++) {
		struct egress e = c->egress[i];

		if (!pick(r, 4))
			continue;
		if (e.n_ports > 1 && pick(r, 2))
			e.n_ports--;
		if (str_eq(e.host, "*") && pick(r, 2))
			e.host = a_host(r, true);
		e.paths = fewer(r, e.paths, true);
		egress[ret.n_egress++] = e;
	}
	return ret;
}

static bool contains(const struct capabilities *outer, const struct capabilities *inner)
{
	return capabilities_contain(outer, inner, NULL, NULL);
}

TEST(what_two_allow_is_what_both_allow)
{
	for (int i = 0; i < CASES; i++) {
		struct dice r = dice_of(i);
		struct capabilities x = some(&r), y = some(&r), both;

		capabilities_meet(&x, &y, r.a, &both);
		holds(&r, contains(&x, &x));
		holds(&r, contains(&x, &both));
		holds(&r, contains(&y, &both));
		holds(&r, both.rights == (x.rights & y.rights));
		for (int j = 0; j < 16; j++) {
			const char *name = word(&r, 6), *host = a_host(&r, false);
			const char *method = pick(&r, 4) ? some_methods[pick(&r, 3)] : NULL;
			const char *path = pick(&r, 4) ? word(&r, 6) : NULL;
			int64_t port = some_ports[pick(&r, 3)];

			holds(&r, capabilities_list_has(both.tools, name) ==
					  (capabilities_list_has(x.tools, name) &&
					   capabilities_list_has(y.tools, name)));
			/* What is not known of a request is in no place that names it. */
			holds(&r, capabilities_reach(&both, host, port, method, path) ==
					  (capabilities_reach(&x, host, port, method, path) &&
					   capabilities_reach(&y, host, port, method, path)));
		}
		arena_free(r.a);
	}
}

TEST(what_two_allow_is_the_most_that_both_do)
{
	int n_within = 0;

	for (int i = 0; i < CASES; i++) {
		struct dice r = dice_of(i);
		struct capabilities x = some(&r), y = some(&r), both, z;

		/* Half of them are near enough for something to be in both. */
		if (pick(&r, 2))
			y = narrow(&r, &x);
		z = pick(&r, 2) ? narrow(&r, &y) : narrow(&r, &x);
		capabilities_meet(&x, &y, r.a, &both);
		if (contains(&x, &z) && contains(&y, &z)) {
			n_within++;
			holds(&r, contains(&both, &z));
		}
		arena_free(r.a);
	}
	is_true(n_within > CASES / 10);
}

TEST(containment_is_transitive)
{
	for (int i = 0; i < CASES; i++) {
		struct dice r = dice_of(i);
		struct capabilities x = some(&r), y = narrow(&r, &x), z = narrow(&r, &y);
		struct capabilities s = some(&r), t = some(&r);

		holds(&r, contains(&x, &y));
		holds(&r, contains(&y, &z));
		holds(&r, contains(&x, &z));
		if (contains(&s, &x) && contains(&x, &t))
			holds(&r, contains(&s, &t));
		arena_free(r.a);
	}
}

/* Adds one member that nothing here contains, and says where. */
static const char *widen(struct dice *r, struct capabilities *c, const struct capabilities *outer)
{
	const char **lists[] = { (const char **)&c->credentials, (const char **)&c->tools,
				 (const char **)&c->runtime_classes };
	static const char *const names[] = { "credentials", "tools", "runtimeClasses" };
	unsigned which = pick(r, 6);

	if (which < 3) {
		const char *const *old = *(const char *const **)lists[which];
		const char **more;
		size_t n = 0;

		while (old[n])
			n++;
		more = arena_new_n(r->a, const char *, n + 2);
		for (size_t i = 0; i < n; i++)
			more[i] = old[i];
		more[n] = "zz";
		*(const char *const **)lists[which] = more;
		return arena_printf(r->a, "%s[%zu]", names[which], n);
	}
	if (which == 3) {
		c->max_sandboxes = outer->max_sandboxes + 1;
		return "maxSandboxes";
	}
	if (which == 4) {
		int n = 0;

		for (enum right i = 0; i < RIGHT_MAX_; i++) {
			if (!(outer->rights & 1U << i)) {
				c->rights |= 1U << i;
				return arena_printf(r->a, "rights[%d]", n);
			}
			n += (c->rights & 1U << i) != 0;
		}
		return "";
	}
	if (c->all_egress || !c->n_egress)
		return "";
	((struct egress *)c->egress)[c->n_egress - 1].host = "foreign.example";
	return arena_printf(r->a, "egress[%zu].host", c->n_egress - 1);
}

static bool has_foreign(const struct capabilities *c)
{
	for (size_t i = 0; i < c->n_egress; i++)
		if (str_eq(c->egress[i].host, "*"))
			return true;
	return c->all_egress || c->max_sandboxes < 0 ||
	       capabilities_list_has(c->credentials, "zz") ||
	       capabilities_list_has(c->tools, "zz") ||
	       capabilities_list_has(c->runtime_classes, "zz");
}

TEST(one_member_too_many_is_found_and_named)
{
	int n_found = 0;

	for (int i = 0; i < CASES; i++) {
		struct dice r = dice_of(i);
		struct capabilities outer = some(&r), inner = narrow(&r, &outer);
		const char *want = widen(&r, &inner, &outer);
		autobuf path = { 0 };

		if (!has_foreign(&outer) && *want) {
			n_found++;
			holds(&r, !capabilities_contain(&outer, &inner, &path, NULL));
			holds(&r, str_eq(buf_str(&path), want));
		}
		arena_free(r.a);
	}
	is_true(n_found > CASES / 20);
}

TEST(what_meets_too_often_is_less_and_never_more)
{
	autoptr(arena) a = arena_new();
	const char **xs = arena_new_n(a, const char *, 33), **ys = arena_new_n(a, const char *, 33);
	struct capabilities x, y, both;
	size_t n = 0;

	capabilities_read(NULL, a, &x);
	y = x;
	for (int i = 0; i < 32; i++) {
		xs[i] = arena_printf(a, "%d-*", i);
		ys[i] = arena_printf(a, "*-%d", i);
	}
	x.tools = xs;
	y.tools = ys;
	capabilities_meet(&x, &y, a, &both);
	while (both.tools[n])
		n++;
	eq_int(n, CAPABILITY_MEET_MAX);
	is_true(contains(&x, &both) && contains(&y, &both));
	x.tools = (const char *const[]){ "a*b*", NULL };
	y.tools = (const char *const[]){ "*c", NULL };
	capabilities_meet(&x, &y, a, &both);
	is_true(!*both.tools);
}

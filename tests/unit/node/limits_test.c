/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/limits.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "api/cay/capability.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "node/host/firewall.h"
#include "node/host/instance.h"
#include "node/network/lease_file.h"
#include "test.h"

static const char *const none[] = { NULL };
static const char *const some[] = { "x", NULL };
static const struct instance instance = { .id = "0test", .pool = 100u << 24 | 64 << 16 };

#define PLACE(name, ...)                                                         \
	{ .host = (name),                                                        \
	  .ports = (const int64_t[]){ __VA_ARGS__ },                             \
	  .n_ports = sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), \
	  .methods = none,                                                       \
	  .paths = none }
#define HTTPS_OF(name) { .host = (name), .methods = none, .paths = none }
#define OF(list)                                              \
	(struct capabilities)                                 \
	{                                                     \
		.egress = (list), .n_egress = ARRAY_LEN(list) \
	}

static struct ip addr(const char *text)
{
	struct ip ip;

	is_true(ip_parse(text, &ip));
	return ip;
}

static void lease(struct limits *l, const char *host, const char *ip, usec until)
{
	struct ip a = addr(ip);

	(void)limits_lease(l, host, &a, until);
}

TEST(a_name_has_the_ports_of_all_its_places)
{
	const struct egress places[] = {
		HTTPS_OF("web.example"),
		PLACE("*.example", 80, 443, 8080),
		{ .host = "methods.example", .methods = some, .paths = none },
		{ .host = "paths.test", .methods = none, .paths = some },
	};
	static const struct {
		const char *host;
		size_t n;
	} rows[] = {
		{ "web.example", 3 },     { "WEB.Example", 3 }, { "other.example", 3 },
		{ "methods.example", 3 }, /* by the second place alone */
		{ "example", 0 },         { "paths.test", 0 },  { "web.example.test", 0 },
	};
	autoptr(limits) l = limits_new(&OF(places));
	uint16_t ports[LIMITS_PORTS_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(limits_ports(l, rows[i].host, ports), rows[i].n);
	eq_int(limits_ports(l, "web.example", ports), 3);
	eq_int(ports[0], 443);
}

static bool is_a(void *arg unused, const char *host)
{
	return str_eq(host, "a.example");
}

TEST(a_lease_ends_with_its_time_its_place_and_its_verdict)
{
	const struct egress two[] = { HTTPS_OF("a.example"), HTTPS_OF("b.example") };
	const struct egress one[] = { HTTPS_OF("b.example") };
	autoptr(limits) l = limits_new(&OF(two));
	struct ip ip = addr("203.0.113.2");

	is_true(limits_lease(l, "a.example", &ip, 10));
	is_false(limits_lease(l, "a.example", &ip, 30)); /* it is known, and for longer now */
	is_false(limits_lease(l, "a.example", &ip, 20)); /* never for less */
	is_true(limits_lease(l, "b.example", &ip, 40));
	eq_int(limits_next_end(l), 30);
	limits_expire(l, 29);
	eq_int(limits_leases(l), 2);
	limits_expire(l, 30);
	eq_int(limits_leases(l), 1);
	is_true(limits_lease(l, "a.example", &ip, 30));
	limits_set(l, &OF(one));
	eq_int(limits_leases(l), 1);
	eq_int(limits_next_end(l), 40);
	limits_judge(l, is_a, NULL);
	eq_int(limits_leases(l), 0);
	eq_int(limits_next_end(l), 0);
}

TEST(whether_something_is_taken_away_is_told)
{
	const struct egress two[] = { PLACE("a.example", 80, 443), PLACE("203.0.113.7", 80) };
	const struct egress turned[] = { PLACE("203.0.113.7", 80), PLACE("a.example", 443, 80) };
	const struct egress three[] = { PLACE("203.0.113.7", 80), PLACE("a.example", 443, 22, 80),
					HTTPS_OF("*") };
	const struct egress fewer_ports[] = { PLACE("a.example", 80), PLACE("203.0.113.7", 80) };
	const struct egress one[] = { PLACE("a.example", 80) };
	autoptr(limits) l = limits_new(&OF(two));

	is_false(limits_set(l, &OF(two)));
	is_false(limits_set(l, &OF(turned)));
	is_false(limits_set(l, &OF(three)));
	is_true(limits_set(l, &OF(two)));
	is_true(limits_judge(l, is_a, NULL));  /* the address is shut */
	is_false(limits_judge(l, is_a, NULL)); /* as it was */
	is_false(limits_set(l, &OF(turned)));
	is_false(limits_judge(l, is_a, NULL));
	is_true(limits_set(l, &OF(fewer_ports)));
	is_true(limits_set(l, &OF(one)));
	is_true(limits_set(l, &(struct capabilities){ 0 }));
	is_false(limits_set(l, &(struct capabilities){ 0 }));
	is_false(limits_set(l, &OF(two)));
	lease(l, "b.example", "203.0.113.2", 10);
	is_true(limits_judge(l, is_a, NULL));
}

TEST(the_lease_that_ends_first_makes_room)
{
	const struct egress all[] = { HTTPS_OF("*") };
	autoptr(limits) l = limits_new(&OF(all));

	for (uint32_t i = 0; i < LEASES_MAX + 10; i++) {
		struct ip ip = ip_from4(203u << 24 | i);

		is_true(limits_lease(l, "a.example", &ip, i == 3 ? 1 : 100 + i));
	}
	eq_int(limits_leases(l), LEASES_MAX);
	eq_int(limits_next_end(l), 100 + 10); /* the fourth went first, then nine more */
}

static char *text_of(struct limits *l)
{
	struct limits *rows[4] = { NULL, NULL, l, NULL };
	const struct limits_world w = { &instance, (const bool[]){ false, false, false, true },
					rows, ARRAY_LEN(rows) };
	autobuf text = { 0 };

	limits_text(&w, &text);
	return xstrdup(buf_str(&text));
}

TEST(places_and_leases_become_elements)
{
	const struct egress places[] = { PLACE("*", 8443), PLACE("203.0.113.7", 80),
					 HTTPS_OF("a.example"), PLACE("b.example", 22) };
	autoptr(limits) l = limits_new(&OF(places));
	autofree char *open = NULL, *judged = NULL;

	lease(l, "b.example", "203.0.113.2", 10);
	lease(l, "a.example", "203.0.113.2", 10); /* one address, two names */
	lease(l, "a.example", "2d00::2", 10);
	open = text_of(l);
	is_true(strstr(
		open,
		"set free {\n		type ipv4_addr\n		elements = { 100.64.0.3 }"));
	is_true(strstr(
		open,
		"100.64.0.2 . 203.0.113.2 . tcp . 22, 100.64.0.2 . 203.0.113.2 . udp . 22, "
		"100.64.0.2 . 203.0.113.2 . tcp . 443, 100.64.0.2 . 203.0.113.2 . udp . 443, "
		"100.64.0.2 . 203.0.113.2 . tcp . 8443, 100.64.0.2 . 203.0.113.2 . udp . 8443, "
		"100.64.0.2 . 203.0.113.7 . tcp . 80, 100.64.0.2 . 203.0.113.7 . udp . 80 }"));
	is_true(strstr(open, " . 2d00::2 . tcp . 443, "));
	is_true(strstr(open, "elements = { 100.64.0.2 . tcp . 8443, 100.64.0.2 . udp . 8443 }"));
	limits_judge(l, is_a, NULL); /* neither the address nor "*" stands */
	judged = text_of(l);
	is_true(strstr(judged, "100.64.0.2 . 203.0.113.2 . tcp . 443"));
	is_false(strstr(judged, "203.0.113.7"));
	is_false(strstr(judged, "100.64.0.2 . tcp"));
	is_false(strstr(judged, " . 22"));
}

/* Pseudo-random, the same each time. */
static unsigned dice(unsigned *state, unsigned n)
{
	*state = *state * 1103515245u + 12345;
	return (*state >> 16) % n;
}

static struct bytes *any_text(unsigned *state)
{
	const struct egress places[] = { PLACE("a.example", 80, 443), PLACE("203.0.113.7", 53),
					 PLACE("*", 8080), HTTPS_OF("b.example") };
	struct limits *rows[12] = { NULL };
	bool free_[12] = { false };
	const struct limits_world w = { &instance, free_, rows, ARRAY_LEN(rows) };
	autobuf text = { 0 };

	for (unsigned i = 2; i < ARRAY_LEN(rows); i++) {
		unsigned from = dice(state, 4);

		free_[i] = dice(state, 2);
		if (free_[i] || !dice(state, 4))
			continue;
		rows[i] = limits_new(&(struct capabilities){ .egress = places + from,
							     .n_egress = dice(state, 5 - from) });
		for (unsigned n = dice(state, 8); n; n--) {
			struct ip ip = ip_from4(203u << 24 | dice(state, 6));

			(void)limits_lease(rows[i], dice(state, 2) ? "a.example" : "b.example", &ip,
					   9);
		}
		if (dice(state, 2))
			lease(rows[i], "a.example", "2d00::5", 9);
	}
	limits_text(&w, &text);
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		limits_free(rows[i]);
	return bytes_from_buf(&text);
}

TEST(a_table_whose_limits_are_changed_is_the_same_as_one_that_is_loaded)
{
	struct firewall_rules was = { .egress = true }, now = { .egress = true };
	autoclose outside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	unsigned state = 7, n_changed = 0;

	if (geteuid() != 0 || unshare(CLONE_NEWNET)) {
		skip_because("needs root: it makes a network namespace");
		return;
	}
	for (unsigned round = 0; round < 60; round++) {
		autofree char *changed = NULL, *loaded = NULL;

		now.limits = dice(&state, 6) ? any_text(&state) : NULL;
		now.limits_number = round + 1;
		if (was.limits && now.limits) {
			works(firewall_change(&instance, &was, &now));
			firewall_text(&instance, &changed);
			n_changed++;
		} else if (was.limits || now.limits) {
			fails(firewall_change(&instance, &was, &now), ERR_UNSUPPORTED);
		}
		works(firewall_load(&instance, &now));
		firewall_text(&instance, &loaded);
		if (changed)
			eq_str(changed, loaded);
		bytes_unref(was.limits);
		was = now;
	}
	is_true(n_changed > 20);
	bytes_unref(was.limits);
	is_true(!setns(outside, CLONE_NEWNET));
}

struct read_back {
	struct limits *to;
	size_t n;
};

static void take_line(void *arg, const struct lease_line *line)
{
	struct read_back *b = arg;

	eq_int(line->place, 7);
	eq_str(line->uid, "uid-1");
	(void)limits_lease(b->to, line->host, &line->ip, line->until);
	b->n++;
}

TEST(leases_are_read_back_as_they_were_written_and_what_is_no_lease_is_left_out)
{
	const struct egress all[] = { HTTPS_OF("*") };
	autoptr(limits) l = limits_new(&OF(all));
	autoptr(limits) m = limits_new(&OF(all));
	struct read_back back = { .to = m };
	autofree char *was = NULL, *is = NULL;
	struct map *unlimited, *limited;
	autobuf text = { 0 };

	lease(l, "a.example", "203.0.113.2", 10);
	lease(l, "b.example", "2d00::2", 20);
	lease_lines_add_pod("uid-2", false, &text);
	lease_lines_add_pod("uid-1", true, &text);
	lease_lines_add(7, "uid-1", l, &text);
	lease_lines_add_pod("uid-3", false, &text);
	buf_add_str(&text, "7 uid-1 203.0.113.9 10\n" /* no host */
			   "99999 uid-1 203.0.113.9 10 a.example\n"
			   "-1 uid-1 203.0.113.9 10 a.example\n"
			   "7 uid-1 203.0.113.999 10 a.example\n"
			   "7 uid-1 203.0.113.9 soon a.example\n"
			   "\n \n7");
	lease_lines_read(buf_str(&text), take_line, &back);
	eq_int(back.n, 2);
	was = text_of(l);
	is = text_of(m);
	eq_str(was, is);
	eq_int(limits_next_end(m), 10);
	unlimited = lease_lines_pods(buf_str(&text), false);
	limited = lease_lines_pods(buf_str(&text), true);
	eq_int(map_len(unlimited), 2);
	is_true(map_has(unlimited, "uid-2") && map_has(unlimited, "uid-3"));
	eq_int(map_len(limited), 1);
	is_true(map_has(limited, "uid-1"));
	map_free(unlimited);
	map_free(limited);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "node/access/session_priv.h"
#include "node/host/instance.h"
#include "node/pod/pod_priv.h"
#include "test.h"

TEST(variables_are_expanded_as_kubernetes_does)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "plain", "plain" },     { "$(A)", "1" },     { "x$(A)$(B)y", "x12y" },
		{ "$(NOPE)", "$(NOPE)" }, { "$$(A)", "$(A)" }, { "$A ${A}", "$A ${A}" },
		{ "$(A", "$(A" },         { "$", "$" },
	};
	autoptr(arena) a = arena_new();
	autoptr(map) values = map_new(NULL);

	map_put(values, "A", (void *)(uintptr_t)"1");
	map_put(values, "B", (void *)(uintptr_t)"2");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_str(env_expand(a, rows[i].text, values), rows[i].want);
}

TEST(lines_of_a_log_are_told_apart)
{
	static const struct {
		const char *line;
		bool ok, is_stderr, partial;
		const char *text;
	} rows[] = {
		{ "2016-10-06T00:17:09.669794202Z stdout F hello", true, false, false, "hello" },
		{ "2016-10-06T00:17:09.669794202Z stderr P part", true, true, true, "part" },
		{ "2016-10-06T00:17:09.669794202Z stdout F ", true, false, false, "" },
		{ "2016-10-06T00:17:09.669794202Z stdout F a b  c", true, false, false, "a b  c" },
		{ "2016-10-06T00:17:09.669794202Z nowhere F x", false, false, false, NULL },
		{ "2016-10-06T00:17:09.669794202Z stdout X x", false, false, false, NULL },
		{ "short stdout F x", false, false, false, NULL },
		{ "", false, false, false, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cri_line l;

		eq_int(cri_parse(SPAN(rows[i].line), &l), rows[i].ok);
		if (!rows[i].ok)
			continue;
		eq_int(l.is_stderr, rows[i].is_stderr);
		eq_int(l.partial, rows[i].partial);
		is_true(span_eq(l.text, rows[i].text));
	}
}

TEST(a_place_of_the_pool_has_an_address_in_each_family)
{
	const struct instance i = { .id = "1a2b3", .pool = 0x64400000 };
	const struct instance other = { .id = "1a2b4", .pool = 0x64404000 };
	static const unsigned places[] = { 1, 2, 300, POOL_SIZE - 1 };
	struct ip beyond = instance_ip6(&i, POOL_SIZE);
	char text[IP_TEXT_MAX];
	unsigned n;

	for (size_t k = 0; k < ARRAY_LEN(places); k++) {
		struct ip v4 = instance_ip4(&i, places[k]), v6 = instance_ip6(&i, places[k]);

		is_true(instance_ip_place(&i, &v4, &n));
		eq_int(n, places[k]);
		is_true(instance_ip_place(&i, &v6, &n));
		eq_int(n, places[k]);
		is_false(instance_ip_place(&other, &v4, &n));
		is_false(instance_ip_place(&other, &v6, &n));
		ip_text(&v6, text);
	}
	eq_str(text, "fdca:71a2:b300::3fff");
	is_false(instance_ip_place(&i, &beyond, &n));
}

TEST(an_instance_keeps_its_names)
{
	char path[] = "/tmp/cay-instance-XXXXXX", ifname[16], ip[16], again[16];
	autoptr(instance) first = NULL;
	autoptr(instance) second = NULL;
	unsigned n;

	is_true(mkdtemp(path));
	fails(instance_open(path, NULL, false, &first), ERR_NOT_FOUND);
	works(instance_open(path, NULL, true, &first));
	is_true(instance_running(first));
	fails(instance_open(path, NULL, true, &second), ERR_CONFLICT);
	works(instance_open(path, NULL, false, &second));
	eq_str(first->id, second->id);
	eq_str(first->run_dir, second->run_dir);
	instance_ifname(first, 300, ifname);
	is_true(strlen(ifname) < sizeof(ifname));
	is_true(instance_owns_ifname(second, ifname, &n));
	eq_int(n, 300);
	is_false(instance_owns_ifname(second, "eth0", &n));
	instance_addr_text(first, 300, ip);
	instance_addr_text(second, 300, again);
	eq_str(ip, again);
	is_true(instance_addr_place(second, ip, &n));
	eq_int(n, 300);
	is_false(instance_addr_place(second, "10.0.0.1", &n));
	works(file_remove_tree(AT_FDCWD, path));
}

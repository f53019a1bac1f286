/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "node/network/dns_packet.h"
#include "node/network/resolv_conf.h"
#include "test.h"

#define HEAD(flags, count) "\x12\x34" flags "\0" count "\0\0\0\0\0\0"
#define WEB                "\3wEb\7example\0"
#define IN_A               "\0\1\0\1"

struct row {
	const char *wire;
	size_t len;
};
#define ROW(text) { (text), sizeof(text) - 1 }

static const uint8_t *bytes_of(const char *text)
{
	return (const uint8_t *)text;
}

TEST(a_query_is_read)
{
	static const char wire[] = HEAD("\1\0", "\1") WEB IN_A "what is behind is not looked at";
	struct dns_query q;
	enum dns_code code;

	works(dns_query_read(bytes_of(wire), sizeof(wire) - 1, &q, &code));
	eq_int(q.id, 0x1234);
	eq_str(q.name, "web.example.");
	eq_int(q.type, DNS_A);
	eq_int(code, DNS_NOERROR);
	eq_int(q.end, DNS_HEADER + sizeof(WEB) - 1 + 4);
}

TEST(what_is_no_query_is_dropped)
{
	static const struct row rows[] = {
		ROW("\x12\x34\1\0\0\1\0\0\0\0\0"),          /* cut in its header */
		ROW(HEAD("\x81\0", "\1") WEB IN_A),         /* an answer */
		ROW(HEAD("\1\0", "\2") WEB IN_A WEB IN_A),  /* two questions */
		ROW(HEAD("\1\0", "\0")),                    /* none */
		ROW(HEAD("\1\0", "\1") WEB "\0\1\0"),       /* cut in its question */
		ROW(HEAD("\1\0", "\1") "\3we"),             /* cut in its name */
		ROW(HEAD("\1\0", "\1") "\xc0\x0c" IN_A),    /* a name that refers to itself */
		ROW(HEAD("\1\0", "\1") "\3web\xc0\0" IN_A), /* and to the header */
	};
	struct dns_query q;
	enum dns_code code;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		fails(dns_query_read(bytes_of(rows[i].wire), rows[i].len, &q, &code),
		      ERR_MALFORMED);
}

TEST(what_is_not_supported_is_refused)
{
	static const char chaos[] = HEAD("\1\0", "\1") WEB "\0\1\0\3";
	static const char update[] = HEAD("\x29\0", "\1") WEB IN_A;
	struct dns_query q;
	enum dns_code code;

	works(dns_query_read(bytes_of(chaos), sizeof(chaos) - 1, &q, &code));
	eq_int(code, DNS_REFUSED);
	works(dns_query_read(bytes_of(update), sizeof(update) - 1, &q, &code));
	eq_int(code, DNS_NOTIMP);
}

TEST(an_answer_repeats_the_question_and_is_cut_where_it_does_not_fit)
{
	static const char wire[] = HEAD("\1\0", "\1") WEB IN_A;
	static const char want[] =
		"\x12\x34\x85\x80\0\1\0\1\0\0\0\0" WEB IN_A "\xc0\x0c\0\1\0\1\0\0\0\5\0\4\12\1\2\3";
	struct dns_answer a = { .authoritative = true, .ttl = 5, .n_addrs = 1 };
	struct dns_query q;
	enum dns_code code;
	autobuf one = { 0 }, many = { 0 }, all = { 0 };

	works(dns_query_read(bytes_of(wire), sizeof(wire) - 1, &q, &code));
	for (size_t i = 0; i < DNS_ADDRS_MAX; i++)
		a.addrs[i] = ip_from4(0x0a010203);
	works(dns_answer_write(bytes_of(wire), &q, &a, DNS_UDP_MAX, &one));
	eq_int(one.len, sizeof(want) - 1);
	is_true(!memcmp(buf_head(&one), want, sizeof(want) - 1));
	a.n_addrs = DNS_ADDRS_MAX;
	works(dns_answer_write(bytes_of(wire), &q, &a, DNS_UDP_MAX, &many));
	eq_int(many.len, q.end);
	eq_int(buf_head(&many)[2] & 2, 2);
	works(dns_answer_write(bytes_of(wire), &q, &a, 65535, &all));
	eq_int(buf_head(&all)[7], DNS_ADDRS_MAX);
}

TEST(the_family_that_is_asked_for_is_told)
{
	static const char wire[] = HEAD("\1\0", "\1") WEB "\0\34\0\1";
	static const char want[] = "\x12\x34\x85\x80\0\1\0\1\0\0\0\0" WEB "\0\34\0\1"
				   "\xc0\x0c\0\34\0\1\0\0\0\5\0\20\xfd\0\0\0\0\0\0\0\0\0\0\0\0"
				   "\0\0\7";
	struct dns_answer a = { .authoritative = true, .ttl = 5, .n_addrs = 2 };
	struct dns_query q;
	enum dns_code code;
	autobuf out = { 0 };

	works(dns_query_read(bytes_of(wire), sizeof(wire) - 1, &q, &code));
	a.addrs[0] = ip_from4(0x0a010203);
	is_true(ip_parse("fd00::7", &a.addrs[1]));
	works(dns_answer_write(bytes_of(wire), &q, &a, DNS_UDP_MAX, &out));
	eq_int(out.len, sizeof(want) - 1);
	is_true(!memcmp(buf_head(&out), want, sizeof(want) - 1));
}

TEST(places_of_ports_are_written)
{
	static const char wire[] = HEAD("\1\0", "\1") WEB "\0\x21\0\1";
	static const char want[] = "\x12\x34\x85\x80\0\1\0\2\0\0\0\0" WEB "\0\x21\0\1"
				   "\xc0\x0c\0\x21\0\1\0\0\0\5\0\11\0\0\0\x32\0\x50\1a\0"
				   "\xc0\x0c\0\x21\0\1\0\0\0\5\0\11\0\0\0\x32\0\x51\1b\0";
	struct dns_answer a = { .authoritative = true,
				.ttl = 5,
				.n_places = 2,
				.places = { { "a.", 80 }, { "b.", 81 } } };
	struct dns_query q;
	enum dns_code code;
	autobuf out = { 0 };

	works(dns_query_read(bytes_of(wire), sizeof(wire) - 1, &q, &code));
	works(dns_answer_write(bytes_of(wire), &q, &a, DNS_UDP_MAX, &out));
	eq_int(out.len, sizeof(want) - 1);
	is_true(!memcmp(buf_head(&out), want, sizeof(want) - 1));
}

TEST(only_the_answer_to_a_question_is_taken_for_it)
{
	static const char asked[] = HEAD("\1\0", "\1") WEB IN_A;
	static const struct {
		struct row row;
		bool good;
	} rows[] = {
		{ ROW("\x77\x66\x81\x80\0\1\0\0\0\0\0\0" WEB IN_A), true },
		{ ROW("\x77\x66\x81\x80\0\1\0\0\0\0\0\0"
		      "\3web\7example\0" IN_A),
		  true },
		{ ROW("\x77\x67\x81\x80\0\1\0\0\0\0\0\0" WEB IN_A), false }, /* another id */
		{ ROW("\x77\x66\1\0\0\1\0\0\0\0\0\0" WEB IN_A), false },     /* no answer */
		{ ROW("\x77\x66\x81\x80\0\0\0\0\0\0\0\0" WEB IN_A), false }, /* no question */
		{ ROW("\x77\x66\x81\x80\0\1\0\0\0\0\0\0"
		      "\3wob\7example\0" IN_A),
		  false },
		{ ROW("\x77\x66\x81\x80\0\1\0\0\0\0\0\0" WEB "\0\34\0\1"), false },
		{ ROW("\x77\x66\x81\x80\0\1\0\0\0\0\0\0" WEB), false },
		{ ROW("\x77\x66"), false },
	};
	struct dns_query q;
	enum dns_code code;

	works(dns_query_read(bytes_of(asked), sizeof(asked) - 1, &q, &code));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		is_true(dns_answers(bytes_of(rows[i].row.wire), rows[i].row.len, bytes_of(asked),
				    &q, 0x7766) == rows[i].good);
}

TEST(a_question_of_our_own_is_read_as_what_it_asks)
{
	static const char *const no_names[] = { "", ".", "a..b", ".a" };
	char label[70], name[300];
	uint8_t wire[DNS_QUERY_MAX];
	struct dns_query q;
	enum dns_code code;
	size_t len = dns_query_write("web.example", DNS_AAAA, wire);

	works(dns_query_read(wire, len, &q, &code));
	eq_int(code, DNS_NOERROR);
	eq_str(q.name, "web.example.");
	eq_int(q.type, DNS_AAAA);
	is_true(q.recursion);
	eq_int(q.end, len);
	for (size_t i = 0; i < ARRAY_LEN(no_names); i++)
		eq_int(dns_query_write(no_names[i], DNS_A, wire), 0);
	memset(label, 'a', 64);
	label[64] = '\0';
	eq_int(dns_query_write(label, DNS_A, wire), 0);
	memset(name, 'a', 254);
	for (size_t i = 50; i < 254; i += 50)
		name[i] = '.';
	name[254] = '\0';
	eq_int(dns_query_write(name, DNS_A, wire), 0);
}

TEST(a_resolv_conf_is_read_as_libc_reads_it)
{
	struct resolv_conf r;

	resolv_conf_read("# first\nsearch a.example b.example\nnameserver 10.0.0.1\n"
			 "nameserver nonsense\n\tnameserver\t::1\nnameserver 10.0.0.2\n"
			 "nameserver 10.0.0.3\noptions ndots:2\nsearch c.example\n",
			 &r);
	eq_int(r.n_servers, RESOLV_SERVERS_MAX);
	eq_int(r.servers[0].ss_family, AF_INET);
	eq_int(r.servers[1].ss_family, AF_INET6);
	eq_int(r.n_searches, 1);
	eq_str(r.searches[0], "c.example");
	resolv_conf_read("", &r);
	eq_int(r.n_servers, 0);
}

/* Records of an answer to WEB: name, type, class, 60 seconds, and what follows. */
#define ANSWER(flags, n)   "\x12\x34" flags "\0\1\0" n "\0\0\0\0" WEB
#define RR(name, type)     name "\0" type "\0\1\0\0\0\x3c"
#define SELF               "\xc0\x0c"
#define TARGET             "\3cdn\4test\0"
#define A_OF(name, a, b)   RR(name, "\1") "\0\4" a b "\x71\2"
#define CNAME_TO_CDN(name) RR(name, "\5") "\0\012" TARGET

TEST(of_an_answer_only_the_addresses_of_the_name_are_taken)
{
	static const char asked[] = HEAD("\1\0", "\1") WEB IN_A;
	static const struct {
		struct row row;
		enum dns_code code;
		size_t n;
		bool cut;
	} rows[] = {
		{ ROW(ANSWER("\x81\x80", "\1") IN_A A_OF(SELF, "\xcb", "\0")), DNS_NOERROR, 1,
		  false },
		{ ROW(ANSWER("\x81\x80", "\2") IN_A A_OF(SELF, "\xcb", "\0")
			      A_OF(TARGET, "\xcb", "\1")),
		  DNS_NOERROR, 1, false }, /* of another name */
		{ ROW(ANSWER("\x81\x80", "\2") IN_A CNAME_TO_CDN(SELF) A_OF(TARGET, "\xcb", "\1")),
		  DNS_NOERROR, 1, false },
		{ ROW(ANSWER("\x81\x80", "\2") IN_A CNAME_TO_CDN(SELF) A_OF(SELF, "\xcb", "\1")),
		  DNS_NOERROR, 0, false }, /* that it has an alias for */
		{ ROW(ANSWER("\x81\x80", "\2") IN_A CNAME_TO_CDN(SELF) CNAME_TO_CDN(TARGET)),
		  DNS_NOERROR, 0, false }, /* that leads to itself */
		{ ROW(ANSWER("\x81\x83", "\0") IN_A), DNS_NXDOMAIN, 0, false },
		{ ROW(ANSWER("\x83\x80", "\1") IN_A A_OF(SELF, "\xcb", "\0")), DNS_NOERROR, 0,
		  true },
	};
	struct dns_query q;
	enum dns_code code;

	works(dns_query_read(bytes_of(asked), sizeof(asked) - 1, &q, &code));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dns_answer a;

		works(dns_answer_read(bytes_of(rows[i].row.wire), rows[i].row.len, &q, 16, &a));
		eq_int(a.code, rows[i].code);
		eq_int(a.n_addrs, rows[i].n);
		eq_int(a.cut, rows[i].cut);
		eq_int(a.ttl, rows[i].n ? 60 : 0);
	}
	fails(dns_answer_read(bytes_of(rows[0].row.wire), rows[0].row.len - 3, &q, 16,
			      &(struct dns_answer){ 0 }),
	      ERR_MALFORMED);
}

TEST(an_answer_has_no_more_addresses_than_are_wanted)
{
	static const char asked[] = HEAD("\1\0", "\1") WEB IN_A;
	static const char wire[] = ANSWER("\x81\x80", "\3") IN_A A_OF(SELF, "\xcb", "\0")
		A_OF(SELF, "\xcb", "\1") A_OF(SELF, "\xcb", "\2");
	struct dns_answer a;
	struct dns_query q;
	enum dns_code code;

	works(dns_query_read(bytes_of(asked), sizeof(asked) - 1, &q, &code));
	works(dns_answer_read(bytes_of(wire), sizeof(wire) - 1, &q, 2, &a));
	eq_int(a.n_addrs, 2);
}

TEST(a_bare_query_is_the_name_in_lower_case_and_nothing_else)
{
	static const char asked[] = "\x12\x34\1\x20\0\1\0\0\0\0\0\1" WEB IN_A "\0\0\x29more";
	static const char want[] = "\0\0\1\0\0\1\0\0\0\0\0\0"
				   "\3web\7example\0" IN_A;
	uint8_t bare[DNS_QUERY_MAX];
	struct dns_query q;
	enum dns_code code;

	works(dns_query_read(bytes_of(asked), sizeof(asked) - 1, &q, &code));
	eq_int(dns_query_bare(bytes_of(asked), &q, bare), sizeof(want) - 1);
	is_true(!memcmp(bare, want, sizeof(want) - 1));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "base/str.h"
#include "loop/loop.h"
#include "net/rig.h"
#include "net/stream.h"
#include "pair.h"
#include "test.h"
#include "tls/tls.h"

/* Certificates for names that clients ask for, and sealed text. */
struct shop {
	struct loop *l;
	struct tls_ctx *server, *client;
};

static void shop_open(struct shop *s)
{
	static const char *const sans[] = { "localhost", NULL };
	const struct tls_cert_spec spec = {
		.common_name = "x", .sans = sans, .server = true, .valid_for = 3600 * 1000000ll
	};
	struct tls_pair own = { 0 };

	pair_setup();
	works(loop_new(&s->l));
	works(tls_make_cert(&test_ca, &spec, &own));
	works(tls_server_ctx(&(struct tls_server_spec){ .cert_pem = own.cert_pem,
							.key_pem = own.key_pem,
							.names_ca = &test_ca,
							.names_domain = "box.test" },
			     &s->server));
	works(tls_client_ctx(&(struct tls_client_spec){ .ca_pem = test_ca.cert_pem }, &s->client));
	tls_pair_done(&own);
}

static void shop_close(struct shop *s)
{
	tls_ctx_unref(s->server);
	tls_ctx_unref(s->client);
	loop_free(s->l);
}

/* Whether a client that verifies what it is shown gets through. */
static bool is_served(struct shop *s, const char *name)
{
	struct end server = { 0 }, client = { 0 };
	int ends[2];
	bool good;

	eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	server.c = pair_conn(s->l, tls_accept(s->server, ends[0]), &server);
	client.c = pair_conn(s->l, tls_connect(s->client, ends[1], name), &client);
	conn_write(client.c, "x", 1);
	until(s->l, server.got.len || client.closed || server.closed);
	good = server.got.len;
	conn_free(server.c);
	conn_free(client.c);
	buf_done(&server.got);
	buf_done(&client.got);
	return good;
}

TEST(a_name_two_labels_below_the_domain_gets_a_certificate)
{
	static const struct {
		const char *name;
		bool served;
	} rows[] = {
		{ "a.b.box.test", true },    { "other.b.box.test", true },
		{ "a.c.box.test", true },    { "A-1.D.Box.Test", true },
		{ "localhost", true },       { "b.box.test", false },
		{ "a.b.c.box.test", false }, { "a.b.box.test.evil", false },
		{ "a.b.xbox.test", false },  { "a.-b.box.test", false },
	};
	struct shop s = { 0 };

	shop_open(&s);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (is_served(&s, rows[i].name) != rows[i].served)
			fail_msg("%s", rows[i].name);
	shop_close(&s);
}

TEST(more_names_than_are_kept_are_served)
{
	struct shop s = { 0 };

	shop_open(&s);
	for (int i = 0; i < 260; i++) {
		autofree char *name = xasprintf("a.n%d.box.test", i);

		is_true(is_served(&s, name));
	}
	is_true(is_served(&s, "b.n0.box.test")); /* it was dropped and is made again */
	is_true(is_served(&s, "b.n259.box.test"));
	shop_close(&s);
}

TEST(sealed_text_opens_with_its_key_and_label_alone)
{
	static const struct tls_seal_key key = { "key", 3 }, other = { "kex", 3 };
	autofree char *sealed = tls_seal(&key, "a.", "{\"x\":1}"), *text = NULL, *none = NULL;
	autofree char *longer = xasprintf("%sA", sealed), *huge = xmalloc(9001);

	is_true(tls_unseal(&key, "a.", sealed, &text));
	eq_str(text, "{\"x\":1}");
	is_false(tls_unseal(&other, "a.", sealed, &none));
	is_false(tls_unseal(&key, "b.", sealed, &none));
	is_false(tls_unseal(&key, "", sealed, &none));
	is_false(tls_unseal(&key, "a.", longer, &none));
	is_false(tls_unseal(&key, "a.", "", &none));
	is_false(tls_unseal(&key, "a.", ".", &none));
	memset(huge, 'A', 9000);
	huge[9000] = '\0';
	is_false(tls_unseal(&key, "a.", huge, &none));
}

/* HMAC-SHA256 of RFC 4231, test case 2, by way of the label: the text is empty. */
TEST(the_seal_is_the_hmac_that_others_compute)
{
	static const struct tls_seal_key key = { "Jefe", 4 };
	autofree char *text = NULL;

	is_true(tls_unseal(&key, "what do ya want for nothing?",
			   ".W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM", &text));
	eq_str(text, "");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/file.h"
#include "kinds.h"
#include "rig.h"

/*
 * The same client against a real kube-apiserver, when there is one: CAY_TEST_KUBECONFIG_JSON names
 * its admin kubeconfig as JSON. CAY_TEST_COMPACT, when set, is a command that makes the server
 * forget its history.
 */
struct cluster {
	struct loop *l;
	struct client *client;
	struct kubeconfig config;
	struct diary d;
	char name[32];
};

static bool cluster_start(struct cluster *c)
{
	const char *path = getenv("CAY_TEST_KUBECONFIG_JSON");
	autoptr(json_doc) doc = NULL;
	autofree char *text = NULL;
	size_t len;

	*c = (struct cluster){ 0 };
	if (str_empty(path))
		return false;
	works(file_read(AT_FDCWD, path, 1 << 20, &text, &len));
	works(json_parse(text, len, NULL, &doc));
	works(kubeconfig_read(json_root(doc), NULL, &c->config));
	works(loop_new(&c->l));
	works(client_http_new(c->l, &c->config, "cay-test", test_kinds(), &c->client));
	(void)snprintf(c->name, sizeof(c->name), "t%llx", (unsigned long long)clock_wall());
	return true;
}

static void cluster_stop(struct cluster *c)
{
	client_free(c->client);
	kubeconfig_done(&c->config);
	for (int i = 0; i < 20; i++)
		loop_turn(c->l, 1);
	loop_free(c->l);
	diary_done(&c->d);
}

static struct err *done(struct cluster *c)
{
	size_t n = c->d.n_done;

	until(c->l, c->d.n_done > n);
	return take(c->d.e);
}

static struct err *create(struct cluster *c)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta;

	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", "v1");
	json_set_str(d, root, "kind", "ConfigMap");
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "name", c->name);
	json_set_str(d, json_need_obj(d, meta, "labels"), "test", c->name);
	client_create(c->client, &(struct client_ref){ kind_named("ConfigMap"), "default" }, d,
		      diary_write(&c->d));
	return done(c);
}

static struct err *patch(struct cluster *c, const char *fmt, ...) printf_like(2, 3);
static struct err *patch(struct cluster *c, const char *fmt, ...)
{
	autobuf b = { 0 };
	struct json_doc *d = NULL;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	works(json_parse(buf_str(&b), b.len, NULL, &d));
	client_patch(c->client, &(struct client_ref){ kind_named("ConfigMap"), "default", c->name },
		     PATCH_MERGE, d, diary_write(&c->d));
	return done(c);
}

static struct err *delete_it(struct cluster *c, const char *uid)
{
	client_delete(
		c->client, &(struct client_ref){ kind_named("ConfigMap"), "default", c->name },
		&(struct client_delete_spec){ .uid = uid, .grace_s = -1 }, diary_write(&c->d));
	return done(c);
}

static struct client_watch *watch_mine(struct cluster *c)
{
	autofree char *selector = xasprintf("test=%s", c->name);
	struct client_watch *w =
		client_watch(c->client,
			     &(struct client_watch_spec){ .kind = kind_named("ConfigMap"),
							  .label_selector = selector },
			     &diary_events, &c->d);

	until(c->l, strstr(buf_str(&c->d.text), "S"));
	buf_clear(&c->d.text);
	return w;
}

TEST(cluster_objects_come_and_go)
{
	struct cluster c;
	struct client_watch *w;
	autofree char *said = NULL;

	if (!cluster_start(&c))
		skip_because("CAY_TEST_KUBECONFIG_JSON names no cluster");
	w = watch_mine(&c);
	works(create(&c));
	fails(create(&c), ERR_EXISTS);
	works(patch(&c, "{\"data\":{\"a\":\"1\"}}"));
	eq_str(json_str(json_at_path(c.d.o->root, "data.a")), "1");
	is_false(json_at_path(c.d.o->root, "metadata.managedFields"));
	fails(patch(&c, "{\"metadata\":{\"resourceVersion\":\"1\"}}"), ERR_CONFLICT);
	fails(patch(&c, "{\"data\":{\"a\":7}}"), ERR_INVALID);
	fails(delete_it(&c, "0000"), ERR_CONFLICT);
	works(delete_it(&c, NULL));
	fails(delete_it(&c, NULL), ERR_NOT_FOUND);
	for (int i = 0; i < 20; i++)
		loop_turn(c.l, 10);
	said = xasprintf("+%s D D ~%s D D D D -%s D D ", c.name, c.name, c.name);
	eq_str(buf_str(&c.d.text), said);
	client_watch_free(w);
	cluster_stop(&c);
}

/* Every TCP connection of this process is shut down under the client. */
static void cut_connections(void)
{
	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_storage a = { 0 };
		socklen_t len = sizeof(a);

		if (getpeername(fd, (struct sockaddr *)&a, &len) == 0 && a.ss_family == AF_INET)
			(void)shutdown(fd, SHUT_RDWR);
	}
}

static bool gone(struct cluster *c)
{
	autoptr(object) o = client_get(c->client, kind_named("ConfigMap"), "default", c->name);

	return !o;
}

TEST(cluster_watch_resumes_after_a_cut)
{
	struct cluster c, other;
	struct client_watch *w;
	autoptr(json_doc) counts = NULL;

	if (!cluster_start(&c))
		skip_because("CAY_TEST_KUBECONFIG_JSON names no cluster");
	w = watch_mine(&c);
	works(create(&c));
	for (int i = 0; i < 20; i++)
		loop_turn(c.l, 10);
	cut_connections();
	is_true(cluster_start(&other)); /* deletes while the first is blind */
	memcpy(other.name, c.name, sizeof(c.name));
	works(delete_it(&other, NULL));
	cluster_stop(&other);
	until(c.l, gone(&c));
	counts = client_http_counts(c.client);
	eq_int(json_get_int(json_root(counts), "LIST configmaps", 0), 1);
	eq_int(json_get_int(json_root(counts), "WATCH configmaps", 0), 2);
	client_watch_free(w);
	cluster_stop(&c);
}

static void on_exited(void *arg, int status, int term_signal)
{
	*(int *)arg = term_signal ? -term_signal : status;
}

TEST(cluster_watch_lists_again_when_history_is_gone)
{
	const char *restart = getenv("CAY_TEST_RESTART");
	const char *const argv[] = { "/bin/sh", "-c", restart, NULL };
	struct cluster c, other;
	struct client_watch *w;
	struct child *child;
	autoptr(json_doc) counts = NULL;
	int exited = 1000;

	if (str_empty(restart) || !cluster_start(&c))
		skip_because("CAY_TEST_RESTART is not set");
	w = watch_mine(&c);
	works(create(&c));
	for (int i = 0; i < 20; i++)
		loop_turn(c.l, 10);
	is_true(cluster_start(&other)); /* the world goes on without this watch seeing it */
	works(create(&other));
	works(delete_it(&other, NULL));
	memcpy(other.name, c.name, sizeof(c.name));
	works(child_spawn(c.l, &(struct child_spec){ .argv = argv }, on_exited, &exited, &child));
	until(c.l, exited != 1000);
	eq_int(exited, 0);
	until(c.l, (err_free(take(c.d.e)), patch(&c, "{\"data\":{\"b\":\"2\"}}") == NULL));
	works(delete_it(&other, NULL));
	cluster_stop(&other);
	until(c.l, gone(&c));
	counts = client_http_counts(c.client);
	eq_int(json_get_int(json_root(counts), "LIST configmaps", 0), 2);
	client_watch_free(w);
	cluster_stop(&c);
}

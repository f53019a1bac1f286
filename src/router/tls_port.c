/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "router/router_priv.h"

/*
 * The certificates of the port with TLS. Those in files are replaced by whoever renews them, by a
 * rename or, where a cluster mounts them, by a change of the link `..data`: so the files are looked
 * at again every second, through all links, by a job. While they do not fit together, as in the
 * middle of such a change, the last pair stays in use.
 */
enum {
	LOOK_MS = 1000,
	PEM_MAX = 256 * 1024,
	FILES = 2,
};
#define OWN_VALID ((usec)365 * 24 * 3600 * 1000000)

struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct tls_port {
	struct loop *loop;
	char *files[FILES]; /* certificate and key; NULL: signed by the CA */
	char *client_ca_pem;
	struct tls_ctx *ctx;
	struct stamp seen[FILES];
	struct timer *timer;
	struct look *look; /* under way */
	bool told;         /* that they do not fit together */
};

/* A look at the files, in a job. */
struct look {
	struct tls_port *port; /* NULL: gone in the meantime */
	const char *files[FILES];
	const char *client_ca_pem;
	char *copies[FILES + 1];
	struct stamp seen[FILES];
	struct tls_ctx *ctx; /* NULL: nothing has changed */
	struct err *failure;
};

static struct err *stamp_read(const char *path, struct stamp *ret)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_sys(errno, "look at %s", path);
	*ret = (struct stamp){ st.st_dev, st.st_ino, st.st_size, st.st_mtim };
	return NULL;
}

static bool stamp_eq(const struct stamp *a, const struct stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* *ret stays NULL if the files are those that were seen last. */
static struct err *read_files(const char *const files[FILES], const char *client_ca_pem,
			      struct stamp seen[FILES], struct tls_ctx **ret)
{
	autofree char *cert = NULL, *key = NULL;
	struct stamp now[FILES];
	struct err *e = NULL;
	size_t len;

	for (int i = 0; i < FILES && !e; i++)
		e = stamp_read(files[i], &now[i]);
	if (e || (stamp_eq(&now[0], &seen[0]) && stamp_eq(&now[1], &seen[1])))
		return e;
	e = file_read(AT_FDCWD, files[0], PEM_MAX, &cert, &len);
	if (!e)
		e = file_read(AT_FDCWD, files[1], PEM_MAX, &key, &len);
	if (!e)
		e = tls_server_ctx(&(struct tls_server_spec){ .cert_pem = cert,
							      .key_pem = key,
							      .client_ca_pem = client_ca_pem,
							      .http2 = ROUTER_HTTP2 },
				   ret);
	if (key)
		explicit_bzero(key, strlen(key));
	if (e)
		return err_wrap(e, "use %s and %s", files[0], files[1]);
	memcpy(seen, now, sizeof(now));
	return NULL;
}

static void look_work(void *arg)
{
	struct look *k = arg;

	k->failure = read_files(k->files, k->client_ca_pem, k->seen, &k->ctx);
}

static void take_over(struct tls_port *t, struct look *k)
{
	if (k->failure && !t->told)
		log_warn("the router's certificate cannot be read, going on with the last one",
			 KV("err", k->failure));
	t->told = k->failure;
	if (!k->ctx)
		return;
	tls_ctx_unref(t->ctx);
	t->ctx = take(k->ctx);
	memcpy(t->seen, k->seen, sizeof(t->seen));
	log_info("the router has another certificate", KV("file", t->files[0]));
}

static void look_done(void *arg)
{
	struct look *k = arg;
	struct tls_port *t = k->port;

	if (t) {
		take_over(t, k);
		t->look = NULL;
		timer_set(t->timer, LOOK_MS);
	}
	tls_ctx_unref(k->ctx);
	err_free(k->failure);
	for (size_t i = 0; i < ARRAY_LEN(k->copies); i++)
		free(k->copies[i]);
	free(k);
}

static void on_timer(void *arg)
{
	struct tls_port *t = arg;
	struct look *k = xnew(struct look);

	k->port = t;
	k->copies[0] = xstrdup(t->client_ca_pem);
	k->client_ca_pem = k->copies[0];
	for (int i = 0; i < FILES; i++)
		k->files[i] = k->copies[i + 1] = xstrdup(t->files[i]);
	memcpy(k->seen, t->seen, sizeof(k->seen));
	t->look = k;
	job_run(t->loop, look_work, look_done, k);
}

static struct err *from_files(struct tls_port *t, const struct router_tls_spec *spec)
{
	struct err *e;

	t->files[0] = xstrdup(spec->cert_file);
	t->files[1] = xstrdup(spec->key_file);
	e = read_files((const char *const *)t->files, t->client_ca_pem, t->seen, &t->ctx);
	if (e)
		return e;
	t->timer = timer_new(t->loop, on_timer, t);
	timer_set(t->timer, LOOK_MS);
	return NULL;
}

static struct err *from_ca(struct tls_port *t, const struct router_tls_spec *spec,
			   const char *domain)
{
	const struct tls_cert_spec cert = { .common_name = "cay-router",
					    .sans = spec->sans,
					    .server = true,
					    .valid_for = OWN_VALID };
	struct tls_pair pair = { 0 };
	struct err *e = tls_make_cert(spec->ca, &cert, &pair);

	if (!e)
		e = tls_server_ctx(&(struct tls_server_spec){ .cert_pem = pair.cert_pem,
							      .key_pem = pair.key_pem,
							      .client_ca_pem = t->client_ca_pem,
							      .http2 = ROUTER_HTTP2,
							      .names_ca = domain ? spec->ca : NULL,
							      .names_domain = domain },
				   &t->ctx);
	tls_pair_done(&pair);
	return e;
}

struct err *tls_port_new(struct loop *l, const struct router_tls_spec *spec, const char *domain,
			 struct tls_port **ret)
{
	struct tls_port *t = xnew(struct tls_port);
	struct err *e;

	t->loop = l;
	t->client_ca_pem = xstrdup(spec->client_ca_pem);
	if (spec->cert_file && spec->key_file)
		e = from_files(t, spec);
	else if (spec->ca && !spec->cert_file && !spec->key_file)
		e = from_ca(t, spec, domain);
	else
		e = err_new(ERR_INVALID,
			    "the router's TLS port needs both a certificate and its key");
	if (e) {
		tls_port_free(t);
		return e;
	}
	*ret = t;
	return NULL;
}

void tls_port_free(struct tls_port *t)
{
	if (!t)
		return;
	if (t->look)
		t->look->port = NULL;
	timer_free(t->timer);
	tls_ctx_unref(t->ctx);
	for (int i = 0; i < FILES; i++)
		free(t->files[i]);
	free(t->client_ca_pem);
	free(t);
}

struct stream *tls_port_accept(struct tls_port *t, int fd)
{
	return tls_accept(t->ctx, fd);
}

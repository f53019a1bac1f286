/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a role that runs in a Pod shows to the cluster: whether it is alive and ready, and what it
 * has counted.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/settings.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "role/probes_priv.h"

enum {
	CONNS_MAX = 64, /* for kubelets and a few collectors */
};

struct probes {
	struct probes_spec spec;
	struct http_server *metrics, *health; /* NULL: no such port */
	bool one;                             /* the port of metrics is that of health too */
};

static void show_metrics(struct probes *p, struct http_request *r)
{
	autobuf b = { 0 };

	p->spec.write(p->spec.arg, &b);
	http_respond(r, 200, NULL,
		     (struct http_body){ "text/plain; version=0.0.4", buf_head(&b), b.len });
}

static void show_alive(unused struct probes *p, struct http_request *r)
{
	static const char ok[] = "{\"status\":\"ok\"}\n";

	http_respond(r, 200, NULL, (struct http_body){ "application/json", ok, sizeof(ok) - 1 });
}

static void show_ready(struct probes *p, struct http_request *r)
{
	const char *trouble = p->spec.trouble(p->spec.arg);

	http_respond_text(r, trouble ? 503 : 200, trouble ? trouble : "ok");
}

static const struct {
	const char *path;
	bool metrics; /* on the port of metrics */
	void (*show)(struct probes *p, struct http_request *r);
} shown[] = {
	{ "/metrics", true, show_metrics },
	{ "/healthz", false, show_alive },
	{ "/readyz", false, show_ready },
};

static void show(struct probes *p, struct http_request *r, bool metrics)
{
	static const char *const methods[] = { "GET", "HEAD", NULL };

	if (!str_in(http_request_method(r), methods)) {
		http_respond_text(r, 405, "only GET and HEAD are served here");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
		if (!str_eq(shown[i].path, http_request_path(r)) ||
		    (shown[i].metrics != metrics && !p->one))
			continue;
		shown[i].show(p, r);
		return;
	}
	http_respond_text(r, 404, "there are /metrics, /healthz and /readyz");
}

static void on_metrics(void *arg, struct http_request *r)
{
	show(arg, r, true);
}

static void on_health(void *arg, struct http_request *r)
{
	show(arg, r, false);
}

static struct err *listen_at(struct loop *l, const char *addr, struct http_server_spec *spec,
			     struct http_server **ret)
{
	struct err *e;
	int fd = -1;

	if (!*addr)
		return NULL;
	e = net_listen(addr, &fd);
	return e ? e : http_server_start(l, fd, spec, ret);
}

struct err *probes_start(struct loop *l, const struct probes_spec *spec, struct probes **ret)
{
	static const struct http_handler on[] = { { .head = on_metrics }, { .head = on_health } };
	struct probes *p = xnew(struct probes);
	struct http_server_spec server = { .limits = { .max_conns = CONNS_MAX },
					   .handler = &on[0],
					   .arg = p };
	struct err *e;

	p->spec = *spec;
	p->one = str_eq(spec->metrics, spec->health);
	e = err_wrap(listen_at(l, spec->metrics, &server, &p->metrics), "--metrics-bind-address");
	server.handler = &on[1];
	if (!e && !p->one)
		e = err_wrap(listen_at(l, spec->health, &server, &p->health),
			     "--health-probe-bind-address");
	if (e) {
		probes_free(p);
		return e;
	}
	p->spec.metrics = p->spec.health = NULL; /* the caller's */
	*ret = p;
	return NULL;
}

void probes_free(struct probes *p)
{
	if (!p)
		return;
	http_server_free(p->metrics);
	http_server_free(p->health);
	free(p);
}

/* Of both families, where the kernel has both. */
static const char *all_addresses(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return "0.0.0.0";
	(void)close(fd);
	return "[::]";
}

/* An address of either family, without a name service. */
static bool is_literal(const char *host, size_t len)
{
	bool six = len > 2 && host[0] == '[' && host[len - 1] == ']';
	autofree char *text = xstrndup(host + six, len - 2 * (size_t)six);
	struct in6_addr addr;

	return inet_pton(six ? AF_INET6 : AF_INET, text, &addr) == 1;
}

struct err *address_setting(const struct settings *s, const char *flag, char **ret)
{
	const char *text = settings_text(s, flag);
	const char *colon = strrchr(text, ':');
	autoptr(err) not_a_port = NULL;
	int64_t port;

	if (!*text || str_eq(text, "0")) {
		*ret = xstrdup("");
		return NULL;
	}
	if (colon)
		not_a_port = parse_int(colon + 1, 0, 65535, &port);
	if (!colon || not_a_port || (colon > text && !is_literal(text, (size_t)(colon - text))))
		return err_new(ERR_INVALID,
			       "--%s: an address has the form IP:PORT, [IPv6]:PORT or :PORT", flag);
	*ret = colon == text ? xasprintf("%s%s", all_addresses(), text) : xstrdup(text);
	return NULL;
}

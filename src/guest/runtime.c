/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "guest/execute/execute.h"
#include "guest/files/files.h"
#include "guest/guest_priv.h"
#include "guest/rpc/rpc.h"
#include "guest/runtime/reply.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"
#include "net/http_server.h"

/*
 * The process that serves the APIs of the runtime. It is forked from pid 1 when the first
 * connection arrives, gives up every privilege before it reads a byte, and exits when nobody has
 * used it for a while: then pid 1 listens again.
 */
enum {
	LOOK_MS = 5000,
	IDLE_LOOKS = 3,
	LIMIT_S = 300,   /* for a command, unless SANDBOX_EXEC_TIMEOUT_SECONDS is set */
	REATTACH_S = 10, /* unless SANDBOX_REATTACH_SECONDS is set */
	REATTACH_MAX_S = 3600,
	RING_USUAL = 1024 * 1024, /* unless SANDBOX_PROCESS_RING_BYTES is set */
	RING_MOST = 64 * 1024 * 1024,
	CONNS_MAX = 512,
	IDLE_MS = 60 * 1000,
};

#define OWN_BASE   "/workspace"
#define OUTPUT_MAX (UINT64_C(1) << 30) /* unless SANDBOX_OUTPUT_MAX_BYTES is set */

/* NULL: not set */
static const char *rt_env(const struct rt *rt, const char *name)
{
	size_t len = strlen(name);

	for (const char *const *e = rt->env; e && *e; e++)
		if (!strncmp(*e, name, len) && (*e)[len] == '=')
			return *e + len + 1;
	return NULL;
}

static void health_serve(unused struct face *f, struct http_request *r, unused const char *tail)
{
	static const char body[] = "{\"status\":\"ok\",\"message\":\"Sandbox Runtime is active.\"}";

	http_respond(r, 200, NULL,
		     (struct http_body){ "application/json", body, sizeof(body) - 1 });
}

struct route {
	const char *path;
	const char *method; /* NULL: the handler decides */
	enum {
		TAIL_NONE,
		TAIL_MAY,
		TAIL_MUST
	} tail; /* "/list" and "/list/x" */
	void (*serve)(struct face *f, struct http_request *r, const char *tail);
};

static const struct route python_routes[] = {
	{ "/", "GET", TAIL_NONE, health_serve },
	{ "/execute", "POST", TAIL_NONE, execute_serve },
	{ "/upload", "POST", TAIL_NONE, upload_serve },
	{ "/download", "GET", TAIL_MUST, download_serve },
	{ "/list", "GET", TAIL_MAY, list_serve },
	{ "/exists", "GET", TAIL_MAY, exists_serve },
	{ "/v1/exec", "GET", TAIL_NONE, exec_ws_serve },
	{ "/v1/processes", NULL, TAIL_MAY, processes_serve },
};

static const struct route rest_routes[] = {
	{ "/v1/archive", NULL, TAIL_MAY, archive_serve },
	{ "/v1/exec", "GET", TAIL_NONE, exec_ws_serve },
	{ "/v1/files", NULL, TAIL_MAY, rest_files_serve },
	{ "/v1/health", "GET", TAIL_NONE, rest_health_serve },
	{ "/v1/metadata", "GET", TAIL_NONE, rest_metadata_serve },
	{ "/v1/watch", "GET", TAIL_MAY, rest_watch_serve },
	{ "/v1/processes", NULL, TAIL_MAY, processes_serve },
};

/* The part of path after the route's name and slash; NULL if it is another route. */
static const char *route_tail(const struct route *route, const char *path)
{
	size_t len = strlen(route->path);

	if (strncmp(path, route->path, len) != 0)
		return NULL;
	if (!path[len])
		return route->tail == TAIL_MUST ? NULL : "";
	return route->tail != TAIL_NONE && path[len] == '/' ? path + len + 1 : NULL;
}

static void reply_detail(struct http_request *r, int status, const char *allow, const char *text)
{
	struct http_headers h = { 0 };
	autofree char *body = xasprintf("{\"detail\":\"%s\"}", text);

	if (allow)
		http_headers_add(&h, "Allow", allow);
	http_respond(r, status, &h, (struct http_body){ "application/json", body, strlen(body) });
	http_headers_done(&h);
}

static void route_serve(struct face *f, struct http_request *r, const struct route *route,
			const char *tail)
{
	autofree char *decoded = NULL;
	autoptr(err) e = NULL;
	size_t len;

	if (route->method && !str_eq(http_request_method(r), route->method)) {
		if (f->rest)
			rest_no_route(r, route->method);
		else
			reply_detail(r, 405, route->method, "Method Not Allowed");
		return;
	}
	e = url_decode(tail, strlen(tail), false, &decoded, &len);
	if (e && f->rest)
		rest_error(r, 400, "INVALID_ARGUMENT", "bad path");
	else if (e)
		reply_detail(r, 400, NULL, "Bad path");
	else
		route->serve(f, r, decoded);
}

static void on_head(void *arg, struct http_request *r)
{
	const char *path = http_request_path(r);
	struct face *f = arg;

	for (size_t i = 0; i < f->n_routes; i++) {
		const char *tail = route_tail(&f->routes[i], path);

		if (tail) {
			route_serve(f, r, &f->routes[i], tail);
			return;
		}
	}
	if (f->rest)
		rest_no_route(r, NULL);
	else
		reply_detail(r, 404, NULL, "Not Found");
}

static void on_rpc(void *arg, struct http_request *r)
{
	rpc_serve(arg, r);
}

static bool usable(const char *dir)
{
	struct stat st;

	return dir && !stat(dir, &st) && S_ISDIR(st.st_mode) && !access(dir, W_OK | X_OK);
}

static bool is_root_dir(const char *dir)
{
	return str_empty(dir) || str_eq(dir, "/");
}

/* While we still can: a directory for the user, if neither image nor Pod names one. */
static void base_make(const struct rt *rt, const struct wire_start *who)
{
	bool rest = who->flags & WIRE_RUNTIME_REST && str_empty(rt_env(rt, "SANDBOXD_ROOT_DIR"));
	struct stat st;
	autoclose fd = -1;

	if (!rest && (!str_empty(rt_env(rt, "SANDBOX_BASE_DIR")) || !stat("/app", &st) ||
		      !is_root_dir(who->cwd)))
		return;
	if (mkdir(OWN_BASE, 0755) < 0)
		return;
	fd = open(OWN_BASE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)!fchownat(fd, "", who->uid, who->gid, AT_EMPTY_PATH);
}

/* SANDBOXD_ROOT_DIR, or /workspace, or where there is none the base directory. */
static char *rest_base_choose(const struct rt *rt)
{
	const char *given = rt_env(rt, "SANDBOXD_ROOT_DIR");
	struct stat st;

	if (!str_empty(given)) {
		err_free(file_mkdirs(given, 0755)); /* a request will say why it is not there */
		return xstrdup(given);
	}
	return xstrdup(!stat(OWN_BASE, &st) && S_ISDIR(st.st_mode) ? OWN_BASE : rt->base);
}

/*
 * SANDBOX_BASE_DIR, or the first of /app, the user's directory, ours and /tmp that the user can
 * write to.
 */
static char *base_choose(const struct rt *rt, const struct wire_start *who)
{
	const char *const rows[] = { "/app", is_root_dir(who->cwd) ? NULL : who->cwd, OWN_BASE,
				     "/tmp" };
	const char *given = rt_env(rt, "SANDBOX_BASE_DIR");

	if (given) {
		struct span s = { given + strspn(given, " \t\r\n"), 0 };

		s.len = strlen(s.p);
		while (s.len && strchr(" \t\r\n", s.p[s.len - 1]))
			s.len--;
		if (s.len)
			return xstrndup(s.p, s.len);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (usable(rows[i]))
			return xstrdup(rows[i]);
	return xstrdup("/app");
}

/* dash, bash and busybox set PWD to the directory without links; so do we in their place. */
static const char **env_with_pwd(const char *const *env, const char *dir)
{
	autofree char *real = realpath(dir, NULL);
	const char **list;
	size_t n = 0, kept = 0;

	while (env && env[n])
		n++;
	list = xnew_n(const char *, n + 2);
	for (size_t i = 0; i < n; i++)
		if (!str_starts(env[i], "PWD="))
			list[kept++] = env[i];
	list[kept] = xasprintf("PWD=%s", real ? real : dir);
	return list;
}

static double limit_choose(const struct rt *rt)
{
	const char *text = rt_env(rt, "SANDBOX_EXEC_TIMEOUT_SECONDS");
	char *end;
	double s;

	if (str_empty(text))
		return LIMIT_S;
	s = strtod(text, &end);
	end += strspn(end, " \t\r\n");
	return *end || !isfinite(s) || s <= 0 ? LIMIT_S : s;
}

/* A whole number from the environment; usual if it is not set or none. */
static uint64_t number_choose(const struct rt *rt, const char *name, uint64_t max, uint64_t usual)
{
	const char *text = rt_env(rt, name);
	uint64_t n = usual;

	if (!str_empty(text))
		err_free(parse_uint(text, max, &n));
	return n;
}

static void on_look(void *arg)
{
	struct rt *rt = arg;
	/* Once there was a process, no later one may get its number. */
	bool busy = rt->n_commands || rt->last_process;

	for (int i = 0; i < RUNTIME_PORT_MAX_; i++)
		busy = busy || (rt->servers[i] && http_server_conns(rt->servers[i]));

	rt->idle_looks = busy ? 0 : rt->idle_looks + 1;
	if (rt->idle_looks >= IDLE_LOOKS)
		_exit(0);
	timer_set(rt->look, LOOK_MS);
}

static struct err *serve_port(struct rt *rt, enum runtime_port which, int listen_fd)
{
	static const struct http_handler by_path = { on_head }, by_method = { on_rpc };
	static struct face faces[RUNTIME_PORT_MAX_];
	struct http_server_spec spec = {
		.limits = { .max_conns = CONNS_MAX, .idle_ms = IDLE_MS },
		.handler = which == RUNTIME_PORT_GRPC ? &by_method : &by_path,
		.arg = &faces[which],
		.http2 = which == RUNTIME_PORT_GRPC ? &http2_protocol : NULL,
	};

	if (which == RUNTIME_PORT_PYTHON)
		faces[which] = (struct face){ rt, python_routes, ARRAY_LEN(python_routes), rt->base,
					      false };
	else
		faces[which] = (struct face){ rt, rest_routes, ARRAY_LEN(rest_routes),
					      rt->rest_base, true };
	return http_server_start(rt->loop, listen_fd, &spec, &rt->servers[which]);
}

static struct err *serve(struct rt *rt, const int fds[RUNTIME_PORT_MAX_])
{
	struct err *e = loop_new(&rt->loop);

	if (!e)
		e = children_new(rt->loop, NULL, NULL, &rt->children);
	if (!e)
		children_count_in(rt->children, rt->busy);
	for (int i = 0; i < RUNTIME_PORT_MAX_ && !e; i++)
		if (fds[i] >= 0)
			e = serve_port(rt, i, fds[i]);
	if (e)
		return e;
	rt->look = timer_new(rt->loop, on_look, rt);
	timer_set(rt->look, LOOK_MS);
	loop_run(rt->loop);
	return NULL;
}

/*
 * Nothing of pid 1 stays open except the ports: not its loop, not its signals, not the private
 * socket, not the log.
 */
static void keep_only(const int ports[RUNTIME_PORT_MAX_], int ret[RUNTIME_PORT_MAX_])
{
	enum {
		FD_PORT = 3,
		FD_FREE = 16, /* above what pid 1 has its own at */
	};
	int n = 0, high[RUNTIME_PORT_MAX_];

	for (int i = 0; i < RUNTIME_PORT_MAX_; i++)
		high[i] = ports[i] < 0 ? -1 : fcntl(ports[i], F_DUPFD_CLOEXEC, FD_FREE);
	for (int i = 0; i < RUNTIME_PORT_MAX_; i++) {
		ret[i] = ports[i] < 0 ? -1 : FD_PORT + n++;
		if (ports[i] >= 0 && (high[i] < 0 || dup3(high[i], ret[i], O_CLOEXEC) < 0))
			_exit(1);
	}
	if (syscall(SYS_close_range, (unsigned)(FD_PORT + n), ~0u, 0) < 0)
		for (int i = FD_PORT + n; i < 8192; i++)
			(void)close(i);
}

void runtime_main(const int ports[RUNTIME_PORT_MAX_], const struct wire_start *who, usec since,
		  uint32_t *busy)
{
	struct rt *rt = xnew(struct rt);
	int fds[RUNTIME_PORT_MAX_];
	const char *step;
	sigset_t none;

	keep_only(ports, fds);
	(void)setsid();
	rt->env = who->env;
	rt->since = since;
	rt->busy = busy;
	base_make(rt, who);
	(void)umask(022);
	if (identity_assume(who, &step))
		_exit(1);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	rt->base = base_choose(rt, who);
	rt->rest_base = rest_base_choose(rt);
	rt->plain_env = env_with_pwd(rt->env, rt->base);
	rt->limit_s = limit_choose(rt);
	rt->output_max = number_choose(rt, "SANDBOX_OUTPUT_MAX_BYTES", INT64_MAX, OUTPUT_MAX);
	rt->reattach_ms =
		number_choose(rt, "SANDBOX_REATTACH_SECONDS", REATTACH_MAX_S, REATTACH_S) * 1000;
	list_init(&rt->executions);
	list_init(&rt->processes);
	rt->ring_max =
		(size_t)number_choose(rt, "SANDBOX_PROCESS_RING_BYTES", RING_MOST, RING_USUAL);
	rt->words = str_eq(rt_env(rt, "SANDBOX_EXECUTE_MODE"), "argv");
	err_free(serve(rt, fds));
	_exit(1);
}

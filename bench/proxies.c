/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxies: requests through Cay's router (`gate`), nginx and HAProxy, one worker each, plain and
 * with TLS, to the same small backend, and to the backend itself. Each connection sends its next
 * request when the last one is answered. The programs take turns in several rounds, so that a busy
 * machine slows all of them alike; what they compute for a request is measured too, and hardly
 * depends on others.
 *
 * Prints JSON: for each program and number of connections the requests per second, the CPU time of
 * one, and its latencies, thinned out. A program that is not installed says so instead.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "measure.h"

enum {
	ROUNDS = 5,
	KEPT = 200, /* latencies that are printed of a cell */
	PER_RUN = 100,
	CONNS_MAX = 1000,
	ROUND_US = 20 * 1000 * 1000, /* a round that takes longer has failed */
};

static const unsigned conns[] = { 1, 10, 50, 200, CONNS_MAX };
static const char answer[] =
	"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 64\r\n\r\n"
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n";

enum {
	CAY,
	NGINX,
	HAPROXY,
	DIRECT,
	CAY_TLS, /* the same processes, through another port */
	NGINX_TLS,
	HAPROXY_TLS,
	PROGRAMS,
	CELLS = sizeof(conns) / sizeof(conns[0]),
};

struct cell {
	double *us;
	size_t n, room;
	double wall_us, cpu_us;
};

struct program {
	const char *name, *missing;
	bool tls;
	pid_t pid;
	struct sockaddr_in to;
	struct cell cells[CELLS];
};

static char dir[256];
static SSL_CTX *client_ctx;

static void die(const char *what)
{
	(void)fprintf(stderr, "proxies: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int make_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		die("socket");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int listen_at(const char *ip, struct sockaddr_in *ret)
{
	int fd = make_socket();
	socklen_t len = sizeof(*ret);

	*ret = (struct sockaddr_in){ .sin_family = AF_INET };
	(void)inet_pton(AF_INET, ip, &ret->sin_addr);
	if (bind(fd, (struct sockaddr *)ret, len) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)ret, &len) < 0)
		die("listen");
	return fd;
}

/* A port that was free a moment ago, for programs that must be told one. */
static unsigned free_port(void)
{
	struct sockaddr_in a;

	(void)close(listen_at("127.0.0.1", &a));
	return ntohs(a.sin_port);
}

/* ---- the backend ---- */

/* Heads end with their read: everybody here sends one request at a time. */
static void backend_answer(int fd)
{
	char in[4096];
	ssize_t n = recv(fd, in, sizeof(in), 0);

	if (n <= 0)
		(void)close(fd);
	else if (n >= 4 && memcmp(in + n - 4, "\r\n\r\n", 4) == 0)
		(void)!send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
}

static void backend_run(int listener)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = listener }, got[256];
	int ep = epoll_create1(EPOLL_CLOEXEC);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	for (;;) {
		int n = epoll_wait(ep, got, 256, -1);

		for (int i = 0; i < n; i++) {
			if (got[i].data.fd != listener) {
				backend_answer(got[i].data.fd);
				continue;
			}
			ev.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			if (ev.data.fd >= 0)
				(void)epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev);
		}
	}
}

static pid_t backend_start(struct sockaddr_in *ret)
{
	int listener = listen_at("127.0.0.2", ret);
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		backend_run(listener);
	(void)close(listener);
	return pid;
}

/* ---- the programs ---- */

static const char nginx_text[] =
	"worker_processes 1; daemon off; master_process off; pid %1$s/nginx.pid; error_log %1$s/nginx.log crit;\n"
	"worker_rlimit_nofile 8192;\n"
	"events { worker_connections 4096; }\n"
	"http { access_log off; keepalive_requests 100000000; keepalive_timeout 600;\n"
	"client_body_temp_path %1$s; proxy_temp_path %1$s; fastcgi_temp_path %1$s; uwsgi_temp_path %1$s; scgi_temp_path %1$s;\n"
	"upstream box { server 127.0.0.2:%2$u; keepalive 1024; keepalive_requests 100000000; }\n"
	"ssl_certificate %1$s/box.crt; ssl_certificate_key %1$s/box.key;\n"
	"server { listen 127.0.0.1:%3$u backlog=4096; listen 127.0.0.1:%4$u ssl backlog=4096; location / { proxy_pass http://box;\n"
	"proxy_http_version 1.1; proxy_set_header Connection \"\";\n"
	"proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Host $host; } } }\n";
static const char haproxy_text[] =
	"global\n nbthread 1\n maxconn 8192\n"
	"defaults\n mode http\n timeout client 600s\n timeout server 600s\n timeout connect 5s\n"
	" option forwardfor\n http-reuse always\n"
	"frontend in\n bind 127.0.0.1:%3$u backlog 4096\n bind 127.0.0.1:%4$u ssl crt %1$s/box.pem backlog 4096\n default_backend box\n"
	"backend box\n server box 127.0.0.2:%2$u pool-max-conn 1024\n";

/* A program that reads such a text from the file that follows the flag. */
struct other {
	const char *flag, *text;
};
static const struct other nginx = { "-c", nginx_text }, haproxy = { "-f", haproxy_text };

static void put_config(const char *name, const char *text, unsigned backend, const unsigned port[2])
{
	char path[300];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s.conf", dir, name);
	f = fopen(path, "we");
	if (!f)
		die(path);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	(void)fprintf(f, text, dir, backend, port[0], port[1]); /* one of the two above */
#pragma GCC diagnostic pop
	(void)fclose(f);
}

/* Its output goes to ret_out, or to nowhere if that is NULL. */
static pid_t start(const char *const *argv, int *ret_out)
{
	int out[2];
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(out[1], STDOUT_FILENO);
		(void)execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	(void)close(out[1]);
	if (ret_out)
		*ret_out = out[0];
	else
		(void)close(out[0]);
	return pid;
}

/* True when something listens there; false when the program has ended instead. */
static bool comes_up(struct program *p)
{
	for (int i = 0; i < 500; i++) {
		int fd = make_socket();
		bool up = connect(fd, (struct sockaddr *)&p->to, sizeof(p->to)) == 0;

		(void)close(fd);
		if (up)
			return true;
		if (waitpid(p->pid, NULL, WNOHANG) == p->pid) {
			p->pid = 0;
			return false;
		}
		(void)nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
	}
	return false;
}

static struct sockaddr_in at_port(unsigned port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void has_tls(struct program *tls, const struct program *p, unsigned port)
{
	tls->tls = true;
	tls->pid = p->pid;
	tls->missing = p->missing;
	tls->to = at_port(port);
}

/* It also makes the certificate that all of them show. */
static void start_gate(struct program *p, struct program *tls, const char *self)
{
	char path[512], line[128] = "";
	const char *argv[] = { path, "127.0.0.2", dir, NULL };
	unsigned port[2] = { 0 };
	int out;

	(void)snprintf(path, sizeof(path), "%.*sgate", (int)(strrchr(self, '/') + 1 - self), self);
	p->pid = start(argv, &out);
	if (read(out, line, sizeof(line) - 1) <= 0 ||
	    sscanf(line, "127.0.0.1:%u 127.0.0.1:%u", &port[0], &port[1]) != 2)
		p->missing = "the program gate does not start";
	p->to = at_port(port[0]);
	has_tls(tls, p, port[1]);
}

static void start_other(struct program *p, struct program *tls, const struct other *o,
			unsigned backend)
{
	char config[300];
	const char *argv[] = { p->name, o->flag, config, NULL };
	unsigned port[2] = { free_port(), free_port() };

	put_config(p->name, o->text, backend, port);
	(void)snprintf(config, sizeof(config), "%s/%s.conf", dir, p->name);
	p->to = at_port(port[0]);
	p->pid = start(argv, NULL);
	if (!comes_up(p))
		p->missing = "it is not installed (tools/setup bench), or does not start";
	has_tls(tls, p, port[1]);
}

static double cpu_us_of(pid_t pid)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%llu", &ns) != 1)
		ns = 0;
	if (f)
		(void)fclose(f);
	return (double)ns / 1e3;
}

/* ---- the load ---- */

struct client {
	int fd;
	SSL *ssl; /* NULL: plain */
	double begin;
	size_t got;
	char tail[4];
};

static size_t request_len;
static char request[300];

static void ask(struct client *c)
{
	c->got = 0;
	c->begin = now_us();
	if (c->ssl ? SSL_write(c->ssl, request, (int)request_len) != (int)request_len
		   : send(c->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len)
		die("send a request");
}

/* The heads differ, but the last byte of the body does not come before it: a line feed that no CR
 * precedes. */
static bool has_ended(struct client *c, const char *in, ssize_t n)
{
	if (!c->got && (n < 12 || memcmp(in, "HTTP/1.1 200", 12) != 0)) {
		(void)fprintf(stderr, "proxies: answered: %.*s\n", (int)n, in);
		exit(1);
	}
	c->got += (size_t)n;
	return n >= 2 && in[n - 1] == '\n' && in[n - 2] != '\r';
}

static bool answered(struct client *c)
{
	char in[4096];
	ssize_t n = recv(c->fd, in, sizeof(in), MSG_DONTWAIT);

	if (n <= 0 && errno != EAGAIN)
		die("read an answer");
	return n > 0 && has_ended(c, in, n);
}

/* What was read for a record may hold the next one, of which the socket no longer tells. */
static bool answered_tls(struct client *c)
{
	bool over = false;
	char in[4096];
	int n;

	while ((n = SSL_read(c->ssl, in, sizeof(in))) > 0)
		over = has_ended(c, in, n);
	if (SSL_get_error(c->ssl, n) != SSL_ERROR_WANT_READ)
		die("read an answer with TLS");
	return over;
}

static SSL *shake_hands(int fd)
{
	SSL *ssl = SSL_new(client_ctx);

	if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1)
		die("connect with TLS");
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return ssl;
}

static int connect_all(struct program *p, struct client *clients, unsigned n_conns)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	for (unsigned i = 0; i < n_conns; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &clients[i] };

		clients[i] = (struct client){ .fd = make_socket() };
		if (connect(clients[i].fd, (struct sockaddr *)&p->to, sizeof(p->to)) < 0)
			die("connect");
		if (p->tls)
			clients[i].ssl = shake_hands(clients[i].fd);
		(void)epoll_ctl(ep, EPOLL_CTL_ADD, clients[i].fd, &ev);
	}
	return ep;
}

/* n requests, after a first one on each connection, which is not measured. */
static void load(struct program *p, unsigned n_conns, size_t n, struct cell *cell)
{
	static struct client clients[CONNS_MAX];
	struct epoll_event got[256];
	int ep = connect_all(p, clients, n_conns);
	size_t over = 0, all = n + n_conns;
	double begin = now_us(), give_up = begin + ROUND_US, cpu = 0;

	for (unsigned i = 0; i < n_conns; i++)
		ask(&clients[i]);
	while (over < all && now_us() < give_up) {
		int ready = epoll_wait(ep, got, 256, 1000);

		for (int i = 0; i < ready; i++) {
			struct client *c = got[i].data.ptr;

			if (!(c->ssl ? answered_tls(c) : answered(c)))
				continue;
			if (over++ == n_conns) {
				begin = now_us();
				cpu = cpu_us_of(p->pid);
			}
			if (over > n_conns && cell->n < cell->room)
				cell->us[cell->n++] = now_us() - c->begin;
			if (over + n_conns <= all)
				ask(c);
		}
	}
	cell->wall_us += now_us() - begin;
	cell->cpu_us += cpu_us_of(p->pid) - cpu;
	for (unsigned i = 0; i < n_conns; i++) {
		SSL_free(clients[i].ssl);
		(void)close(clients[i].fd);
	}
	(void)close(ep);
}

static void print_cell(struct cell *c, unsigned n_conns)
{
	size_t kept = c->n < KEPT ? c->n : KEPT;

	qsort(c->us, c->n, sizeof(*c->us), by_value);
	(void)printf("\"%u\":{\"per_s\":%.0f,\"cpu_us\":%.2f,\"us\":[", n_conns,
		     (double)c->n / c->wall_us * 1e6, c->cpu_us / (double)c->n);
	for (size_t i = 0; i < kept; i++)
		(void)printf("%s%.0f", i ? "," : "", c->us[(2 * i + 1) * c->n / (2 * kept)]);
	(void)printf("]}");
}

static void print_program(struct program *p)
{
	if (p->missing) {
		(void)printf("\"%s\":{\"missing\":\"%s\"}", p->name, p->missing);
		return;
	}
	(void)printf("\"%s\":{", p->name);
	for (size_t i = 0; i < CELLS; i++) {
		(void)printf("%s", i ? "," : "");
		print_cell(&p->cells[i], conns[i]);
	}
	(void)printf("}");
}

static void measure(struct program *programs, size_t n, size_t rounds)
{
	for (size_t i = 0; i < CELLS; i++)
		for (size_t r = 0; r < rounds; r++)
			for (struct program *p = programs; p < programs + PROGRAMS; p++)
				if (!p->missing)
					load(p, conns[i], n / rounds, &p->cells[i]);
}

static void stop(struct program *programs)
{
	char text[400];

	for (struct program *p = programs; p < programs + PROGRAMS; p++)
		if (p->pid && !p->tls) {
			(void)kill(p->pid, SIGKILL);
			(void)waitpid(p->pid, NULL, 0);
		}
	(void)snprintf(text, sizeof(text), "rm -r '%s'", dir);
	(void)!system(text); /* NOLINT(concurrency-mt-unsafe): a name of our own making */
}

int main(int argc, char **argv)
{
	struct program programs[PROGRAMS] = { { "cay" },        { "nginx" },   { "haproxy" },
					      { "direct" },     { "cay tls" }, { "nginx tls" },
					      { "haproxy tls" } };
	size_t runs = argc > 2 ? strtoul(argv[2], NULL, 10) : 500, n = PER_RUN * runs;
	unsigned backend;

	(void)snprintf(dir, sizeof(dir), "%s/cay-proxies-XXXXXX", argc > 1 ? argv[1] : "/var/tmp");
	if (!mkdtemp(dir) || chmod(dir, 0755) < 0)
		die(dir);
	client_ctx = SSL_CTX_new(TLS_client_method());
	programs[DIRECT].pid = backend_start(&programs[DIRECT].to);
	backend = ntohs(programs[DIRECT].to.sin_port);
	start_gate(&programs[CAY], &programs[CAY_TLS], argv[0]);
	start_other(&programs[NGINX], &programs[NGINX_TLS], &nginx, backend);
	start_other(&programs[HAPROXY], &programs[HAPROXY_TLS], &haproxy, backend);
	request_len = (size_t)snprintf(request, sizeof(request),
				       "GET /hello?a=b HTTP/1.1\r\nHost: 127.0.0.1\r\n"
				       "User-Agent: bench\r\nAccept: */*\r\nX-Sandbox-ID: box\r\n"
				       "X-Sandbox-Port: %u\r\n\r\n",
				       backend);
	for (struct program *p = programs; p < programs + PROGRAMS; p++)
		for (size_t i = 0; i < CELLS; i++) {
			p->cells[i].us = malloc(n * sizeof(double));
			p->cells[i].room = n;
		}
	measure(programs, n, runs < ROUNDS ? runs : ROUNDS);
	(void)printf("{");
	for (struct program *p = programs; p < programs + PROGRAMS; p++) {
		print_program(p);
		(void)printf("%s", p < programs + PROGRAMS - 1 ? ",\n" : "}\n");
	}
	stop(programs);
	return 0;
}

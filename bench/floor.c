/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor: the best that this machine can do, so that our own figures can be read as ratios.
 *
 *   tls        a request of 1 KiB and an answer of 2 KiB over an open TLS connection on loopback,
 *              with blocking sockets
 *   fdatasync  append 4 KiB to a file and fdatasync it
 *   launch     a process in seven new namespaces with an overlay root, pids and memory cgroups,
 *              pivot_root, exec of a static program, and its exit
 *   exec       a resident process in such namespaces starts that program on request and reports
 *              its exit
 *
 * Nothing here is Cay's code: it is the plainest way to do each step. The result is printed as
 * JSON. launch and exec need root and are left out without it.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "measure.h"

#define NAMESPACES                                                                                 \
	(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWCGROUP)

static void die(const char *what)
{
	(void)fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void report(const char *name, double *us, int n, bool last)
{
	qsort(us, (size_t)n, sizeof(*us), by_value);
	printf("  \"%s\": {\"p50_us\": %.1f, \"p99_us\": %.1f, \"min_us\": %.1f, \"n\": %d}%s\n",
	       name, us[n / 2], us[n * 99 / 100], us[0], n, last ? "" : ",");
}

/* A throwaway certificate for the TLS round trip. */
static void make_cert(SSL_CTX *ctx)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();

	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	X509_sign(cert, key, EVP_sha256());
	SSL_CTX_use_certificate(ctx, cert);
	SSL_CTX_use_PrivateKey(ctx, key);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static void read_all(SSL *ssl, char *p, int len)
{
	while (len > 0) {
		int n = SSL_read(ssl, p, len);

		if (n <= 0)
			_exit(0);
		p += n;
		len -= n;
	}
}

static void tls_server(int listener)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	static char in[1024], out[2048];
	int one = 1, fd;
	SSL *ssl;

	make_cert(ctx);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	ssl = SSL_new(ctx);
	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) != 1)
		_exit(1);
	for (;;) {
		read_all(ssl, in, sizeof(in));
		SSL_write(ssl, out, sizeof(out));
	}
}

static int connect_loopback(int listener)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	getsockname(listener, (struct sockaddr *)&a, &len);
	if (connect(fd, (struct sockaddr *)&a, len) < 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void measure_tls(int n)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	double *us = calloc((size_t)n, sizeof(*us));
	static char out[1024], in[2048];
	SSL *ssl;
	pid_t pid;

	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 1) < 0)
		die("listen");
	pid = fork();
	if (pid == 0)
		tls_server(listener);
	ssl = SSL_new(SSL_CTX_new(TLS_client_method()));
	SSL_set_fd(ssl, connect_loopback(listener));
	if (SSL_connect(ssl) != 1)
		die("TLS handshake");
	for (int i = -50; i < n; i++) {
		double begin = now_us();

		SSL_write(ssl, out, sizeof(out));
		read_all(ssl, in, sizeof(in));
		if (i >= 0)
			us[i] = now_us() - begin;
	}
	report("tls", us, n, false);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	free(us);
}

static void measure_fdatasync(const char *dir, int n, bool last)
{
	double *us = calloc((size_t)n, sizeof(*us));
	static char block[4096];
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = openat(dirfd, "floor.tmp", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0)
		die(dir);
	for (int i = -20; i < n; i++) {
		double begin = now_us();

		if (write(fd, block, sizeof(block)) < 0 || fdatasync(fd) < 0)
			die("fdatasync");
		if (i >= 0)
			us[i] = now_us() - begin;
	}
	report("fdatasync", us, n, last);
	close(fd);
	(void)unlinkat(dirfd, "floor.tmp", 0); /* our own temporary file */
	close(dirfd);
	free(us);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
}

struct launch {
	char dir[256];        /* contains lower, upper, work and root */
	char cgroups[2][256]; /* "" if the host has no such hierarchy */
	const char *program;
};

/* Runs in the child: walls, root, program. go becomes readable once the id maps are written. */
static void enter(const struct launch *l, int go)
{
	char opts[1024], c;

	if (read(go, &c, 1) != 1)
		_exit(1);
	(void)snprintf(opts, sizeof(opts),
		       "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work,userxattr", l->dir,
		       l->dir, l->dir);
	if (chdir(l->dir) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die("make mounts private");
	if (mount("overlay", "root", "overlay", 0, opts) < 0)
		die("mount overlay");
	if (mount("proc", "root/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		die("mount proc");
	if (sethostname("floor", 5) < 0 || chdir("root") < 0 ||
	    syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		die("pivot_root");
}

static void write_maps(pid_t pid)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	put(path, "0 0 65536");
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	put(path, "0 0 65536");
}

/* Starts a child in all namespaces and cgroups; body runs there. */
static pid_t launch(const struct launch *l, void (*body)(const struct launch *l, int fd), int fd)
{
	int go[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		die("pipe");
	for (int i = 0; i < 2; i++)
		if (*l->cgroups[i])
			put(l->cgroups[i], "0");
	pid = (pid_t)syscall(SYS_clone, (unsigned long)(NAMESPACES | SIGCHLD), NULL, NULL, NULL, 0);
	if (pid < 0)
		die("clone");
	if (pid == 0) {
		enter(l, go[0]);
		body(l, fd);
		_exit(1);
	}
	write_maps(pid);
	if (write(go[1], "x", 1) != 1)
		die("write");
	close(go[0]);
	close(go[1]);
	return pid;
}

static void become_program(const struct launch *l, int fd)
{
	(void)fd;
	execl(l->program, "busybox", "true", (char *)NULL);
	die(l->program);
}

/*
 * The resident first process: for each byte it reads, it starts and reaps the program and writes
 * its exit code.
 */
static void serve_exec(const struct launch *l, int fd)
{
	char c;

	while (read(fd, &c, 1) == 1) {
		/* A floor is about the fastest way to start a program. */
		pid_t pid = vfork(); /* NOLINT(*vfork,bugprone-unsafe-functions) */
		int status;

		if (pid == 0) {
			execl(l->program, "busybox", "true", (char *)NULL);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		c = (char)WEXITSTATUS(status);
		if (write(fd, &c, 1) != 1)
			break;
	}
	_exit(0);
}

static void prepare_cgroup(char *ret, size_t size, const char *controller)
{
	char dir[200];

	(void)snprintf(dir, sizeof(dir), "/sys/fs/cgroup/%s/cay-floor-%d", controller, getpid());
	if (mkdir(dir, 0755) == 0)
		(void)snprintf(ret, size, "%s/cgroup.procs", dir);
	else
		*ret = '\0';
}

static void remove_cgroup(const char *procs, const char *controller)
{
	char path[256];

	if (!*procs)
		return;
	(void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/cgroup.procs", controller);
	put(path, "0");
	(void)snprintf(path, sizeof(path), "%.*s", (int)(strlen(procs) - strlen("/cgroup.procs")),
		       procs);
	(void)rmdir(path); /* empty, as we left it */
}

static bool prepare_launch(struct launch *l, const char *dir)
{
	static const char *const subs[] = { "lower", "lower/proc", "upper", "work", "root" };
	char path[600];

	(void)snprintf(l->dir, sizeof(l->dir), "%s/floor-%d", dir, getpid());
	(void)mkdir(l->dir, 0755);
	for (size_t i = 0; i < sizeof(subs) / sizeof(*subs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", l->dir, subs[i]);
		(void)mkdir(path, 0755);
	}
	(void)snprintf(path, sizeof(path), "cp /bin/busybox %s/lower/busybox", l->dir);
	l->program = "/busybox";
	prepare_cgroup(l->cgroups[0], sizeof(l->cgroups[0]), "pids");
	prepare_cgroup(l->cgroups[1], sizeof(l->cgroups[1]), "memory");
	return geteuid() == 0 && access("/bin/busybox", X_OK) == 0 && system(path) == 0;
}

static void finish_launch(const struct launch *l)
{
	char cmd[400];

	remove_cgroup(l->cgroups[0], "pids");
	remove_cgroup(l->cgroups[1], "memory");
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", l->dir);
	if (system(cmd) != 0)
		(void)fprintf(stderr, "floor: %s was not removed\n", l->dir);
}

static void measure_launch(const struct launch *l, int n)
{
	double *us = calloc((size_t)n, sizeof(*us));

	for (int i = -3; i < n; i++) {
		double begin = now_us();
		pid_t pid = launch(l, become_program, -1);
		int status;

		waitpid(pid, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			die("launch");
		if (i >= 0)
			us[i] = now_us() - begin;
	}
	report("launch", us, n, false);
	free(us);
}

static void measure_exec(const struct launch *l, int n)
{
	double *us = calloc((size_t)n, sizeof(*us));
	int pair[2];
	pid_t pid;
	char c = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair");
	pid = launch(l, serve_exec, pair[1]);
	close(pair[1]);
	for (int i = -10; i < n; i++) {
		double begin = now_us();

		if (write(pair[0], &c, 1) != 1 || read(pair[0], &c, 1) != 1 || c)
			die("exec");
		if (i >= 0)
			us[i] = now_us() - begin;
	}
	report("exec", us, n, false);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pair[0]);
	free(us);
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : "/tmp";
	int n = argc > 2 ? (int)strtoul(argv[2], NULL, 10) : 300;
	struct launch l = { 0 };

	if (n < 10 || argc > 3 || (argc > 1 && argv[1][0] == '-')) {
		(void)fprintf(
			stderr,
			"usage: floor [DIR [RUNS]]: measures in DIR (default /tmp), with at least 10 runs of each\n");
		return 2;
	}
	printf("{\n");
	measure_tls(n * 10);
	if (prepare_launch(&l, dir)) {
		measure_launch(&l, n);
		measure_exec(&l, n);
	} else {
		(void)fprintf(
			stderr,
			"floor: launch and exec were left out: they need root and /bin/busybox (busybox-static)\n");
	}
	finish_launch(&l);
	measure_fdatasync(dir, n, true);
	printf("}\n");
	return 0;
}

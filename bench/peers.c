/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers: how long other programs take to start a program behind the walls that Cay's sandboxes
 * have: new user, pid, mount, network, ipc, uts and cgroup namespaces, an overlay as root, no
 * capabilities, a seccomp filter, and limits of processes and memory.
 *
 * A run is timed from the mount of the overlay, which both programs leave to their caller, to the
 * exit of the program. Prints JSON: every measurement, or why there is none. Needs root.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "measure.h"

struct place {
	char dir[256]; /* contains lower, upper, work, bundle/rootfs and state */
	char root[300];
	char cgroups[2][300];
	int filter; /* the seccomp filter, as bwrap reads it */
};

static volatile sig_atomic_t stopped;

static void on_signal(int signum)
{
	(void)signum;
	stopped = 1;
}

static void die(const char *what)
{
	(void)fprintf(stderr, "peers: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die(path);
	close(fd);
}

/* ---- the walls ---- */

static const struct {
	const char *name;
	unsigned nr;
} denied[] = {
	{ "ptrace", SYS_ptrace },
	{ "keyctl", SYS_keyctl },
	{ "add_key", SYS_add_key },
	{ "request_key", SYS_request_key },
	{ "bpf", SYS_bpf },
	{ "perf_event_open", SYS_perf_event_open },
	{ "kexec_load", SYS_kexec_load },
	{ "init_module", SYS_init_module },
	{ "finit_module", SYS_finit_module },
	{ "delete_module", SYS_delete_module },
	{ "reboot", SYS_reboot },
	{ "swapon", SYS_swapon },
	{ "swapoff", SYS_swapoff },
	{ "userfaultfd", SYS_userfaultfd },
	{ "open_by_handle_at", SYS_open_by_handle_at },
	{ "acct", SYS_acct },
};
#define N_DENIED (sizeof(denied) / sizeof(*denied))

static int make_filter(const char *dir)
{
	struct sock_filter f[N_DENIED + 3];
	char path[300];
	size_t n = 0;
	int fd;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					      offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < N_DENIED; i++)
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i].nr,
						      (unsigned char)(N_DENIED - i), 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	(void)snprintf(path, sizeof(path), "%s/filter", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600); /* bwrap inherits it */
	if (fd < 0 || write(fd, f, n * sizeof(*f)) != (ssize_t)(n * sizeof(*f)))
		die(path);
	return fd;
}

static void write_config(const struct place *p)
{
	char path[300], text[6000];
	int n = snprintf(
		text, sizeof(text),
		"{\"ociVersion\":\"1.0.2\",\"process\":{\"user\":{\"uid\":0,\"gid\":0},\"args\":[\"/busybox\",\"true\"],"
		"\"env\":[\"PATH=/\"],\"cwd\":\"/\",\"noNewPrivileges\":true,\"capabilities\":{}},"
		"\"root\":{\"path\":\"rootfs\"},\"hostname\":\"peer\",\"mounts\":["
		"{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\",\"options\":[\"nosuid\",\"noexec\",\"nodev\"]},"
		"{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"nosuid\",\"mode=755\"]}],"
		"\"linux\":{\"uidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":65536}],"
		"\"gidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":65536}],"
		"\"namespaces\":[{\"type\":\"user\"},{\"type\":\"pid\"},{\"type\":\"mount\"},{\"type\":\"network\"},"
		"{\"type\":\"ipc\"},{\"type\":\"uts\"},{\"type\":\"cgroup\"}],\"cgroupsPath\":\"/cay-peers-%d\","
		"\"resources\":{\"pids\":{\"limit\":1024},\"memory\":{\"limit\":1073741824}},"
		"\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"action\":\"SCMP_ACT_ERRNO\",\"names\":[",
		getpid());

	for (size_t i = 0; i < N_DENIED; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s\"%s\"", i ? "," : "",
			      denied[i].name);
	(void)snprintf(text + n, sizeof(text) - (size_t)n, "]}]}}}");
	(void)snprintf(path, sizeof(path), "%s/bundle/config.json", p->dir);
	write_file(path, text);
}

static void make_cgroup(char *ret, size_t size, const char *controller, const char *limit,
			const char *value)
{
	char dir[200], path[300];

	(void)snprintf(dir, sizeof(dir), "/sys/fs/cgroup/%s/cay-peers-%d", controller, getpid());
	*ret = '\0';
	if (mkdir(dir, 0755) < 0)
		return; /* the host has no such hierarchy */
	(void)snprintf(path, sizeof(path), "%s/%s", dir, limit);
	write_file(path, value);
	(void)snprintf(ret, size, "%s", dir);
}

static void enter_cgroup(const char *dir, const char *controller)
{
	char path[400];

	if (!*dir && !controller)
		return;
	(void)snprintf(path, sizeof(path),
		       controller ? "/sys/fs/cgroup/%s/cgroup.procs" : "%s/cgroup.procs",
		       controller ? controller : dir);
	write_file(path, "0");
}

static struct place place;

/* At every exit, so that nothing is left after a failure or ^C either. */
static void clean_up(void)
{
	static const char *const controllers[] = { "pids", "memory" };
	const struct place *p = &place;
	char cmd[2000];

	for (int i = 0; i < 2; i++) {
		if (!*p->cgroups[i])
			continue;
		enter_cgroup("", controllers[i]);
		(void)rmdir(p->cgroups[i]); /* empty, as we left it */
	}
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", p->dir);
	if (system(cmd) != 0)
		(void)fprintf(stderr, "peers: %s was not removed\n", p->dir);
}

static void prepare(struct place *p, const char *dir)
{
	static const char *const subs[] = { "lower", "lower/proc", "lower/dev",     "upper",
					    "work",  "bundle",     "bundle/rootfs", "state" };
	char path[600];

	(void)snprintf(p->dir, sizeof(p->dir), "%s/peers-%d", dir, getpid());
	if (mkdir(p->dir, 0755) < 0)
		die(p->dir);
	(void)atexit(clean_up);
	for (size_t i = 0; i < sizeof(subs) / sizeof(*subs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", p->dir, subs[i]);
		(void)mkdir(path, 0755);
	}
	(void)snprintf(path, sizeof(path), "cp /bin/busybox %s/lower/busybox", p->dir);
	if (system(path) != 0)
		die("copy /bin/busybox (busybox-static)");
	(void)snprintf(p->root, sizeof(p->root), "%s/bundle/rootfs", p->dir);
	p->filter = make_filter(p->dir);
	write_config(p);
	make_cgroup(p->cgroups[0], sizeof(p->cgroups[0]), "pids", "pids.max", "1024");
	make_cgroup(p->cgroups[1], sizeof(p->cgroups[1]), "memory", "memory.limit_in_bytes",
		    "1073741824");
}

/* ---- the runs ---- */

static bool run(const struct place *p, const char *const *argv, double *ret_us)
{
	double begin = now_us();
	char opts[1000];
	int status = -1;
	pid_t pid;

	(void)snprintf(opts, sizeof(opts), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work",
		       p->dir, p->dir, p->dir);
	if (mount("overlay", p->root, "overlay", 0, opts) < 0)
		die("mount overlay");
	(void)lseek(p->filter, 0, SEEK_SET);
	if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ) == 0)
		(void)waitpid(pid, &status, 0);
	*ret_us = now_us() - begin;
	if (umount2(p->root, MNT_DETACH) < 0)
		die("unmount overlay");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool installed(const char *program)
{
	char cmd[100];

	(void)snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null 2>&1", program);
	return system(cmd) == 0;
}

static void measure(const struct place *p, const char *const *argv, int n, bool last)
{
	const char *comma = last ? "" : ",";
	double us;

	if (!installed(argv[0])) {
		printf("  \"%s\": {\"missing\": \"%s is not installed; tools/setup bench\"}%s\n",
		       argv[0], argv[0], comma);
		return;
	}
	for (int i = 0; i < 3; i++)
		if (!run(p, argv, &us)) {
			printf("  \"%s\": {\"missing\": \"%s does not run here\"}%s\n", argv[0],
			       argv[0], comma);
			return;
		}
	printf("  \"%s\": {\"us\": [", argv[0]);
	for (int i = 0; i < n; i++) {
		if (!run(p, argv, &us) || stopped)
			exit(1);
		printf("%s%.0f", i ? "," : "", us);
	}
	printf("]}%s\n", comma);
}

/* crun refuses a host with both generations of control groups unless the second one is out of its
 * sight. */
static void hide_unified(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die("enter a mount namespace");
	(void)umount2("/sys/fs/cgroup/unified", MNT_DETACH); /* absent unless it is a hybrid */
}

int main(int argc, char **argv)
{
	int n = argc == 3 ? (int)strtoul(argv[2], NULL, 10) : 0;
	struct place *p = &place;
	char filter[16], state[1300], bundle[1300];
	const char *const bwrap[] = { "bwrap",
				      "--unshare-user",
				      "--unshare-pid",
				      "--unshare-net",
				      "--unshare-ipc",
				      "--unshare-uts",
				      "--unshare-cgroup",
				      "--uid",
				      "0",
				      "--gid",
				      "0",
				      "--hostname",
				      "peer",
				      "--bind",
				      p->root,
				      "/",
				      "--proc",
				      "/proc",
				      "--dev",
				      "/dev",
				      "--cap-drop",
				      "ALL",
				      "--seccomp",
				      filter,
				      "/busybox",
				      "true",
				      NULL };
	const char *const crun[] = { "crun",     "--root", state,      "--cgroup-manager",
				     "cgroupfs", "run",    "--bundle", bundle,
				     "peer",     NULL };

	if (n < 1 || geteuid() != 0) {
		(void)fprintf(stderr, "usage: peers DIR RUNS, as root\n");
		return 2;
	}
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	prepare(p, argv[1]);
	hide_unified();
	(void)snprintf(filter, sizeof(filter), "%d", p->filter);
	(void)snprintf(state, sizeof(state), "%s/state", p->dir);
	(void)snprintf(bundle, sizeof(bundle), "%s/bundle", p->dir);
	printf("{\n");
	enter_cgroup(p->cgroups[0], NULL);
	enter_cgroup(p->cgroups[1], NULL);
	measure(p, bwrap, n, false);
	enter_cgroup("", *p->cgroups[0] ? "pids" : NULL);
	enter_cgroup("", *p->cgroups[1] ? "memory" : NULL);
	measure(p, crun, n, true);
	printf("}\n");
	return 0;
}

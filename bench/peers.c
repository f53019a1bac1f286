/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers: how long other programs take to start a program behind the walls that Cay's sandboxes
 * have, to run another one in there, and to remove a container that runs: new user, pid, mount,
 * network, ipc, uts and cgroup namespaces, an overlay as root, no capabilities, a seccomp filter,
 * and limits of processes and memory. (runsc has its own kernel behind its own filter, and no
 * limits here; podman has no user namespace.)
 *
 * A start is timed from the mount of the overlay, which all of them leave to their caller, to the
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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "measure.h"

struct place {
	char dir[256]; /* contains lower, upper, work, root, once, idle and state */
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

/* args: of busybox, as JSON */
static void write_config(const struct place *p, const char *bundle, const char *args)
{
	char path[300], text[6000];
	int n = snprintf(
		text, sizeof(text),
		"{\"ociVersion\":\"1.0.2\",\"process\":{\"user\":{\"uid\":0,\"gid\":0},\"args\":[\"/busybox\",%s],"
		"\"env\":[\"PATH=/\"],\"cwd\":\"/\",\"noNewPrivileges\":true,\"capabilities\":{}},"
		"\"root\":{\"path\":\"%s\"},\"hostname\":\"peer\",\"mounts\":["
		"{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\",\"options\":[\"nosuid\",\"noexec\",\"nodev\"]},"
		"{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"nosuid\",\"mode=755\"]}],"
		"\"linux\":{\"uidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":65536}],"
		"\"gidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":65536}],"
		"\"namespaces\":[{\"type\":\"user\"},{\"type\":\"pid\"},{\"type\":\"mount\"},{\"type\":\"network\"},"
		"{\"type\":\"ipc\"},{\"type\":\"uts\"},{\"type\":\"cgroup\"}],\"cgroupsPath\":\"/cay-peers-%d\","
		"\"resources\":{\"pids\":{\"limit\":1024},\"memory\":{\"limit\":1073741824}},"
		"\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"action\":\"SCMP_ACT_ERRNO\",\"names\":[",
		args, p->root, getpid());

	for (size_t i = 0; i < N_DENIED; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s\"%s\"", i ? "," : "",
			      denied[i].name);
	(void)snprintf(text + n, sizeof(text) - (size_t)n, "]}]}}}");
	(void)snprintf(path, sizeof(path), "%s/%s/config.json", p->dir, bundle);
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
	static const char *const subs[] = { "lower", "lower/proc", "lower/dev", "upper", "work",
					    "root",  "once",       "idle",      "state" };
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
	(void)snprintf(p->root, sizeof(p->root), "%s/root", p->dir);
	p->filter = make_filter(p->dir);
	write_config(p, "once", "\"true\"");
	write_config(p, "idle", "\"sleep\",\"1000\"");
	make_cgroup(p->cgroups[0], sizeof(p->cgroups[0]), "pids", "pids.max", "1024");
	make_cgroup(p->cgroups[1], sizeof(p->cgroups[1]), "memory", "memory.limit_in_bytes",
		    "1073741824");
}

/* ---- the programs ---- */

enum {
	WORDS = 40,
	EXTRA_RUNS = 3,       /* before those that count */
	SERIES_US = 15000000, /* a slow program is run less often than a fast one */
	LEAST_RUNS = 10,
};

/*
 * The verbs of a program, in words: @state, @root, @once, @idle are directories of the place,
 * @filter is the descriptor of the seccomp filter, and @self stands for the words of before.
 */
struct peer {
	const char *name;
	const char *self;
	const char *run;    /* starts, and ends by itself */
	const char *start;  /* leaves a container behind that idles; NULL: it cannot */
	const char *exec;   /* in that one */
	const char *remove; /* that one */
	bool limited;       /* it is to be put into the groups with limits */
};

#define OCI_VERBS                                                                                  \
	.run = "@self run --bundle @once peer", .start = "@self run --detach --bundle @idle peer", \
	.exec = "@self exec peer /busybox true", .remove = "@self delete --force peer"

#define PODMAN_BOX                                                                                                                       \
	"--network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --pids-limit 1024 --memory 1g --cap-drop all --security-opt " \
	"no-new-privileges --rootfs @root /busybox"

static const struct peer peers[] = {
	{ "bwrap",
	  .run = "bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts "
		 "--unshare-cgroup --uid 0 --gid 0 --hostname peer --bind @root / --proc /proc "
		 "--dev /dev --cap-drop ALL --seccomp @filter /busybox true",
	  .limited = true },
	{ "crun", .self = "crun --root @state --cgroup-manager cgroupfs", OCI_VERBS },
	{ "runc", .self = "runc --root @state", OCI_VERBS },
	{ "runsc", .self = "runsc --root @state --network=none --ignore-cgroups", OCI_VERBS },
	{ "podman",
	  .self = "podman --root @state --runroot @state --storage-driver vfs --cgroup-manager cgroupfs",
	  .run = "@self run --rm " PODMAN_BOX " true",
	  .start = "@self run --detach --name peer " PODMAN_BOX " sleep 1000",
	  .exec = "@self exec peer /busybox true", .remove = "@self rm --force --time 0 peer" },
};
#define N_PEERS (sizeof(peers) / sizeof(*peers))

struct command {
	char text[4096]; /* the words, each with its end */
	size_t len;
	char *argv[WORDS + 1];
	size_t n;
};

static void add_words(struct command *c, const struct place *p, const struct peer *of,
		      const char *words);

static void add_word(struct command *c, const struct place *p, const struct peer *of,
		     const char *word)
{
	size_t left = sizeof(c->text) - c->len;
	char *at = c->text + c->len;
	int n;

	if (strcmp(word, "@self") == 0) {
		add_words(c, p, of, of->self);
		return;
	}
	if (strcmp(word, "@filter") == 0)
		n = snprintf(at, left, "%d", p->filter);
	else if (word[0] == '@')
		n = snprintf(at, left, "%s/%s", p->dir, word + 1);
	else
		n = snprintf(at, left, "%s", word);
	if (n < 0 || (size_t)n >= left || c->n == WORDS) {
		errno = E2BIG;
		die(word);
	}
	c->argv[c->n++] = at;
	c->len += (size_t)n + 1;
}

static void add_words(struct command *c, const struct place *p, const struct peer *of,
		      const char *words)
{
	char copy[1000], *save = NULL;

	(void)snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		add_word(c, p, of, w);
	c->argv[c->n] = NULL;
}

/* ---- the runs ---- */

/* Orphans of a container are ours too, and whoever removes it waits until they are reaped. */
static int wait_for(pid_t pid)
{
	int status = -1;
	pid_t ended;

	do
		ended = waitpid(-1, &status, 0);
	while (ended != pid && (ended > 0 || errno == EINTR));
	return status;
}

/* Its output goes nowhere: ours is JSON, and a container must not keep it open. */
static bool spawn(const struct place *p, const struct peer *of, const char *words)
{
	struct command c = { 0 };
	posix_spawn_file_actions_t quiet;
	int status = -1;
	pid_t pid;

	add_words(&c, p, of, words);
	(void)lseek(p->filter, 0, SEEK_SET);
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, c.argv[0], &quiet, NULL, c.argv, environ) == 0)
		status = wait_for(pid);
	posix_spawn_file_actions_destroy(&quiet);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void mount_root(const struct place *p)
{
	char opts[1000];

	(void)snprintf(opts, sizeof(opts), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work",
		       p->dir, p->dir, p->dir);
	if (mount("overlay", p->root, "overlay", 0, opts) < 0)
		die("mount overlay");
}

static void unmount_root(const struct place *p)
{
	if (umount2(p->root, MNT_DETACH) < 0)
		die("unmount overlay");
}

static bool run(const struct place *p, const struct peer *of, double *ret_us)
{
	double begin = now_us();
	bool ok;

	mount_root(p);
	ok = spawn(p, of, of->run);
	*ret_us = now_us() - begin;
	unmount_root(p);
	return ok;
}

/* In the container that idles. */
static bool exec_in(const struct place *p, const struct peer *of, double *ret_us)
{
	double begin = now_us();
	bool ok = spawn(p, of, of->exec);

	*ret_us = now_us() - begin;
	return ok;
}

static bool start_and_remove(const struct place *p, const struct peer *of, double *ret_us)
{
	bool ok = spawn(p, of, of->start);
	double begin = now_us();

	ok = spawn(p, of, of->remove) && ok;
	*ret_us = now_us() - begin;
	return ok;
}

/* "key": [...]; false: it does not run here. A failure after the first runs is one of the machine,
 * and ends the program. */
static bool series(const struct place *p, const struct peer *of, const char *key,
		   bool (*one)(const struct place *p, const struct peer *of, double *ret_us), int n)
{
	double us, begin;

	for (int i = 0; i < EXTRA_RUNS; i++)
		if (!one(p, of, &us))
			return false;
	begin = now_us();
	printf("%s\"%s\": [", strcmp(key, "us") == 0 ? "" : ", ", key);
	for (int i = 0; i < n && (i < LEAST_RUNS || now_us() < begin + SERIES_US); i++) {
		if (!one(p, of, &us) || stopped)
			exit(1);
		printf("%s%.0f", i ? "," : "", us);
	}
	printf("]");
	return true;
}

static bool installed(const char *program)
{
	char cmd[100];

	(void)snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null 2>&1", program);
	return system(cmd) == 0;
}

static void measure_running(const struct place *p, const struct peer *of, int n)
{
	mount_root(p);
	if (spawn(p, of, of->start)) {
		(void)series(p, of, "exec_us", exec_in, n);
		(void)spawn(p, of, of->remove);
		(void)series(p, of, "remove_us", start_and_remove, n);
	}
	(void)spawn(p, of, of->remove); /* whatever is left; nothing is fine */
	unmount_root(p);
}

static void measure(const struct place *p, const struct peer *of, int n, bool all)
{
	printf("  \"%s\": {", of->name);
	if (!installed(of->name))
		printf("\"missing\": \"%s is not installed; tools/setup bench\"", of->name);
	else if (!series(p, of, "us", run, n))
		printf("\"missing\": \"%s does not run here\"", of->name);
	else if (all && of->start)
		measure_running(p, of, n);
	printf("}");
}

static void enter_limits(const struct place *p, bool limited)
{
	static const char *const controllers[] = { "pids", "memory" };

	for (int i = 0; i < 2; i++)
		if (*p->cgroups[i])
			enter_cgroup(limited ? p->cgroups[i] : "", limited ? NULL : controllers[i]);
}

/* crun refuses a host with both generations of control groups unless the second one is out of its
 * sight. */
static void hide_unified(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die("enter a mount namespace");
	(void)umount2("/sys/fs/cgroup/unified", MNT_DETACH); /* absent unless it is a hybrid */
}

/* names: NULL after the last; none: everybody. */
static bool chosen(const struct peer *of, char *const *names)
{
	bool any = *names;

	for (; *names; names++)
		if (strcmp(*names, of->name) == 0)
			return true;
	return !any;
}

int main(int argc, char **argv)
{
	int n = argc >= 4 ? (int)strtoul(argv[2], NULL, 10) : 0;
	bool all = argc >= 4 && strcmp(argv[3], "all") == 0;
	struct place *p = &place;
	const char *comma = "";

	if (n < 1 || geteuid() != 0 || (!all && strcmp(argv[3], "start") != 0)) {
		(void)fprintf(stderr, "usage: peers DIR RUNS start|all [NAME...], as root\n");
		return 2;
	}
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	prepare(p, argv[1]);
	hide_unified();
	printf("{\n");
	for (size_t i = 0; i < N_PEERS; i++) {
		if (!chosen(&peers[i], argv + 4))
			continue;
		printf("%s", comma);
		comma = ",\n";
		enter_limits(p, peers[i].limited);
		measure(p, &peers[i], n, all);
	}
	enter_limits(p, false);
	printf("\n}\n");
	return 0;
}

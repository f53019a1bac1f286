/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bomb KIND      takes as much of one thing as the kernel gives, says so, and goes on asking
 * bomb one KIND  asks for one of it, as a neighbour or the host would; exits with 0 if it got it
 *
 * A static program, so that it runs in any root. It runs in sandboxes of tests, never outside.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MANY = 1 << 20,    /* where a bomb without any bound gives up */
	HELPERS = 16,      /* processes that take descriptors */
	CHUNK = 1 << 20,   /* bytes of memory or disk at a time */
	REST_NS = 1000000, /* between two attempts once it has all it can get */
};

static unsigned serial;
static bool one; /* what outlives a process is given back */

static int take_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		while (!one)
			(void)pause();
	if (!pid)
		_exit(0);
	return pid < 0 ? -1 : 0;
}

static int take_zombie(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return pid < 0 ? -1 : 0;
}

static int touch_memory(void)
{
	char *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -1;
	(void)memset(p, 1, CHUNK);
	return 0;
}

/* In a child: whoever takes too much is killed, and the next one follows. */
static int take_memory(void)
{
	pid_t pid;
	int status;

	if (one)
		return touch_memory();
	pid = fork();
	if (!pid)
		while (!touch_memory())
			;
	if (!pid)
		_exit(1);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	errno = ENOMEM;
	return -1;
}

static int take_disk(void)
{
	static char block[CHUNK];
	static int fd = -1;
	ssize_t n;

	if (fd < 0) {
		(void)mkdir("/tmp", 0777);
		fd = open("/tmp", O_TMPFILE | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	}
	n = fd < 0 ? -1 : write(fd, block, sizeof(block));
	return n <= 0 ? -1 : 0;
}

static int take_inode(void)
{
	char path[64];
	int fd;

	(void)mkdir("/tmp", 0777);
	(void)snprintf(path, sizeof(path), "/tmp/bomb-%u-%d", serial++, (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && one)
		(void)unlink(path);
	return fd < 0 ? -1 : close(fd);
}

static int take_descriptor(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC) < 0 ? -1 : 0;
}

static int take_inotify(void)
{
	return inotify_init1(IN_CLOEXEC) < 0 ? -1 : 0;
}

static int take_timer(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_NONE };
	timer_t t;

	return timer_create(CLOCK_MONOTONIC, &ev, &t);
}

static int take_queue(void)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "/bomb-%d-%u", (int)getpid(), serial++);
	if (mq_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600, NULL) < 0)
		return -1;
	(void)mq_unlink(name); /* it lives as long as its descriptor */
	return 0;
}

static int take_sysv(void)
{
	int queue = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 1, 0600);
	int memory = shmget(IPC_PRIVATE, 4096, 0600);
	int got = queue >= 0 || set >= 0 || memory >= 0 ? 0 : -1;

	if (one) {
		(void)msgctl(queue, IPC_RMID, NULL);
		(void)semctl(set, 0, IPC_RMID);
		(void)shmctl(memory, IPC_RMID, NULL);
	}
	return got;
}

static int take_aio(void)
{
	aio_context_t ctx = 0;

	return (int)syscall(SYS_io_setup, 128, &ctx);
}

static int take_pty(void)
{
	return posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC) < 0 ? -1 : 0;
}

static int take_log(void)
{
	static char line[4096];

	(void)memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\n';
	return write(STDOUT_FILENO, line, sizeof(line)) < 0 ? -1 : 0;
}

static int take_connection(void)
{
	static int listener = -1;
	static struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int fd;

	if (listener < 0) {
		a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (listener < 0 || bind(listener, (struct sockaddr *)&a, len) < 0 ||
		    listen(listener, 4096) < 0 ||
		    getsockname(listener, (struct sockaddr *)&a, &len) < 0)
			return -1;
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS)
		return -1;
	(void)accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return 0;
}

static const struct {
	const char *kind;
	int (*take)(void);
	bool helpers; /* the limit of one process is not that of the sandbox */
	bool restless;
} bombs[] = {
	{ "fork", take_fork, false, true },
	{ "memory", take_memory, false, true },
	{ "disk", take_disk, false, true },
	{ "inodes", take_inode, false, true },
	{ "descriptors", take_descriptor, true, false },
	{ "inotify", take_inotify, true, false },
	{ "timers", take_timer, true, false },
	{ "queues", take_queue, true, false },
	{ "sysv", take_sysv, false, false },
	{ "aio", take_aio, false, false },
	{ "ptys", take_pty, true, false },
	{ "logs", take_log, false, true },
	{ "zombies", take_zombie, false, true },
	{ "connections", take_connection, true, false },
};
enum {
	N_BOMBS = sizeof(bombs) / sizeof(bombs[0])
};

static int take_all(size_t bomb, unsigned *ret_n)
{
	unsigned n = 0;

	/* Log lines never end; disk and memory go on by themselves. */
	unsigned most = bombs[bomb].take == take_log ? 1000 : MANY;

	while (n < most && !bombs[bomb].take())
		n++;
	*ret_n = n;
	return errno;
}

static void rest(void)
{
	const struct timespec t = { .tv_nsec = REST_NS };

	(void)nanosleep(&t, NULL);
}

static _Noreturn void explode(size_t bomb)
{
	struct rlimit files;
	unsigned n;
	int why;

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	for (int i = 0; bombs[bomb].helpers && i < HELPERS; i++)
		if (!fork())
			break;
	why = take_all(bomb, &n);
	(void)dprintf(STDERR_FILENO, "armed %s %u %s\n", bombs[bomb].kind, n, strerror(why));
	for (;;) {
		(void)bombs[bomb].take();
		if (!bombs[bomb].restless)
			rest();
	}
}

int main(int argc, char **argv)
{
	one = argc == 3 && !strcmp(argv[1], "one");
	for (size_t i = 0; (one || argc == 2) && i < N_BOMBS; i++) {
		if (strcmp(argv[argc - 1], bombs[i].kind))
			continue;
		if (!one)
			explode(i);
		if (!bombs[i].take())
			return 0;
		(void)fprintf(stderr, "%s: %s\n", bombs[i].kind, strerror(errno));
		return 1;
	}
	(void)fprintf(stderr, "usage: bomb [one] KIND\n");
	return 2;
}

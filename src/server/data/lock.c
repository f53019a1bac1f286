/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "server/data/data.h"

/*
 * data_dir/lock is held for as long as a server lives, however it ends. Its text names the process,
 * for the error that the next one gets and for `cay stop`.
 */
static void read_text(const char *path, char *ret, size_t room)
{
	autofree char *text = NULL;
	size_t len = 0;

	err_free(file_read(AT_FDCWD, path, room - 1, &text, &len)); /* then there is no name */
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	(void)snprintf(ret, room, "%s", str_or(text, "another process"));
}

static struct err *held(const char *data_dir, const char *path)
{
	char text[256];

	read_text(path, text, sizeof(text));
	return err_new(ERR_CONFLICT, "data directory %s is in use by %s", data_dir, text);
}

void data_lock_tell(int fd, const char *command, const char *address)
{
	autofree char *text = xasprintf("%s pid %d%s%s\n", command, (int)getpid(),
					address ? " at https://" : "", address ? address : "");

	/* Without it the lock works as well, and `cay stop` cannot tell whose it is. */
	if (!ftruncate(fd, 0))
		(void)!pwrite(fd, text, strlen(text), 0);
}

struct err *data_lock(const char *data_dir, int *ret_fd)
{
	autofree char *path = xasprintf("%s/lock", data_dir);
	autoclose fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(errno, "open %s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? held(data_dir, path)
					    : err_sys(errno, "lock %s", path);
	*ret_fd = take_fd(fd);
	return NULL;
}

/* The number after "pid "; 0: there is none. */
static pid_t pid_in(const char *text)
{
	const char *p = strstr(text, "pid ");
	autofree char *digits = p ? xstrndup(p + 4, strspn(p + 4, "0123456789")) : NULL;
	int64_t pid = 0;

	if (digits)
		err_free(parse_int(digits, 1, INT32_MAX, &pid));
	return (pid_t)pid;
}

static bool has_open(pid_t pid, const struct stat *file)
{
	autofree char *dir = xasprintf("/proc/%d/fd", (int)pid);
	DIR *d = opendir(dir);
	bool found = false;
	struct dirent *de;
	struct stat st;

	while (d && !found && (de = readdir(d)))
		found = !fstatat(dirfd(d), de->d_name, &st, 0) && st.st_dev == file->st_dev &&
			st.st_ino == file->st_ino;
	if (d)
		(void)closedir(d);
	return found;
}

/* The pidfd first: whoever has the file open afterwards is the process that it stands for, unless
 * that one has ended, which a signal would notice. */
static struct err *find_process(struct data_holder *h, const struct stat *lock)
{
	pid_t pid = pid_in(h->text);
	autoclose pidfd = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (pidfd < 0 || !has_open(pid, lock))
		return err_new(
			ERR_NOT_FOUND,
			"the directory is in use, but not by a process of this host that can "
			"be seen from here (its lock says: %s)",
			h->text);
	h->pid = pid;
	h->pidfd = take_fd(pidfd);
	return NULL;
}

struct err *data_holder_find(const char *data_dir, struct data_holder *ret)
{
	autofree char *path = xasprintf("%s/lock", data_dir);
	autoclose fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	*ret = (struct data_holder){ .pidfd = -1 };
	if (fd < 0 && errno == ENOENT)
		return file_exists(AT_FDCWD, data_dir)
			       ? NULL
			       : err_new(ERR_NOT_FOUND, "there is no data directory %s", data_dir);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(errno, "open %s", path);
	if (!flock(fd, LOCK_SH | LOCK_NB))
		return NULL; /* nobody has it; what its text says is over */
	if (errno != EWOULDBLOCK)
		return err_sys(errno, "look at the lock %s", path);
	read_text(path, ret->text, sizeof(ret->text));
	return find_process(ret, &st);
}

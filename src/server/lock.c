/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "server/lock_priv.h"

/*
 * data_dir/lock is held for as long as a server lives, however it ends. Its text names the server,
 * for the error that the next one gets.
 */
static struct err *held(const char *data_dir, const char *path)
{
	autofree char *text = NULL;
	size_t len = 0;

	err_free(file_read(AT_FDCWD, path, 512, &text, &len)); /* on failure no name is given */
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	return err_new(ERR_CONFLICT, "data directory %s is in use by cay serve %s", data_dir,
		       str_or(text, "(another process)"));
}

void lock_tell(int fd, const char *address)
{
	autofree char *text = xasprintf("pid %d at https://%s\n", (int)getpid(), address);

	/* The text is for people only; the lock works without it. */
	if (!ftruncate(fd, 0))
		(void)!pwrite(fd, text, strlen(text), 0);
}

struct err *lock_take(const char *data_dir, const char *address, int *ret_fd)
{
	autofree char *path = xasprintf("%s/lock", data_dir);
	autoclose fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(errno, "open %s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? held(data_dir, path)
					    : err_sys(errno, "lock %s", path);
	lock_tell(fd, address);
	*ret_fd = take_fd(fd);
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/spawn/spawn.h"

/*
 * The slave is opened through the master itself (TIOCGPTPEER): code in the sandbox may have put
 * anything at the path that ptsname() would return. gVisor has no such call; there /dev/pts is part
 * of its kernel, and nobody puts anything there.
 */
static int open_slave(int master)
{
	int flags = O_RDWR | O_NOCTTY | O_CLOEXEC, fd = ioctl(master, TIOCGPTPEER, flags);
	unsigned number;
	char path[32];

	if (fd >= 0 || errno != ENOTTY)
		return fd;
	if (ioctl(master, TIOCGPTN, &number) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/dev/pts/%u", number);
	return open(path, flags | O_NOFOLLOW);
}

struct err *tty_open(uint32_t uid, int *ret_master, int *ret_slave)
{
	autoclose master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	autoclose slave = -1;
	int unlock = 0;

	if (master < 0)
		return err_sys(errno, "open /dev/ptmx");
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_sys(errno, "unlock terminal");
	slave = open_slave(master);
	if (slave < 0)
		return err_sys(errno, "open terminal");
	if (fchown(slave, uid, (gid_t)-1) < 0)
		return err_sys(errno, "give terminal to user %u", uid);
	*ret_master = take_fd(master);
	*ret_slave = take_fd(slave);
	return NULL;
}

void tty_resize(int master, uint16_t cols, uint16_t rows)
{
	struct winsize size = { .ws_col = cols, .ws_row = rows };

	if (cols && rows)
		(void)ioctl(master, TIOCSWINSZ,
			    &size); /* a terminal that has hung up has no size */
}

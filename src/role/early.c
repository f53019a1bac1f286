/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "role/early_priv.h"

static const int noted[] = { SIGTERM, SIGINT, SIGUSR1 };
static volatile sig_atomic_t came[ARRAY_LEN(noted)];
static int fd = -1; /* stays open: a handler may run in any thread */

static void note(int signum)
{
	static const uint64_t one = 1;
	int saved = errno;

	for (size_t i = 0; i < ARRAY_LEN(noted); i++)
		if (noted[i] == signum)
			came[i] = 1;
	(void)!write(fd, &one, sizeof(one)); /* fails only if it is readable for ages */
	errno = saved;
}

struct err *early_signals_note(int *ret_fd)
{
	const struct sigaction act = { .sa_handler = note, .sa_flags = SA_RESTART };

	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return err_sys(errno, "create a descriptor for signals");
	for (size_t i = 0; i < ARRAY_LEN(noted); i++)
		(void)sigaction(noted[i], &act, NULL);
	*ret_fd = fd;
	return NULL;
}

void early_signals_raise(void)
{
	for (size_t i = 0; i < ARRAY_LEN(noted); i++)
		if (came[i])
			(void)raise(noted[i]);
}

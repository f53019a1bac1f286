/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/ui/ui_priv.h"

/*
 * The command line of a browser can be read by every user of the machine, and the link lets in
 * whoever is first. So the browser is given a file that only its user can read, and which leads
 * there.
 */
#define NAME "cay-ui.html"

/* URLs that we make have nothing in them that HTML would take for something else. */
static bool is_plain(const char *url)
{
	return !strpbrk(url, "<>\"'& ");
}

static struct err *write_redirect(const char *path, const char *url)
{
	autofree char *text =
		xasprintf("<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" "
			  "content=\"no-referrer\">\n<title>Cay</title>\n<meta "
			  "http-equiv=\"refresh\" content=\"0; url=%s\">\n<a href=\"%s\">Cay</a>\n",
			  url, url);

	return file_write_atomic(AT_FDCWD, path, text, strlen(text), 0600);
}

/* The browser has a session of its own, as ^C is meant for us alone, and nobody waits for it: this
 * command has no other children. */
static bool start(const char *program, const char *file)
{
	const struct sigaction unwaited = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };
	char *argv[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)file, NULL };
	posix_spawn_file_actions_t fds;
	posix_spawnattr_t how;
	pid_t pid;
	int r;

	(void)sigaction(SIGCHLD, &unwaited, NULL);
	(void)posix_spawn_file_actions_init(&fds);
	(void)posix_spawnattr_init(&how);
	(void)posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID);
	for (int fd = 0; fd < 3; fd++)
		(void)posix_spawn_file_actions_addopen(&fds, fd, "/dev/null", O_RDWR, 0);
	r = posix_spawnp(&pid, program, &fds, &how, argv, environ);
	(void)posix_spawnattr_destroy(&how);
	(void)posix_spawn_file_actions_destroy(&fds);
	return !r;
}

bool ui_open_browser(const char *url)
{
	const char *browser = getenv("BROWSER"), *dir = getenv("XDG_RUNTIME_DIR");
	bool display = !str_empty(getenv("DISPLAY")) || !str_empty(getenv("WAYLAND_DISPLAY"));
	autofree char *path = NULL;
	autoptr(err) e = NULL;

	if ((!display && str_empty(browser)) || str_empty(dir) || !is_plain(url))
		return false;
	path = xasprintf("%s/" NAME, dir);
	e = write_redirect(path, url);
	return !e && start(str_or(browser, "xdg-open"), path);
}

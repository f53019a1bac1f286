/* SPDX-License-Identifier: Apache-2.0 */
#include "node/inside/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/list.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "node/host/instance.h"
#include "node/inside/inside_priv.h"

/*
 * Directories and sockets, and the connections to them. A connection has one request, so what
 * limits connections limits everything: a sandbox that asks for more waits in the kernel's queue,
 * and costs the loop nothing.
 */
#define SOCKET_NAME "identity.sock"

enum {
	CONNS_MAX = 8, /* of a Pod at a time */
	BURST = 16,    /* connections of a Pod at once, */
	PER_S = 4,     /* and in each second after that */
	BACKLOG = 8,
	PAUSE_MS = 250,
	PATIENCE_MS = 5000, /* for a head to begin, and to be there */
	HEAD_MAX = 8 << 10,
	HEADERS_MAX = 32,
};

struct inside {
	struct inside_spec spec;
	char *dir;
	struct map *posts;   /* uid → struct post, owned */
	struct list paused;  /* struct post */
	struct timer *retry; /* while there is one of these */
};

/* The socket of one Pod. */
struct post {
	struct list paused; /* inside.paused: it does not accept for a moment */
	struct inside *inside;
	char *uid;
	int dir, fd;
	struct watch *watch;
	struct http_server *server; /* since the first connection */
	unsigned left;              /* connections that it may have now */
	usec counted;               /* up to when that was counted */
};

static void post_free(void *p)
{
	struct post *post = p;

	list_del(&post->paused);
	watch_free(post->watch);
	http_server_free(post->server);
	if (post->fd >= 0)
		(void)close(post->fd);
	if (post->dir >= 0)
		(void)close(post->dir);
	free(post->uid);
	free(post);
}

/* Requests */

static void on_head(void *arg, struct http_request *req)
{
	struct post *post = arg;
	const struct inside_spec *spec = &post->inside->spec;
	autofree char *group = caller_group(spec, http_request_conn_stream(req)->fd);
	struct inside_caller who = { .pod = post->uid, .task = group };
	char *part = group ? strchr(group, '/') : NULL;

	if (part) {
		*part++ = '\0';
		who.seat = str_starts(part, SEAT_PART) ? part + strlen(SEAT_PART) : NULL;
	}
	if (!group || (part && !who.seat))
		http_respond_text(req, 403,
				  "the process that connected is in no sandbox, or has ended");
	else
		spec->visit(spec->arg, req, &who);
}

static const struct http_handler handler = { .head = on_head };

static struct http_server *server_of(struct post *post)
{
	const struct http_server_spec spec = {
		.limits = { .max_head = HEAD_MAX,
			    .max_headers = HEADERS_MAX,
			    .max_body = 1,
			    .head_ms = PATIENCE_MS,
			    .idle_ms = PATIENCE_MS,
			    .max_conns = CONNS_MAX,
			    .one_request = true },
		.handler = &handler,
		.arg = post,
	};

	if (!post->server)
		err_free(http_server_start(post->inside->spec.loop, -1, &spec, &post->server));
	return post->server;
}

/* Connections */

static void count(struct post *post)
{
	usec now = clock_mono(), each = 1000000 / PER_S;
	usec more = (now - post->counted) / each;

	post->left = (unsigned)MIN((usec)post->left + more, (usec)BURST);
	post->counted = post->left == BURST ? now : post->counted + more * each;
}

static void pause_post(struct post *post)
{
	struct inside *in = post->inside;

	watch_want(post->watch, 0);
	list_add_tail(&in->paused, &post->paused);
	if (!timer_armed(in->retry))
		timer_set(in->retry, PAUSE_MS);
}

static bool may_accept(const struct post *post)
{
	return post->left && (!post->server || http_server_conns(post->server) < CONNS_MAX);
}

static void on_ready(void *arg, unused unsigned ready)
{
	struct post *post = arg;

	count(post);
	while (may_accept(post)) {
		int fd = accept4(post->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR))
			return;
		if (fd < 0) /* without descriptors or memory */
			break;
		post->left--;
		http_server_adopt(server_of(post), stream_plain(fd), "inside");
	}
	pause_post(post);
}

static void on_retry(void *arg)
{
	struct inside *in = arg;
	struct post *post, *next;

	list_each_safe(post, next, &in->paused, paused) {
		list_del(&post->paused);
		watch_want(post->watch, WATCH_READ);
	}
}

/* Directories and sockets */

/* By the directory's descriptor: the whole path may be longer than the name of a socket can be. */
static struct err *bind_socket(struct post *post)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	post->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (post->fd < 0)
		return err_sys(errno, "create a socket");
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" SOCKET_NAME, post->dir);
	if (unlinkat(post->dir, SOCKET_NAME, 0) < 0 && errno != ENOENT)
		return err_sys(errno, "remove the socket of an earlier run");
	if (bind(post->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    fchmodat(post->dir, SOCKET_NAME, 0666, 0) < 0 || listen(post->fd, BACKLOG) < 0)
		return err_sys(errno, "listen on " SOCKET_NAME);
	return NULL;
}

/* Every user of the sandbox may connect, and look at the directory. */
static struct err *open_dir(struct post *post)
{
	autofree char *path = xasprintf("%s/%s", post->inside->dir, post->uid);

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_sys(errno, "create %s", path);
	post->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (post->dir < 0 || fchmod(post->dir, 0755) < 0)
		return err_sys(errno, "open %s", path);
	return NULL;
}

struct err *inside_offer(struct inside *in, const char *uid)
{
	struct post *post;
	struct err *e;

	if (map_has(in->posts, uid))
		return NULL;
	post = xnew(struct post);
	*post = (struct post){ .inside = in,
			       .uid = xstrdup(uid),
			       .dir = -1,
			       .fd = -1,
			       .left = BURST,
			       .counted = clock_mono() };
	list_init(&post->paused);
	e = open_dir(post);
	if (!e)
		e = bind_socket(post);
	if (e) {
		post_free(post);
		return err_wrap(e, "offer an identity socket");
	}
	(void)close(take_fd(post->dir));
	post->watch = watch_new(in->spec.loop, post->fd, on_ready, post);
	watch_want(post->watch, WATCH_READ);
	map_put(in->posts, uid, post);
	return NULL;
}

void inside_withdraw(struct inside *in, const char *uid)
{
	autofree char *path = xasprintf("%s/%s", in->dir, uid);

	(void)map_del(in->posts, uid);
	err_free(file_remove_tree(AT_FDCWD, path));
}

char *inside_dir(const struct inside *in, const char *uid)
{
	return map_has(in->posts, uid) ? xasprintf("%s/%s", in->dir, uid) : NULL;
}

struct err *inside_open(const struct inside_spec *spec, struct inside **ret)
{
	autoptr(inside) in = xnew(struct inside);

	in->spec = *spec;
	in->dir = instance_dir(spec->instance, INSTANCE_IDENTITY);
	in->posts = map_new(post_free);
	list_init(&in->paused);
	in->retry = timer_new(spec->loop, on_retry, in);
	if (mkdir(in->dir, 0700) < 0 && errno != EEXIST)
		return err_sys(errno, "create %s", in->dir);
	*ret = take(in);
	return NULL;
}

void inside_free(struct inside *in)
{
	if (!in)
		return;
	map_free(in->posts);
	timer_free(in->retry);
	free(in->dir);
	free(in);
}

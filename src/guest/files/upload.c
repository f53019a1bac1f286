/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "guest/files/files.h"
#include "guest/files/multipart_priv.h"
#include "guest/runtime/path.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "net/http_server.h"

/*
 * POST /upload: the part named "file" goes to the path that its file name gives, piece by piece as
 * it arrives. Whatever goes wrong, the body is read to its end before the answer: most clients look
 * for an answer only then.
 */
struct upload {
	struct rt *rt;
	struct multipart *form;
	struct err *bad_form; /* the first error in the form, and in the file */
	struct err *failed;
	char *filename; /* set once the part has been found */
	int fd;         /* -1: not in that part, or an error occurred */
};

static void upload_free(void *owner)
{
	struct upload *u = owner;

	multipart_free(u->form);
	err_free(u->bad_form);
	err_free(u->failed);
	free(u->filename);
	if (u->fd >= 0)
		(void)close(u->fd);
	free(u);
}

static struct err *create(struct rt *rt, const char *filename, int *ret)
{
	struct base b;
	struct err *e = base_open(rt->base, &b);

	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		e = file_mkdirs(rt->base, 0777);
		if (!e)
			e = base_open(rt->base, &b);
	}
	if (e)
		return e;
	e = path_create(&b, filename, ret);
	base_done(&b);
	return e;
}

static void on_part(void *arg, const char *name, const char *filename)
{
	struct upload *u = arg;

	if (u->filename || !str_eq(name, "file") || str_empty(filename))
		return;
	u->filename = xstrdup(filename);
	u->failed = create(u->rt, filename, &u->fd);
}

static void on_part_data(void *arg, const char *p, size_t len)
{
	struct upload *u = arg;

	if (u->fd < 0)
		return;
	u->failed = fd_write_all(u->fd, p, len);
	if (u->failed)
		(void)close(take_fd(u->fd));
}

static void on_part_end(void *arg)
{
	struct upload *u = arg;

	if (u->fd >= 0 && close(take_fd(u->fd)) < 0)
		u->failed = err_sys(errno, "close");
}

static void on_body(void *owner, unused struct http_request *r, const char *data, size_t len)
{
	struct upload *u = owner;

	if (u->form && !u->bad_form)
		u->bad_form = multipart_feed(u->form, data, len);
}

static void reply_missing(struct http_request *r)
{
	autobuf body = { 0 };

	buf_add_str(&body, "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\",\"file\"],"
			   "\"msg\":\"Field required\",\"input\":null}]}");
	reply_json(r, 422, &body);
}

static void on_body_end(void *owner, struct http_request *r)
{
	struct upload *u = owner;
	autobuf body = { 0 };

	if (u->form && !u->bad_form)
		u->bad_form = multipart_end(u->form);
	if (u->failed) {
		reply_error(r, take(u->failed), NULL, "File upload failed");
	} else if (u->form && u->bad_form) {
		buf_add_str(&body, "{\"detail\":\"There was an error parsing the body\"}");
		reply_json(r, 400, &body);
	} else if (!u->filename) {
		reply_missing(r);
	} else {
		reply_message(r, 200, "File '%s' uploaded successfully.", u->filename);
	}
}

void upload_serve(struct face *f, struct http_request *r, unused const char *tail)
{
	static const struct multipart_events parts = { on_part, on_part_data, on_part_end };
	static const struct http_body_events body = { on_body, on_body_end };
	struct upload *u = xnew(struct upload);

	u->rt = f->rt;
	u->fd = -1;
	/* A body of another type contains no file: the answer says so after it has been read. */
	err_free(multipart_new(http_request_header(r, "Content-Type"), &parts, u, &u->form));
	http_request_set_owner(r, u, upload_free);
	http_request_stream(r, &body);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launch/message.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "json/record.h"
#include "node/launch/launch_priv.h"

static const struct record_field setup_fields[] = {
	RECORD(struct message_setup, stage, RECORD_STR),
	RECORD(struct message_setup, run, RECORD_STR),
	RECORD(struct message_setup, slots_dir, RECORD_STR),
	RECORD(struct message_setup, disk, RECORD_STR),
	RECORD(struct message_setup, disk_limit, RECORD_INT64),
	RECORD(struct message_setup, log_limit, RECORD_INT64),
	RECORD(struct message_setup, init, RECORD_STR),
	RECORD(struct message_setup, cgroup, RECORD_STR),
	RECORD(struct message_setup, features, RECORD_STR),
	{ 0 },
};

static const struct record_field slot_fields[] = {
	RECORD(struct message_slot, name, RECORD_STR),
	RECORD(struct message_slot, base, RECORD_UINT32),
	RECORD(struct message_slot, expects, RECORD_BOOL),
	RECORD_IN(struct message_slot, image, plan_image_fields),
	RECORD(struct message_slot, oom_score, RECORD_INT64),
	{ 0 },
};

static const struct record_field net_fields[] = {
	RECORD(struct message_net, name, RECORD_STR),
	RECORD(struct message_net, addr, RECORD_STR),
	RECORD(struct message_net, gateway, RECORD_STR),
	RECORD(struct message_net, addr6, RECORD_STR),
	RECORD(struct message_net, gateway6, RECORD_STR),
	RECORD(struct message_net, egress, RECORD_BOOL),
	{ 0 },
};

static const struct record_field check_fields[] = {
	RECORD(struct message_check, name, RECORD_STR),
	{ 0 },
};

static const struct record_field peers_fields[] = {
	RECORD(struct message_peers, name, RECORD_STR),
	RECORD(struct message_peers, out, RECORD_STR),
	RECORD(struct message_peers, in, RECORD_STR),
	{ 0 },
};

static const struct record_field seat_fields[] = {
	RECORD(struct message_seat, name, RECORD_STR),
	RECORD(struct message_seat, group, RECORD_STR),
	RECORD(struct message_seat, scratch, RECORD_STR),
	RECORD(struct message_seat, view, RECORD_INT),
	RECORD(struct message_seat, pid, RECORD_INT),
	RECORD(struct message_seat, base, RECORD_UINT32),
	RECORD(struct message_seat, disk, RECORD_INT64),
	{ 0 },
};

static const struct record_field made_fields[] = {
	RECORD(struct message_made, name, RECORD_STR),
	RECORD(struct message_made, pid, RECORD_INT),
	{ 0 },
};

static const struct record_field refused_fields[] = {
	RECORD(struct message_refused, what, RECORD_STR),
	RECORD(struct message_refused, name, RECORD_STR),
	RECORD(struct message_refused, text, RECORD_STR),
	{ 0 },
};

static const struct record_field failed_fields[] = {
	RECORD(struct message_failed, text, RECORD_STR),
	{ 0 },
};

static const struct record_field no_fields[] = { { 0 } };

static const struct {
	const char *name;
	const struct record_field *fields; /* every string of them must be there */
	unsigned n_fds;
} types[MESSAGE_TYPE_MAX_] = {
	[MESSAGE_SETUP] = { "setup", setup_fields, 0 },
	[MESSAGE_SLOT] = { "slot", slot_fields, 0 },
	[MESSAGE_NET] = { "net", net_fields, 0 },
	[MESSAGE_NET_CHECK] = { "net_check", check_fields, 1 },
	[MESSAGE_NET_PEERS] = { "net_peers", peers_fields, 1 },
	[MESSAGE_SEAT] = { "seat", seat_fields, 1 },
	[MESSAGE_READY] = { "ready", no_fields, 0 },
	[MESSAGE_SLOT_MADE] = { "slot_made", made_fields, 2 },
	[MESSAGE_NET_MADE] = { "net_made", made_fields, 1 },
	[MESSAGE_NET_AS_NEW] = { "net_as_new", check_fields, 0 },
	[MESSAGE_NET_PEERED] = { "net_peered", check_fields, 0 },
	[MESSAGE_SEAT_MADE] = { "seat_made", made_fields, 1 },
	[MESSAGE_REFUSED] = { "refused", refused_fields, 0 },
	[MESSAGE_PARKED] = { "parked", no_fields, 0 },
	[MESSAGE_LAUNCH] = { "launch", no_fields, 2 },
	[MESSAGE_LAUNCHED] = { "launched", no_fields, 0 },
	[MESSAGE_FAILED] = { "failed", failed_fields, 0 },
};

const char *message_type_name(enum message_type t)
{
	return types[t].name;
}

static void *body(struct message *m)
{
	return &m->setup; /* all members of the union begin here */
}

struct err *message_write(const struct message *m, struct buf *out)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = record_write(d, types[m->type].fields, &m->setup);
	size_t before = out->len;

	json_set_str(d, o, "type", types[m->type].name);
	json_write(o, out);
	if (out->len - before > MESSAGE_MAX)
		return err_new(ERR_TOO_LARGE, "launcher message has %zu bytes, more than %d",
			       out->len - before, MESSAGE_MAX);
	return NULL;
}

static struct err *find_type(const char *name, enum message_type *ret)
{
	for (enum message_type t = 0; t < MESSAGE_TYPE_MAX_; t++) {
		if (!str_eq(types[t].name, name))
			continue;
		*ret = t;
		return NULL;
	}
	return err_new(ERR_MALFORMED, "launcher message has the unknown type \"%s\"",
		       str_or(name, ""));
}

/* Readers may rely on every string being there. */
static struct err *check_strings(const struct record_field *fields, const char *at)
{
	for (const struct record_field *f = fields; f->name; f++) {
		const void *member = at + f->at;

		if (f->type == RECORD_STR && !*(const char *const *)member)
			return err_new(ERR_MALFORMED, "launcher message has no \"%s\"", f->name);
	}
	return NULL;
}

struct err *message_read(const char *text, size_t len, struct arena *a, struct message *ret)
{
	const struct json_limits limits = { .max_len = MESSAGE_MAX };
	struct message m = { .n_fds = 0 };
	autoptr(json_doc) d = NULL;
	struct err *e = json_parse(text, len, &limits, &d);

	if (!e)
		e = find_type(json_get_str(json_root(d), "type"), &m.type);
	if (!e)
		e = record_read(json_root(d), types[m.type].fields, a, body(&m));
	if (!e)
		e = check_strings(types[m.type].fields, body(&m));
	if (e)
		return e;
	*ret = m;
	return NULL;
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int) * MESSAGE_FDS_MAX)];
};

struct err *message_send(int fd, const struct message *m)
{
	union control ctl = { 0 };
	autobuf text = { 0 };
	struct iovec iov;
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct err *e = message_write(m, &text);

	if (e)
		return e;
	iov = (struct iovec){ (void *)(uintptr_t)buf_head(&text), text.len };
	if (m->n_fds) {
		h.msg_control = &ctl;
		h.msg_controllen = CMSG_SPACE(sizeof(int) * m->n_fds);
		ctl.head.cmsg_level = SOL_SOCKET;
		ctl.head.cmsg_type = SCM_RIGHTS;
		ctl.head.cmsg_len = CMSG_LEN(sizeof(int) * m->n_fds);
		memcpy(CMSG_DATA(&ctl.head), m->fds, sizeof(int) * m->n_fds);
	}
	while (sendmsg(fd, &h, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return err_sys(errno, "send a launcher message");
	return NULL;
}

static void take_descriptors(struct msghdr *h, struct message *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		unsigned n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (unsigned i = 0; i < n && m->n_fds < MESSAGE_FDS_MAX; i++)
			memcpy(&m->fds[m->n_fds++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
}

/* One packet. *ret_len: -1 when there is none now, 0 at the end. */
static struct err *receive(int fd, char *text, ssize_t *ret_len, struct message *fds)
{
	union control ctl;
	struct iovec iov = { text, MESSAGE_MAX };
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)
	};
	ssize_t n;

	do
		n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == ECONNRESET)
		n = 0; /* it ended with something of ours unread: that is an end too */
	else if (n < 0 && errno != EAGAIN)
		return err_sys(errno, "receive a launcher message");
	else if (n >= 0)
		take_descriptors(&h, fds);
	*ret_len = n;
	return NULL;
}

static struct err *check_descriptors(const struct message *m)
{
	if (m->n_fds == types[m->type].n_fds)
		return NULL;
	return err_new(ERR_MALFORMED, "launcher message \"%s\" has %u descriptors instead of %u",
		       types[m->type].name, m->n_fds, types[m->type].n_fds);
}

struct err *message_recv(int fd, struct arena *a, struct message *ret, enum message_got *ret_got)
{
	autofree char *text = xmalloc(MESSAGE_MAX); /* a slot's stack would grow for good */
	struct message fds = { .n_fds = 0 }, m;
	ssize_t len;
	struct err *e = receive(fd, text, &len, &fds);

	if (e)
		return e;
	if (len <= 0) {
		message_close(&fds);
		*ret_got = len ? MESSAGE_NONE : MESSAGE_END;
		return NULL;
	}
	e = message_read(text, (size_t)len, a, &m);
	if (!e) {
		memcpy(m.fds, fds.fds, sizeof(m.fds));
		m.n_fds = fds.n_fds;
		e = check_descriptors(&m);
	}
	if (e) {
		message_close(&fds);
		return e;
	}
	*ret = m;
	*ret_got = MESSAGE_ONE;
	return NULL;
}

void message_close(struct message *m)
{
	for (unsigned i = 0; i < m->n_fds; i++)
		if (m->fds[i] >= 0)
			(void)close(m->fds[i]);
	m->n_fds = 0;
}

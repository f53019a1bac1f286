/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/peer.h"

#include <assert.h>

#include "base/mem.h"
#include "base/wall.h"
#include "wire/wire.h"

enum {
	CODE_MAX = 255,
	SIGNAL_MAX = 64,
};

static const char *const type_names[WIRE_TYPE_MAX_] = {
	[WIRE_HELLO] = "HELLO",   [WIRE_START] = "START",   [WIRE_EXEC] = "EXEC",
	[WIRE_STDIN] = "STDIN",   [WIRE_RESIZE] = "RESIZE", [WIRE_SIGNAL] = "SIGNAL",
	[WIRE_CREDIT] = "CREDIT", [WIRE_DIAL] = "DIAL",     [WIRE_STATUS] = "STATUS",
	[WIRE_READY] = "READY",   [WIRE_FAILED] = "FAILED", [WIRE_STARTED_OK] = "STARTED_OK",
	[WIRE_STDOUT] = "STDOUT", [WIRE_STDERR] = "STDERR", [WIRE_EXITED] = "EXITED",
	[WIRE_STATE] = "STATE",   [WIRE_ATTACH] = "ATTACH", [WIRE_ASK_BUSY] = "ASK_BUSY",
	[WIRE_BUSY] = "BUSY",
};

void wire_peer_start(struct wire_peer *p)
{
	assert(!p->starting);
	p->starting = true;
}

void wire_peer_status(struct wire_peer *p)
{
	p->asked++;
}

void wire_peer_ask_busy(struct wire_peer *p)
{
	assert(p->tells_busy);
	p->busy_asked++;
}

void wire_peer_open(struct wire_peer *p, bool dial)
{
	assert(p->stream == WIRE_STREAM_NONE);
	p->stream = WIRE_STREAM_OPENING;
	p->dial = dial;
	p->credit = p->window = WIRE_WINDOW;
}

void wire_peer_input(struct wire_peer *p, uint32_t len)
{
	assert(len <= p->credit);
	p->credit -= len;
}

void wire_peer_grant(struct wire_peer *p, uint32_t more)
{
	assert(more <= WIRE_WINDOW - p->window);
	p->window += more;
}

static const char *type_name(const struct wire_frame *f)
{
	return f->type < WIRE_TYPE_MAX_ ? type_names[f->type] : "an unknown frame";
}

static struct err *unexpected(const struct wire_frame *f)
{
	return err_new(ERR_MALFORMED, "the guest sent %s on stream %u when it may not",
		       type_name(f), f->stream);
}

static struct err *in_range(uint32_t code, uint32_t signum)
{
	if (code > CODE_MAX || signum > SIGNAL_MAX)
		return err_new(
			ERR_MALFORMED,
			"the guest told of exit code %u and signal %u; the most are %d and %d",
			code, signum, CODE_MAX, SIGNAL_MAX);
	return NULL;
}

static struct err *check_exited(const struct wire_frame *f)
{
	uint32_t code, signum;
	bool oom;
	struct err *e = wire_exited_read(f, &code, &signum, &oom);

	return e ? e : in_range(code, signum);
}

static struct err *check_failed(const struct wire_frame *f)
{
	autofree char *text = NULL;
	int errnum;

	return wire_failed_read(f, &errnum, &text);
}

static struct err *check_state(struct wire_peer *p, const struct wire_frame *f)
{
	struct wire_state s;
	struct err *e;

	if (!p->asked || f->stream)
		return unexpected(f);
	p->asked--;
	e = wire_state_read(f, &s);
	if (!e && s.exited && !s.started)
		e = err_new(ERR_MALFORMED, "the guest told of an end without a start");
	return e ? e : in_range(s.exit_code, s.signal);
}

static struct err *check_ready(struct wire_peer *p, const struct wire_frame *f)
{
	uint32_t v[2] = { 0 };
	struct err *e;

	if (p->greeted || f->stream)
		return unexpected(f);
	p->greeted = true;
	e = wire_u32s_read(f, v, 2);
	p->tells_busy = v[1] & WIRE_TELLS_BUSY;
	return e;
}

static struct err *check_busy(struct wire_peer *p, const struct wire_frame *f)
{
	uint32_t n;

	if (!p->busy_asked || f->stream)
		return unexpected(f);
	p->busy_asked--;
	return wire_u32s_read(f, &n, 1);
}

/* The answer to START, EXEC, DIAL or ATTACH. */
static struct err *check_answer(struct wire_peer *p, const struct wire_frame *f)
{
	bool failed = f->type == WIRE_FAILED;
	uint32_t pid;

	if (!f->stream && p->starting)
		p->starting = false;
	else if (f->stream == WIRE_NODE_STREAM && p->stream == WIRE_STREAM_OPENING)
		p->stream = failed ? WIRE_STREAM_OVER : WIRE_STREAM_OPEN;
	else
		return unexpected(f);
	return failed ? check_failed(f) : wire_u32s_read(f, &pid, 1);
}

static bool stream_lives(const struct wire_peer *p, const struct wire_frame *f)
{
	return f->stream == WIRE_NODE_STREAM &&
	       (p->stream == WIRE_STREAM_OPEN || p->stream == WIRE_STREAM_HALF);
}

/* The command may have ended at any time, and every connection is told so. */
static struct err *check_end(struct wire_peer *p, const struct wire_frame *f)
{
	if (!f->stream && !p->exited && !p->starting)
		p->exited = true;
	else if (stream_lives(p, f))
		p->stream = WIRE_STREAM_OVER;
	else
		return unexpected(f);
	return check_exited(f);
}

static struct err *check_output(struct wire_peer *p, const struct wire_frame *f)
{
	if (f->stream != WIRE_NODE_STREAM || p->stream != WIRE_STREAM_OPEN ||
	    (p->dial && f->type == WIRE_STDERR))
		return unexpected(f);
	if (!f->len && !p->dial)
		return err_new(ERR_MALFORMED, "the guest sent an empty %s", type_name(f));
	if (!f->len)
		p->stream = WIRE_STREAM_HALF;
	if (f->len > WIRE_DATA_MAX)
		return err_new(ERR_MALFORMED, "the guest sent %zu bytes in a %s frame; %d at most",
			       f->len, type_name(f), WIRE_DATA_MAX);
	if (f->len > p->window)
		return err_new(ERR_MALFORMED,
			       "the guest sent %zu bytes of output and had credit for %u", f->len,
			       p->window);
	p->window -= (uint32_t)f->len;
	return NULL;
}

/* It can give back only what it was sent, so its credit never exceeds the window. A port that is
 * being dialled takes input already. */
static struct err *check_credit(struct wire_peer *p, const struct wire_frame *f)
{
	uint32_t more = 0;
	struct err *e;

	if (!stream_lives(p, f) &&
	    !(f->stream == WIRE_NODE_STREAM && p->stream == WIRE_STREAM_OPENING))
		return unexpected(f);
	e = wire_u32s_read(f, &more, 1);
	if (e)
		return e;
	if (wall_stands("guest-credit-cap") && (!more || more > WIRE_WINDOW - p->credit))
		return err_new(ERR_MALFORMED,
			       "the guest granted %u bytes of credit; %u would fill its window",
			       more, WIRE_WINDOW - p->credit);
	p->credit += MIN(more, UINT32_MAX - p->credit);
	return NULL;
}

struct err *wire_peer_check(struct wire_peer *p, const struct wire_frame *f)
{
	if (!p->greeted && f->type != WIRE_READY)
		return unexpected(f);
	switch (f->type) {
	case WIRE_READY:
		return check_ready(p, f);
	case WIRE_STARTED_OK:
	case WIRE_FAILED:
		return check_answer(p, f);
	case WIRE_STDOUT:
	case WIRE_STDERR:
		return check_output(p, f);
	case WIRE_EXITED:
		return check_end(p, f);
	case WIRE_STATE:
		return check_state(p, f);
	case WIRE_CREDIT:
		return check_credit(p, f);
	case WIRE_BUSY:
		return check_busy(p, f);
	case WIRE_HELLO:
	case WIRE_START:
	case WIRE_EXEC:
	case WIRE_STDIN:
	case WIRE_RESIZE:
	case WIRE_SIGNAL:
	case WIRE_DIAL:
	case WIRE_STATUS:
	case WIRE_ATTACH:
	case WIRE_ASK_BUSY:
	case WIRE_TYPE_MAX_:
		break;
	}
	return unexpected(f);
}

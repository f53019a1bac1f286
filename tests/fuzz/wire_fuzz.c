/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"
#include "wire/peer.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * Reads the input as a sequence of frames and every payload as every kind of payload. The reader
 * must survive all of them, and what it read as a start must be written again as the same bytes.
 */
static void try_start(const struct wire_frame *f)
{
	struct wire_start s;
	autobuf again = { 0 };
	autoptr(err) e = wire_start_read(f, &s);

	if (e)
		return;
	wire_put_start(&again, WIRE_START, f->stream, &s);
	if (again.len != f->len + 9 || memcmp(buf_head(&again) + 9, f->payload, f->len) != 0)
		abort();
	wire_start_done(&s);
}

static void try_all(const struct wire_frame *f)
{
	autofree char *text = NULL;
	struct wire_state state;
	uint32_t v[2], code, signum;
	uint16_t w[2];
	int errnum;
	bool oom;

	try_start(f);
	err_free(wire_u32s_read(f, v, 2));
	err_free(wire_u16s_read(f, w, 2));
	err_free(wire_failed_read(f, &errnum, &text));
	err_free(wire_exited_read(f, &code, &signum, &oom));
	err_free(wire_state_read(f, &state));
}

/*
 * The same frames as what one guest sends, to a node whose moves are chosen by the frames' own
 * bytes. However they come, credit and window stay within the protocol's, and a frame that passes
 * can be decoded.
 */
static void node_moves(struct wire_peer *p, uint32_t move)
{
	switch (move % 5) {
	case 0:
		if (!p->starting)
			wire_peer_start(p);
		break;
	case 1:
		wire_peer_status(p);
		break;
	case 2:
		if (p->stream == WIRE_STREAM_NONE)
			wire_peer_open(p, move & 8);
		break;
	case 3:
		wire_peer_input(p, MIN(move, p->credit));
		break;
	default:
		if (p->tells_busy)
			wire_peer_ask_busy(p);
		if (p->stream != WIRE_STREAM_NONE)
			wire_peer_grant(p, MIN(move, WIRE_WINDOW - p->window));
		break;
	}
}

static void must_decode(const struct wire_frame *f)
{
	autofree char *text = NULL;
	struct wire_state state;
	uint32_t v[2], code, signum;
	struct err *e = NULL;
	int errnum;
	bool oom;

	if (f->type == WIRE_STATE)
		e = wire_state_read(f, &state);
	else if (f->type == WIRE_EXITED)
		e = wire_exited_read(f, &code, &signum, &oom);
	else if (f->type == WIRE_FAILED)
		e = wire_failed_read(f, &errnum, &text);
	else if (f->type == WIRE_CREDIT || f->type == WIRE_STARTED_OK || f->type == WIRE_BUSY)
		e = wire_u32s_read(f, v, 1);
	if (e)
		abort();
}

static void try_peer(const char *in, size_t len)
{
	struct wire_peer p = { 0 };
	struct wire_frame f;
	size_t used;
	int have;

	for (;;) {
		autoptr(err) e = wire_next(in, len, &f, &used, &have);

		if (e || !have)
			return;
		if (p.greeted && f.stream == WIRE_NODE_STREAM && p.stream == WIRE_STREAM_NONE)
			wire_peer_open(&p, f.len & 8);
		else if (p.greeted)
			node_moves(&p, (uint32_t)f.len + f.stream);
		e = wire_peer_check(&p, &f);
		if (p.credit > WIRE_WINDOW || p.window > WIRE_WINDOW)
			abort();
		if (e)
			return;
		must_decode(&f);
		in += used;
		len -= used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *in = (const char *)data;
	struct wire_frame f;
	size_t used;
	int have;

	try_peer(in, len);
	for (;;) {
		autoptr(err) e = wire_next(in, len, &f, &used, &have);

		if (e || !have)
			return 0;
		try_all(&f);
		in += used;
		len -= used;
	}
}

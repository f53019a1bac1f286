/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *in = (const char *)data;
	struct wire_frame f;
	size_t used;
	int have;

	for (;;) {
		autoptr(err) e = wire_next(in, len, &f, &used, &have);

		if (e || !have)
			return 0;
		try_all(&f);
		in += used;
		len -= used;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct buf;

/*
 * The frames between node and guest, over the private socket of a container: bytes in, structs
 * out, no I/O.
 *
 *   u32 length of what follows (little endian, <= WIRE_MAX) | u8 type | u32 stream | payload
 *
 * Streams number the processes that one connection started; 0 is the guest itself. Strings are u32
 * length + bytes without NUL; lists are u32 count + elements. Either side closes the connection
 * when it gets a frame that it cannot read. One connection may carry many streams; when it ends,
 * the guest kills the exec processes started on it (but not the container's command).
 *
 * Either side may send WIRE_WINDOW bytes of data on a stream (the guest STDOUT and STDERR together,
 * the node STDIN), and after that only what the other side has granted with WIRE_CREDIT, which
 * never grants more than was sent. A guest that is sent more STDIN than that stops reading the
 * connection once 1 MiB waits for the process. peer.h checks what a guest sends.
 */
#define WIRE_MAX      (256 * 1024)
#define WIRE_DATA_MAX (64 * 1024) /* the most that the guest puts into a STDOUT or STDERR frame */
#define WIRE_WINDOW   (256 * 1024)
#define WIRE_TEXT_MAX 4096 /* bytes in the text of FAILED, and in a termination message */
#define WIRE_VERSION  1

/* What cay-init is started with besides /dev/null on 0, 1 and 2. */
enum wire_fd {
	WIRE_FD_SOCKET = 3, /* the private socket, listening */
	WIRE_FD_LOG = 4,    /* the file that the command's output goes to */
};

enum wire_type {
	/* node → guest */
	WIRE_HELLO,  /* u32 version; the first frame of a connection */
	WIRE_START,  /* the container's command, at most once: struct wire_start */
	WIRE_EXEC,   /* opens a stream (> 0): struct wire_start */
	WIRE_STDIN,  /* bytes for a stream; empty: end of input */
	WIRE_RESIZE, /* u16 columns, u16 rows */
	WIRE_SIGNAL, /* u32 signal number; on stream 0 for the command's process group */
	WIRE_CREDIT, /* in both directions: u32, this many more bytes may be sent on the stream */
	WIRE_DIAL,   /* opens a stream to 127.0.0.1:u16 port inside; STDIN/STDOUT/EXITED carry it */
	WIRE_STATUS, /* asks for WIRE_STATE */
	/* guest → node */
	WIRE_READY,      /* answer to HELLO: u32 version, u32 flags (WIRE_STARTED …) */
	WIRE_STARTED_OK, /* START, EXEC or DIAL succeeded: u32 pid (in the sandbox), 0 for DIAL */
	WIRE_FAILED,     /* it did not: u32 errno, string (WIRE_TEXT_MAX); the stream is over */
	WIRE_STDOUT,     /* never empty, except on DIAL streams: the peer has ended its direction */
	WIRE_STDERR,
	/*
	 * u32 exit code (128 + signal if killed), u32 signal, u8 oom (set by the node alone), and
	 * on stream 0 the termination message, up to the end of the frame. The stream is over, and
	 * all its output was sent before.
	 */
	WIRE_EXITED,
	WIRE_STATE, /* struct wire_state, and the termination message as well */
	/* node → guest, and younger than the rest */
	WIRE_ATTACH,   /* opens a stream to the command: u32 flags (WIRE_STDIN_OPEN); answered and
			  ended as EXEC is. STDIN goes to its input, its output comes from now on. */
	WIRE_ASK_BUSY, /* asks for WIRE_BUSY; only of a guest that said WIRE_TELLS_BUSY */
	/* guest → node */
	WIRE_BUSY, /* u32: how many commands its runtime runs at the moment */
	WIRE_TYPE_MAX_,
};

enum {
	WIRE_STARTED = 1,    /* in READY: the command has been started */
	WIRE_TELLS_BUSY = 2, /* in READY: it answers WIRE_ASK_BUSY */
};

struct wire_frame {
	enum wire_type type;
	uint32_t stream;
	const char *payload; /* borrowed from the input */
	size_t len;
};

enum {
	WIRE_TTY = 1, /* a pseudo-terminal of cols and rows */
	WIRE_STDIN_OPEN = 2,
	WIRE_RUNTIME_HTTP = 4, /* START: serve the python-runtime HTTP API on runtime_port */
	WIRE_RUNTIME_NOW = 8,  /* at once; otherwise after a second, if nobody listens there */
	WIRE_LOG_STDOUT = 16,  /* START: output goes to the log file (always set for START) */
	WIRE_MESSAGE_LOG =
		32,           /* START: the end of the output is the message of a failure without */
	WIRE_STDIN_ONCE = 64, /* START: its input ends with the first that was attached to it */
	WIRE_RUNTIME_REST = 128, /* START: serve sandboxd on WIRE_REST_PORT and WIRE_GRPC_PORT */
	WIRE_REST_NOW = 256,     /* at once; otherwise after a second, if nobody listens there */
};

enum {
	WIRE_REST_PORT = 8080,
	WIRE_GRPC_PORT = 9090,
};

struct wire_start {
	const char **argv; /* NULL-terminated; empty: idle until told to stop */
	const char **env;  /* NULL-terminated, NAME=value, complete */
	const char *cwd;   /* "" means / */
	uint32_t uid, gid;
	uint32_t *groups;
	uint32_t n_groups;
	uint32_t flags;
	uint16_t cols, rows;
	uint16_t runtime_port;
	uint64_t keep_caps;       /* bits of the bounding set; those of root are effective too */
	uint32_t nofile;          /* RLIMIT_NOFILE; 0: leave it as it is */
	const char *message_path; /* START: of the termination message; NULL: there is none */
};

struct wire_state {
	bool started, exited;
	uint32_t pid, exit_code, signal;
	bool oom;
	uint64_t exited_at_us; /* wall clock */
	struct span message;   /* any bytes, WIRE_TEXT_MAX at most; borrowed */
};

/*
 * *ret_have is 1 if *ret is the first frame of in[0..len) and *ret_used its size; 0 if it is not
 * complete yet. ERR_MALFORMED: these bytes will never be a frame.
 */
must_use struct err *wire_next(const char *in, size_t len, struct wire_frame *ret, size_t *ret_used,
			       int *ret_have);

/* Writes the first bytes of a frame whose payload of len bytes already follows them. */
#define WIRE_HEAD 9
void wire_head(char ret[WIRE_HEAD], enum wire_type type, uint32_t stream, size_t len);
/* Adds one frame. The payload must fit into WIRE_MAX: the caller splits longer ones. */
void wire_put(struct buf *out, enum wire_type type, uint32_t stream, const void *payload,
	      size_t len);
void wire_put_u32s(struct buf *out, enum wire_type type, uint32_t stream, const uint32_t *v,
		   unsigned n);
void wire_put_u16s(struct buf *out, enum wire_type type, uint32_t stream, const uint16_t *v,
		   unsigned n);
/* False if it is larger than a frame can be; then wire_put_start() must not be called. */
bool wire_start_fits(const struct wire_start *s);
void wire_put_start(struct buf *out, enum wire_type type, uint32_t stream,
		    const struct wire_start *s);
void wire_put_failed(struct buf *out, uint32_t stream, int errnum, const char *text);
void wire_put_exited(struct buf *out, uint32_t stream, uint32_t code, uint32_t signal, bool oom);
void wire_put_ended(struct buf *out, const struct wire_state *s); /* EXITED, of the command */
void wire_put_state(struct buf *out, const struct wire_state *s);

/*
 * Decoding. Everything in *ret is malloc'd by wire_start_read() and released by wire_start_done().
 */
must_use struct err *wire_start_read(const struct wire_frame *f, struct wire_start *ret);
void wire_start_done(struct wire_start *s);
must_use struct err *wire_u32s_read(const struct wire_frame *f, uint32_t *v, unsigned n);
must_use struct err *wire_u16s_read(const struct wire_frame *f, uint16_t *v, unsigned n);
must_use struct err *wire_failed_read(const struct wire_frame *f, int *ret_errno, char **ret_text);
must_use struct err *wire_exited_read(const struct wire_frame *f, uint32_t *code, uint32_t *signal,
				      bool *oom);
/* The message that follows what wire_exited_read() has read; empty if there is none. */
struct span wire_exited_message(const struct wire_frame *f);
must_use struct err *wire_state_read(const struct wire_frame *f, struct wire_state *ret);

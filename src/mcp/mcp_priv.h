/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "client/access.h"
#include "json/json.h"
#include "loop/loop.h"
#include "mcp/mcp.h"

struct client_watch;
struct kind;
struct map;
struct object;
struct rpc;
struct tool;

/* Who asks: a copy, because a call outlives its HTTP request. */
struct caller {
	struct access_target who; /* without a Pod */
	char owner[33];           /* what marks the claims of this user: a hash of the name */
};
struct caller *caller_new(const struct access_target *who);
void caller_free(struct caller *c);
AUTOPTR(caller)

struct mcp {
	struct loop *loop;
	struct mcp_spec spec;
	const struct kind *claims, *sandboxes;
	struct client_watch *watch; /* of claims */
	struct map *waiting;        /* "ns/name" → struct create, of create.c */
	struct deferred look;
	struct map *sessions; /* id → struct mcp_session, the map's reference */
	struct list idle;     /* struct mcp_session.on: the longest unused first */
	struct timer *expiry; /* of sessions */
	struct list posts;    /* struct post.on */
	struct list visits;   /* of http.c */
	uint64_t n_calls, n_failed;
};

/* Versions of the protocol, the oldest first. */
enum mcp_version {
	MCP_2024_11_05,
	MCP_2025_03_26,
	MCP_2025_06_18,
	MCP_2025_11_25,
	MCP_VERSION_MAX_,
};
extern const char *const mcp_versions[MCP_VERSION_MAX_ + 1]; /* ends with NULL */
bool mcp_version_find(const char *name, enum mcp_version *ret);
/*
 * And one without sessions (stateless.c): every request says what it is, and is served where the
 * address has chosen scope=user, because there is nothing else to tell claims apart by.
 */
#define MCP_STATELESS "2026-07-28"

/* session.c: sessions are in memory alone. An id is no secret worth keeping: it is of use to its
 * user only. */
#define MCP_SESSION_LABEL "mcp.k8s-agent-sandbox/session-id"
#define MCP_OWNER_LABEL   "mcp.cay.dev/owner"

enum {
	MCP_SESSIONS_MAX = 4096,
	MCP_SESSIONS_USER_MAX = 256,
	MCP_SESSION_IDLE_S = 4 * 3600,
	MCP_POSTS_MAX = 256, /* requests under way, until they are answered and read */
	MCP_POSTS_USER_MAX = 32,
	MCP_BYTES_USER_MAX = 16 * 1024 * 1024, /* of their messages and answers */
	MCP_BODY_MAX = 3 * 1024 * 1024,
	MCP_BATCH_MAX = 32,
	MCP_DEPTH_MAX = 64,
};

/* What the client chose when it opened the session, in the query of the address. */
struct mcp_choice {
	char *ns, *pool; /* NULL: none was named */
	bool whole_user; /* every claim of the user, and not only those of the session */
	bool cleanup;    /* the session's claims are deleted with it */
};
must_use struct err *mcp_choice_read(const char *query, struct mcp_choice *ret);
void mcp_choice_done(struct mcp_choice *c);

struct mcp_session {
	unsigned refs; /* of the map, and of each post */
	struct mcp *mcp;
	struct list on;
	char id[33];
	struct caller *caller; /* who opened it */
	struct mcp_choice choice;
	enum mcp_version version;
	usec used;
	bool ended;
	bool alone; /* stands for the session of a request without one */
};
/* A new session, borrowed. Others may end to make room for it. Takes choice over. */
struct mcp_session *mcp_session_open(struct mcp *m, const struct access_target *who,
				     struct mcp_choice *choice);
/* A new reference; NULL: there is none, or it is somebody else's. */
struct mcp_session *mcp_session_find(struct mcp *m, const char *id,
				     const struct access_target *who);
/* What a request without a session has in its place: a new reference. Takes choice over. */
struct mcp_session *mcp_session_alone(struct mcp *m, const struct access_target *who,
				      struct mcp_choice *choice);
struct mcp_session *mcp_session_ref(struct mcp_session *s);
void mcp_session_unref(struct mcp_session *s);
void mcp_session_end(struct mcp_session *s);       /* cancels its calls */
void mcp_sessions_expire(struct mcp *m, usec now); /* those unused for too long */
void mcp_sessions_init(struct mcp *m);
void mcp_sessions_done(struct mcp *m);

/* post.c: one message of a client, or a batch of them, and the answers. */
struct post {
	struct list on; /* mcp.posts */
	struct mcp *mcp;
	struct caller *caller;       /* owned */
	struct mcp_session *session; /* a reference; NULL: none yet */
	struct mcp_choice choice;    /* for one that it opens */
	struct json_doc *in, *out;
	struct json *answers; /* in out: a list */
	struct list calls;    /* struct rpc.on: under way */
	unsigned open;        /* calls under way, and one while messages are read */
	size_t bytes;         /* of the message; once it is answered, of the answer */
	bool batch;
	bool opened;                       /* it has opened its session */
	int status;                        /* of HTTP; 0: 200 */
	char *routed_method, *routed_name; /* headers of a request without a session; NULL: none */
	/* Everything is answered; called once, and frees the post. */
	void (*answered)(struct post *p);
	/* Something to tell before that, if the client can hear it; NULL: it cannot. */
	void (*tell)(struct post *p, const struct json *message);
};
void post_init(struct post *p, struct mcp *m, const struct access_target *who);
void post_done(struct post *p); /* cancels what is under way */
void post_take(struct post *p, const char *text, size_t len);
/* An error object for an answer without a call: id null. */
struct json *post_error(struct json_doc *d, int code, const char *text);
void post_cancel_calls(struct post *p, const char *why);

/* A request under way. The functions that end it free it, and perhaps the post: call them last. */
enum rpc_code {
	RPC_PARSE = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_NO_METHOD = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_REFUSED = -32000,
	RPC_NO_SESSION = -32001,
	RPC_NO_RESOURCE = -32002,
	RPC_BAD_HEADER = -32020,
	RPC_BAD_VERSION = -32022,
	RPC_CANCELLED = -32800,
};
struct rpc {
	struct list on; /* post.calls */
	struct post *post;
	struct mcp *mcp;
	const char *method;
	const struct json *id, *params, *args; /* in post->in; args: of a tool */
	const struct tool *tool;
	void (*stop)(void *work); /* ends what is under way, without an answer; NULL: nothing is */
	void *work;
	bool plain; /* the error says all that there is to say */
};
void rpc_result(struct rpc *r, struct json *result); /* in post->out */
void rpc_error(struct rpc *r, enum rpc_code code, const char *text);
void rpc_error_data(struct rpc *r, enum rpc_code code, const char *text, struct json *data);
void rpc_progress(struct rpc *r, const char *text); /* to a client that wants to know; it goes on */

/* methods.c */
extern const char mcp_instructions[];
struct json *mcp_capabilities(struct json_doc *d);
struct json *mcp_server_info(struct json_doc *d, const struct mcp *m);
void methods_run(struct rpc *r);
void methods_notified(struct post *p, const char *method, const struct json *params);

/* stateless.c */
/* NULL: the request says what it has to say. Otherwise what is missing, and the code for it. */
const char *stateless_fault(const struct rpc *r, enum rpc_code *ret);
void stateless_discover(struct rpc *r);
void stateless_stamp(struct rpc *r, struct json *result); /* what each result has to tell */
int stateless_status(enum rpc_code code);                 /* of HTTP */

/* args.c: arguments of tools. Schema, defaults and checks come from one table. */
enum arg_type {
	ARG_TEXT,
	ARG_PATH,
	ARG_NAMESPACE,
	ARG_POOL,
	ARG_SECONDS, /* more than 0; fractions are fine */
	ARG_INT,
	ARG_BOOL,
	ARG_MAP, /* of strings */
	ARG_TYPE_MAX_,
};
struct arg {
	const char *name;
	enum arg_type type;
	const char *help;
	bool required, nullable;
	int64_t usual;    /* if it is left out; < 0: null */
	int64_t min, max; /* of a text: its length */
};
/* A member of what a tool answers. */
struct out {
	const char *name;
	const char *type; /* as JSON Schema has it; "entries" for the list of files */
	const char *help;
	bool optional;
};
struct json *args_schema(struct json_doc *d, const struct tool *t, const struct mcp_session *s);
struct json *outs_schema(struct json_doc *d, const struct tool *t);
/* ERR_INVALID names the argument and what it may be. */
must_use struct err *args_check(const struct tool *t, const struct json *args,
				const struct mcp_session *s);
const char *arg_text(const struct rpc *r, const char *name); /* NULL: null or absent */
const char *arg_ns(const struct rpc *r);
int64_t arg_int(const struct rpc *r, const char *name); /* of seconds: milliseconds; < 0: null */
bool arg_bool(const struct rpc *r, const char *name);
const struct json *arg_map(const struct rpc *r, const char *name);

/* tools.c */
struct tool {
	const char *name, *title, *help;
	const char *failed; /* what errors begin with; NULL: nothing */
	const struct arg *args;
	const struct out *outs; /* NULL: it answers with nothing */
	void (*start)(struct rpc *r);
	bool reads, destroys;
	bool enters;      /* it goes into a sandbox, over run.c */
	const char *path; /* the argument that names the file it is about; NULL: none */
};
const struct tool *tool_find(const char *name);
/* ERR_FORBIDDEN: the token, or what is granted to the agent, leaves it out. */
must_use struct err *tool_granted(const struct post *p, const struct tool *t);
struct json *tools_list(struct json_doc *d, const struct post *p); /* those that are granted */
void tool_done(struct rpc *r, struct json *structured); /* in post->out; NULL: nothing to tell */
/* With something to tell all the same, or NULL. Takes e over. */
void tool_failed(struct rpc *r, struct err *e, struct json *structured);

/* claims.c: which claims a call may reach, and the way into their Pods. */
must_use struct err *claims_may(const struct rpc *r, const char *verb, const char *ns,
				const char *name);
must_use struct err *claims_may_create(const struct rpc *r, const char *ns, const char *pool);
/* *ret: a new reference. ERR_NOT_FOUND: there is none, or it is none of the caller's. */
must_use struct err *claims_find(struct rpc *r, const char *verb, struct object **ret);
bool claims_ours(const struct post *p, const struct object *claim);
/* *ret is malloc'd: the Pod of a claim or attachment, into which the caller may go. */
must_use struct err *claims_pod(struct rpc *r, char **ret);
/* A new reference to the Sandbox that an agent means and is attached to; NULL: there is none. */
struct object *claims_attached(struct rpc *r);
must_use struct err *claims_may_look(const struct post *p, const struct object *sandbox);
/* The name of each Sandbox that an agent is attached to, or of its claim; perhaps without those
 * that claims_each() tells of. Returns how many there are, these included. */
size_t claims_each_attached(struct post *p, const char *ns, bool but_ours,
			    void (*fn)(void *arg, const char *name), void *arg);
/* Of every claim of the post's session (or user) in ns (NULL: all), borrowed. */
void claims_each(struct post *p, const char *ns, void (*fn)(void *arg, struct object *o),
		 void *arg);
void claims_delete_all(struct mcp_session *s); /* that it made, as far as its user may */

/* create.c, manage.c */
void create_start(struct rpc *r);
void create_look(struct mcp *m); /* claims have changed */
void delete_start(struct rpc *r);
void status_start(struct rpc *r);
void resource_read(struct rpc *r);

/* ask.c: starts a tool, when nobody has to be asked about it, or somebody has allowed it. */
void tool_start(struct rpc *r);
char *question_text(const char *said);       /* one line, malloc'd */
struct err *question_open(const char *text); /* nobody has answered in the time of a call */

/* paths.c */
/* Without //, . and .., from the text alone. malloc'd; NULL: it is not absolute. */
char *path_normal(const char *path);
extern const char path_check[]; /* the part of a script that refuses a $1 that leads elsewhere */

/* run.c: a program in the sandbox of a call, from a shell script. */
struct run;
struct run_spec {
	const char *script;
	const char *arg; /* its $1: a command, or the path of a file */
	const char *input;
	size_t input_len;
	uint64_t timeout_ms;
	/* Output as it comes, of 1 or 2. False: no more of it is wanted, and the program ends. */
	bool (*output)(void *arg, int fd, const char *data, size_t len);
	/* e: it could not be started or was cut off; ERR_TIMEOUT; ERR_CANCELED after false. The run
	 * is freed afterwards. Not called from inside run_start(). */
	void (*ended)(void *arg, const struct err *e, int code);
	void *owner;
};
must_use struct err *run_start(struct rpc *r, const struct run_spec *spec, struct run **ret);
void run_stop(struct run *run); /* kills it; ended() is not called */

/* command.c, files.c */
void command_start(struct rpc *r);
void upload_start(struct rpc *r);
void download_start(struct rpc *r);
void list_start(struct rpc *r);
void exists_start(struct rpc *r);

/* entries.c: what the script of list_files writes. */
enum {
	ENTRIES_MAX = 10000,
};
struct entry {
	char *name;
	int64_t size, mtime;
	bool directory;
};
struct entries {
	struct entry *list;
	size_t n, max, total;
	char *carry; /* the beginning of a record */
	size_t carry_len;
};
/* ERR_MALFORMED: no such script wrote this. */
must_use struct err *entries_feed(struct entries *e, const char *data, size_t len);
must_use struct err *entries_end(struct entries *e); /* sorts by name */
void entries_done(struct entries *e);

/* http.c */
void visits_done(struct mcp *m);

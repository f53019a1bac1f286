/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/str.h"
#include "identity/grant.h"
#include "mcp/mcp_priv.h"

/* The tools, as a table, and how they answer. */

#define NAMESPACE { "namespace", ARG_NAMESPACE, "Namespace of the claim", .min = 1, .max = 63 }
#define CLAIM                                                          \
	{ "sandbox_claim_name",                                        \
	  ARG_TEXT,                                                    \
	  "Name that create_sandbox told, or that the resource lists", \
	  .required = true,                                            \
	  .min = 1,                                                    \
	  .max = 253 }
#define PATH(text) { "path", ARG_PATH, text, .required = true, .min = 1, .max = 4096 }
#define TIMEOUT    { "timeout", ARG_SECONDS, "Seconds until it is given up", .usual = 60, .max = 600 }

static const struct arg create_args[] = {
	{ "warmpool", ARG_POOL, "SandboxWarmPool to take a sandbox from", .required = true,
	  .min = 1, .max = 253 },
	NAMESPACE,
	{ "sandbox_ready_timeout", ARG_SECONDS, "Seconds to wait until the sandbox is ready",
	  .usual = 180, .max = 3600 },
	{ "labels", ARG_MAP, "Labels of the claim", .nullable = true, .max = 64 },
	{ "shutdown_after_seconds", ARG_INT,
	  "Seconds after which the sandbox is deleted; null: never", .nullable = true, .usual = 300,
	  .min = 1, .max = 31536000 },
	{ "pod_labels", ARG_MAP, "Labels of the Pod", .nullable = true, .max = 64 },
	{ "pod_annotations", ARG_MAP, "Annotations of the Pod", .nullable = true, .max = 64 },
	{ 0 },
};
static const struct arg claim_args[] = { CLAIM, NAMESPACE, { 0 } };
static const struct arg command_args[] = {
	CLAIM,
	NAMESPACE,
	{ "command", ARG_TEXT, "What /bin/sh -c runs", .required = true, .min = 1, .max = 100000 },
	TIMEOUT,
	{ 0 },
};
static const struct arg upload_args[] = {
	CLAIM,
	NAMESPACE,
	PATH("File to write; directories above it are created"),
	{ "content", ARG_TEXT, "What the file shall contain", .required = true,
	  .max = MCP_BODY_MAX },
	{ "binary", ARG_BOOL, "content is base64" },
	TIMEOUT,
	{ 0 },
};
static const struct arg download_args[] = {
	CLAIM,
	NAMESPACE,
	PATH("File to read, of 1 MiB at most"),
	{ "binary", ARG_BOOL, "Return base64" },
	TIMEOUT,
	{ 0 },
};
static const struct arg list_args[] = {
	CLAIM,
	NAMESPACE,
	PATH("Directory; . is the one that commands start in"),
	TIMEOUT,
	{ "max_entries", ARG_INT, "Most entries to return", .usual = 1000, .min = 1,
	  .max = ENTRIES_MAX },
	{ 0 },
};
static const struct arg exists_args[] = {
	CLAIM, NAMESPACE, PATH("Path to look for"), TIMEOUT, { 0 },
};

static const struct out create_outs[] = {
	{ "sandbox_claim_name", "string", "By which the other tools know the sandbox" },
	{ 0 },
};
static const struct out status_outs[] = {
	{ "status", "string", "Reason of the claim's Ready condition" },
	{ "ready", "boolean", "Whether the sandbox can be used" },
	{ "message", "string", "Why not" },
	{ 0 },
};
static const struct out command_outs[] = {
	{ "exit_code", "integer", "Of the command; -N if signal N ended it" },
	{ "stdout", "string", "What it wrote to standard output" },
	{ "stderr", "string", "What it wrote to standard error" },
	{ "truncated", "boolean", "The middle of an output was left out", .optional = true },
	{ "timed_out", "boolean", "It was killed when its time was over", .optional = true },
	{ 0 },
};
static const struct out upload_outs[] = {
	{ "bytes_written", "integer", "Size of the file" },
	{ 0 },
};
static const struct out download_outs[] = {
	{ "content", "string", "Text, or base64" },
	{ "bytes_read", "integer", "Size of the file" },
	{ 0 },
};
static const struct out list_outs[] = {
	{ "entries", "entries", "Sorted by name" },
	{ "total_entries", "integer", "How many the directory has" },
	{ "truncated", "boolean", "Whether some are missing here" },
	{ 0 },
};
static const struct out exists_outs[] = {
	{ "exists", "boolean", "Whether there is something" },
	{ 0 },
};

static const struct tool tools[] = {
	{ "create_sandbox", "Create a sandbox",
	  "Takes a sandbox from a warm pool and waits until it is ready.",
	  "Failed to create sandbox", create_args, create_outs, create_start },
	{ "delete_sandbox", "Delete a sandbox", "Deletes a sandbox and everything in it.",
	  "Failed to delete sandbox", claim_args, NULL, delete_start, .destroys = true },
	{ "get_sandbox_status", "Status of a sandbox", "Tells whether a sandbox can be used.",
	  "Failed to get the status of sandbox", claim_args, status_outs, status_start,
	  .reads = true },
	{ "execute_command", "Run a command",
	  "Runs a shell command in a sandbox and returns its exit code and output. Of an output beyond 64 KiB the beginning and the end are returned.",
	  "Failed to execute command in sandbox", command_args, command_outs, command_start,
	  .destroys = true, .enters = true },
	{ "upload_file", "Write a file", "Writes a file in a sandbox.",
	  "Failed to write file to sandbox", upload_args, upload_outs, upload_start,
	  .destroys = true, .enters = true, .path = "path" },
	{ "download_file", "Read a file", "Reads a file of a sandbox.",
	  "Failed to read file from sandbox", download_args, download_outs, download_start,
	  .reads = true, .enters = true, .path = "path" },
	{ "list_files", "List a directory", "Lists a directory of a sandbox.",
	  "Failed to list directory in sandbox", list_args, list_outs, list_start, .reads = true,
	  .enters = true, .path = "path" },
	{ "file_exists", "Look for a path", "Tells whether a path exists in a sandbox.",
	  "Failed to check path in sandbox", exists_args, exists_outs, exists_start, .reads = true,
	  .enters = true, .path = "path" },
};

const struct tool *tool_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (str_eq(tools[i].name, name))
			return &tools[i];
	return NULL;
}

/* A narrowed token may name the tools that it leaves. */
static struct err *token_leaves(const struct post *p, const struct tool *t)
{
	static const char *const none[] = { NULL };
	const char *const *groups = p->caller->who.groups;
	autoptr(arena) a = arena_new();
	autoptr(json_doc) d = json_doc_new();
	struct identity_grant g;
	struct err *e = identity_grant_of(groups ? groups : none, a, d, &g);

	if (e || capabilities_list_has(g.capabilities.tools, t->name))
		return e ? err_recode(e, ERR_FORBIDDEN) : NULL;
	return err_new(ERR_FORBIDDEN, "the token is narrowed to other tools than %s", t->name);
}

struct err *tool_granted(const struct post *p, const struct tool *t)
{
	const struct mcp_spec *spec = &p->mcp->spec;
	struct err *e = token_leaves(p, t);

	if (!e && spec->agents)
		e = spec->agents->may_use(spec->arg, &p->caller->who, t->name);
	return e;
}

static struct json *describe(struct json_doc *d, const struct tool *t, const struct mcp_session *s)
{
	struct json *o = json_obj(d), *notes;

	json_set_str(d, o, "name", t->name);
	json_set_str(d, o, "title", t->title);
	json_set_str(d, o, "description", t->help);
	json_set(d, o, "inputSchema", args_schema(d, t, s));
	if (t->outs)
		json_set(d, o, "outputSchema", outs_schema(d, t));
	notes = json_need_obj(d, o, "annotations");
	json_set_bool(d, notes, "readOnlyHint", t->reads);
	json_set_bool(d, notes, "destructiveHint", t->destroys);
	return o;
}

struct json *tools_list(struct json_doc *d, const struct post *p)
{
	struct json *list = json_arr(d);

	for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
		autoptr(err) refused = tool_granted(p, &tools[i]);

		if (!refused)
			json_push(d, list, describe(d, &tools[i], p->session));
	}
	return list;
}

static void push_text(struct json_doc *d, struct json *content, const char *text)
{
	struct json *block = json_obj(d);

	json_set_str(d, block, "type", "text");
	json_set_str(d, block, "text", text);
	json_push(d, content, block);
}

/* The structure, and the same as text for clients that do not know structures. */
static void add_structured(struct json_doc *d, struct json *result, struct json *structured)
{
	autofree char *text = structured ? json_to_text(structured) : NULL;
	struct json *content = json_need_arr(d, result, "content");

	if (!structured)
		return;
	push_text(d, content, text);
	json_set(d, result, "structuredContent", structured);
}

void tool_done(struct rpc *r, struct json *structured)
{
	struct json_doc *d = r->post->out;
	struct json *result = json_obj(d);

	add_structured(d, result, structured);
	json_set_bool(d, result, "isError", false);
	rpc_result(r, result);
}

/* Errors of a tool are results, because the model is to read them. Those about arguments and claims
 * say all that there is to say. */
void tool_failed(struct rpc *r, struct err *e, struct json *structured)
{
	struct json_doc *d = r->post->out;
	struct json *result = json_obj(d);

	if (!r->plain && !err_is(e, ERR_INVALID))
		e = err_wrap(e, "%s", r->tool->failed);
	r->mcp->n_failed++;
	push_text(d, json_need_arr(d, result, "content"), err_text(e));
	add_structured(d, result, structured);
	json_set_bool(d, result, "isError", true);
	err_free(e);
	rpc_result(r, result);
}

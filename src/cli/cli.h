/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "cli/settings.h"
#include "json/json.h"

struct buf;
struct client;
struct kinds;
struct kubeconfig;
struct loop;
struct stream;
struct tls_ctx;

/*
 * Commands are rows of a table. main.c holds the table; each command that is not a role is one file
 * here.
 */
struct command {
	const char *name;
	const char *usage;   /* after "cay NAME ": "claim [--clients N]" */
	const char *summary; /* one line */
	const char *text;    /* more text for --help; NULL: none */
	const struct setting *settings;
	/* Returns the exit code. Errors go through cli_fail(). */
	int (*run)(const struct command *c, const struct settings *s);
	bool words;  /* takes words although its usage begins with flags */
	bool hidden; /* for our own use: not in the overview */
	/* --help after words of its own; NULL, or false: that of the whole command is wanted. */
	bool (*help)(const struct settings *s, struct buf *out);
};

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2
};

/*
 * Finds the command in argv, reads its settings, answers --help, and runs it. table ends with a
 * NULL name.
 */
int cli_main(const struct command *table, int argc, char **argv);
/*
 * Prints "cay: TEXT" on standard error, frees e, and returns EXIT_FAILED (EXIT_USAGE for
 * ERR_INVALID).
 */
int cli_fail(struct err *e);
/* Prints a JSON tree in the format that -o names: json (indented) or yaml. */
void cli_print(const struct json *v, const char *format);
void cli_write(const struct buf *text); /* all of it, to standard output */
/* Puts '?' for control characters, which a terminal would obey; all but keep. */
void cli_disarm(char *text, char keep);

/* A display of how far a long step is; NULL: nobody looks. */
struct cli_progress {
	void (*report)(void *arg, const char *what, unsigned long long bytes);
	void *arg;
};

/* What `cay image build` was told. */
struct cli_image_build {
	const char *data_dir;
	const char *file;          /* with the recipe, */
	const struct json *recipe; /* which says this */
	const char *name;          /* NULL: the recipe's */
	const char *files_dir;     /* the directory of file */
	const char *debs;          /* NULL: the machine's apt sources */
};

/* What `cay doctor` was told of the instance, each as given to `cay serve`. */
struct cli_doctor {
	const char *data_dir;
	const char *runtimes, *without_features; /* NULL: not given */
	bool quick;                              /* no sandbox is started */
};

/*
 * What node/ provides to commands that work on a data directory without a server. role/tools.c
 * fills it in, because cli/ must not depend on node/.
 */
struct cli_node_ops {
	struct err *(*image_tag)(const char *data_dir, const char *from, const char *to);
	/* name NULL: as the archive has it. *ret: [{name,digest}] */
	struct err *(*image_import)(const char *data_dir, const char *path, const char *name,
				    struct cli_progress *progress, struct json_doc **ret);
	/* files: credentials and registries.conf, each may be NULL. *ret as above. */
	struct err *(*image_pull)(const char *data_dir, const char *name,
				  const char *const files[2], struct cli_progress *progress,
				  struct json_doc **ret);
	/* *ret as above. */
	struct err *(*image_build)(const struct cli_image_build *build,
				   struct cli_progress *progress, struct json_doc **ret);
	struct err *(*image_export)(const char *data_dir, const char *name, const char *path,
				    struct cli_progress *progress);
	struct err *(*image_inspect)(const char *data_dir, const char *name, struct json_doc **ret);
	struct err *(*image_remove)(const char *data_dir, const char *name);
	/* {images,layers,bytes} */
	struct err *(*image_prune)(const char *data_dir, struct json_doc **ret);
	struct err *(*image_list)(const char *data_dir,
				  struct json_doc **ret); /* [{name,digest,source,size}] */
	/* {"items":[{type,name,owner}]}, and how many of them have no living owner. */
	struct err *(*census)(const char *data_dir, struct json_doc **ret, size_t *ret_orphans);
	/* {"checks":[{name,status,message,fix}]}, and how many of them failed. */
	struct err *(*doctor)(const struct cli_doctor *about, struct json_doc **ret,
			      size_t *ret_failed);
};
extern struct cli_node_ops cli_node;

/* Who has a data directory. pid 0: nobody. */
struct cli_holder {
	pid_t pid;
	int pidfd;      /* the caller's; -1: none */
	char text[256]; /* "cay serve pid 7 at https://127.0.0.1:6443" */
};

/* What server/ provides to commands that work on a data directory; role/data.c fills it in. */
struct cli_data_ops {
	/* *ret of both: {objects,revision,storeId,schema,bytes,created,version} */
	struct err *(*backup)(const char *data_dir, const char *file, bool force,
			      struct cli_progress *progress, struct json_doc **ret);
	struct err *(*restore)(const char *file, const char *data_dir, bool force,
			       struct cli_progress *progress, struct json_doc **ret);
	/* {dataDir,server,revision,schema,objects,faults,findings:[{severity,what,message,fix}]} */
	struct err *(*check)(const char *data_dir, struct json_doc **ret, size_t *ret_faults);
	struct err *(*holder)(const char *data_dir, struct cli_holder *ret);
};
extern struct cli_data_ops cli_data;

/* The documents of a YAML or JSON file, as a list; "-": standard input. At most 16 MiB. */
must_use struct err *cli_yaml_load(const char *path, struct json_doc **ret);

#define CLI_DATA_DIR "/var/lib/cay" /* where `cay serve` keeps its state unless it is told */

/*
 * The kubeconfig of a command that works on any server: the one that was given, $KUBECONFIG,
 * admin.kubeconfig of the data directory if it can be read, the service account of a Pod (*ret is
 * NULL), ~/.kube/config; *ret is malloc'd. ERR_NOT_FOUND: there is none, and the text says how to
 * start a server; ERR_FORBIDDEN: there may be one, which this user cannot read.
 */
must_use struct err *cli_kubeconfig_find(const char *given, const char *data_dir, char **ret);
/* The command that starts the server of a data directory on this machine; malloc'd. */
char *cli_start_command(const char *data_dir);
/*
 * A kubeconfig file as a tree. path NULL: $KUBECONFIG, then ~/.kube/config. *ret_path is malloc'd.
 */
must_use struct err *cli_kubeconfig_load(const char *path, struct json_doc **ret, char **ret_path);
/* What its current context says. In a Pod, path NULL without $KUBECONFIG is its service account. */
must_use struct err *cli_kubeconfig_read(const char *path, struct kubeconfig *ret);
/* "Bearer TOKEN", from the kubeconfig or from the file that it names; NULL: by certificate. */
must_use struct err *cli_authorization(const struct kubeconfig *k, char **ret);
/* The audience of that server's tokens, by its CA; *ret is malloc'd. */
must_use struct err *cli_audience(const char *kubeconfig, char **ret);
/* A client for that kubeconfig, on the loop. */
must_use struct err *cli_connect(struct loop *l, const char *kubeconfig, struct kinds *kinds,
				 struct client **ret);

/*
 * The server of a kubeconfig, for commands that send requests of their own. Names are looked up
 * here: connections are made to addresses only. Everything is owned, on failure too.
 */
struct cli_server {
	char *addr;          /* "127.0.0.1:6443" */
	char *host;          /* the same as the kubeconfig has it */
	char *name;          /* without the port, to verify the certificate */
	char *prefix;        /* of every path: "" or "/k8s/clusters/x" */
	char *ns;            /* of the current context; NULL: none */
	char *authorization; /* NULL: by certificate */
	char *data_dir;      /* of a server on this machine, whose own kubeconfig it is; NULL: no */
	struct tls_ctx *tls; /* NULL: plain HTTP */
};
must_use struct err *cli_server_find(const char *kubeconfig, struct cli_server *ret);
void cli_server_done(struct cli_server *s);
struct stream *cli_server_wrap(void *server, int fd); /* for http_pool_set_wrap() */
/* e, or if nobody listens there, that no server answers, and how to start it if that can be known.
 * Its code and error number stay. Takes e over. */
must_use struct err *cli_server_refused(const struct cli_server *s, struct err *e);

/* One request and its whole answer, of 1 MiB at most; *ret_answer is the caller's. All that it is
 * given stays the caller's. */
struct cli_request {
	const char *addr, *method, *target;
	const struct http_headers *headers; /* Host among them */
	const struct buf *body;             /* may be empty */
	struct stream *(*wrap)(void *arg, int fd);
	void *wrap_arg;
};
must_use struct err *cli_exchange(const struct cli_request *r, int *ret_status,
				  struct buf *ret_answer);

extern const struct setting audit_settings[], backup_settings[], bench_settings[],
	census_settings[], doctor_settings[], fsck_settings[], image_settings[],
	manifests_settings[], mcp_settings[], restore_settings[], stop_settings[], token_settings[],
	url_settings[], user_settings[], version_settings[];
int audit_run(const struct command *c, const struct settings *s);
bool audit_help(const struct settings *s, struct buf *out);
int backup_run(const struct command *c, const struct settings *s);
int bench_run(const struct command *c, const struct settings *s);
int census_run(const struct command *c, const struct settings *s);
int doctor_run(const struct command *c, const struct settings *s);
int fsck_run(const struct command *c, const struct settings *s);
int image_run(const struct command *c, const struct settings *s);
bool image_help(const struct settings *s, struct buf *out);
int manifests_run(const struct command *c, const struct settings *s);
int mcp_run(const struct command *c, const struct settings *s);
int restore_run(const struct command *c, const struct settings *s);
int stop_run(const struct command *c, const struct settings *s);
int token_run(const struct command *c, const struct settings *s);
bool token_help(const struct settings *s, struct buf *out);
int url_run(const struct command *c, const struct settings *s);
int user_run(const struct command *c, const struct settings *s);
bool user_help(const struct settings *s, struct buf *out);
int version_run(const struct command *c, const struct settings *s);
/* A man page, as roff: "cay" is that of the whole table. ERR_INVALID: there is no such page. */
must_use struct err *man_write(const struct command *table, const char *page, struct buf *out);
void man_list(struct buf *out); /* "cay.1", one in a line */
/* A script that completes commands, flags and names. ERR_INVALID: there is no such shell. */
must_use struct err *completion_write(const struct command *table, const char *shell,
				      struct buf *out);

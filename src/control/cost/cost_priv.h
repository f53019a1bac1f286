/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/ledger.h"
#include "client/client.h"
#include "control/cost/cost.h"
#include "control/cost/count.h"

struct arena;
struct map;
struct series;

/* As the node has told of it. */
struct source {
	char *uid, *sandbox;
	bool attachment, over;
	struct costs total;
	int64_t at_us;
};
/* All of a namespace, at the last measurement. */
struct sources {
	struct source *list;
	size_t n;
	bool fresh; /* nobody has looked at it yet */
};

/* Whom the use of an Attachment or of a Sandbox is for. All strings are its own. */
struct note {
	char *agent, *user, *template, *session, *session_uid;
	bool gone;          /* the object is */
	uint64_t gone_look; /* since then: how often had been measured */
};

struct settling {
	struct client_write write;
	struct books *cost;
	char **uids; /* NULL: none is under way */
	size_t n;
};

struct books {
	struct context *c;
	struct map *spaces; /* namespace → struct sources */
	struct map *notes;  /* namespace → map of "uid" or "/sandbox" → struct note */
	size_t n_gone;      /* notes of what is gone */
	uint64_t n_looks;   /* measurements */
	struct map *paces;  /* namespace → struct pace_of */
	struct settling settling;
	struct series *series[COST_MAX_];
	uint64_t n_waiting; /* sources for which no ledger has space */
};

/* payer.c. ret's strings are in the arena. False: it is not known; ret is nobody. */
struct payer_of {
	struct payer who;
	const char *session, *session_uid;
};
struct attachments { /* of a namespace */
	const char *ns;
	struct map *by_uid;
};
void attachments_load(struct context *c, const char *ns, struct attachments *ret);
void attachments_done(struct attachments *a);
bool payer_find(struct books *c, const struct source *s, const struct attachments *all,
		struct arena *a, struct payer_of *ret);
void notes_sweep(struct books *c, const char *ns, const struct sources *s);
void notes_drop(void *map);

/* What the passes write. */
enum keep_write {
	KEEP_WRITE_LEDGER,
	KEEP_WRITE_CREATE,
	KEEP_WRITE_DELETE,
	KEEP_WRITE_STATUS,
	KEEP_WRITE_MAX_,
};

/* statuses.c: what the ledger says, in the statuses of what it is about. */
struct statuses {
	const struct ledger *l;
	const struct sources *sources;
	const struct attachments *attachments;
	bool all; /* of what goes on too, and not only of what has ended */
};
bool statuses_report(struct pass *p, const struct statuses *s); /* true: there are more */
bool session_says(const struct object *session, const struct costs *used);

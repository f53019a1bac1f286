/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "gate/gate_priv.h"

/*
 * The digest of an operation: what an Approval is bound to, and what the record of an entry has, so
 * that the two can be laid side by side. Each part is there with its name and its length, so that
 * none can pass for two; docs/guide/audit.md says which.
 */
void digest_add(struct sha256 *h, const char *name, const char *text)
{
	size_t len = strlen(str_or(text, ""));
	autofree char *head = xasprintf("%s:%zu:", name, len);

	sha256_add(h, head, strlen(head));
	sha256_add(h, str_or(text, ""), len);
}

void digest_of_input(const struct access_ask *ask, char ret[DIGEST_TEXT_LEN])
{
	struct sha256 *h;

	if (ask->tty || !ask->input_known) {
		(void)snprintf(ret, DIGEST_TEXT_LEN, "%s", ask->tty ? "terminal" : "open");
		return;
	}
	h = sha256_new();
	sha256_add(h, ask->input, ask->input_len);
	sha256_end_text(h, ret);
	sha256_free(h);
}

char *digest_of_operation(const struct access_ask *ask, const struct gate_answer *a)
{
	const char *const *argv = ask->deed.argv;
	struct sha256 *h = sha256_new();
	char text[DIGEST_TEXT_LEN];

	digest_add(h, "agent", a->agent);
	digest_add(h, "sandbox", a->sandbox);
	digest_add(h, "attachment", a->uid);
	digest_add(h, "view", attachment_viewpoint_name(a->view));
	digest_add(h, "operation", ask->way);
	digest_add(h, "container", ask->to->container);
	digest_add(h, "tool", ask->deed.tool);
	digest_add(h, "path", ask->deed.path);
	digest_add(h, "terminal", ask->tty ? "yes" : "no");
	digest_of_input(ask, text);
	digest_add(h, "input", text);
	for (size_t i = 0; argv && argv[i]; i++)
		digest_add(h, "arg", argv[i]);
	if (ask->port) {
		(void)snprintf(text, sizeof(text), "%u", ask->port);
		digest_add(h, "port", text);
	}
	sha256_end_text(h, text);
	sha256_free(h);
	return xstrdup(text);
}

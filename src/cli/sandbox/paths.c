/* SPDX-License-Identifier: Apache-2.0 */
/* Where the objects are that commands work on. Names come from the command line: they are escaped.
 */
#include "api/agents.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/sandbox/sandbox_priv.h"

static char *path_of(const char *group, const char *ns, const char *plural, const char *name)
{
	autofree char *ns_text = url_encode(ns ? ns : ""),
		      *name_text = url_encode(name ? name : "");

	return xasprintf("%s%s%s/%s%s%s", group, ns ? "/namespaces/" : "", ns_text, plural,
			 name ? "/" : "", name_text);
}

char *path_claims(const char *ns, const char *name)
{
	return path_of("/apis/" API_EXTENSIONS, ns, "sandboxclaims", name);
}

char *path_sandboxes(const char *ns, const char *name)
{
	return path_of("/apis/" API_SANDBOX, ns, "sandboxes", name);
}

char *path_pools(const char *ns, const char *name)
{
	return path_of("/apis/" API_EXTENSIONS, ns, "sandboxwarmpools", name);
}

char *path_pods(const char *ns, const char *name)
{
	return path_of("/api/v1", ns, "pods", name);
}

char *path_volume_claims(const char *ns, const char *name)
{
	return path_of("/api/v1", ns, "persistentvolumeclaims", name);
}

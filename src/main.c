/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From argv to a command: the table of all of them. The roles that serve are in role/, everything
 * else is in cli/.
 */
#include <signal.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "loop/loop.h"
#include "role/role.h"

static const struct setting no_settings[] = { { 0 } };

static int man_run(const struct command *c unused, const struct settings *settings unused);

static const struct command commands[] = {
	{ "serve", "[flags]", "Run the whole system on this machine",
	  "State is kept under --data-dir; the first start creates a certificate authority and DIR/admin.kubeconfig. SIGTERM stops\n"
	  "the daemon but leaves the sandboxes running; the next start finds them again.",
	  serve_settings, serve_run },
	{ "controller", "[flags]", "Run the controllers alone, against a Kubernetes cluster",
	  "Prepare the cluster with `cay manifests | kubectl apply -f -`.", controller_settings,
	  controller_run },
	{ "manifests", "[flags]",
	  "Print the CRDs and access rights that `cay controller` needs in a cluster", NULL,
	  manifests_settings, manifests_run },
	{ "image",
	  "ls | inspect NAME | import PATH [NAME] | pull NAME | build -f FILE | export NAME FILE | tag FROM TO | rm NAME | prune",
	  "Manage the images in a data directory",
	  "The image `host` is this machine's /usr, read-only; `pause` is empty and idles. `import` takes a docker-archive, an\n"
	  "oci-archive, an OCI layout or a root file system, plain or compressed; the content decides. `tag` gives a\n"
	  "local image another name, so that a manifest that names a registry works without one.",
	  image_settings, image_run, .help = image_help },
	{ "census", "[flags]", "List what exists on this host, and for which object",
	  "The exit status is 1 if something has no living owner.", census_settings, census_run },
	{ "doctor", "[flags]", "Say what this host lacks, and what to do about it",
	  "Works with and without a server. The exit status is 1 if `cay serve` would not work here; a warning tells what works less.",
	  doctor_settings, doctor_run },
	{ "bench", "claim | node | floor [flags]",
	  "Measure claims, cold starts, exec, memory, runtimes and images, next to this machine's floors",
	  "`claim` and `node` run scenarios against the server that the kubeconfig names, in a namespace that is removed in the end, also after ^C.\n"
	  "`floor` measures the machine alone. A ratio like (2.1x) divides by a floor of the same run: a TLS round trip and an fdatasync for\n"
	  "a claim, a bare launch for a cold start. Percentiles that so few runs do not have are left out. Scenarios of `claim`, in this order:\n"
	  "  growth     memory of idle sandboxes, and a claim beside them\n"
	  "  cells      a warm claim with and without refill and deletion: latency, CPU time of the server's loop, writes\n"
	  "  loops      clients that claim and delete without a pause: cycles per second\n"
	  "  sustained  claims as fast as they are answered, without refill: claims per second\n"
	  "  burst      many claims at a time on open and on new connections, with a command beside them\n"
	  "  cold       Sandboxes without a pool, beside bwrap and crun where they are installed\n"
	  "  exec       a command in a sandbox, and the first one after a claim\n"
	  "Scenarios of `node`: growth and cold, and\n"
	  "  runtimes   start, command and removal by runtime class, beside bwrap, crun, runc, runsc and podman where they are installed\n"
	  "  policy     from a NetworkPolicy to its effect on connections of a sandbox\n"
	  "  import     an image archive, beside skopeo and umoci where they are installed\n"
	  "The exit status is 1 if anything failed. On a cluster give --server-pid of cay controller and --router=''.",
	  bench_settings, bench_run },
	{ "version", "[flags]", "Print the version", NULL, version_settings, version_run },
	{ "man", "", "Print the man page", NULL, no_settings, man_run, .hidden = true },
	{ 0 },
};

static int man_run(const struct command *c unused, const struct settings *settings unused)
{
	autobuf out = { 0 };

	man_write(commands, &out);
	cli_write(&out);
	return EXIT_OK;
}

int main(int argc, char **argv)
{
	child_main(argc, argv);
	(void)signal(SIGPIPE, SIG_IGN); /* writing to a peer that has left returns EPIPE */
	tools_provide();
	return cli_main(commands, argc, argv);
}

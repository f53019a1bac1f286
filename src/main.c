/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From argv to a command: the table of all of them. The roles that serve are in role/, everything
 * else is in cli/.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/agent/agent.h"
#include "cli/cli.h"
#include "cli/sandbox/sandbox.h"
#include "cli/ui/ui.h"
#include "loop/loop.h"
#include "role/role.h"

static const struct setting no_settings[] = { { 0 } };

static int completion_run(const struct command *c, const struct settings *settings);
static int man_run(const struct command *c, const struct settings *settings);
static const struct setting man_settings[] = {
	{ "list", SETTING_BOOL, "false", NULL, "Print the names of all pages" },
	{ 0 },
};

static const struct command commands[] = {
	{ "serve", "[flags]", "Run the whole system on this machine",
	  "State is kept under --data-dir; the first start creates a certificate authority and DIR/admin.kubeconfig. SIGTERM stops\n"
	  "the daemon but leaves the sandboxes running; the next start finds them again.",
	  serve_settings, serve_run },
	{ "controller", "[flags]", "Run the controllers alone, against a Kubernetes cluster",
	  "Prepare the cluster with `cay manifests | kubectl apply -f -`.", controller_settings,
	  controller_run },
	{ "router", "[flags]", "Run the router alone, against a Kubernetes cluster",
	  "It needs no controllers of ours: it reads the status of Sandboxes, and asks the API server who may enter which.\n"
	  "SIGTERM lets requests under way end. `cay manifests --part router` prints a Deployment of it.",
	  router_settings, router_run },
	{ "run", "[flags] -- COMMAND [ARGUMENT...]", "Run a command in a sandbox of its own",
	  "The sandbox is claimed from --pool, or from a pool of --template; without both from the only pool of the namespace. Where there\n"
	  "is no pool, it is made from --image. It is removed when the command ends, even after ^C or a lost connection. The exit status is\n"
	  "that of the command, 128 and the number of a signal that ended it, or 124 after --timeout.",
	  run_settings, run_run, .words = true },
	{ "exec", "NAME [flags] -- COMMAND [ARGUMENT...]", "Run a command in a sandbox",
	  "NAME is a claim or a sandbox. The exit status is that of the command, or 128 and the number of the signal that ended it. The command\n"
	  "is killed when we are.",
	  exec_settings, exec_run },
	{ "sh", "NAME [flags]", "Open a shell in a sandbox",
	  "NAME is a claim or a sandbox. The shell is bash if the sandbox has it, otherwise sh.",
	  sh_settings, sh_run },
	{ "claim", "[POOL] [flags]", "Claim a sandbox from a pool, and keep it",
	  "Without POOL, from the only pool of the namespace. Prints the names of the claim and of the sandbox, and how long it took.",
	  claim_settings, claim_run, .words = true },
	{ "delete", "NAME... [flags]", "Delete claims, with their sandboxes, or sandboxes",
	  "NAME is a claim or a sandbox.", delete_settings, delete_run },
	{ "ls", "[flags]", "List sandboxes",
	  "STATE is Ready, Asleep (nobody used it), Suspended (by `cay suspend`), Ending, Finished, or the reason why a sandbox is not Ready.",
	  ls_settings, ls_run },
	{ "logs", "NAME [flags]", "Print what the command of a sandbox has written",
	  "NAME is a claim or a sandbox.", logs_settings, logs_run },
	{ "port", "NAME PORT | LOCAL:REMOTE | :REMOTE ... [flags]",
	  "Forward ports of this machine into a sandbox",
	  "NAME is a claim or a sandbox. Listens on loopback until ^C and prints the addresses. Nothing in the sandbox has to be open to the network.",
	  port_settings, port_run },
	{ "cp", "NAME:PATH PATH | PATH NAME:PATH [flags]",
	  "Copy files into a sandbox and out of it",
	  "NAME is a claim or a sandbox. A destination that is a directory gets the copy in it, any other becomes it. What a sandbox sends is\n"
	  "written below the destination only; devices, and links that lead out of what is copied, are left out, which is a failure.",
	  cp_settings, cp_run },
	{ "get", "KIND [NAME] [flags]", "Show objects of any kind",
	  "KIND is the name of a kind, in the plural or not, or its short name: sandboxes, swp, pods.",
	  get_settings, get_run },
	{ "apply", "-f FILE [flags]",
	  "Create the objects in a file, or change those that are there",
	  "What an object has beside the file stays. Use kubectl to take fields away.",
	  apply_settings, apply_run },
	{ "agent", "ls | show NAME | rm NAME", "List, show and remove agents",
	  "Agents are made with `cay apply`. `rm` ends the sessions of an agent; their sandboxes are kept for as long as they would be otherwise.",
	  agent_settings, agent_cmd },
	{ "session",
	  "new AGENT [--title TEXT] [--sandbox NAME] [--user NAME] | ls | show NAME | end NAME | resume NAME | rm NAME",
	  "Begin, list and end sessions of agents",
	  "`new` waits until the session is Active, and says why if it cannot be. After `end` a sandbox of the session's own sleeps until it is deleted, at the\n"
	  "time that `ls` shows; until then `resume` goes on with it. --sandbox names a Sandbox, or says new or none.",
	  session_settings, session_cmd },
	{ "attach", "SESSION SANDBOX [--right RIGHT]... [--view VIEW]",
	  "Put a sandbox into a session",
	  "SANDBOX is a claim or a sandbox. The rights are those that are asked for and that the session's agent may have.",
	  attach_settings, attach_cmd },
	{ "detach", "ATTACHMENT", "Take a sandbox out of a session",
	  "The sandbox stays. `cay session show` lists the attachments of a session.",
	  detach_settings, detach_cmd },
	{ "approve", "[ls] | NAME [--always] | --deny NAME",
	  "List and answer the questions that agents wait for",
	  "`cay get approvals NAME -o yaml` shows all of a question. --always also adds a rule to the agent.",
	  approve_settings, approve_cmd, .words = true },
	{ "cost", "[--by agent|user|template|session] [--since WHEN]",
	  "Show what sandboxes have used, and for whom",
	  "Adds up the ledgers of the namespace, which have whole days (UTC) and are at most as old as the interval at which sandboxes are measured. Memory and\n"
	  "disk are GiB in use, times hours. What is nobody's in particular, such as members of pools, is under \"-\".",
	  cost_settings, cost_cmd },
	{ "trigger", "ls | show NAME", "List and show what events start",
	  "`show` has the last deliveries; `-o yaml` also what their commands wrote. Triggers are made with `cay apply`.",
	  trigger_settings, trigger_cmd },
	{ "hook", "test [NAMESPACE/]NAME --secret-file FILE [--delivery ID]",
	  "Send a signed event to a trigger",
	  "The event is read from standard input: `cay hook test team/pulls --secret-file key < event.json`. It is signed with the bytes of the file, in both\n"
	  "forms, and sent as anybody could send it. The answer is printed; the exit status is 1 unless the event was taken.",
	  hook_settings, hook_cmd },
	{ "suspend", "NAME [flags]", "Suspend a sandbox: its processes end, its volumes are kept",
	  "NAME is a claim or a sandbox.", power_settings, suspend_run },
	{ "resume", "NAME [flags]", "Wake a sandbox that was suspended",
	  "NAME is a claim or a sandbox.", power_settings, resume_run },
	{ "explain", "NAME [flags]",
	  "Say why a sandbox is slow, pending or refused, and what to change",
	  "NAME is a claim or a sandbox. Shows what happened when, from the claim to the Pod and its containers, and what is wrong.",
	  explain_settings, explain_run },
	{ "top", "[flags]", "Show what sandboxes use",
	  "CPU is in thousandths of a processor. On a terminal the table is drawn again and again until ^C.",
	  top_settings, top_run },
	{ "manifests", "[flags]",
	  "Print the CRDs and access rights that `cay controller` needs in a cluster, or a Deployment of `cay router`",
	  NULL, manifests_settings, manifests_run },
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
	  "Tries what the kernel can do and starts a sandbox, as root, and removes what it has made. Works with and without a server. The exit status is 1 if `cay serve` would not work here; a warning tells what works less.",
	  doctor_settings, doctor_run },
	{ "stop", "[flags]", "Stop the server of a data directory, and wait until it has ended",
	  "Sandboxes live on, and the next start finds them again, unless --sandboxes is given, or the server was started with --stop-sandboxes;\n"
	  "their objects stay in any case. The exit status is 0 if the server has ended, 3 if none was running, and 4 if it is still ending after --timeout.",
	  stop_settings, stop_run },
	{ "backup", "FILE [flags]", "Write the objects and keys of a data directory to one file",
	  "A server may be running: FILE has everything that was acknowledged before the command began. Whoever can read it has all rights, so its\n"
	  "mode is 0600. Images, volumes and what sandboxes have written are not in it.",
	  backup_settings, backup_run },
	{ "restore", "FILE --data-dir DIR [flags]",
	  "Make a data directory what it was when FILE was written",
	  "No server may be running on DIR. FILE is verified first; whenever this is killed, DIR has all of the old state or all of the new. The same\n"
	  "kubeconfigs, tokens and signed URLs are valid afterwards. Watches begin anew: revisions go on far beyond those that were handed out.",
	  restore_settings, restore_run },
	{ "fsck", "[flags]", "Look for damage in the objects and keys of a data directory",
	  "A server may be running; nothing is changed. Each finding comes with what to do about it. The exit status is 0 if all is well, 1 if there\n"
	  "are faults, and 3 if the directory could not be looked at.",
	  fsck_settings, fsck_run },
	{ "audit", "show | verify | export | key [flags]",
	  "Read the audit log of a data directory, and check that nobody has changed it",
	  "A server may be running; nothing is changed. `verify` names each record that was changed, removed, added, moved or cut off, and each signature\n"
	  "that is not the instance's: its exit status is 0 if there is none, 1 if there is one, and 3 if the log could not be read. `export` prints all\n"
	  "files as one, oldest first, as they are. `key` prints the public key: keep a copy where whoever could change the log cannot.",
	  audit_settings, audit_run, .help = audit_help },
	{ "mcp", "[flags]", "Offer sandboxes as tools over MCP, on standard input and output",
	  "For the configuration of an MCP client, as a program to start:\n"
	  "  {\"mcpServers\": {\"sandboxes\": {\"command\": \"cay\", \"args\": [\"mcp\", \"--kubeconfig\", \"FILE\", \"--pool\", \"NAME\"]}}}\n"
	  "It passes messages on to /mcp of the server that the kubeconfig names, and acts with the rights of its user. Without\n"
	  "--kubeconfig it takes $KUBECONFIG, DATA-DIR/admin.kubeconfig or ~/.kube/config, the first that there is.",
	  mcp_settings, mcp_run },
	{ "bench", "claim | node | exec | api | gate | tti | wake | router | floor [flags]",
	  "Measure claims, cold starts, exec, memory, runtimes and images, next to this machine's floors",
	  "All but `router` and `floor` run scenarios against the server that the kubeconfig names, in a namespace that is removed at the end, even after ^C.\n"
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
	  "Scenarios of `exec`, in a sandbox that runs:\n"
	  "  commands   by 1, 16 and 64 clients, answered when they are over and streamed, beside crun exec\n"
	  "  files      a file into the sandbox and out of it, beside cp inside\n"
	  "Scenarios of `api`, which any API server can run (--server-pid names its processes; tools/bench-api runs them on a kube-apiserver too):\n"
	  "  writes     creates by 1, 16 and 64 clients: requests per second and latency\n"
	  "  lists      10,000 objects as JSON and as a Table, and reads of one beside them\n"
	  "  watches    memory of 1,000 idle watches, and the time until all have seen a write\n"
	  "Scenarios of `gate`, each step by a user who is no agent and by an agent with an attachment, in turn:\n"
	  "  doors      an exec, a command and a GET through the router, and the decision alone: latency, CPU time of the loop, ratios\n"
	  "  crowd      memory and creation of --agents and --agent-sessions, the doors beside them, and a decision after each change of an agent\n"
	  "`tti` is the time to interactive: a claim to the output of its first command, in turn, 200 ms apart and all at once, with the\n"
	  "score of the public boards: 60, 25 and 15 % for median, p95 and p99, each 100 at 0 s and 0 at 10 s, times the share that succeeded.\n"
	  "`wake` runs the first command in sandboxes that are frozen, suspended or awake. `router` measures a router of its own before a backend of its own,\n"
	  "beside nginx and HAProxy where they are installed: requests per second, latency and CPU time by the number of connections.\n"
	  "The exit status is 1 if anything failed. On a cluster give --server-pid of cay controller and --router=''.",
	  bench_settings, bench_run },
	{ "ui", "[flags]", "Open the web page of a server, or print a link to it",
	  "The server makes a link for the user of the kubeconfig, for one use within a minute. With a display, $BROWSER or xdg-open opens it.\n"
	  "Where the server has no page, as on a Kubernetes cluster, this command serves it on loopback until ^C, with the rights of the kubeconfig.",
	  ui_settings, ui_run },
	{ "url", "NAME PORT [flags]",
	  "Print a URL that lets whoever has it into one port of a sandbox for a while",
	  "For browsers: `xdg-open $(cay url box 8888)`. The router signs it for callers that may send requests to the sandbox themselves.\n"
	  "It ends with its time or with the sandbox, and a sandbox of the same name that is made later is another one.",
	  url_settings, url_run },
	{ "user",
	  "ls | add NAME [--group NAME ...] [--kubeconfig FILE] [--ttl TIME] [--token] | rm NAME",
	  "Make, list and end credentials for users",
	  "`add` asks the server of --data-dir for a client certificate or a token and prints a kubeconfig with it; `rm` ends it at once,\n"
	  "with all that it has open. What a user may do is up to roles and bindings: kubectl create rolebinding.",
	  user_settings, user_run, .help = user_help },
	{ "token",
	  "key FILE | mint --key FILE --agent NAMESPACE/NAME | narrow [-f FILE] | show [-f FILE] | audience",
	  "Make keys and tokens of agents, and take rights away from a token",
	  "An agent proves who it is with a token that it signs itself, for five minutes at most; the public key is in its Agent. `narrow` adds a block\n"
	  "that takes rights away, which nobody can undo, and asks nobody: `cay token narrow --right read --sandbox box < token`. Tokens are read from\n"
	  "a file or from standard input, never from the command line.",
	  token_settings, token_run, .help = token_help },
	{ "version", "[flags]", "Print the version", NULL, version_settings, version_run },
	{ "completion", "bash | zsh | fish",
	  "Print a script that completes commands, flags and names in a shell",
	  "For bash: eval \"$(cay completion bash)\".", no_settings, completion_run },
	{ "man", "[PAGE] [flags]", "Print a man page",
	  "Of the whole program if no PAGE is named. `cay man cay-serve | man -l -` shows one.",
	  man_settings, man_run, .words = true },
	{ 0 },
};

static int completion_run(const struct command *c unused, const struct settings *settings)
{
	autobuf out = { 0 };
	struct err *e = completion_write(commands, settings_arg(settings, 0), &out);

	if (e)
		return cli_fail(err_wrap(e, "completion"));
	cli_write(&out);
	return EXIT_OK;
}

static int man_run(const struct command *c unused, const struct settings *settings)
{
	autobuf out = { 0 };
	struct err *e = NULL;

	if (settings_bool(settings, "list"))
		man_list(&out);
	else
		e = man_write(commands, str_or(settings_arg(settings, 0), "cay"), &out);
	if (e)
		return cli_fail(err_wrap(e, "man"));
	cli_write(&out);
	return EXIT_OK;
}

/* One of the three that is missing would be given to the next file that is opened. */
static void fill_standard_descriptors(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR); /* for children, too */
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		(void)close(fd);
}

int main(int argc, char **argv)
{
	child_main(argc, argv);
	fill_standard_descriptors();
	(void)signal(SIGPIPE, SIG_IGN); /* writing to a peer that has left returns EPIPE */
	(void)signal(SIGCHLD, SIG_DFL); /* whoever started us may not care how its children end */
	tools_provide();
	data_provide();
	return cli_main(commands, argc, argv);
}

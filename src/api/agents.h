/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The names that the agent kinds use: groups, versions, and the labels and annotations of
 * docs/reference/agent-sandbox.md §7.
 */
#define GROUP_AGENTS     "agents.x-k8s.io"
#define GROUP_EXTENSIONS "extensions.agents.x-k8s.io"

#define API_SANDBOX    GROUP_AGENTS "/v1beta1"
#define API_EXTENSIONS GROUP_EXTENSIONS "/v1beta1"

/* The namespace that Agent Sandbox's own parts run in. */
#define SYSTEM_NAMESPACE "agent-sandbox-system"
/* The Pod there that stands for the router. */
#define ROUTER_POD "sandbox-router"

/* What v1alpha1 claims that name no pool become a claim of, with the name of their template. */
#define SHADOW_POOL "shadow-pool-"

/* The port of the runtime in a sandbox: calls of the router that name no port go there. */
#define RUNTIME_PORT 8888
/* The ports of a sandboxd: a container that declares both means one. */
#define SANDBOXD_REST_PORT 8080
#define SANDBOXD_GRPC_PORT 9090

#define KEY_NAME_HASH         "agents.x-k8s.io/sandbox-name-hash"
#define KEY_ADOPTABLE         "agents.x-k8s.io/adoptable"
#define KEY_POOL              "agents.x-k8s.io/warm-pool-sandbox"
#define KEY_TEMPLATE_REF_HASH "agents.x-k8s.io/sandbox-template-ref-hash"
#define KEY_TEMPLATE_HASH     "agents.x-k8s.io/sandbox-template-hash"
#define KEY_POD_TEMPLATE_HASH "agents.x-k8s.io/sandbox-pod-template-hash"
#define KEY_LAUNCH_TYPE       "agents.x-k8s.io/launch-type"
#define KEY_CLAIM_UID         "agents.x-k8s.io/claim-uid"
#define KEY_CREATED_BY        "agents.x-k8s.io/created-by"
#define KEY_SANDBOX_NAME      "agents.x-k8s.io/sandbox-name" /* annotation; a label in old claims */

#define KEY_POD_NAME               "agents.x-k8s.io/pod-name"
#define KEY_TEMPLATE_REF           "agents.x-k8s.io/sandbox-template-ref"
#define KEY_PROPAGATED_LABELS      "agents.x-k8s.io/propagated-labels"
#define KEY_PROPAGATED_ANNOTATIONS "agents.x-k8s.io/propagated-annotations"
#define KEY_FIRST_OBSERVED         "agents.x-k8s.io/controller-first-observed-at"
#define KEY_WEBHOOK_OBSERVED       "agents.x-k8s.io/webhook-first-observed-at"
#define KEY_CLIENT_REQUESTED       "agents.x-k8s.io/client-first-requested-at"
#define KEY_FIRST_READY            "agents.x-k8s.io/claim-first-ready-at"
#define KEY_TRACE                  "opentelemetry.io/trace-context"
#define KEY_REFILL                 "cay.dev/refill" /* of a pool: "off" or "returned" */
/* Reset (docs/guide/claims.md): of a template, "true": the Sandbox of a claim that ended is wiped
 * and put back. Of a Sandbox that a claim has: the pool that it goes back to, and a finalizer. Of
 * one that was put back: how often its name has been. */
#define KEY_RESET       "cay.dev/reset"
#define KEY_RESET_POOL  "cay.dev/reset-pool"
#define KEY_RESETS      "cay.dev/resets"
#define FINALIZER_RESET KEY_RESET
/* Sleep (docs/reference/sleep.md): of a Sandbox, claim, pool or template. */
#define KEY_IDLE_AFTER    "cay.dev/idle-after"
#define KEY_IDLE_ACTION   "cay.dev/idle-action"
#define KEY_WAKE          "cay.dev/wake"
#define KEY_ASLEEP_SINCE  "cay.dev/asleep-since" /* ours: idleness suspended the Sandbox */
#define KEY_SAFE_TO_EVICT "cluster-autoscaler.kubernetes.io/safe-to-evict"

// SPDX-License-Identifier: Apache-2.0
// Objects as the API shows them, as far as the page reads them. Everything below spec and status may be missing: another
// server, or an older one, may have written it.

export interface Meta {
	name: string;
	namespace?: string;
	uid?: string;
	resourceVersion?: string;
	generation?: number;
	creationTimestamp?: string;
	deletionTimestamp?: string;
	labels?: Record<string, string>;
	annotations?: Record<string, string>;
	ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string; controller?: boolean }[];
}

export interface Condition {
	type: string;
	status: "True" | "False" | "Unknown";
	reason?: string;
	message?: string;
	lastTransitionTime?: string;
}

export interface KObject {
	apiVersion?: string;
	kind?: string;
	metadata: Meta;
}

export interface Container {
	name: string;
	image?: string;
	command?: string[];
	args?: string[];
	ports?: { name?: string; containerPort: number; protocol?: string }[];
	resources?: { requests?: Record<string, string>; limits?: Record<string, string> };
	env?: { name: string; value?: string }[];
	workingDir?: string;
}

export interface PodSpec {
	containers?: Container[];
	initContainers?: Container[];
	runtimeClassName?: string;
	automountServiceAccountToken?: boolean;
}

export interface PodTemplate {
	metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> };
	spec?: PodSpec;
}

export interface Sandbox extends KObject {
	spec?: {
		operatingMode?: "Running" | "Suspended";
		podTemplate?: PodTemplate;
		volumeClaimTemplates?: { metadata?: Partial<Meta> }[];
		shutdownTime?: string;
		shutdownPolicy?: string;
	};
	status?: { conditions?: Condition[]; podIPs?: string[]; nodeName?: string; service?: string; serviceFQDN?: string };
}

export interface SandboxTemplate extends KObject {
	spec?: { podTemplate?: PodTemplate; volumeClaimTemplates?: { metadata?: Partial<Meta> }[]; networkPolicyManagement?: string };
}

export interface SandboxWarmPool extends KObject {
	spec?: { replicas?: number; sandboxTemplateRef?: { name: string } };
	status?: { replicas?: number; readyReplicas?: number; conditions?: Condition[] };
}

export interface SandboxClaim extends KObject {
	spec?: { warmPoolRef?: { name: string }; lifecycle?: { shutdownTime?: string; shutdownPolicy?: string } };
	status?: { conditions?: Condition[]; sandbox?: { name?: string; podIPs?: string[] } };
}

/** By "waiting", "running" or "terminated". */
type ContainerState = Record<string, { reason?: string; message?: string; exitCode?: number; startedAt?: string; finishedAt?: string } | undefined>;

export interface ContainerStatus {
	name: string;
	ready?: boolean;
	restartCount?: number;
	containerID?: string;
	state?: ContainerState;
	lastState?: ContainerState;
}

export interface Pod extends KObject {
	spec?: PodSpec & { nodeName?: string };
	status?: {
		phase?: string;
		podIP?: string;
		conditions?: Condition[];
		containerStatuses?: ContainerStatus[];
		initContainerStatuses?: ContainerStatus[];
	};
}

export interface KEvent extends KObject {
	involvedObject?: { kind?: string; name?: string; namespace?: string; uid?: string };
	reason?: string;
	message?: string;
	type?: string;
	count?: number;
	firstTimestamp?: string;
	lastTimestamp?: string;
	eventTime?: string;
	source?: { component?: string };
}

export interface Node extends KObject {
	status?: { conditions?: Condition[]; capacity?: Record<string, string>; allocatable?: Record<string, string>; nodeInfo?: Record<string, string> };
}

export interface PodMetrics extends KObject {
	timestamp?: string;
	window?: string;
	containers?: { name: string; usage: Record<string, string> }[];
}

export interface Place {
	host: string;
	ports?: number[];
	methods?: string[];
	paths?: string[];
}

export interface Capabilities {
	rights?: string[];
	egress?: Place[];
	credentials?: string[];
	tools?: string[];
	runtimeClasses?: string[];
	maxSandboxes?: number;
}

export interface Rule {
	action: string;
	argv?: string[];
	path?: string;
	host?: string;
	tool?: string;
	withoutInput?: boolean;
}

export interface Agent extends KObject {
	spec?: {
		keys?: { name?: string; publicKey: string; verified?: boolean }[];
		parent?: string;
		sandbox?: { mode?: string; warmPoolRef?: { name: string }; retain?: string };
		capabilities?: Capabilities;
		approval?: { default?: string; timeout?: string; rules?: Rule[] };
		budget?: string;
		isolation?: { verified?: string; unverified?: string };
		visibility?: string;
	};
	status?: { conditions?: Condition[]; sandboxes?: number; effective?: Capabilities; verified?: boolean };
}

export interface Cost {
	cpuSeconds?: string;
	memoryGiBHours?: string;
	diskGiBHours?: string;
	networkBytes?: string;
}

export interface Session extends KObject {
	spec?: { agent?: string; user?: string; title?: string; sandbox?: string; retain?: string; ended?: boolean };
	status?: {
		phase?: string;
		conditions?: Condition[];
		attachments?: { name: string; sandbox: string }[];
		sandbox?: string;
		claim?: string;
		lastActivity?: string;
		endedAt?: string;
		deleteAt?: string;
		cost?: Cost;
	};
}

export interface Attachment extends KObject {
	spec?: { session?: string; sandbox?: string; rights?: string[]; view?: string };
	status?: { conditions?: Condition[]; effectiveRights?: string[]; view?: string; agent?: string; cost?: Cost };
}

export interface Approval extends KObject {
	spec?: {
		agent?: string;
		operation?: string;
		digest?: string;
		expires?: string;
		session?: string;
		attachment?: string;
		sandbox?: string;
		argv?: string[];
		cwd?: string;
		path?: string;
		host?: string;
		tool?: string;
		inputDigest?: string;
		environmentDigest?: string;
		requestedBy?: string;
	};
	status?: { decision?: string; decidedBy?: string; decidedAt?: string; used?: boolean; usedAt?: string; conditions?: Condition[] };
}

export interface Budget extends KObject {
	spec?: { limits?: Cost & { maxSandboxes?: number | string }; period?: string; onExceeded?: string };
	status?: {
		used?: Cost;
		usedByAgent?: ({ agent: string } & Cost)[];
		exceeded?: boolean;
		periodStart?: string;
		conditions?: Condition[];
	};
}

export interface Ledger extends KObject {
	status?: { counted?: string; rows?: ({ agent?: string; user?: string; template?: string } & Cost)[] };
}

export interface TeamPolicy extends KObject {
	spec?: { capabilities?: Capabilities; approvalDefault?: string; budget?: string; templates?: string[]; retainMax?: string };
}

export function condition(o: { status?: { conditions?: Condition[] } } | undefined, type: string): Condition | undefined {
	return o?.status?.conditions?.find((c) => c.type === type);
}

// SPDX-License-Identifier: Apache-2.0
// Ports that somebody listens on, as the kernel lists them. What is read comes from inside the sandbox.
const MAX = 500;
const LISTEN = "0A";
const LOOPBACK = /^(0100007F|00000000000000000000000001000000|0000000000000000FFFF00000100007F)$/;

export interface Listening {
	port: number;
	local: boolean; // on the loopback address alone
}

/** Of /proc/net/tcp and tcp6. */
export function listeningOf(table: string): Listening[] {
	const found = new Map<number, boolean>();
	for (const line of table.split("\n")) {
		const [, address, port, state] = /^\s*\d+: ([0-9A-F]{8,32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) /.exec(line) ?? [];
		if (state !== LISTEN || found.size >= MAX)
			continue;
		const n = parseInt(port!, 16);
		found.set(n, (found.get(n) ?? true) && LOOPBACK.test(address!));
	}
	return [...found].map(([port, local]) => ({ port, local })).sort((a, b) => a.port - b.port);
}

// SPDX-License-Identifier: Apache-2.0
// The checksum of POSIX cksum, to find out whether a file is still as it was read.
const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
	let c = n << 24;
	for (let k = 0; k < 8; k++)
		c = c & 0x80000000 ? (c << 1) ^ 0x04c11db7 : c << 1;
	return c >>> 0;
});

/** As cksum prints it: the sum and the size. */
export function cksum(bytes: Uint8Array): string {
	let c = 0;
	const add = (b: number) => (c = ((c << 8) ^ TABLE[(c >>> 24) ^ b]!) >>> 0);
	for (const b of bytes)
		add(b);
	for (let n = bytes.length; n; n = Math.floor(n / 256))
		add(n & 0xff);
	return `${~c >>> 0} ${bytes.length}`;
}

// SPDX-License-Identifier: Apache-2.0
/** bash if it is there, else sh. */
export const SHELL = ["sh", "-c", "export TERM=xterm-256color; if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"];

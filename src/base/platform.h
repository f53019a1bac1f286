/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The architecture of this program in the words of Go, which images and Kubernetes use. */
#if defined(__x86_64__)
#define PLATFORM_ARCH "amd64"
#elif defined(__aarch64__)
#define PLATFORM_ARCH "arm64"
#elif defined(__riscv) && __riscv_xlen == 64
#define PLATFORM_ARCH "riscv64"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define PLATFORM_ARCH "ppc64le"
#elif defined(__s390x__)
#define PLATFORM_ARCH "s390x"
#else
#define PLATFORM_ARCH "unknown"
#endif

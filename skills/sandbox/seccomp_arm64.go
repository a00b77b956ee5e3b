//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	otherABI  = 0x40000000 // arm64 has only one
)

// oldCalls are those that newer architectures do not have any more: this is one.
func oldCalls() []uint32 { return nil }

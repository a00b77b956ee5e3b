//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	otherABI  = 0x40000000 // arm64 has only one
)

// oldOwners, oldModes and oldWatches are calls that newer architectures do not have any more: this is one.
func oldOwners() []uint32 { return nil }

func oldModes() []uint32 { return nil }

func oldWatches() []uint32 { return nil }

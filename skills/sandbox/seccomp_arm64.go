//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	otherABI  = 0x40000000 // arm64 has only one ABI
)

// oldOwners, oldModes, oldWatches and oldFiles are calls that newer architectures, such as this one, no
// longer have.
func oldOwners() []uint32 { return nil }

func oldModes() []uint32 { return nil }

func oldWatches() []uint32 { return nil }

func oldFiles() []uint32 { return []uint32{unix.SYS_RENAMEAT} }

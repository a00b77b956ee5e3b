//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	otherABI  = 0x40000000 // from here on, the calls of x32
)

// oldCalls are those that newer architectures do not have any more.
func oldCalls() []uint32 {
	return []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN}
}

//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	otherABI  = 0x40000000 // x32 calls start here
)

// oldOwners, oldModes, oldWatches and oldFiles are calls that newer architectures no longer have.
func oldOwners() []uint32 { return []uint32{unix.SYS_CHOWN, unix.SYS_LCHOWN} }

func oldModes() []uint32 {
	return []uint32{unix.SYS_CHMOD, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
}

func oldWatches() []uint32 { return []uint32{unix.SYS_INOTIFY_INIT} }

func oldFiles() []uint32 {
	return []uint32{
		unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_MKDIR, unix.SYS_RMDIR,
		unix.SYS_MKNOD, unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_FORK, unix.SYS_VFORK,
	}
}

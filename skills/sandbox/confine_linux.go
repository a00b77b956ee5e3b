//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confine takes from this process, for good, what a parser of strangers' files does not need: opening and
// changing files, the network, other processes and new programs. Files that are open stay open. An error
// says that the system cannot do that.
func Confine() error {
	filter := seccompFilter(deniedToParsers())
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))} //nolint:gosec // below 65536
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	// For all threads, which Go has started some of.
	thread, _, errno := unix.Syscall(
		unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)), //nolint:gosec // that is how it is called
	)
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("filter system calls: thread %d has another filter", thread)
	}
	return nil
}

// deniedToParsers is also what scripts may do: to open files, to start programs and to send signals. New
// threads stay possible, new processes do not.
func deniedToParsers() []denial {
	return slices.Concat(deniedWithoutNamespaces(), refuse(unix.EPERM,
		unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
		unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
		unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_CHDIR, unix.SYS_FCHDIR,
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL,
		unix.SYS_SOCKETPAIR, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_LISTEN, unix.SYS_SENDTO,
	), refuse(unix.EPERM, oldFiles()...),
		[]denial{{unix.SYS_CLONE, unix.EPERM, &condition{mask: unix.CLONE_THREAD, is: []uint32{0}}}})
}

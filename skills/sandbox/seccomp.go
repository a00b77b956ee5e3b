//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denial is a system call that a filter refuses.
type denial struct {
	nr    uint32
	errno unix.Errno
	// With bits, only calls whose first argument has one of these bits.
	bits uint32
}

// Offsets in struct seccomp_data.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArg0 = 16 // its lower half: both architectures are little-endian
)

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// deniedAlways are the parts of the kernel that scripts do not need and break-outs do:
// a list of what is refused, not of what is allowed, because interpreters differ in what
// they call and the rest has no rights to use.
func deniedAlways() []denial {
	return append(refuse(
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSMOUNT,
		unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_ACCT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_SYSLOG, unix.SYS_FANOTIFY_INIT, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	),
		// As on a kernel without them, for which programs have another way. io_uring does
		// what a filter does not see; the flags of clone3 it cannot read.
		denial{nr: unix.SYS_IO_URING_SETUP, errno: unix.ENOSYS},
		denial{nr: unix.SYS_IO_URING_ENTER, errno: unix.ENOSYS},
		denial{nr: unix.SYS_IO_URING_REGISTER, errno: unix.ENOSYS},
		denial{nr: unix.SYS_CLONE3, errno: unix.ENOSYS},
		denial{nr: unix.SYS_CLONE, errno: unix.EPERM, bits: newNamespaces},
	)
}

// deniedWithoutNamespaces is what Landlock leaves open to a script that shares the
// network, the IPC objects and perhaps the user of this program: sockets other than
// pairs, modes and owners of files, and a hand on other processes.
func deniedWithoutNamespaces() []denial {
	denied := slices.Concat(deniedAlways(), refuse(
		unix.SYS_SOCKET,
		unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
		sysSetxattrat, sysRemovexattrat,
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_MSGGET, unix.SYS_MSGCTL,
		unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
		unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
	), refuse(oldCalls()...))
	// Its own limits a process may read and lower: process 0.
	return append(denied, denial{nr: unix.SYS_PRLIMIT64, errno: unix.EPERM, bits: ^uint32(0)})
}

// The numbers are those of all architectures.
const (
	sysSetxattrat    = 463
	sysRemovexattrat = 466
)

func refuse(calls ...uint32) []denial {
	var denied []denial
	for _, nr := range calls {
		denied = append(denied, denial{nr: nr, errno: unix.EPERM})
	}
	return denied
}

// seccompFilter assembles the program that refuses the calls, and every call of another
// architecture's.
func seccompFilter(denied []denial) ([]bpf.RawInstruction, error) {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: offsetCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: otherABI, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
	}
	for _, d := range denied {
		errno := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(d.errno)}
		if d.bits == 0 {
			program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: d.nr, SkipTrue: 1}, errno)
			continue
		}
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: d.nr, SkipTrue: 4},
			bpf.LoadAbsolute{Off: offsetArg0, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: d.bits, SkipFalse: 1},
			errno,
			bpf.LoadAbsolute{Off: offsetCall, Size: 4})
	}
	program = append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assemble the seccomp filter: %w", err)
	}
	return raw, nil
}

// filterBytes lays a program out as an array of struct sock_filter.
func filterBytes(filter []bpf.RawInstruction) []byte {
	var out []byte
	for _, in := range filter {
		out = binary.NativeEndian.AppendUint16(out, in.Op)
		out = append(out, in.Jt, in.Jf)
		out = binary.NativeEndian.AppendUint32(out, in.K)
	}
	return out
}

//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denial is a system call that a filter refuses.
type denial struct {
	nr    uint32
	errno unix.Errno // 0: the call does nothing and says that it was done
	when  *condition // nil: always
}

// condition is on an argument's lower half, of whose bits those of mask count: it is one
// of those in is, or, where unless says what is allowed, none of those.
type condition struct {
	arg    uint32
	mask   uint32
	is     []uint32
	unless []uint32
}

// Offsets in struct seccomp_data.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16 // 8 bytes each, the lower half first: both architectures are little-endian
)

const allBits = ^uint32(0)

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// deniedAlways are the parts of the kernel that scripts do not need and break-outs do:
// a list of what is refused, not of what is allowed, because interpreters differ in what
// they call and the rest has no rights to use.
func deniedAlways() []denial {
	return slices.Concat(refuse(unix.EPERM,
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
		refuse(unix.ENOSYS, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_CLONE3),
		[]denial{{unix.SYS_CLONE, unix.EPERM, &condition{mask: newNamespaces, unless: []uint32{0}}}},
		deniedMemory(), deniedSockets(), deniedWatches())
}

// deniedMemory are the ways to memory that no limit bounds and no look at a process shows,
// since it is nobody's, or a pipe's.
func deniedMemory() []denial {
	const shared = unix.MAP_SHARED | unix.MAP_ANONYMOUS // of files is another thing: those are bounded
	return slices.Concat(
		refuse(unix.ENOSYS, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET),
		[]denial{{unix.SYS_MMAP, unix.EPERM, &condition{arg: 3, mask: shared, is: []uint32{shared}}}},
		refuse(unix.EPERM,
			unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_MSGGET, unix.SYS_MSGCTL,
			unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK),
		// As between files that cannot: programs then read and write.
		refuse(unix.EINVAL, unix.SYS_SPLICE, unix.SYS_TEE, unix.SYS_VMSPLICE))
}

// deniedSockets are the kinds of sockets that a network namespace does not hold, AF_VSOCK
// for one, and those that few need. IP sockets reach nobody in an empty network, but the
// buffers of TCP come out of one pool for the whole machine. A pair that is no stream is not
// bound to be one: either end can send to any datagram socket that has a path. Buffers keep
// their default size, since no limit counts what is in them: see maxSockets.
func deniedSockets() []denial {
	families := []uint32{unix.AF_UNIX, unix.AF_NETLINK}
	buffers := []uint32{unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE}
	const kinds = 0xf // above are flags
	return []denial{
		{unix.SYS_SOCKET, unix.EAFNOSUPPORT, &condition{mask: allBits, unless: families}},
		{unix.SYS_SOCKETPAIR, unix.EAFNOSUPPORT, &condition{mask: allBits, unless: []uint32{unix.AF_UNIX}}},
		{unix.SYS_SOCKETPAIR, unix.EPERM, &condition{arg: 1, mask: kinds, unless: []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}}},
		{unix.SYS_SETSOCKOPT, unix.EPERM, &condition{arg: 2, mask: allBits, is: buffers}}, // on whatever level: no other has such an option
	}
}

// deniedWatches are the ways to be told what happens to files. Landlock does not check them,
// so they name the files of folders that a script may not list; and in both sandboxes /usr is
// the machine's, so they tell which programs others start. A lease also holds up whoever
// wants to write to the file. listmount names folders everywhere, too. All of them fail as on
// a kernel without them, for which programs have another way.
func deniedWatches() []denial {
	return slices.Concat(
		refuse(unix.ENOSYS, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_LISTMOUNT, unix.SYS_STATMOUNT),
		refuse(unix.ENOSYS, oldWatches()...),
		[]denial{{unix.SYS_FCNTL, unix.EINVAL, &condition{arg: 1, mask: allBits, is: []uint32{unix.F_NOTIFY, unix.F_SETLEASE, unix.F_SETDELEG}}}})
}

// deniedWithoutNamespaces is what Landlock leaves open to a script that shares the
// network, the IPC objects and perhaps the user of this program: sockets other than
// pairs, what files are beside their content, and a hand on other processes. Files cannot
// be passed on either, since nobody could see those that are on their way.
func deniedWithoutNamespaces() []denial {
	return slices.Concat(deniedAlways(), refuse(unix.EPERM,
		unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_SENDMSG, unix.SYS_SENDMMSG,
		unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, sysFileSetattr,
		unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
	), refuse(unix.EPERM, oldOwners()...),
		// As where files have no attributes.
		refuse(unix.EOPNOTSUPP,
			unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, sysSetxattrat,
			unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, sysRemovexattrat),
		// Programs that copy and unpack files end when these fail, and seldom need them.
		refuse(0, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_UTIMENSAT), refuse(0, oldModes()...),
		[]denial{
			{unix.SYS_IOCTL, unix.EPERM, &condition{arg: 1, mask: allBits, is: []uint32{unix.FS_IOC_SETFLAGS, fsIocFssetxattr}}},
			// Its own limits a process may read and lower: process 0.
			{unix.SYS_PRLIMIT64, unix.EPERM, &condition{mask: allBits, unless: []uint32{0}}},
		})
}

// The numbers are those of all architectures.
const (
	sysSetxattrat    = 463
	sysRemovexattrat = 466
	sysFileSetattr   = 469
	fsIocFssetxattr  = 0x401c5820
)

func refuse(errno unix.Errno, calls ...uint32) []denial {
	var denied []denial
	for _, nr := range calls {
		denied = append(denied, denial{nr: nr, errno: errno})
	}
	return denied
}

// seccompFilter assembles the program that refuses the calls, and every call of another
// architecture's. It panics if they do not make a program, which the first canary would find.
func seccompFilter(denied []denial) []bpf.RawInstruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: offsetCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: otherABI, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
	}
	for _, d := range denied {
		program = append(program, d.instructions()...)
	}
	program = append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	raw, err := bpf.Assemble(program)
	if err != nil {
		panic(fmt.Errorf("assemble the seccomp filter: %w", err))
	}
	return raw
}

// instructions refuse the call whose number is loaded, and leave it loaded.
func (d denial) instructions() []bpf.Instruction {
	errno := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(d.errno)}
	if d.when == nil {
		return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: d.nr, SkipTrue: 1}, errno}
	}
	inner := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArgs + 8*d.when.arg, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: d.when.mask},
	}
	values := slices.Concat(d.when.is, d.when.unless)
	for i, value := range values {
		left := uint8(len(values) - i) //nolint:gosec // a handful
		inner = append(inner, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: left})
	}
	if d.when.is != nil {
		inner = append(inner, bpf.Jump{Skip: 1}, errno)
	} else {
		inner = append(inner, errno)
	}
	inner = append(inner, bpf.LoadAbsolute{Off: offsetCall, Size: 4})
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: d.nr, SkipTrue: uint8(len(inner))}}, inner...) //nolint:gosec // as above
}

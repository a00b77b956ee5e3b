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
	errno unix.Errno // 0: the call does nothing and reports success
	when  *condition // nil: always
}

// condition tests the masked low 32 bits of an argument. It holds if they are one of is or, where
// unless lists what is allowed, if they are none of unless.
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
	offsetArgs = 16 // 8 bytes each, low half first: both architectures are little-endian
)

const allBits = ^uint32(0)

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// The table of system calls was read once from its first number to lastCall; later ones fail as on an
// older kernel. This is why each group of it may be called. What matters is whether a call takes an id or
// a name that comes from elsewhere: such a call reaches what no descriptor of the script stands for.
//
//	files by path: open, mkdir, rename, link, unlink, truncate …  Landlock, or a file system of its own
//	… stat, access, readlink, statfs                              seen only: see docs/security.md
//	… attributes, owners, modes, times                            refused, or nothing done, without namespaces
//	… by handle, mounts, quotas, swap, accounting, watches        refused
//	descriptors: read, write, sendfile, fcntl, ioctl, epoll …     only those that the script opened
//	… of others: pidfd_getfd, SCM_RIGHTS                          refused
//	memory: mmap, mprotect, brk, madvise, mlock, keys of memory   the script's own, and counted
//	… shared, of nobody, of another process                       refused
//	processes: fork, exec, wait, exit, rseq, futex                the script's own; a futex needs its memory
//	… by id: kill, tgkill, sigqueue, pidfd_send_signal            Landlock's scope, or a namespace of ids
//	… get priority, scheduling, session, group; pidfd_open        tell that an id is in use, and no more: its ioctls are refused
//	… set priority, scheduling, limits; ptrace, process_vm_…      refused
//	… lists of locks, memory of an id: get_robust_list …          refused
//	IPC by id: System V, POSIX queues, keys                       refused, with all that needs no "get"
//	AIO: io_setup and io_uring                                    refused: a pool that all processes share
//	sockets                                                       pairs, or a network namespace of its own
//	clocks, timers, signals, ids, random, prctl, landlock, lsm    the script's own; setting needs rights
//	the machine: modules, kexec, bpf, perf, syslog, reboot        refused
//
// deniedAlways are system calls that scripts do not need and break-outs do. It is a deny list, not
// an allow list: interpreters differ in what they call, and scripts lack the rights to use the
// rest.
func deniedAlways() []denial {
	return slices.Concat(refuse(unix.EPERM,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
		unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_GET_ROBUST_LIST,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSMOUNT,
		unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, sysOpenTreeAttr,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_SYSLOG, unix.SYS_FANOTIFY_INIT, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	),
		// Fail as on a kernel without them; programs have a fallback. A filter cannot see what
		// io_uring does, and cannot read the flags of clone3.
		refuse(unix.ENOSYS, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_CLONE3,
			unix.SYS_IO_SETUP), // its events are of one pool for the whole machine
		[]denial{{unix.SYS_CLONE, unix.EPERM, &condition{mask: newNamespaces, unless: []uint32{0}}}},
		deniedMemory(), deniedSockets(), deniedWatches())
}

// deniedMemory are the ways to get memory that no limit bounds and no look at a process shows,
// because it belongs to no process, or to a pipe.
func deniedMemory() []denial {
	const shared = unix.MAP_SHARED | unix.MAP_ANONYMOUS // shared file mappings are bounded
	return slices.Concat(
		refuse(unix.ENOSYS, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET),
		[]denial{{unix.SYS_MMAP, unix.EPERM, &condition{arg: 3, mask: shared, is: []uint32{shared}}}},
		refuse(unix.EPERM,
			unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMDT, unix.SYS_SHMCTL,
			unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, // of others, too: an id is a small number
			unix.SYS_MSGGET, unix.SYS_MSGCTL, unix.SYS_MSGSND, unix.SYS_MSGRCV,
			unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR),
		// Fail as between files that cannot splice; programs then read and write.
		refuse(unix.EINVAL, unix.SYS_SPLICE, unix.SYS_TEE, unix.SYS_VMSPLICE))
}

// deniedSockets are the socket kinds that a network namespace does not confine, such as AF_VSOCK,
// and those that few programs need. IP sockets reach nobody in an empty network, but TCP buffers
// come from one pool for the whole machine. A datagram pair does not stay a pair: either end can
// send to any datagram socket with a path. Buffers keep their default size, because no limit counts
// what is in them: see maxSockets.
func deniedSockets() []denial {
	families := []uint32{unix.AF_UNIX, unix.AF_NETLINK}
	buffers := []uint32{unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE}
	const kinds = 0xf // the higher bits are flags
	return []denial{
		{unix.SYS_SOCKET, unix.EAFNOSUPPORT, &condition{mask: allBits, unless: families}},
		{unix.SYS_SOCKET, unix.EPROTONOSUPPORT, &condition{arg: 2, mask: allBits, unless: []uint32{unix.NETLINK_ROUTE, unix.AF_UNIX}}}, // protocols
		{unix.SYS_SOCKETPAIR, unix.EAFNOSUPPORT, &condition{mask: allBits, unless: []uint32{unix.AF_UNIX}}},
		{unix.SYS_SOCKETPAIR, unix.EPERM, &condition{arg: 1, mask: kinds, unless: []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}}},
		{unix.SYS_SETSOCKOPT, unix.EPERM, &condition{arg: 2, mask: allBits, is: buffers}}, // at any level: no other level has these options
	}
}

// deniedWatches are the ways to be notified about files. Landlock does not check them, so they
// reveal the names of files in folders that a script may not list. In both sandboxes /usr is the
// machine's, so they also reveal which programs others start. A lease also delays whoever wants to
// write the file, and listmount names folders everywhere. All fail as on a kernel without them;
// programs have a fallback.
func deniedWatches() []denial {
	return slices.Concat(
		refuse(unix.ENOSYS, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_LISTMOUNT, unix.SYS_STATMOUNT),
		refuse(unix.ENOSYS, oldWatches()...),
		[]denial{{unix.SYS_FCNTL, unix.EINVAL, &condition{arg: 1, mask: allBits, is: []uint32{unix.F_NOTIFY, unix.F_SETLEASE, unix.F_SETDELEG}}}})
}

// deniedWithoutNamespaces is what Landlock leaves open to a script that shares this program's
// network, IPC objects and perhaps user: sockets other than pairs, file metadata, and control of
// other processes. Passing files over sockets is denied too, because nobody could see files in
// transit.
func deniedWithoutNamespaces() []denial {
	return slices.Concat(deniedAlways(), refuse(unix.EPERM,
		unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_SENDMSG, unix.SYS_SENDMMSG,
		unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, sysFileSetattr,
		unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
	), refuse(unix.EPERM, oldOwners()...),
		// Fail as on a file system without attributes. Landlock checks neither their names nor what they hold.
		refuse(unix.EOPNOTSUPP, sysFileGetattr,
			unix.SYS_GETXATTR, unix.SYS_LGETXATTR, sysGetxattrat, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, sysListxattrat,
			unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, sysSetxattrat,
			unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, sysRemovexattrat),
		// Programs that copy and unpack files abort when these fail, and seldom need them to work.
		refuse(0, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_UTIMENSAT), refuse(0, oldModes()...),
		[]denial{
			{unix.SYS_IOCTL, unix.EPERM, &condition{arg: 1, mask: allBits, is: []uint32{unix.FS_IOC_SETFLAGS, fsIocFssetxattr}}},
			{unix.SYS_IOCTL, unix.ENOTTY, &condition{arg: 1, mask: 0xff00, is: []uint32{pidfdIoctls}}}, // tell users, parents and groups of others
			// A process may read and lower its own limits: process 0.
			{unix.SYS_PRLIMIT64, unix.EPERM, &condition{mask: allBits, unless: []uint32{0}}},
		})
}

// These numbers are the same on all architectures.
const (
	sysSetxattrat    = 463
	sysGetxattrat    = 464
	sysListxattrat   = 465
	sysRemovexattrat = 466
	sysOpenTreeAttr  = 467
	sysFileGetattr   = 468
	sysFileSetattr   = 469
	lastCall         = sysFileSetattr
	fsIocFssetxattr  = 0x401c5820
	pidfdIoctls      = 0xff00 // their type; a number says how much it wants to know
)

func refuse(errno unix.Errno, calls ...uint32) []denial {
	var denied []denial
	for _, nr := range calls {
		denied = append(denied, denial{nr: nr, errno: errno})
	}
	return denied
}

// seccompFilter assembles the program that refuses these calls, those later than lastCall, and every call
// of another architecture. It panics if they do not assemble, which the first canary would show.
func seccompFilter(denied []denial) []bpf.RawInstruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: offsetCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: otherABI, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: lastCall, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
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

// instructions refuse the call if its number is loaded, and leave the number loaded.
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

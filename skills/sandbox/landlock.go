//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlock starts this program anew as a keeper (see child.go), which starts it once more;
// that copy gives up its rights and becomes the script.
type landlock struct {
	cfg Config
}

// minABI is the Landlock that keeps signals in: without that a script could end this
// program when both are the same user, and the keeper could not end all of a script.
const minABI = 6

func newLandlock(cfg Config) (*landlock, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return nil, fmt.Errorf("the kernel has no Landlock: %w", errno)
	}
	if abi < minABI {
		return nil, fmt.Errorf("the kernel's Landlock is of version %d, %d (Linux 6.12) is needed", abi, minABI)
	}
	return &landlock{cfg: cfg}, nil
}

func (l *landlock) kind() Kind { return Landlock }

// cell is what the copies of this program are told.
type cell struct {
	UID     int // 0: stays what it is
	Skill   string
	Scratch string
	Read    []string
	Limits  Limits
}

func (l *landlock) prepare(j *job) error {
	c := cell{Skill: j.skill, Scratch: filepath.Join(j.dir, "scratch"), Limits: j.limits}
	if err := os.Mkdir(c.Scratch, 0o700); err != nil {
		return err
	}
	j.full = func() bool { return false } // the keeper looks
	j.sockets = func() int { return 0 }   // it does that, too: the network namespace is everybody's
	c.Read = slices.Concat([]string{"/usr"}, systemFolders(), systemFiles(), l.cfg.ReadOnly)
	if os.Geteuid() == 0 {
		c.UID = l.cfg.UID
		if err := os.Chown(c.Scratch, c.UID, c.UID); err != nil {
			return err
		}
	}
	told, err := json.Marshal(c)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	j.lent, j.kept = append(j.lent, read), append(j.kept, write)
	j.cmd.Path, j.cmd.Args = self, append([]string{childName, stageKeeper, string(told)}, j.argv...)
	j.cmd.Env = []string{} // not nil, which would be ours
	j.cmd.ExtraFiles = []*os.File{read}
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	j.stop = write.Close // the keeper sees it, as it sees the end of this program
	return nil
}

// What scripts may do with files: all rights of version 6 are handled, these are granted.
const (
	rightsAll  = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV<<1 - 1
	rightsRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	rightsNull = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	rightsOwn  = rightsAll &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
)

// restrict shuts the calling thread, and what it becomes, in.
func (c cell) restrict() error {
	rules := unix.LandlockRulesetAttr{
		Handled_access_fs:  rightsAll,
		Handled_access_net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP,
		Scoped:             unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET,
	}
	return enterRuleset(rules, func(ruleset int) error {
		for _, path := range append(c.Read, c.Skill) {
			if err := allow(ruleset, path, rightsRead); err != nil {
				return err
			}
		}
		for path, rights := range map[string]uint64{
			"/dev/null": rightsNull, "/dev/random": rightsNull, "/dev/urandom": rightsNull,
			"/dev/zero": rightsFile, // who can write can share memory by it that nobody counts
		} {
			if err := allow(ruleset, path, rights); err != nil {
				return err
			}
		}
		return allow(ruleset, c.Scratch, rightsOwn)
	})
}

// scopeSignals lets the calling thread signal only what it starts, and lets that start
// further domains.
func scopeSignals() error {
	return enterRuleset(unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL}, func(int) error { return nil })
}

func enterRuleset(rules unix.LandlockRulesetAttr, add func(ruleset int) error) error {
	size := unsafe.Offsetof(rules.Quiet_access_fs) // what version 6 knows
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	defer unix.Close(int(fd)) //nolint:errcheck // nothing was written
	if err := add(int(fd)); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("enter the Landlock ruleset: %w", errno)
	}
	return nil
}

// allow grants rights on what path leads to, those for files where that is a file.
func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR && rights == rightsRead {
		rights = rightsFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)} //nolint:gosec // a descriptor
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow %s: %w", path, errno)
	}
	return nil
}

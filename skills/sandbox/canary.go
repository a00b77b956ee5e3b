//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// canaryHeld is what a canary prints that could not get out.
const canaryHeld = "held"

// runCanary runs a copy of this program as if it were a script. It tries what the sandbox has
// to prevent.
func (s *Sandbox) runCanary(ctx context.Context) error {
	limits := s.cfg.Limits
	limits.Wall = 10 * time.Second // it takes some milliseconds; on a loaded machine more
	j, err := newJob(limits)
	if err != nil {
		return err
	}
	defer removeFolder(j.dir)
	if err := copySelf(j.skill); err != nil {
		return err
	}
	secret := filepath.Join(j.dir, "bait")
	if err := os.WriteFile(secret, []byte("bait"), 0o644); err != nil { //nolint:gosec // only the sandbox is in the way
		return err
	}
	j.argv = []string{"./" + childName, stageCanary, secret}
	var listen net.ListenConfig
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": "@planbot-" + rand.Text()} { // an abstract socket: no file could be out of reach
		listener, err := listen.Listen(ctx, network, address)
		if err != nil {
			return fmt.Errorf("listen for the canary: %w", err)
		}
		defer listener.Close() //nolint:errcheck // nobody is meant to come
		j.argv = append(j.argv, network, listener.Addr().String())
	}
	udp, err := listen.ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the canary: %w", err)
	}
	defer udp.Close() //nolint:errcheck // nobody is meant to send
	j.argv = append(j.argv, "udp", udp.LocalAddr().String())

	result, err := s.start(ctx, j)
	switch {
	case err != nil:
		return err
	case result.Exceeded != "":
		return fmt.Errorf("the canary exceeded its limit of %s", result.Exceeded)
	case strings.Contains(strings.ToLower(result.Stderr), "./"+childName+": permission denied"):
		return fmt.Errorf("programs in the folder for temporary files have to be executable (no noexec): %s", result.Stderr)
	case result.Stdout != canaryHeld || result.ExitCode != 0:
		return fmt.Errorf("the canary ended with code %d: %s", result.ExitCode, strings.TrimSpace(result.Stderr))
	}
	// The canary cannot know whether its datagram arrived: it may have a network of its own.
	_ = udp.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, _, err := udp.ReadFrom(make([]byte, 1)); err == nil {
		return errors.New("the canary reached a UDP socket of this machine")
	}
	return nil
}

// copySelf puts this program where the script would be.
func copySelf(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer from.Close() //nolint:errcheck // it was only read from
	to, err := os.Create(filepath.Join(dir, childName))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Chmod(0o555), to.Close(), os.Chmod(dir, 0o755))
}

// tryToGetOut is what the canary does. Each attempt that succeeds is a breach.
func tryToGetOut(args []string) (code int, err error) {
	attempts := map[string]error{}
	_, attempts["read "+args[0]] = os.ReadFile(args[0])
	_, attempts["read /etc/shadow"] = os.ReadFile("/etc/shadow")
	attempts["write to the skill"] = os.WriteFile("written", nil, 0o600)
	attempts["remove a file of the skill"] = os.Remove(childName)
	for call := range slices.Chunk(args[1:], 2) {
		conn, err := net.DialTimeout(call[0], call[1], time.Second) //nolint:noctx // the whole canary has a deadline
		switch {
		case call[0] != "udp":
			attempts["reach the "+call[0]+" socket "+call[1]] = err
		case err == nil:
			_, _ = conn.Write([]byte("x")) // whoever sent the canary sees whether it arrives
		}
	}
	_, attempts["make a socket of AF_VSOCK"] = unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	_, attempts["make a socket of AF_INET"] = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	_, attempts["make a pair of datagram sockets"] = unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	_, attempts["make a file of memory"] = unix.MemfdCreate("", 0)
	_, attempts["watch a folder"] = unix.InotifyInit1(unix.IN_CLOEXEC)
	attempts["make a user namespace"] = unix.Unshare(unix.CLONE_NEWUSER)

	var breaches []error
	for attempt, err := range attempts {
		if err == nil {
			breaches = append(breaches, errors.New("it could "+attempt))
		}
	}
	if os.Geteuid() == 0 {
		breaches = append(breaches, errors.New("it was root"))
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains([]string{"PATH", "LANG", "HOME", "TMPDIR", "PWD"}, name) { // bwrap adds PWD
			breaches = append(breaches, fmt.Errorf("it had the variable %.40q", variable))
		}
	}
	for _, resource := range []int{unix.RLIMIT_NPROC, unix.RLIMIT_FSIZE, unix.RLIMIT_DATA, unix.RLIMIT_CPU} {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(resource, &limit); err != nil || limit.Max > 1<<40 {
			breaches = append(breaches, fmt.Errorf("it had no resource limit %d", resource))
		}
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("TMPDIR"), "written"), nil, 0o600); err != nil {
		breaches = append(breaches, fmt.Errorf("it could not use its scratch folder: %w", err))
	}
	if len(breaches) > 0 {
		return 1, errors.Join(breaches...)
	}
	fmt.Print(canaryHeld)
	return 0, nil
}

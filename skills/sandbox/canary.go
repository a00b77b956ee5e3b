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

const (
	canaryHeld = "held"
	canaryWall = 10 * time.Second // it takes some milliseconds; a loaded machine more
	canaryLate = 20 * time.Millisecond
)

// sendCanary runs a copy of this program as if it were a script, which tries what the
// sandbox has to prevent.
func (s *Sandbox) sendCanary(ctx context.Context) error {
	j, err := s.newJob(Limits{Wall: canaryWall}.or(defaults))
	if err != nil {
		return err
	}
	defer j.remove()
	if err := copySelf(j.skill); err != nil {
		return err
	}
	b, err := layBait(ctx, j.dir)
	if err != nil {
		return err
	}
	defer b.remove()
	j.argv = append([]string{"./" + childName, stageCanary}, b.places()...)
	result, err := s.start(ctx, j)
	switch {
	case err != nil:
		return err
	case result.Exceeded != "":
		return fmt.Errorf("the canary went beyond its limit of %s", result.Exceeded)
	case result.Stdout != canaryHeld || result.ExitCode != 0:
		return fmt.Errorf("the canary ended with code %d: %s%s", result.ExitCode, strings.TrimSpace(result.Stderr), hint(result.Stderr))
	case b.taken():
		return errors.New("it reached a UDP socket of this machine")
	}
	return nil
}

// hint explains why the canary, unlike a script, could not even start.
func hint(stderr string) string {
	if strings.Contains(strings.ToLower(stderr), "./"+childName+": permission denied") {
		return " (programs in the folder for temporary files have to be executable: no noexec)"
	}
	return ""
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

// bait is what the canary must not get at.
type bait struct {
	file   string
	tcp    net.Listener
	socket net.Listener // abstract: it has no file that could be out of reach
	udp    net.PacketConn
}

func layBait(ctx context.Context, dir string) (b *bait, err error) {
	b = &bait{file: filepath.Join(dir, "bait")}
	if err := os.WriteFile(b.file, []byte("bait"), 0o644); err != nil { //nolint:gosec // only the sandbox is in the way
		return nil, err
	}
	var listen net.ListenConfig
	var errs [3]error
	b.tcp, errs[0] = listen.Listen(ctx, "tcp", "127.0.0.1:0")
	b.socket, errs[1] = listen.Listen(ctx, "unix", "@planbot-"+rand.Text())
	b.udp, errs[2] = listen.ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err := errors.Join(errs[:]...); err != nil {
		b.remove()
		return nil, fmt.Errorf("listen for the canary: %w", err)
	}
	return b, nil
}

// places tells the canary where it is.
func (b *bait) places() []string {
	return []string{b.file, b.tcp.Addr().String(), b.socket.Addr().String(), b.udp.LocalAddr().String()}
}

// taken says whether a datagram came. The canary cannot know: it may have sent to a
// network of its own.
func (b *bait) taken() bool {
	_ = b.udp.SetReadDeadline(time.Now().Add(canaryLate))
	_, _, err := b.udp.ReadFrom(make([]byte, 1))
	return err == nil
}

func (b *bait) remove() {
	for _, listener := range []net.Listener{b.tcp, b.socket} {
		if listener != nil {
			_ = listener.Close()
		}
	}
	if b.udp != nil {
		_ = b.udp.Close()
	}
}

// tryToGetOut is the canary's part.
func tryToGetOut(places []string) (int, error) {
	if len(places) != 4 {
		return exitBroken, errors.New("wrong arguments")
	}
	errs := slices.Concat(tryFiles(places[0]), tryNetwork(places[1], places[2], places[3]), tryRights())
	if err := errors.Join(errs...); err != nil {
		return 1, err
	}
	fmt.Print(canaryHeld)
	return 0, nil
}

func tryFiles(file string) (errs []error) {
	for _, secret := range []string{file, "/etc/shadow"} {
		if _, err := os.ReadFile(secret); err == nil {
			errs = append(errs, fmt.Errorf("it could read %s", secret))
		}
	}
	if os.WriteFile("written", nil, 0o600) == nil || os.Remove(childName) == nil {
		errs = append(errs, errors.New("it could write to the skill"))
	}
	scratch := filepath.Join(os.Getenv("TMPDIR"), "written")
	if err := os.WriteFile(scratch, nil, 0o600); err != nil {
		errs = append(errs, fmt.Errorf("it could not use its scratch folder: %w", err))
	}
	return errs
}

func tryNetwork(tcp, socket, udp string) (errs []error) {
	dialer := net.Dialer{Timeout: time.Second}
	ctx := context.Background() // the dialer has the deadline, and the whole canary
	for call, try := range map[string]func() (int, error){
		"make a socket of AF_VSOCK": func() (int, error) { return unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
		"make a socket of AF_INET":  func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) },
		"watch a folder":            func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) },
		"make a pair of datagram sockets": func() (int, error) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			return pair[0], err
		},
		"make a file of memory": func() (int, error) { return unix.MemfdCreate("", 0) },
	} {
		if _, err := try(); err == nil { // what it made ends with it
			errs = append(errs, errors.New("it could "+call))
		}
	}
	for network, address := range map[string]string{"tcp": tcp, "unix": socket} {
		if conn, err := dialer.DialContext(ctx, network, address); err == nil {
			_ = conn.Close()
			errs = append(errs, fmt.Errorf("it reached the %s socket %s", network, address))
		}
	}
	if conn, err := dialer.DialContext(ctx, "udp", udp); err == nil {
		_, _ = conn.Write([]byte("x"))
		_ = conn.Close()
	}
	return errs
}

func tryRights() (errs []error) {
	if os.Geteuid() == 0 {
		errs = append(errs, errors.New("it was root"))
	}
	for _, variable := range os.Environ() {
		if !expected(variable) {
			errs = append(errs, fmt.Errorf("it had the variable %.40q", variable))
		}
	}
	for _, resource := range []int{unix.RLIMIT_NPROC, unix.RLIMIT_FSIZE, unix.RLIMIT_DATA, unix.RLIMIT_CPU} {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(resource, &limit); err != nil || limit.Max > 1<<40 {
			errs = append(errs, fmt.Errorf("it had no resource limit %d", resource))
		}
	}
	if unix.Unshare(unix.CLONE_NEWUSER) == nil {
		errs = append(errs, errors.New("it could make a user namespace"))
	}
	return errs
}

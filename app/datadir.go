//go:build unix

package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/internal/settings"
)

const (
	dataDirStart = time.Minute           // limits how long the server may take to load its data
	dataDirStop  = 10 * time.Second      // limits how long it may take to write everything and end
	dataDirPoll  = 20 * time.Millisecond // how often a starting server is asked whether it is ready
)

// dataDir is a folder in which a redis-server or valkey-server of the bot's own keeps state. The
// server listens on a socket in that folder only. It survives a kill of the bot, whose next process
// adopts it. One process owns a folder at a time; others may connect.
type dataDir struct {
	path   string
	log    zerolog.Logger
	lock   *os.File
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing watches the server any more
}

// openDataDir takes possession of the folder and runs its server until close. Errors: a
// [settings.Fault] if the folder is in use or cannot be used.
func openDataDir(ctx context.Context, path string, log zerolog.Logger) (*dataDir, error) {
	refuse := func(err error) error {
		return settings.Fault{Err: fmt.Errorf("BOT_DATA_DIR: %w", err)}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, refuse(err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, refuse(err)
	}
	d := &dataDir{path: path, log: log, lock: lock, done: make(chan struct{})}
	if err := take(lock); err != nil {
		_ = lock.Close()
		return nil, refuse(err)
	}
	conn, err := d.connectOrStart(ctx)
	if err != nil {
		_ = lock.Close()
		return nil, refuse(err)
	}
	watched, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.cancel = cancel
	go d.watch(watched, conn)
	return d, nil
}

// take locks the file until it is closed.
func take(lock *os.File) error {
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // a descriptor fits an int
		return fmt.Errorf("another bot uses the folder %s", filepath.Dir(lock.Name()))
	}
	return nil
}

// freeDataDir returns an error if another process has the folder, so that it is named together with
// other mistakes. [openDataDir] takes possession of it. "": no folder.
func freeDataDir(path string) error {
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0o600)
	if path == "" || err != nil {
		return nil //nolint:nilerr // nobody has it, or openDataDir says what is wrong
	}
	defer func() { _ = lock.Close() }()
	if err := take(lock); err != nil {
		return fmt.Errorf("BOT_DATA_DIR: %w", err)
	}
	return nil
}

// connectOrStart returns a connection to the folder's server once it has loaded its data. It starts
// one if none runs.
func (d *dataDir) connectOrStart(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dataDirStart)
	defer cancel()
	if conn, err := d.ready(ctx); err == nil || !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, os.ErrNotExist) {
		return conn, err
	}
	ended, err := d.start(ctx)
	if err != nil {
		return nil, err
	}
	for {
		conn, err := d.ready(ctx)
		if err == nil {
			return conn, nil
		}
		select {
		case <-time.After(dataDirPoll):
		case err := <-ended:
			return nil, fmt.Errorf("the server in %s ended at its start (%w): %s", d.path, err, d.lastWords())
		case <-ctx.Done():
			return nil, fmt.Errorf("the server in %s is not ready: %w", d.path, err)
		}
	}
}

// ready connects, and waits while the server loads its data. One whose disk is full counts as ready:
// the bot answers 503 until there is room.
func (d *dataDir) ready(ctx context.Context) (net.Conn, error) {
	conn, err := dialDataDir(ctx, d.path)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	for lines := bufio.NewReader(conn); ; {
		if _, err = io.WriteString(conn, "PING\r\n"); err != nil {
			break
		}
		var answer string
		answer, err = lines.ReadString('\n')
		if err != nil || strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-MISCONF") { // the disk is full
			break
		}
		if !strings.HasPrefix(answer, "-LOADING") {
			err = fmt.Errorf("the server in %s answers %q", d.path, strings.TrimSpace(answer))
			break
		}
		time.Sleep(dataDirPoll)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// start starts the server. It is in a process group of its own, so that Ctrl-C does not end it
// before the bot has drained.
func (d *dataDir) start(ctx context.Context) (ended <-chan error, err error) {
	program, err := settings.DataServer()
	if err != nil {
		return nil, err
	}
	//nolint:gosec // the program is one of two names; the server outlives the context on purpose
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "--port", "0", "--unixsocket", settings.DataSocket, "--unixsocketperm", "700", "--dir", ".",
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction",
		"--databases", "1", "--timeout", "0", "--daemonize", "no", "--logfile", "redis.log")
	cmd.Dir = d.path
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d.log.Info().Str("program", program).Int("pid", cmd.Process.Pid).Str("folder", d.path).Msg("server of the data folder started")
	exit := make(chan error, 1)
	go func() { // ends with the server
		if err := cmd.Wait(); err != nil {
			exit <- err
			return
		}
		exit <- errors.New("exit code 0")
	}()
	return exit, nil
}

// lastWords is the end of the server's log.
func (d *dataDir) lastWords() string {
	text, err := os.ReadFile(filepath.Join(d.path, "redis.log"))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-3):], []byte("; ")))
}

// watch starts the server again whenever it ends, until ctx does. What the server acknowledged is
// in its append-only file by then.
func (d *dataDir) watch(ctx context.Context, conn net.Conn) {
	defer close(d.done)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = dataDirPoll
	for {
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		_, _ = io.Copy(io.Discard, conn) // ends with the connection
		stop()
		for again := true; again; {
			if ctx.Err() != nil {
				return
			}
			next, err := d.connectOrStart(ctx)
			if again = err != nil; !again {
				conn = next
				pause.Reset()
				continue
			}
			d.log.Error().Err(err).Msg("the server of the data folder is away")
			select {
			case <-time.After(pause.NextBackOff()):
			case <-ctx.Done():
			}
		}
	}
}

// close ends the server, which writes everything first.
func (d *dataDir) close() {
	d.cancel()
	<-d.done
	ctx, cancel := context.WithTimeout(context.Background(), dataDirStop)
	defer cancel()
	if conn, err := dialDataDir(ctx, d.path); err == nil {
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		if _, err = io.WriteString(conn, "SHUTDOWN NOSAVE\r\n"); err == nil { // the append-only file has everything
			_, err = io.Copy(io.Discard, conn)
		}
		if stop(); err != nil {
			d.log.Warn().Err(err).Msg("the server of the data folder did not end")
		}
	}
	_ = d.lock.Close()
}

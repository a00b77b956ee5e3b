package sandbox_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/skills/sandbox"
)

// hostile is a script that wants out, or too much.
type hostile struct {
	script string
	limits sandbox.Config
	check  func(t *testing.T, got sandbox.Result)
	crowds bool // it uses up the processes of the user
}

// prints wants exactly this in stdout.
func prints(want string) func(t *testing.T, got sandbox.Result) {
	return func(t *testing.T, got sandbox.Result) {
		t.Helper()
		if strings.TrimSpace(got.Stdout) != want || got.Exceeded != "" {
			t.Errorf("want %q, got %+v", want, got)
		}
	}
}

func exceeds(limits ...string) func(t *testing.T, got sandbox.Result) {
	return func(t *testing.T, got sandbox.Result) {
		t.Helper()
		for _, limit := range limits {
			if got.Exceeded == limit {
				return
			}
		}
		t.Errorf("not ended by its limit of %s: %+v", limits, got)
	}
}

// server is what a script must not reach: it stands for the bot's Redis.
func server(t *testing.T) (address string) {
	t.Helper()
	redis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := redis.Accept()
			if err != nil {
				return
			}
			t.Error("a script reached the server")
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = redis.Close()
		<-done
	})
	return redis.Addr().String()
}

// socketFile is a server at a path that everybody may use.
func socketFile(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "redis.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_ = os.Chmod(path, 0o777)
	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755)
	}
	return path
}

func TestHostileScripts(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		host, port, _ := net.SplitHostPort(server(t))
		outside := skill(t, "secret", "x")
		pid := strconv.Itoa(os.Getpid())
		attempt := func(command string) hostile {
			return hostile{script: "if (" + command + ") 2>/dev/null; then echo out; else echo held; fi", check: prints("held")}
		}
		for name, h := range map[string]hostile{
			"TCP":                  attempt("exec 3<>/dev/tcp/" + host + "/" + port),
			"UDP to the network":   attempt("echo x >/dev/udp/192.0.2.1/53"),
			"shadow":               attempt("cat /etc/shadow"),
			"home of root":         attempt("ls /root/"),
			"files of this user":   attempt("cat " + filepath.Join(outside, "secret")),
			"write the skill":      attempt("echo x >>attack.sh"),
			"remove the skill":     attempt("rm -f attack.sh"),
			"new file in skill":    attempt("echo x >new"),
			"write to the system":  attempt("echo x >/usr/bin/x"),
			"write to the root":    attempt("echo x >/x"),
			"write to shared temp": attempt("mkdir " + os.TempDir() + "/planbot-hostile-$$-dir && [ ! $TMPDIR = /tmp ]"),
			"signal":               attempt("kill -0 " + pid),
			"the bot's /proc":      attempt("tr '\\0' '\\n' </proc/" + pid + "/environ | grep -q " + secret),
			"user namespace":       attempt("unshare --user true"),
			"its keeper":           {script: "kill -9 $PPID 2>/dev/null; sleep 0.2; echo alive", check: prints("alive")},
			"inherited files":      attempt("cat <&3 | grep -q " + secret + " || cat <&4 | grep -q " + secret + " || cat <&5 | grep -q " + secret),
			"change limits":        attempt("ulimit -n 4096 || prlimit --pid " + pid + " --nofile=1:1"),
			"its environment": {
				script: "env | cut -d= -f1 | grep -v -x -e PATH -e LANG -e HOME -e TMPDIR -e PWD -e SHLVL -e _ -e OLDPWD; id -u",
				check: func(t *testing.T, got sandbox.Result) {
					if uid := strings.TrimSpace(got.Stdout); uid == "0" || strings.ContainsAny(uid, "\n ") {
						t.Errorf("%+v", got)
					}
				},
			},
			"10 MB of output": {
				script: "echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last",
				check: func(t *testing.T, got sandbox.Result) {
					kept := len(got.Stdout) - len("\n[truncated 9934476 bytes]\n")
					if got.Exceeded != "" || kept != 64<<10 || !strings.Contains(got.Stdout, "\n[truncated 9934476 bytes]\n") ||
						!strings.HasPrefix(got.Stdout, "first\n") || !strings.HasSuffix(got.Stdout, "x\nlast\n") {
						t.Errorf("kept %d of it: %.60q … %q", kept, got.Stdout, got.Stdout[max(0, len(got.Stdout)-40):])
					}
				},
			},
			"endless output":    {script: "yes >&2", limits: sandbox.Config{CPU: 20 * time.Second}, check: exceeds("output")},
			"endless wait":      {script: "echo begun; sleep 100", limits: sandbox.Config{Wall: 300 * time.Millisecond}, check: exceeds("wall time")},
			"deaf to signals":   {script: "trap '' TERM INT HUP; while :; do sleep 1; done", limits: sandbox.Config{Wall: 300 * time.Millisecond}, check: exceeds("wall time")},
			"endless work":      {script: "while :; do :; done", limits: sandbox.Config{CPU: 300 * time.Millisecond}, check: exceeds("CPU time")},
			"work in many":      {script: "for i in 1 2 3 4; do (while :; do :; done) & done; wait", limits: sandbox.Config{CPU: 400 * time.Millisecond}, check: exceeds("CPU time")},
			"memory of one":     {script: "x=$(head -c 200000000 /dev/zero | tr '\\0' x) && echo ${#x}", limits: sandbox.Config{MemoryBytes: 64 << 20}, check: noOutput},
			"memory of many":    {script: "for i in 1 2 3 4 5 6; do (x=$(head -c 16000000 /dev/zero | tr '\\0' x); sleep 20; :) & done; wait; echo all", limits: sandbox.Config{MemoryBytes: 64 << 20}, check: exceeds("memory")},
			"a large file":      {script: "head -c 40000000 /dev/zero >$TMPDIR/x; stat -c %s $TMPDIR/x", check: prints("33554432")},
			"only a large file": {script: "exec head -c 40000000 /dev/zero >$TMPDIR/x", check: exceeds("scratch folder")},
			"filling the disk":  {script: "for i in 1 2 3 4 5 6 7 8; do head -c 3000000 /dev/zero >$TMPDIR/$i || exit 9; done; sleep 1; echo all", limits: sandbox.Config{ScratchBytes: 8 << 20}, check: noOutput},
			"many files":        {script: "for ((i = 0; i < 60000; i++)); do : >$TMPDIR/$i || break; done; sleep 20", limits: sandbox.Config{ScratchBytes: 8 << 20, CPU: 20 * time.Second}, check: exceeds("scratch folder")},
			"shut folders":      {script: "mkdir $TMPDIR/a $TMPDIR/a/b; ln -s /usr $TMPDIR/a/b/usr; cd $TMPDIR; echo done", check: prints("done")},
			"what nobody sees": {
				script: `printf 'a\342\200\256b\342\200\213c\342\200\215d\342\201\240e\363\240\201\201f\363\240\204\200g\357\273\277 \360\237\221\250\342\200\215\360\237\222\273 \331\205\333\214\342\200\214\330\256'`,
				check:  prints("abcdefg 👨\u200d💻 می\u200cخ"),
			},
			"terminal escapes":  {script: `printf '\033[31mred\033[0m \033]0;title\007\000\b\xff\r\n'`, check: prints("red \ufffd")},
			"fork bomb":         {script: ":(){ :|:& };: ; sleep 60", limits: sandbox.Config{Wall: 1500 * time.Millisecond}, check: exceeds("wall time", "CPU time", "memory"), crowds: true},
			"too many children": {script: "for i in {1..2000}; do sleep 20 & done; echo all", limits: sandbox.Config{Wall: 1500 * time.Millisecond}, check: exceeds("wall time"), crowds: true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play := run
				if h.crowds {
					crowd.Lock()
					defer crowd.Unlock()
					play = runAmong
				}
				got := play(t, s.With(h.limits), sandbox.Command{Dir: folder(t, skill(t, "attack.sh", h.script)), Script: "attack.sh"})
				t.Logf("%d %q exceeded, %s; %.200q %.200q", got.ExitCode, got.Exceeded, name, got.Stdout, got.Stderr)
				h.check(t, got)
			})
		}
	})
}

func noOutput(t *testing.T, got sandbox.Result) {
	t.Helper()
	if got.Stdout != "" || got.ExitCode == 0 {
		t.Errorf("it went through: %+v", got)
	}
}

// Servers of this machine are out of reach by every kind of socket; bash cannot try all,
// python can.
func testSockets(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
		abstract, err := net.Listen("unix", "@planbot-test-"+rand.Text())
		if err != nil {
			t.Fatal(err)
		}
		defer abstract.Close()
		_, tcpPort, _ := net.SplitHostPort(server(t))
		_, udpPort, _ := net.SplitHostPort(udp.LocalAddr().String())
		got := run(t, s, sandbox.Command{Dir: folder(t, skill(t, "a.py", sockets)), Script: "a.py", Args: []string{
			tcpPort, udpPort, socketFile(t), abstract.Addr().String(),
		}})
		if strings.TrimSpace(got.Stdout) != "end" {
			t.Errorf("%+v", got)
		}
		_ = udp.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, _, err := udp.ReadFrom(make([]byte, 8)); err == nil {
			t.Errorf("%d bytes came by UDP", n)
		}
	})
}

// sockets says what it could connect to. Where there is a network of its own, UDP always
// connects, and raw and netlink sockets show nothing but that.
const sockets = `import socket, sys
tcp, udp, file, abstract = sys.argv[1:]
for family, kind, address in [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(tcp))),
    (socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", int(tcp))),
    (socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 443)),
    (socket.AF_UNIX, socket.SOCK_STREAM, file),
    (socket.AF_UNIX, socket.SOCK_STREAM, "\0" + abstract[1:]),
]:
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address)
            print("out", address)
    except OSError:
        pass
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"secret", ("127.0.0.1", int(udp)))
except OSError:
    pass
print("end")
`

// Parts of the kernel that scripts have no use for are not there, or not for them. The
// numbers, io_uring_setup, clone3 and pidfd_getfd, are those of all architectures.
func testSystemCalls(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		script := `import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for number in 425, 435, 438:
    print(libc.syscall(number, -1, 0, 0), errno.errorcode[ctypes.get_errno()])
info = ctypes.create_string_buffer(64) # PIDFD_GET_INFO of a process that is not the script's
print(libc.ioctl(os.pidfd_open(os.getppid()), ctypes.c_ulong(0xc040ff0b), info), errno.errorcode[ctypes.get_errno()])
`
		got := run(t, s, sandbox.Command{Dir: folder(t, skill(t, "a.py", script)), Script: "a.py"})
		if want := "-1 ENOSYS\n-1 ENOSYS\n-1 EPERM\n"; got.Stdout != want+"-1 ENOTTY\n" && (s.Kind() == "landlock" || !strings.HasPrefix(got.Stdout, want)) {
			t.Errorf("%+v", got)
		}
	})
}

// A call of another architecture goes by other numbers, which no filter could check: it ends the
// script. This one is getpid by the numbers of 32-bit programs.
func testCallsOf32Bits(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("made for amd64")
	}
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		script := `import ctypes, mmap
code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3") # mov eax, 20; int 0x80; ret
print("begun", flush=True)
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
`
		got := run(t, s, sandbox.Command{Dir: folder(t, skill(t, "a.py", script)), Script: "a.py"})
		if got.Stdout != "begun\n" || got.ExitCode != 128+31 { // SIGSYS
			t.Errorf("%+v", got)
		}
	})
}

// What a script leaves behind, in a session of its own and deaf, ends with it: after its
// end, after its time, and when nobody wants it any more.
func TestNothingSurvives(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		for name, ending := range map[string]string{"end": "exit 0", "time": "sleep 100", "cancel": "sleep 100"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mark := fmt.Sprintf("%d%06d", 7000+len(name), os.Getpid())
				script := fmt.Sprintf("trap '' HUP TERM\nsetsid sleep %s >/dev/null 2>&1 &\nsetsid setsid sleep %s </dev/null &\nsleep 0.2\n%s", mark, mark, ending)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				limits := sandbox.Config{Wall: time.Minute}
				switch name {
				case "time":
					limits.Wall = time.Second
				case "cancel":
					go func() {
						awaitProcess(mark, true)
						cancel()
					}()
				}
				result, err := s.With(limits).Run(ctx, sandbox.Command{Dir: folder(t, skill(t, "a.sh", script)), Script: "a.sh"})
				switch {
				case name == "cancel" && !errors.Is(err, context.Canceled),
					name != "cancel" && err != nil,
					name == "time" && result.Exceeded != "wall time",
					name == "end" && (result.ExitCode != 0 || result.Exceeded != ""):
					t.Errorf("%+v, %v", result, err)
				}
				if !awaitProcess(mark, false) {
					t.Error("a child survived")
				}
			})
		}
	})
}

// awaitProcess waits for a while until a process with the argument is there, or none.
func awaitProcess(argument string, there bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if (processWith(argument) != "") == there {
			return true
		}
	}
	return false
}

// processWith returns the folder in /proc of a process that sleeps for so long, or "".
func processWith(argument string) string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		args, _ := os.ReadFile(line)
		if strings.HasPrefix(string(args), "sleep\x00"+argument) {
			return filepath.Dir(line)
		}
	}
	return ""
}

// openTemp makes a folder that every user can enter.
func openTemp(t *testing.T) string {
	t.Helper()
	return openTempIn(t, "")
}

func openTempIn(t *testing.T, dir string) string {
	t.Helper()
	temp, err := os.MkdirTemp(dir, "planbot-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	if err := os.Chmod(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	return temp
}

// When the program is killed, its scripts end too.
func TestScriptsEndWithTheProgram(t *testing.T) {
	const variable = "PLANBOT_TEST_ENDLESS"
	if kind := os.Getenv(variable); kind != "" {
		s := open(t, kind, sandbox.Config{})
		run(t, s, sandbox.Command{Dir: folder(t, skill(t, "a.sh", "setsid sleep $1 & exec sleep $1")), Script: "a.sh", Args: []string{"60" + strconv.Itoa(os.Getpid())}})
		return
	}
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()[:strings.IndexByte(t.Name(), '/')]+"$")
		cmd.Env = append(os.Environ(), variable+"="+s.Kind(), "TMPDIR="+openTemp(t))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		mark := "60" + strconv.Itoa(cmd.Process.Pid)
		if !awaitProcess(mark, true) {
			t.Error("the script was not seen")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if !awaitProcess(mark, false) {
			t.Error("the script outlived the program")
		}
	})
}

// Runs leave nothing in the folder for temporary files, whatever scripts do to theirs.
func TestLeavesNoFiles(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			dir, temp := folder(t, skill(t, "a.sh", "cd $TMPDIR; umask 777; mkdir a; umask 0; mkdir -p b/c; cd b; umask 777; mkdir d")), openTemp(t)
			t.Setenv("TMPDIR", temp)
			s := open(t, kind, sandbox.Config{})
			run(t, s, sandbox.Command{Dir: dir, Script: "a.sh"})
			left, err := os.ReadDir(temp)
			if err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// BenchmarkLaunch is what a script costs that does nothing. In a large program it is more
// under Landlock: there the program starts twice before it is the script.
func BenchmarkLaunch(b *testing.B) {
	for _, kind := range kinds() {
		b.Run(kind, func(b *testing.B) {
			s := open(b, kind, sandbox.Config{})
			dir := folder(b, skill(b, "a.sh", "exit"))
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				run(b, s, sandbox.Command{Dir: dir, Script: "a.sh"})
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
		})
	}
}

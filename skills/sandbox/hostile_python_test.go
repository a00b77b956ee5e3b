package sandbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/skills/sandbox"
)

// prelude is what the attacks in python begin with: libc, and a way to say what one came to.
const prelude = `import ctypes, errno, fcntl, mmap, os, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
MB = 1 << 20
def attempt(name, what):
    try:
        print(name, what())
    except OSError as e:
        print(name, errno.errorcode[e.errno])
def call(function, *args):
    if function(*args) == -1:
        e = ctypes.get_errno()
        raise OSError(e, "")
    return "done"
`

// TestPython is what only a script in python can try: it calls the kernel itself.
func TestPython(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	for name, test := range map[string]func(*testing.T){
		"ForeignIDs": testForeignIDs, "Memory": testHostilePython, "HostileToFiles": testHostileToFiles, "NamesOfFiles": testNamesOfFiles,
		"Sockets": testSockets, "SystemCalls": testSystemCalls, "CallsOf32Bits": testCallsOf32Bits,
	} {
		t.Run(name, test)
	}
}

// testForeignIDs: a script cannot use what it did not make by guessing its id, nor ask about it. Each call
// is made with ids that others may have; it is refused before the kernel looks for them.
func testForeignIDs(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		numbers := map[string]map[string]int{
			"amd64": {"msgsnd": 69, "msgrcv": 70, "semop": 65, "semtimedop": 220, "shmdt": 67, "io_setup": 206, "get_robust_list": 274, "mq_timedreceive": 243},
			"arm64": {"msgsnd": 189, "msgrcv": 188, "semop": 193, "semtimedop": 192, "shmdt": 197, "io_setup": 0, "get_robust_list": 100, "mq_timedreceive": 183},
		}[runtime.GOARCH]
		maps.Copy(numbers, map[string]int{"process_madvise": 440, "quotactl_fd": 443, "process_mrelease": 448, "open_tree_attr": 467, "a later one": 470, "a much later one": 4000})
		want := map[string]string{"io_setup": "ENOSYS", "a later one": "ENOSYS", "a much later one": "ENOSYS"}
		var script, wanted strings.Builder
		script.WriteString(prelude)
		for _, name := range slices.Sorted(maps.Keys(numbers)) {
			fmt.Fprintf(&script, "for i in range(3): attempt(%q, lambda: call(libc.syscall, %d, i, 0, 0, 0, 0, 0))\n", name, numbers[name])
			wanted.WriteString(strings.Repeat(name+" "+cmp.Or(want[name], "EPERM")+"\n", 3))
		}
		if s.Kind() == "landlock" {
			script.WriteString("for what in os.getxattr, os.listxattr: attempt(\"attributes\", lambda: what(*[\"/etc\", \"user.x\"][:1 + (what is os.getxattr)]))\n")
			fmt.Fprintf(&script, "attempt(\"file_getattr\", lambda: call(libc.syscall, 468, -100, b\"/etc\", 0, 0, 0))\n")
			wanted.WriteString("attributes EOPNOTSUPP\nattributes EOPNOTSUPP\nfile_getattr EOPNOTSUPP\n")
		}
		got := run(t, s, sandbox.Command{Dir: folder(t, skill(t, "a.py", script.String())), Script: "a.py"})
		said := strings.ReplaceAll(got.Stdout, "ENOTSUP\n", "EOPNOTSUPP\n") // one number, two names
		if said != wanted.String() {
			t.Errorf("%s%s, want\n%s", said, got.Stderr, &wanted)
		}
	})
}

// What memory and files scripts can get at beyond what single processes are held to is
// refused, or found by looking: each attack takes many times what it may.
func testHostilePython(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		small := sandbox.Config{MemoryBytes: 64 << 20}
		for name, h := range map[string]hostile{
			"shared memory of nobody": {limits: small, check: prints("anonymous EPERM\nzero EACCES\nshm EPERM\nsem EPERM\nmsg EPERM\nmemfd ENOSYS\nsplice EINVAL"), script: `
attempt("anonymous", lambda: mmap.mmap(-1, 512 * MB))
def zero():
    try:
        mmap.mmap(os.open("/dev/zero", os.O_RDWR), 512 * MB)
    except OSError as e: # no leave to write, or nothing that can be mapped
        raise OSError(errno.EACCES if e.errno == errno.ENODEV else e.errno, "")
attempt("zero", zero)
attempt("shm", lambda: call(libc.shmget, 0, 8 * MB, 0o1600))
attempt("sem", lambda: call(libc.semget, 0, 32000, 0o1600))
attempt("msg", lambda: call(libc.msgget, 0, 0o1600))
attempt("memfd", lambda: os.memfd_create("x"))
attempt("splice", lambda: os.splice(os.open("/usr/bin/env", os.O_RDONLY), os.pipe()[1], 4096))
`},
			"signals that wait": {check: prints("queue EAGAIN"), script: `
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
def queue():
    for i in range(2000):
        call(libc.sigqueue, os.getpid(), 40, None)
attempt("queue", queue)
`},
			"kernel tables by netlink": {check: prints("held"), script: `
for protocol in range(1, 32):
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        print(protocol)
    except OSError:
        pass
print("held")
`},
			"page tables": {limits: small, check: exceeds("memory"), script: `
size = 1 << 37
place = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), 15) # no huge pages
for offset in range(0, size, 2 * MB):
    ctypes.c_char.from_address(place + offset).value
time.sleep(20)
`},
			"memory that cannot be written any more": {limits: small, check: exceeds("memory"), script: `
for i in range(64):
    place = libc.mmap(None, 8 * MB, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    ctypes.memset(place, 1, 8 * MB)
    libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(8 * MB), mmap.PROT_READ)
time.sleep(20)
`},
			"memory without a first thread": {limits: small, check: exceeds("memory"), script: `
def hoard():
    time.sleep(0.2)
    for i in range(64):
        place = libc.mmap(None, 8 * MB, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        ctypes.memset(place, 1, 8 * MB)
        libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(8 * MB), mmap.PROT_READ)
    time.sleep(20)
threading.Thread(target=hoard).start()
libc.pthread_exit(None)
`},
			"children that nobody waits for": {limits: sandbox.Config{CPU: 600 * time.Millisecond}, check: exceeds("CPU time"), script: `
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for i in range(60):
    if os.fork() == 0:
        while time.process_time() < 0.2: pass
        os._exit(0)
    try:
        os.waitpid(-1, 0)
    except ChildProcessError: pass
print("burnt 12 s")
`},
			"sockets of other kinds": {check: prints("vsock EAFNOSUPPORT\nalg EAFNOSUPPORT\ntcp EAFNOSUPPORT\nudp EAFNOSUPPORT\ntcp6 EAFNOSUPPORT\nudp6 EAFNOSUPPORT\npair EPERM\nraw pair EPERM\ntipc pair EAFNOSUPPORT\nstream pair b'x'"), script: `
def refused(family, kind=socket.SOCK_STREAM):
    try:
        socket.socket(family, kind)
    except PermissionError: # under Landlock all are
        raise OSError(errno.EAFNOSUPPORT, "")
attempt("vsock", lambda: refused(socket.AF_VSOCK))
attempt("alg", lambda: refused(socket.AF_ALG))
for name, family in ("", socket.AF_INET), ("6", socket.AF_INET6):
    attempt("tcp" + name, lambda: refused(family))
    attempt("udp" + name, lambda: refused(family, socket.SOCK_DGRAM))
attempt("pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("raw pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW))
attempt("tipc pair", lambda: socket.socketpair(socket.AF_TIPC, socket.SOCK_STREAM))
def stream():
    a, b = socket.socketpair()
    a.sendall(b"x")
    return b.recv(1)
attempt("stream pair", stream)
`},
			"larger buffers of sockets": {check: prints(strings.TrimSpace(strings.Repeat("EPERM EPERM EPERM\n", 4)) + "\nas before"), script: `
a, b = socket.socketpair()
before = [a.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
number = 54 if os.uname().machine == "x86_64" else 208
libc.syscall.argtypes = [ctypes.c_long] * 3 + [ctypes.c_ulong, ctypes.c_void_p, ctypes.c_long]
size = ctypes.byref(ctypes.c_int(1 << 28))
for option in socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33: # the last two are those of root
    said = []
    # The kernel takes the lower half of an option, and of a level.
    for level, number_of in (1, option), (1, option | 1 << 32), (1 | 1 << 32, option):
        try:
            call(libc.syscall, number, a.fileno(), level, number_of, size, 4)
            said.append("done")
        except OSError as e:
            said.append(errno.errorcode[e.errno])
    print(*said)
if before == [a.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)]:
    print("as before")
`},
			"sockets of many": {check: exceeds("memory"), script: `
for i in range(12):
    if os.fork() == 0:
        kept = []
        while len(kept) < 60:
            kept += socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for s in kept:
            s.setblocking(False)
            try:
                while True: s.send(b"x" * 100000)
            except OSError: pass
        time.sleep(20)
        os._exit(0)
time.sleep(20)
`},
			// One file is open, and each connection keeps what was sent to it.
			"connections that nobody takes": {check: only(s, "bubblewrap", exceeds("memory"), prints("connections EPERM")), script: `
def connect():
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind("\0x")
    server.listen(4096)
    for i in range(4000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.setblocking(False)
            s.connect("\0x")
            try:
                while True: s.send(b"x" * 100000)
            except BlockingIOError: pass
    time.sleep(20)
attempt("connections", connect)
`},
			"news of files": {check: prints("watches ENOSYS\nwatch ENOSYS\nfanotify EPERM\nfolder EINVAL\nlease EINVAL\nmounts ENOSYS\nmount ENOSYS"), script: `
attempt("watches", lambda: call(libc.inotify_init1, 0))
attempt("watch", lambda: call(libc.inotify_add_watch, -1, b"/usr/bin", 0xfff))
attempt("fanotify", lambda: call(libc.fanotify_init, 0x200, 0))
attempt("folder", lambda: fcntl.fcntl(os.open("/usr/bin", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS))
attempt("lease", lambda: fcntl.fcntl(os.open(os.environ["TMPDIR"] + "/x", os.O_RDONLY | os.O_CREAT), fcntl.F_SETLEASE, fcntl.F_RDLCK))
request = struct.pack("IIQQQ", 32, 0, 2**64 - 1, 0, 0)
found = ctypes.create_string_buffer(8000)
attempt("mounts", lambda: call(libc.syscall, 458, request, found, 1000, 0))
attempt("mount", lambda: call(libc.syscall, 457, request, found, 8000, 0))
`},
			"deleted files": {check: diskFull, script: `
for i in range(24):
    f = os.open(os.environ["TMPDIR"] + "/x", os.O_RDWR | os.O_CREAT)
    os.unlink(os.environ["TMPDIR"] + "/x")
    os.write(f, b"x" * (16 * MB))
time.sleep(20)
`},
			"deleted files, mapped": {check: diskFull, script: `
maps = []
for i in range(24):
    f = os.open(os.environ["TMPDIR"] + "/x", os.O_RDWR | os.O_CREAT)
    os.unlink(os.environ["TMPDIR"] + "/x")
    os.write(f, b"x" * (16 * MB))
    maps.append(libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, f, 0))
    os.close(f)
time.sleep(20)
`},
			"deleted files on their way": {check: diskFull, script: `
kept = []
for i in range(16):
    f = os.open(os.environ["TMPDIR"] + "/x", os.O_RDWR | os.O_CREAT)
    os.unlink(os.environ["TMPDIR"] + "/x")
    os.write(f, b"x" * (16 * MB))
    pair = socket.socketpair()
    kept.append(pair)
    try:
        socket.send_fds(pair[0], [b"x"], [f])
        os.close(f)
    except PermissionError: pass
time.sleep(20)
`},
			"deleted files of one that hides": {check: diskFull, script: `
libc.prctl(4, 0) # its files are for nobody to see
for i in range(24):
    f = os.open(os.environ["TMPDIR"] + "/x", os.O_RDWR | os.O_CREAT)
    os.unlink(os.environ["TMPDIR"] + "/x")
    os.write(f, b"x" * (16 * MB))
time.sleep(20)
`},
			"deleted files of a thread": {check: diskFull, script: `
def hoard():
    libc.syscall(272 if os.uname().machine == "x86_64" else 97, 0x400) # files of its own: refused
    time.sleep(0.2)
    for i in range(24):
        f = os.open(os.environ["TMPDIR"] + "/x", os.O_RDWR | os.O_CREAT)
        os.unlink(os.environ["TMPDIR"] + "/x")
        os.write(f, b"x" * (16 * MB))
    time.sleep(20)
threading.Thread(target=hoard).start()
libc.pthread_exit(None)
`},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				got := run(t, s.With(h.limits), sandbox.Command{Dir: folder(t, skill(t, "attack.py", prelude+h.script)), Script: "attack.py"})
				t.Logf("%d %q exceeded; %.300q %.300q", got.ExitCode, got.Exceeded, got.Stdout, got.Stderr)
				h.check(t, got)
			})
		}
	})
}

// only is the one check in sandboxes of a kind, and the other one elsewhere.
func only(s *sandbox.Sandbox, kind string, one, other func(*testing.T, sandbox.Result)) func(*testing.T, sandbox.Result) {
	if s.Kind() == kind {
		return one
	}
	return other
}

// diskFull wants the scratch folder to have been too small, by its size or by the limit.
func diskFull(t *testing.T, got sandbox.Result) {
	t.Helper()
	if got.Exceeded != "scratch folder" && !strings.Contains(got.Stderr, "No space left on device") {
		t.Errorf("it went through: %+v", got)
	}
}

// A socket that is not made for a place can send there, and a file can be changed without
// a right to it when it is one's own: what belongs to the bot stays as it is.
func testHostileToFiles(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			temp, readable := openTemp(t), openTempIn(t, "/var/tmp")             // not in /tmp, which is the scratch folder
			log, err := net.ListenPacket("unixgram", filepath.Join(temp, "log")) // as /dev/log is
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			file := filepath.Join(readable, "file")
			if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{file, filepath.Join(temp, "log"), temp} {
				_ = os.Chown(path, 65534, 65534) // as when a bot is not root: scripts are the same user
			}
			before, _ := os.Stat(file)
			s := open(t, kind, sandbox.Config{ReadOnly: []string{readable}})
			got := run(t, s, sandbox.Command{Dir: folder(t, skill(t, "a.py", prelude+toFiles)), Script: "a.py", Args: []string{filepath.Join(temp, "log"), file}})
			if after, _ := os.Stat(file); after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
				t.Errorf("the file was %v, %v, and is %v, %v", before.Mode(), before.ModTime(), after.Mode(), after.ModTime())
			}
			_ = log.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if n, _, err := log.ReadFrom(make([]byte, 8)); err == nil {
				t.Errorf("%d bytes reached the socket", n)
			}
			if !strings.HasSuffix(got.Stdout, "end\n") || strings.Contains(got.Stdout, "changed") || got.ExitCode != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A script does not learn the names of files that come and go in a folder that it may not list.
func testNamesOfFiles(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		dir := openTempIn(t, "/var/tmp") // everybody may list it, were it not for the sandbox
		ctx, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		working.Go(func() {
			for ctx.Err() == nil {
				file := filepath.Join(dir, secret)
				if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Remove(file)); err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
		got := run(t, s, sandbox.Command{Dir: folder(t, skill(t, "a.py", prelude+watching)), Script: "a.py", Args: []string{dir}})
		stop()
		working.Wait()
		if strings.Contains(got.Stdout, secret) || !strings.HasSuffix(got.Stdout, "end\n") {
			t.Errorf("%+v", got)
		}
	})
}

const watching = `
news = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(news, sys.argv[1].encode(), 0xfff)
time.sleep(0.5)
attempt("watch", lambda: os.read(news, 10000))
attempt("list", lambda: os.listdir(sys.argv[1]))
print("end")
`

const toFiles = `
log, file = sys.argv[1:]
def send(kind):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    a.sendto(b"x", log)
def connect(kind):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    a.connect(log)
    a.send(b"x")
for kind in socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET:
    attempt("send", lambda: send(kind))
    attempt("connect", lambda: connect(kind))
f = os.open(file, os.O_RDONLY)
attempt("times", lambda: os.utime(file, (1, 1)))
attempt("times of an open file", lambda: os.utime(f, (1, 1)))
attempt("mode", lambda: os.chmod(file, 0o6777))
attempt("mode of an open file", lambda: os.fchmod(f, 0o6777))
def flags():
    fcntl.ioctl(f, 0x40086602, struct.pack("l", 0x40))
    return "changed"
attempt("flags", flags)
attempt("attribute", lambda: os.setxattr(f, "user.x", b"x"))
for old in 90, 132, 235, 261: # chmod, utime, utimes, futimesat where they are
    if os.uname().machine == "x86_64":
        times = (ctypes.c_long * 4)(1, 1, 1, 1)
        libc.syscall(old, *([-100] if old == 261 else []), file.encode(), 0o777 if old == 90 else times)
print("end")
`

// When the machine has no memory left, the kernel ends scripts before anything else.
func TestEndedFirst(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		mark := fmt.Sprintf("59%d%06d", len(s.Kind()), os.Getpid())
		score := make(chan string)
		go func() {
			awaitProcess(mark, true)
			var got string
			for end := time.Now().Add(time.Minute); got != "1000" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				content, _ := os.ReadFile(processWith(mark) + "/oom_score_adj")
				got = strings.TrimSpace(string(content))
			}
			score <- got
		}()
		script := "sleep 0.2; (echo 0 >/proc/$$/oom_score_adj) 2>/dev/null && echo out; exec sleep " + mark
		got := run(t, s.With(sandbox.Config{Wall: 2 * time.Second}), sandbox.Command{Dir: folder(t, skill(t, "a.sh", script)), Script: "a.sh"})
		if score := <-score; score != "1000" || got.Stdout != "" {
			t.Errorf("the score was %q: %+v", score, got)
		}
	})
}

// What ordinary scripts do goes on working.
func TestOrdinaryScripts(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		for name, script := range ordinary {
			if s.Interpreters()[filepath.Ext(name)] == nil {
				t.Log("nothing here runs", name)
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				got := run(t, s.With(sandbox.Config{CPU: time.Minute, MemoryBytes: 1 << 30}), sandbox.Command{Dir: folder(t, skill(t, name, script, "data.txt", "data")), Script: name})
				if !strings.HasSuffix(got.Stdout, "end\n") || got.ExitCode != 0 || got.Stderr != "" {
					t.Errorf("%+v", got)
				}
			})
		}
	})
}

var ordinary = map[string]string{
	"files.py": `import mmap, os, pathlib, shutil, sqlite3, tarfile, tempfile, zipfile
with tempfile.TemporaryDirectory() as d, tempfile.TemporaryFile() as f:
    f.write(b"x" * 100000); f.flush()
    shutil.copy2("data.txt", d + "/a")
    assert mmap.mmap(f.fileno(), 0)[0:1] == b"x"
    os.chdir(d)
    shutil.copy("a", "b"); shutil.copy2("a", "c"); os.mkdir("d"); shutil.copytree("d", "e"); pathlib.Path("f").touch()
    shutil.make_archive("all", "zip", "d"); zipfile.ZipFile("all.zip").extractall("g")
    with tarfile.open("t.tar", "w") as t: t.add("a")
    with tarfile.open("t.tar") as t: t.extractall("h")
    assert open("c").read() == open("h/a").read() == "data"
    db = sqlite3.connect("db"); db.execute("create table t (x)"); db.execute("insert into t values (1)"); db.commit()
print("end")
`,
	"processes.py": `import asyncio, concurrent.futures, multiprocessing, subprocess, sys, threading
assert subprocess.run(["cat"], input=b"x" * 200000, capture_output=True).stdout == b"x" * 200000
assert subprocess.check_output("echo a | tr a b", shell=True) == b"b\n"
async def main():
    p = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = await p.communicate(b"y" * 200000)
    assert out == b"y" * 200000
    assert await asyncio.to_thread(lambda: 7) == 7
asyncio.run(main())
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
a, b = multiprocessing.Pipe()
p = multiprocessing.get_context("fork").Process(target=lambda: b.send("x" * 200000)); p.start()
assert a.recv() == "x" * 200000; p.join()
print("end")
`,
	"sockets.py": `import asyncio, json, socket, urllib.parse, urllib.request
pairs = [socket.socketpair() for _ in range(25)]
for a, b in pairs:
    a.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    a.settimeout(5)
    a.sendall(b"x"); assert b.recv(1) == b"x"
async def main():
    read, write = await asyncio.open_connection(sock=pairs[0][0])
    pairs[0][1].sendall(b"line\n")
    assert await read.readline() == b"line\n"
    write.close()
asyncio.run(main())
try:
    urllib.request.urlopen("http://192.0.2.1", timeout=1)
except OSError: pass # as without a network
print("end")
`,
	"files.sh": `set -e
cp data.txt $TMPDIR/a; cd $TMPDIR
cp -p a b; mv b c; touch d; touch -r a d; sed -i s/data/text/ a; sort a c | uniq >e; tar cf t.tar a c; mkdir x; tar xf t.tar -C x; gzip -k a; gunzip -c a.gz | cmp - a
head -c 1000 /dev/zero | wc -c | grep -qx 1000; echo x >/dev/null; install a f; cat <<<"$(cat a | cat | cat)" | grep -qx text
for i in 1 2 3; do cp /bin/sleep s; ./s 0.6 & sleep 0.1; rm s; done; wait # small programs, deleted and in use
(sleep 0.3; echo more >>e) & timeout 5 tail -f -n 0 e 2>/dev/null | head -n 1 | grep -qx more # without notices of changes it looks
echo end
`,
	"files.js": `const fs = require("fs"), os = require("os"), path = require("path"), cp = require("child_process"), zlib = require("zlib")
const { Worker } = require("worker_threads")
const d = fs.mkdtempSync(path.join(os.tmpdir(), "x"))
fs.copyFileSync("data.txt", d + "/a"); fs.cpSync(d, d + "2", { recursive: true }); fs.utimesSync(d + "/a", 1, 1)
if (cp.execSync("cat " + d + "2/a").toString() !== "data") throw 1
if (cp.spawnSync("cat", { input: "x".repeat(200000) }).stdout.length !== 200000) throw 2
for (let i = 0; i < 10; i++) cp.spawn("sleep", ["0.2"]) // with sockets to each
new Worker("require('worker_threads').parentPort.postMessage(new SharedArrayBuffer(8))", { eval: true }).on("message", () => {
  fs.writeFileSync(d + "/c.js", "process.on('message', m => { process.send(m); process.disconnect() })")
  cp.fork(d + "/c.js").on("message", m => {
    fs.createReadStream(d + "/a").pipe(zlib.createGzip()).on("data", () => {}).on("end", () => console.log(m))
  }).send("end")
})
`,
}

package sandbox_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
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

// What memory and files scripts can get at beyond what single processes are held to is
// refused, or found by looking: each attack takes many times what it may.
func TestHostilePython(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		needs(t, ".py")
		small := sandbox.Limits{MemoryBytes: 64 << 20}
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
			"page tables": {limits: small, check: exceeds(sandbox.Memory), script: `
size = 1 << 37
place = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), 15) # no huge pages
for offset in range(0, size, 2 * MB):
    ctypes.c_char.from_address(place + offset).value
time.sleep(20)
`},
			"memory that cannot be written any more": {limits: small, check: exceeds(sandbox.Memory), script: `
for i in range(64):
    place = libc.mmap(None, 8 * MB, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    ctypes.memset(place, 1, 8 * MB)
    libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(8 * MB), mmap.PROT_READ)
time.sleep(20)
`},
			"memory without a first thread": {limits: small, check: exceeds(sandbox.Memory), script: `
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
			"children that nobody waits for": {limits: sandbox.Limits{CPU: 600 * time.Millisecond}, check: exceeds(sandbox.CPUTime), script: `
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
			"sockets of other kinds": {check: prints("vsock EAFNOSUPPORT\nalg EAFNOSUPPORT\npair EPERM\nraw pair EPERM\ntipc pair EAFNOSUPPORT\nstream pair b'x'"), script: `
def refused(family):
    try:
        socket.socket(family, socket.SOCK_STREAM)
    except PermissionError: # under Landlock all are
        raise OSError(errno.EAFNOSUPPORT, "")
attempt("vsock", lambda: refused(socket.AF_VSOCK))
attempt("alg", lambda: refused(socket.AF_ALG))
attempt("pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("raw pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW))
attempt("tipc pair", lambda: socket.socketpair(socket.AF_TIPC, socket.SOCK_STREAM))
def stream():
    a, b = socket.socketpair()
    a.sendall(b"x")
    return b.recv(1)
attempt("stream pair", stream)
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
				got := run(t, s, sandbox.Command{Dir: skill(t, "attack.py", prelude+h.script), Script: "attack.py", Limits: h.limits})
				t.Logf("%d %q exceeded after %v, %v of CPU, %d MiB; %.300q %.300q", got.ExitCode, got.Exceeded, got.Usage.Wall, got.Usage.CPU, got.Usage.MemoryBytes>>20, got.Stdout, got.Stderr)
				h.check(t, got)
			})
		}
	})
}

// diskFull wants the scratch folder to have been too small, by its size or by the limit.
func diskFull(t *testing.T, got sandbox.Result) {
	t.Helper()
	if got.Exceeded != sandbox.Scratch && !strings.Contains(got.Stderr, "No space left on device") {
		t.Errorf("it went through: %+v", got)
	}
}

// needs skips a test where an interpreter is missing.
func needs(t *testing.T, ext string) {
	t.Helper()
	if sandbox.Interpreters()[ext] == nil {
		t.Skip("nothing here runs " + ext)
	}
}

// A socket that is not made for a place can send there, and a file can be changed without
// a right to it when it is one's own: what belongs to the bot stays as it is.
func TestHostileToFiles(t *testing.T) {
	t.Parallel()
	for _, kind := range []sandbox.Kind{sandbox.Bubblewrap, sandbox.Landlock} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			needs(t, ".py")
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
			got := run(t, s, sandbox.Command{Dir: skill(t, "a.py", prelude+toFiles), Script: "a.py", Args: []string{filepath.Join(temp, "log"), file}})
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
			for end := time.Now().Add(5 * time.Second); got != "1000" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				content, _ := os.ReadFile(processWith(mark) + "/oom_score_adj")
				got = strings.TrimSpace(string(content))
			}
			score <- got
		}()
		script := "sleep 0.2; (echo 0 >/proc/$$/oom_score_adj) 2>/dev/null && echo out; exec sleep " + mark
		got := run(t, s, sandbox.Command{Dir: skill(t, "a.sh", script), Script: "a.sh", Limits: sandbox.Limits{Wall: 2 * time.Second}})
		if score := <-score; score != "1000" || got.Stdout != "" {
			t.Errorf("the score was %q: %+v", score, got)
		}
	})
}

// What ordinary scripts do goes on working.
func TestOrdinaryScripts(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		for name, script := range ordinary {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				needs(t, filepath.Ext(name))
				got := run(t, s, sandbox.Command{Dir: skill(t, name, script, "data.txt", "data"), Script: name, Limits: sandbox.Limits{CPU: time.Minute, MemoryBytes: 1 << 30}})
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
	"files.sh": `set -e
cp data.txt $TMPDIR/a; cd $TMPDIR
cp -p a b; mv b c; touch d; touch -r a d; sed -i s/data/text/ a; sort a c | uniq >e; tar cf t.tar a c; mkdir x; tar xf t.tar -C x; gzip -k a; gunzip -c a.gz | cmp - a
head -c 1000 /dev/zero | wc -c | grep -qx 1000; echo x >/dev/null; install a f; cat <<<"$(cat a | cat | cat)" | grep -qx text
for i in 1 2 3; do cp /bin/sleep s; ./s 0.6 & sleep 0.1; rm s; done; wait # small programs, deleted and in use
echo end
`,
	"files.js": `const fs = require("fs"), os = require("os"), path = require("path"), cp = require("child_process"), zlib = require("zlib")
const { Worker } = require("worker_threads")
const d = fs.mkdtempSync(path.join(os.tmpdir(), "x"))
fs.copyFileSync("data.txt", d + "/a"); fs.cpSync(d, d + "2", { recursive: true }); fs.utimesSync(d + "/a", 1, 1)
if (cp.execSync("cat " + d + "2/a").toString() !== "data") throw 1
if (cp.spawnSync("cat", { input: "x".repeat(200000) }).stdout.length !== 200000) throw 2
new Worker("require('worker_threads').parentPort.postMessage(new SharedArrayBuffer(8))", { eval: true }).on("message", () => {
  fs.writeFileSync(d + "/c.js", "process.on('message', m => { process.send(m); process.disconnect() })")
  cp.fork(d + "/c.js").on("message", m => {
    fs.createReadStream(d + "/a").pipe(zlib.createGzip()).on("data", () => {}).on("end", () => console.log(m))
  }).send("end")
})
`,
}

//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// watchEvery is how long processes can together exceed what the kernel allows each of them.
	watchEvery = 25 * time.Millisecond
	// maxEntries bounds the files in a scratch folder: how long a look at it takes, and what the
	// kernel has to remember of it.
	maxEntries = 5000
)

// maxSockets bounds the sockets of all processes together. What was sent and not yet received is
// the kernel's memory, which no limit counts: up to 0.4 MB for each socket. Programs need few. The
// most hungry one known is node, which has six for each child that it talks to.
func (l Limits) maxSockets() int { return 8 * l.Processes }

// watch ends the job when its processes together exceed a limit; those of the kernel know
// single processes and files only.
func (j *job) watch(ended <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	all := processes{own: map[string]time.Duration{}}
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		cpu, memory := all.look(j.cmd.Process.Pid) // that itself, bwrap or the keeper, is not the script's
		switch {
		case memory > j.limits.MemoryBytes:
			cancel(exceeded("memory"))
		case cpu > j.limits.CPU:
			cancel(exceeded("CPU time"))
		case j.overuse != nil:
			if limit := j.overuse(); limit != "" {
				cancel(exceeded(limit))
			}
		}
	}
}

// processes has the time that each process took by itself when it was last seen, by its id and
// when it began, and the sum.
type processes struct {
	own map[string]time.Duration
	sum time.Duration
}

// look returns what the descendants of a process take. Of their time it knows two figures that
// may both be too low: what those that are there took with the children that they waited for, and
// what all that were ever seen took. Whoever ignores SIGCHLD waits for none.
func (p *processes) look(pid int) (cpu time.Duration, memory int64) {
	for _, child := range descendants(strconv.Itoa(pid)) {
		cpu += p.time(child)
		memory += memoryOf(child)
	}
	return max(cpu, p.sum), memory
}

// descendants lists what a process started or adopted, and so on. What has ended meanwhile is
// left out.
func descendants(pid string) (pids []string) {
	for _, child := range children(pid) {
		pids = append(append(pids, child), descendants(child)...)
	}
	return pids
}

func children(pid string) (pids []string) {
	lists, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		pids = append(pids, strings.Fields(string(children))...)
	}
	return pids
}

// time reads what proc(5) says of one process and the children that it waited for.
func (p *processes) time(pid string) time.Duration {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // after the name, which may hold anything
	if len(fields) < 20 {
		return 0
	}
	var ticks [4]time.Duration // utime, stime, cutime, cstime, in 1/100 s
	for i := range ticks {
		n, _ := strconv.ParseInt(fields[11+i], 10, 64)
		ticks[i] = time.Duration(n) * 10 * time.Millisecond
	}
	key, own := pid+" "+fields[19], ticks[0]+ticks[1]
	before, known := p.own[key]
	if !known { // let the kernel end it first when the machine has no memory left
		_ = os.WriteFile("/proc/"+pid+"/oom_score_adj", []byte("1000"), 0)
	}
	p.own[key] = own
	p.sum += own - before
	return own + ticks[2] + ticks[3]
}

// memoryOf is what one process has, its page tables included, which can be most of it.
func memoryOf(pid string) int64 {
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/status") // the first one may have ended
	for _, thread := range threads {
		if bytes := memoryIn(thread); bytes > 0 {
			return bytes
		}
	}
	return 0
}

func memoryIn(file string) (total int64) {
	status, _ := os.ReadFile(file)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "RssAnon", "RssShmem", "VmSwap", "VmPTE", "HugetlbPages":
			var kilobytes int64
			_, _ = fmt.Sscan(value, &kilobytes)
			total += kilobytes << 10
		}
	}
	return total
}

// diskWatch looks whether the descendants of this process use more disk or sockets than they
// may. The keeper does it, being the same user as the script, which the bot may not be.
type diskWatch struct {
	scratch string
	limits  Limits
	hidden  int // looks in a row at which some files were hidden
}

// maxHidden looks may find files hidden: those of a process are for a moment when it becomes
// another.
const maxHidden = 3

// exceeded returns the code to end with, 0 as long as nothing is exceeded.
func (w *diskWatch) exceeded() (code int) {
	held := heldFiles{open: map[uint64]int64{}, mapped: map[uint64]bool{}, sockets: map[uint64]bool{}}
	for _, pid := range descendants(strconv.Itoa(os.Getpid())) {
		held.add(pid)
	}
	if w.hidden++; !held.hidden {
		w.hidden = 0
	}
	if len(held.sockets) > w.limits.maxSockets() {
		return codeSockets
	}
	if w.hidden == maxHidden || overfull(w.scratch, w.limits.ScratchBytes-held.size(w.limits.FileBytes)) {
		return codeDisk
	}
	return 0
}

// overfull says whether a folder holds more than size bytes or too many files, or hides what it
// holds.
func overfull(dir string, size int64) bool {
	entries := 0
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		} else if err != nil {
			return err
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size -= stored(info)
		}
		if entries++; entries > maxEntries || size < 0 {
			return errTooLarge
		}
		return nil
	})
	return err != nil
}

// stored is how much of the disk a file takes.
func stored(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

// heldFiles are the files that are deleted and in use, and the sockets, by inode.
type heldFiles struct {
	open    map[uint64]int64
	mapped  map[uint64]bool
	sockets map[uint64]bool
	hidden  bool // a process did not let its files be seen
}

// size adds up the deleted files. Of a file that is only mapped the kernel does not tell the
// size; it counts as the largest.
func (h *heldFiles) size(largest int64) (size int64) {
	for inode := range h.mapped {
		if _, ok := h.open[inode]; !ok {
			size += largest
		}
	}
	for _, bytes := range h.open {
		size += bytes
	}
	return size
}

func (h *heldFiles) add(pid string) {
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*") // a thread can have files of its own
	for _, task := range tasks {
		files, err := os.ReadDir(task + "/fd")
		if errors.Is(err, fs.ErrPermission) && memoryIn(task+"/status") > 0 { // else it has ended and has none
			h.hidden = true
		}
		h.addFile(task + "/exe")
		for _, file := range files {
			h.addFile(task + "/fd/" + file.Name())
		}
	}
	for _, task := range tasks {
		maps, _ := os.ReadFile(task + "/maps")
		for line := range strings.Lines(string(maps)) {
			if fields := strings.Fields(line); len(fields) > 5 && strings.HasSuffix(line, " (deleted)\n") {
				inode, _ := strconv.ParseUint(fields[4], 10, 64)
				h.mapped[inode] = true
			}
		}
		if len(maps) > 0 { // else it was the first thread, and has ended
			break
		}
	}
}

// addFile takes in what an open file is, if it is deleted or a socket.
func (h *heldFiles) addFile(link string) {
	info, err := os.Stat(link)
	if err != nil {
		return
	}
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case !ok:
	case info.Mode()&fs.ModeSocket != 0:
		h.sockets[stat.Ino] = true // the same one may be open several times
	case info.Mode().IsRegular() && stat.Nlink == 0:
		h.open[stat.Ino] = stored(info)
	}
}

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
	"time"
)

// watchEvery is how long the processes of a script can go unseen together beyond what
// the kernel holds each of them to. To look at a folder takes longer, so it is seldom.
const (
	watchEvery  = 25 * time.Millisecond
	folderEvery = 4 // looks
)

// usage is what a tree of processes takes.
type usage struct {
	cpu    time.Duration
	memory int64
}

// watch ends the job when its processes together, or its scratch folder, go beyond a
// limit; resource limits of the kernel know single processes and files only.
func (j *job) watch(ended <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for look := 1; ; look++ {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		var now usage
		for _, child := range children(strconv.Itoa(j.cmd.Process.Pid)) { // bwrap or the keeper is not the script's
			now.addTree(child)
		}
		j.seen.cpu, j.seen.memory = max(j.seen.cpu, now.cpu), max(j.seen.memory, now.memory)
		switch {
		case now.memory > j.limits.MemoryBytes:
			cancel(exceeded(Memory))
		case now.cpu > j.limits.CPU:
			cancel(exceeded(CPUTime))
		case look%folderEvery == 0 && j.full():
			cancel(exceeded(Scratch))
		}
	}
}

// addTree adds a process and its descendants. What has ended meanwhile is left out.
func (u *usage) addTree(pid string) {
	u.addProcess(pid)
	for _, child := range children(pid) {
		u.addTree(child)
	}
}

// children are the processes that a process started or adopted.
func children(pid string) (pids []string) {
	lists, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		pids = append(pids, strings.Fields(string(children))...)
	}
	return pids
}

// addProcess reads what proc(5) says of one process and the children that it waited for.
func (u *usage) addProcess(pid string) {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	if end := bytes.LastIndexByte(stat, ')'); end >= 0 { // behind the name, which may hold anything
		fields := strings.Fields(string(stat[end+1:]))
		for i := 11; i < 15 && i < len(fields); i++ { // utime, stime, cutime, cstime, in 1/100 s
			ticks, _ := strconv.ParseInt(fields[i], 10, 64)
			u.cpu += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if strings.HasPrefix(line, "RssAnon:") || strings.HasPrefix(line, "RssShmem:") {
			_, value, _ := strings.Cut(line, ":")
			_, _ = fmt.Sscan(value, &kilobytes)
			u.memory += kilobytes << 10
		}
	}
}

// maxEntries bounds how long a look at a scratch folder takes, and what the kernel has to
// remember of it.
const maxEntries = 5000

// overfull says whether a folder holds more than size bytes or too many files, or hides
// what it holds.
func overfull(dir string, size int64) bool {
	errFull := errors.New("full")
	entries := 0
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		} else if err != nil {
			return err
		}
		if entries++; entries > maxEntries {
			return errFull
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size -= stored(info)
		}
		if size < 0 {
			return errFull
		}
		return nil
	})
	return err != nil
}

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// watchEvery is how long the processes of a script can go unseen together beyond what
// the kernel holds each of them to. To look at files takes longer, so it is seldom.
const (
	watchEvery  = 25 * time.Millisecond
	folderEvery = 4 // looks
)

// usage is what processes take.
type usage struct {
	cpu    time.Duration
	memory int64
}

// watch ends the job when its processes together, or its scratch folder, go beyond a
// limit; resource limits of the kernel know single processes and files only.
func (j *job) watch(ended <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	all := processes{own: map[string]time.Duration{}}
	for look := 1; ; look++ {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		now := all.look(j.cmd.Process.Pid) // that itself, bwrap or the keeper, is not the script's
		j.seen.cpu, j.seen.memory = max(j.seen.cpu, now.cpu), max(j.seen.memory, now.memory)
		switch {
		case now.memory > j.limits.MemoryBytes:
			cancel(exceeded(Memory))
		case j.sockets() > j.limits.maxSockets():
			cancel(exceeded(Memory)) // in their buffers
		case now.cpu > j.limits.CPU:
			cancel(exceeded(CPUTime))
		case look%folderEvery == 0 && j.full():
			cancel(exceeded(Scratch))
		}
	}
}

// processes has the time that each process took by itself when it was last seen, by its
// id and when it began, and the sum.
type processes struct {
	own map[string]time.Duration
	sum time.Duration
}

// look returns what the descendants of a process take. Of their time it knows two things
// that may both be too little: what those that are there took with the children that they
// waited for, and what all that were ever seen took. Whoever ignores SIGCHLD waits for none.
func (p *processes) look(pid int) usage {
	var there usage
	for _, child := range descendants(strconv.Itoa(pid)) {
		there.cpu += p.time(child)
		there.memory += memory(child)
	}
	there.cpu = max(there.cpu, p.sum)
	return there
}

// descendants lists what a process started or adopted, and so on. What has ended
// meanwhile is left out.
func descendants(pid string) (pids []string) {
	for _, child := range children(pid) {
		pids = append(append(pids, child), descendants(child)...)
	}
	return pids
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

// time reads what proc(5) says of one process and the children that it waited for.
func (p *processes) time(pid string) time.Duration {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // behind the name, which may hold anything
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
	if !known {
		endFirst(pid)
	}
	p.own[key] = own
	p.sum += own - before
	return own + ticks[2] + ticks[3]
}

// memory is what one process has, its page tables included, which can be most of it.
func memory(pid string) int64 {
	if bytes := memoryIn("/proc/" + pid + "/status"); bytes > 0 {
		return bytes
	}
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/status") // the first one has ended
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

package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// cores says where processes run; the zero value is anywhere.
type cores struct {
	replicas [][]int // by replica
	load     []int   // load, stand-ins and Redis
	shared   bool    // there are too few for each to have its own
}

func (c cores) of(replica int) []int {
	if len(c.replicas) == 0 {
		return nil
	}
	return c.replicas[replica%len(c.replicas)]
}

// shareOut gives each replica a core and the rest to the load. With too few, the
// replicas go round all of them and the load has the last.
func shareOut(allowed []int, replicas int) cores {
	c := cores{shared: len(allowed) <= replicas}
	for i := range replicas {
		c.replicas = append(c.replicas, []int{allowed[i%len(allowed)]})
	}
	c.load = allowed[min(replicas, len(allowed)-1):]
	return c
}

// shareCores puts this program, and with it what it starts, on the load's cores.
func (r *rig) shareCores(ctx context.Context) cores {
	if !r.pin {
		return cores{}
	}
	allowed := allowedCores()
	if _, err := exec.LookPath("taskset"); err != nil || len(allowed) == 0 {
		r.note("taskset or /proc is missing: nothing is kept on a core of its own")
		return cores{}
	}
	c := shareOut(allowed, r.replicas)
	out, err := exec.CommandContext(ctx, "taskset", "-a", "-c", "-p", coreList(c.load), strconv.Itoa(os.Getpid())).CombinedOutput()
	if err != nil {
		r.note("nothing is kept on a core of its own: %v: %s", err, out)
		return cores{}
	}
	runtime.GOMAXPROCS(len(c.load))
	if c.shared {
		r.note("%d cores are too few for %d replicas and the load: some share one, so a sum says little", len(allowed), r.replicas)
	}
	return c
}

// allowedCores are the cores that this program may run on.
func allowedCores() []int {
	raw, _ := os.ReadFile("/proc/self/status") // not there: none are known
	for line := range strings.Lines(string(raw)) {
		if ranges, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return readCores(strings.TrimSpace(ranges))
		}
	}
	return nil
}

// readCores reads a list such as 0-3,8; nil when it is none.
func readCores(ranges string) []int {
	var all []int
	for part := range strings.SplitSeq(ranges, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		low, err := strconv.Atoi(from)
		high, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil {
			return nil
		}
		for core := low; core <= high; core++ {
			all = append(all, core)
		}
	}
	return slices.Clip(all)
}

func coreList(all []int) string {
	texts := make([]string, len(all))
	for i, core := range all {
		texts[i] = strconv.Itoa(core)
	}
	return strings.Join(texts, ",")
}

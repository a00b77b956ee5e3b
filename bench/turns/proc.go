package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc, the same on all of Linux' platforms.
const tick = 10 * time.Millisecond

// tree is the process with its descendants.
func tree(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i])) // the pattern is right
		for _, file := range files {
			raw, _ := os.ReadFile(file) // gone: it has no children
			for _, field := range strings.Fields(string(raw)) {
				if child, err := strconv.Atoi(field); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

// treeCPU is the CPU time of a process and its descendants; 0 without /proc.
func treeCPU(pid int) (sum time.Duration) {
	for _, one := range tree(pid) {
		sum += processCPU(one)
	}
	return sum
}

// processCPU is the user and system time of the process alone; 0 without /proc.
func processCPU(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is the name in brackets, with any character in it.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0
	}
	var sum time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		ticks, _ := strconv.ParseInt(field, 10, 64) // a number, by proc(5)
		sum += time.Duration(ticks) * tick
	}
	return sum
}

// treePeakMiB is the sum of the peak resident sizes of the tree; 0 without /proc.
func treePeakMiB(pid int) (sum float64) {
	for _, one := range tree(pid) {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", one)) // gone: nothing
		for line := range strings.Lines(string(raw)) {
			if size, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 64) // a number, by proc(5)
				sum += kib / 1024
			}
		}
	}
	return sum
}

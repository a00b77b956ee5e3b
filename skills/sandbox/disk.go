//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxEntries bounds how long a look at a scratch folder takes, and what the kernel has to
// remember of it.
const maxEntries = 5000

// maxHidden is how many times in a row files may be out of sight: those of a process are
// for a moment when it becomes another.
const maxHidden = 3

// awaitFull waits until there is too much on the disk, or there are too many sockets, and
// returns the code to end with. It is the keeper's part since the keeper is the same user as
// the script, which may be another one than the bot's.
func (c cell) awaitFull() int {
	for hidden := 0; hidden < maxHidden; {
		time.Sleep(folderEvery * watchEvery)
		held, sockets, seen := heldBy(descendants(strconv.Itoa(os.Getpid())), c.Limits.FileBytes)
		if sockets > c.Limits.maxSockets() {
			return overSockets
		}
		if overfull(c.Scratch, c.Limits.ScratchBytes-held) {
			return overDisk
		}
		if hidden++; seen {
			hidden = 0
		}
	}
	return overDisk
}

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

// heldBy adds up the files that are deleted and in use, and counts the sockets. Of a file that
// is only mapped the kernel does not tell the size; it counts as the largest. seen is false when
// some process did not let its files be seen.
func heldBy(pids []string, largest int64) (size int64, sockets int, seen bool) {
	open, mapped := map[uint64]int64{}, map[uint64]bool{}
	connected := map[uint64]bool{}
	seen = true
	for _, pid := range pids {
		tasks, _ := filepath.Glob("/proc/" + pid + "/task/*") // a thread can have files of its own
		for _, task := range tasks {
			files, err := os.ReadDir(task + "/fd")
			if errors.Is(err, fs.ErrPermission) && memoryIn(task+"/status") > 0 { // else it has ended and has none
				seen = false
			}
			for _, file := range files {
				addHeld(open, connected, task+"/fd/"+file.Name())
			}
			addHeld(open, connected, task+"/exe")
		}
		for _, task := range tasks {
			if addMapped(mapped, task) { // else it was the first thread, and has ended
				break
			}
		}
	}
	for inode := range mapped {
		if _, ok := open[inode]; !ok {
			size += largest
		}
	}
	for _, bytes := range open {
		size += bytes
	}
	return size, len(connected), seen
}

// addHeld takes in what an open file is, if it is deleted or a socket.
func addHeld(open map[uint64]int64, connected map[uint64]bool, link string) {
	info, err := os.Stat(link)
	if err != nil {
		return
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
	case info.Mode()&fs.ModeSocket != 0:
		connected[stat.Ino] = true // the same one may be open several times
	case info.Mode().IsRegular() && stat.Nlink == 0:
		open[stat.Ino] = stored(info)
	}
}

func addMapped(mapped map[uint64]bool, task string) (read bool) {
	maps, _ := os.ReadFile(task + "/maps")
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); len(fields) > 5 && strings.HasSuffix(line, " (deleted)\n") {
			inode, _ := strconv.ParseUint(fields[4], 10, 64)
			mapped[inode] = true
		}
	}
	return len(maps) > 0
}

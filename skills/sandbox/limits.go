package sandbox

import (
	"cmp"
	"errors"
	"time"
)

// Limits bound one run. A zero field takes the value of the [Config], and there the
// default.
type Limits struct {
	Wall         time.Duration // 30 s
	CPU          time.Duration // of all processes together; 10 s
	MemoryBytes  int64         // of all processes together; 512 MiB
	ScratchBytes int64         // in the scratch folder; 64 MiB
	FileBytes    int64         // in one file; 32 MiB
	Processes    int           // threads count; 32
	OpenFiles    int           // of one process; 64
	OutputBytes  int           // kept of each of stdout and stderr; 64 KiB
}

// defaults are for small programs that transform what they are given.
var defaults = Limits{
	Wall:         30 * time.Second,
	CPU:          10 * time.Second,
	MemoryBytes:  512 << 20,
	ScratchBytes: 64 << 20,
	FileBytes:    32 << 20,
	Processes:    32,
	OpenFiles:    64,
	OutputBytes:  64 << 10,
}

const (
	maxPrinted = 64 << 20 // more than this, kept or not, ends a program
	maxInput   = 1 << 20  // of arguments and stdin
	maxArgs    = 64 << 10
)

// maxSockets bounds the sockets of all processes together. What was sent and not yet received
// is the kernel's memory, which no limit counts: up to 0.4 MB for each socket. Programs need few
// of them. The most hungry one known is node, which has six for each child that it talks to.
func (l Limits) maxSockets() int { return 8 * l.Processes }

func (l Limits) or(other Limits) Limits {
	return Limits{
		Wall:         cmp.Or(l.Wall, other.Wall),
		CPU:          cmp.Or(l.CPU, other.CPU),
		MemoryBytes:  cmp.Or(l.MemoryBytes, other.MemoryBytes),
		ScratchBytes: cmp.Or(l.ScratchBytes, other.ScratchBytes),
		FileBytes:    cmp.Or(l.FileBytes, other.FileBytes),
		Processes:    cmp.Or(l.Processes, other.Processes),
		OpenFiles:    cmp.Or(l.OpenFiles, other.OpenFiles),
		OutputBytes:  cmp.Or(l.OutputBytes, other.OutputBytes),
	}
}

func (l Limits) check() error {
	if l.Wall < 0 || l.CPU < 0 || l.MemoryBytes < 0 || l.ScratchBytes < 0 || l.FileBytes < 0 ||
		l.Processes < 0 || l.OpenFiles < 0 || l.OutputBytes < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

// cpuSeconds is what the kernel holds each single process to, a second behind the limit
// for all of them.
func (l Limits) cpuSeconds() uint64 { return uint64((l.CPU+time.Second-1)/time.Second) + 1 }

package knowledge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// HelperConfig configures a [Helper]. Command is required; the zero value of every other field is a
// working default.
type HelperConfig struct {
	// Command is a program and its arguments. All that the program does is to call [ServeHelper] with
	// its standard input and output.
	Command []string
	// AtOnce is how many children there may be. Further files wait, in order. 0: 2.
	AtOnce int
	// MemoryBytes is how much memory a child may take. It gets less where a control group of Linux leaves
	// less to all children together. 0: 512 MiB.
	MemoryBytes int64
}

// Helper reads each file in a child process of its own, because the sizes in a file are chosen by whoever
// wrote it, and a parser that believes them may take all memory or never end. The child has no environment
// and no open files but its standard input and output. Its time, memory and output are limited; what dies
// or is killed there is a file that cannot be read, and nothing else happens. It is safe for concurrent use.
type Helper struct {
	cfg   HelperConfig
	slots chan struct{} // has a token for each child
	alone chan struct{} // has a token while there is memory for one child only
	most  time.Duration // that a child may take

	mu     sync.Mutex
	killed map[[sha256.Size]byte]killed // files that ended a child not long ago
}

// NewHelper returns a Helper. It starts nothing. Its error says that there is no Command.
func NewHelper(cfg HelperConfig) (*Helper, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, errors.New("knowledge helper: no Command")
	}
	if cfg.AtOnce < 0 || cfg.MemoryBytes < 0 {
		return nil, errors.New("knowledge helper: AtOnce or MemoryBytes is negative")
	}
	cfg.AtOnce, cfg.MemoryBytes = cmp.Or(cfg.AtOnce, 2), cmp.Or(cfg.MemoryBytes, 512<<20)
	return &Helper{
		cfg: cfg, slots: make(chan struct{}, cfg.AtOnce), alone: make(chan struct{}, 1),
		most: maxFileTime, killed: map[[sha256.Size]byte]killed{},
	}, nil
}

const (
	leastMemory = 96 << 20 // what a child needs to begin with: Go takes 64 MiB at a time
	maxAnswer   = 32 << 20 // more than the JSON of a text that is taken
	// lookEvery is how long a child can exceed its memory where the system does not limit it.
	lookEvery = 50 * time.Millisecond
	// maxKilled is how many files that ended a child are remembered, and killedFor how long: whoever sends one
	// a hundred times costs one child, and a busy machine is no verdict for ever.
	maxKilled  = 1000
	killedFor  = time.Minute
	exitMemory = 3 // the exit code of a child that found itself too large
)

// killed is why and when a file ended a child.
type killed struct {
	why refusal
	at  time.Time
}

const (
	tooMuchMemory = refusal("takes more memory to read than a file may")
	broke         = refusal("is damaged: the reader of its format crashed")
)

var (
	errTooMuchMemory = errors.New("the child has too much memory")
	errTooMuchOutput = errors.New("the child writes too much")
)

// helperJob is the first line of a child's input. The file follows.
type helperJob struct {
	Name   string
	Memory int64
	JPEGs  bool `json:",omitempty"` // of scans are wanted
}

// helperAnswer is a child's output.
type helperAnswer struct {
	Refused refusal `json:",omitempty"`
	Read    *wireRead
}

// wireRead is a [read] in the answer of a child.
type wireRead struct {
	Title, URL string
	Updated    time.Time
	Access     []string
	Pages      int
	Left       []string
	Pictures   int    `json:",omitempty"`
	Scans      []scan `json:",omitempty"`
	Blocks     []wireBlock
}

type wireBlock struct {
	Kind  blockKind
	Level int    `json:",omitempty"`
	Head  string `json:",omitempty"`
	Text  string
}

// read reads a file in a child. Its error is a [refusal], ctx's, or one of the machine's.
func (h *Helper) read(ctx context.Context, name string, data []byte, jpegs bool) (*read, error) {
	sum := sha256.Sum256(data)
	h.mu.Lock()
	last, known := h.killed[sum]
	h.mu.Unlock()
	if known && time.Since(last.at) < killedFor {
		return nil, last.why
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	memory := h.cfg.MemoryBytes
	if left, limited := memoryLeft(); limited && left/int64(h.cfg.AtOnce) < leastMemory {
		select { // there is memory for one
		case h.alone <- struct{}{}:
			defer func() { <-h.alone }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		memory = min(memory, left)
	} else if limited {
		memory = min(memory, left/int64(h.cfg.AtOnce))
	}
	if memory < leastMemory {
		return nil, errors.New("read a file in a child process: the control group has no memory left for it")
	}
	r, err := h.run(ctx, helperJob{name, memory, jpegs}, data)
	if why, ok := errors.AsType[refusal](err); ok && (why == tooMuchMemory || why == tooSlow || why == broke) {
		h.mu.Lock()
		if len(h.killed) >= maxKilled {
			clear(h.killed)
		}
		h.killed[sum] = killed{why, time.Now()}
		h.mu.Unlock()
	}
	return r, err
}

func (h *Helper) run(outer context.Context, job helperJob, data []byte) (*read, error) {
	runtime.LockOSThread() // Linux kills the child when this thread ends
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	deadline := time.AfterFunc(h.most, func() { cancel(tooSlow) })
	defer deadline.Stop()

	cmd := exec.CommandContext(ctx, h.cfg.Command[0], h.cfg.Command[1:]...) //nolint:gosec // the program's author names it
	cmd.Env = []string{}                                                    // nil would pass our own
	output := &cappedOutput{full: func() { cancel(errTooMuchOutput) }}
	cmd.Stdout = output
	cmd.WaitDelay = time.Second // for what it started, and left behind with its output open
	apart(cmd)
	first, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("read a file in a child process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("read a file in a child process: %w", err)
	}
	limit(cmd.Process.Pid, job.Memory) // it has not seen a byte of the file yet
	var beside sync.WaitGroup
	over := make(chan struct{})
	beside.Go(func() {
		_, err := io.Copy(input, io.MultiReader(bytes.NewReader(append(first, '\n')), bytes.NewReader(data)))
		_ = errors.Join(err, input.Close()) // a child that ends early says why
	})
	beside.Go(func() {
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-over:
				return
			case <-look.C:
			}
			if memoryOf(cmd.Process.Pid) > job.Memory {
				cancel(errTooMuchMemory)
			}
		}
	})
	err = cmd.Wait()
	close(over)
	beside.Wait()
	killAll(cmd)
	return answerOf(outer, context.Cause(ctx), err, cmd.ProcessState, output.kept)
}

// answerOf is what a child found, or why it found nothing.
func answerOf(outer context.Context, cause, failed error, ended *os.ProcessState, output []byte) (*read, error) {
	switch {
	case outer.Err() != nil:
		return nil, outer.Err()
	case errors.Is(cause, tooSlow), tookAllTime(ended):
		return nil, tooSlow
	case errors.Is(cause, errTooMuchMemory), ended.ExitCode() == exitMemory:
		return nil, tooMuchMemory
	case errors.Is(cause, errTooMuchOutput):
		return nil, tooMuchText
	case ended.ExitCode() == 2: // what Go's runtime ends with; a panic was recovered, so it ran out of memory
		return nil, tooMuchMemory
	case failed != nil:
		return nil, broke
	}
	var a helperAnswer
	if err := json.Unmarshal(output, &a); err != nil || a.Read == nil && a.Refused == "" {
		return nil, broke
	}
	if a.Refused != "" {
		return nil, a.Refused
	}
	r := &read{
		title: a.Read.Title, url: a.Read.URL, updated: a.Read.Updated, access: a.Read.Access, pages: a.Read.Pages, left: a.Read.Left,
		pictures: a.Read.Pictures, scans: a.Read.Scans,
	}
	for _, b := range a.Read.Blocks {
		r.blocks = append(r.blocks, block{kind: b.Kind, level: b.Level, head: b.Head, text: b.Text})
	}
	return r, nil
}

// cappedOutput keeps the output of a child.
type cappedOutput struct {
	kept []byte
	full func()
}

func (o *cappedOutput) Write(p []byte) (int, error) {
	if len(o.kept)+len(p) > maxAnswer {
		o.full()
		return 0, errTooMuchOutput
	}
	o.kept = append(o.kept, p...)
	return len(p), nil
}

// ServeHelper is all that the program of a [Helper] does: it reads one file from in and writes its text to
// out, in a form of its own. It lowers the memory limit of Go's runtime for the whole process.
func ServeHelper(in io.Reader, out io.Writer) error {
	from := bufio.NewReader(in)
	first, err := from.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	var job helperJob
	if err := json.Unmarshal(first, &job); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	debug.SetMaxStack(64 << 20)
	debug.SetMemoryLimit(job.Memory * 3 / 4)
	go endWhenLarge(job.Memory)
	data, err := io.ReadAll(io.LimitReader(from, maxFileBytes+1))
	if err != nil {
		return fmt.Errorf("read the file: %w", err)
	}
	answer := helperAnswer{}
	r, _, err := readFile(context.Background(), nil, job.Name, data, job.JPEGs)
	if err == nil {
		for i := range r.scans {
			if !job.JPEGs {
				r.scans[i].JPEG = nil
			}
		}
		answer.Read = &wireRead{r.title, r.url, r.updated, r.access, r.pages, r.left, r.pictures, r.scans, nil}
		for _, b := range r.blocks {
			b = b.done()
			answer.Read.Blocks = append(answer.Read.Blocks, wireBlock{b.kind, b.level, b.head, b.text})
		}
	} else if !errors.As(err, &answer.Refused) {
		answer.Refused = unreadable
	}
	to := bufio.NewWriter(out)
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	return errors.Join(e.Encode(answer), to.Flush())
}

// endWhenLarge ends the process when it has more memory than it may, for systems that do not limit it.
func endWhenLarge(most int64) {
	have := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for {
		time.Sleep(lookEvery)
		metrics.Read(have)
		if have[0].Value.Uint64()-have[1].Value.Uint64() > uint64(max(most, 0)) {
			os.Exit(exitMemory)
		}
	}
}

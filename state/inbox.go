package state

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// What an inbox may say, for errors.Is, beside [ErrUnavailable], [ErrConflict] and [ErrTooLarge].
var (
	// ErrFull: too many items wait, in the lane or in all. Later it may be taken.
	ErrFull = errors.New("the inbox is full")
	// ErrLost: the lane is another replica's by now, or may be. Nothing may be done for it any more.
	ErrLost = errors.New("the lane was lost")
	// ErrNoTurn: no turn of this id is parked.
	ErrNoTurn = errors.New("no such turn")
)

// InboxConfig says how an inbox works. Its zero value is ready to use.
type InboxConfig struct {
	// Lease is how long a replica that is gone keeps a lane. 0: 6 seconds.
	Lease time.Duration
	// Patience is how long a call tries while Redis is unavailable. 0: 8 seconds.
	Patience time.Duration
	// DuplicateFor is how long a delivery, and the answer to it, is remembered. 0: 30 minutes.
	DuplicateFor time.Duration
	// MaxWaiting bounds the items in all lanes: those of this inbox, and those of others as
	// they were last counted, up to a second or so ago. 0: 10000.
	MaxWaiting int
	// MaxWaitingPerLane bounds the items in one lane. 0: 256.
	MaxWaitingPerLane int
	// Name of this replica, for operators. "": made up.
	Name string
	// Log takes what [Inbox.Run] meets. The zero Logger is silent.
	Log zerolog.Logger
}

func (c InboxConfig) withDefaults() InboxConfig {
	c.Lease = cmp.Or(c.Lease, 6*time.Second)
	c.Patience = cmp.Or(c.Patience, 8*time.Second)
	c.DuplicateFor = cmp.Or(c.DuplicateFor, 30*time.Minute)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 10000)
	c.MaxWaitingPerLane = cmp.Or(c.MaxWaitingPerLane, 256)
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	return c
}

func (c InboxConfig) validate() error {
	var errs []error
	if c.Lease < 50*time.Millisecond {
		errs = append(errs, fmt.Errorf("Lease %v is under 50ms", c.Lease))
	}
	if c.Patience < 0 {
		errs = append(errs, fmt.Errorf("Patience %v is negative", c.Patience))
	}
	if c.DuplicateFor < time.Second {
		errs = append(errs, fmt.Errorf("DuplicateFor %v is under a second", c.DuplicateFor))
	}
	if c.MaxWaiting < 0 || c.MaxWaitingPerLane < 0 {
		errs = append(errs, fmt.Errorf("MaxWaiting %d or MaxWaitingPerLane %d is negative", c.MaxWaiting, c.MaxWaitingPerLane))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("inbox config: %w", err)
	}
	return nil
}

// Inbox keeps what came in until it is done with, in Redis: a queue for each
// [Lane], of which one replica works at a time, under a lease that others take
// over when the replica is gone. It is safe for concurrent use. All calls try
// for [InboxConfig.Patience] while Redis is unavailable, and may be repeated
// after [ErrUnavailable]: what arrived all the same does not happen twice.
type Inbox struct {
	r       *Redis
	cfg     InboxConfig
	owner   string // of this process
	lease   any    // ms, as an argument
	started time.Time
	parts   [partitions]partitionKeys
	callers atomic.Uint64

	backlog                     backlog
	takeovers, lost, duplicates atomic.Uint64

	mu       sync.Mutex
	holds    map[*Hold]struct{}
	renewing [partitions]bool // by number of the trip
	closed   chan struct{}
	ending   sync.Once
	wg       sync.WaitGroup
}

// Inbox returns the inbox of this Redis. Give each process one, and Close it
// before the Redis.
func (r *Redis) Inbox(cfg InboxConfig) (*Inbox, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	i := &Inbox{
		r: r, cfg: cfg,
		owner:   cfg.Name + "/" + strings.ToLower(rand.Text()[:8]),
		lease:   strconv.FormatInt(cfg.Lease.Milliseconds(), 10),
		started: time.Now(),
		holds:   map[*Hold]struct{}{},
		closed:  make(chan struct{}),
	}
	for p := range i.parts {
		i.parts[p] = newPartitionKeys(p)
	}
	i.wg.Go(i.renew)
	return i, nil
}

// Close ends the renewal of leases: what is still held is taken over by others
// once its lease has run out. Calls that wait for Redis give up.
func (i *Inbox) Close() {
	i.ending.Do(func() { close(i.closed) })
	i.wg.Wait()
}

// InboxStats is how an inbox fares. The counters count from its start.
type InboxStats struct {
	Waiting    int    // items in all lanes of all replicas, those at work among them; others' as last counted
	Held       int    // lanes that this replica has
	Takeovers  uint64 // lanes taken from a replica whose lease ran out
	Lost       uint64 // lanes that another replica took from this one
	Duplicates uint64 // deliveries that were known
}

// Stats may be called at any time and costs nothing.
func (i *Inbox) Stats() InboxStats {
	i.mu.Lock()
	defer i.mu.Unlock()
	return InboxStats{
		Waiting: i.backlog.size(), Held: len(i.holds),
		Takeovers: i.takeovers.Load(), Lost: i.lost.Load(), Duplicates: i.duplicates.Load(),
	}
}

// now is the time of this process, which no one can set back.
func (i *Inbox) now() time.Duration { return time.Since(i.started) }

// do runs calls, and tries again while Redis is unavailable. A nil error means
// that each has a reply, or an err which another try would not help. Calls
// are repeated from the first that has neither on.
func (i *Inbox) do(ctx context.Context, doing string, calls ...*call) error {
	bounded, cancel := context.WithTimeout(ctx, i.cfg.Patience)
	defer cancel()
	for try := 0; ; try++ {
		i.r.exec(bounded, calls)
		if calls = unanswered(calls); len(calls) == 0 {
			return nil
		}
		if errors.Is(calls[0].err, redis.ErrClosed) || !i.pause(bounded, try) {
			return explain(ctx, doing, calls[0].err)
		}
	}
}

func unanswered(calls []*call) []*call {
	for i, c := range calls {
		if c.err != nil && !c.once && (isUnavailable(c.err) || isMoved(c.err)) {
			return calls[i:]
		}
	}
	return nil
}

// pause waits a little longer each time, and reports whether to try again.
func (i *Inbox) pause(ctx context.Context, try int) bool {
	wait := min(10*time.Millisecond<<min(try, 10), 400*time.Millisecond)
	timer := time.NewTimer(wait/2 + mathrand.N(wait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-i.closed:
	}
	return false
}

// maxItem bounds the body of an item, an answer and a timer, as maxJournal does a
// journal: room for a document of its largest and something around it.
func (i *Inbox) maxItem() int    { return i.r.cfg.MaxBytes + i.r.cfg.MaxBytes/2 }
func (i *Inbox) maxJournal() int { return 2 * i.r.cfg.MaxBytes }

func (i *Inbox) fits(lane Lane, bytes, limit int) error {
	if bytes > limit {
		return &TooLargeError{Key: lane.key, Size: bytes, Limit: limit}
	}
	return nil
}

// caller names a call that may take a lane: when Redis is asked again, since an
// answer got lost, it gives the lane to that call and to no other of this process.
func (i *Inbox) caller() string {
	return i.owner + "." + strconv.FormatUint(i.callers.Add(1), 10)
}

// checkTurn refuses ids that would not be found again.
func checkTurn(turn string) error {
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if turn == "" || len(turn) > maxIDBytes || strings.ContainsFunc(turn, bad) {
		return fmt.Errorf("%w: %.80q is no id of a turn", ErrKey, turn)
	}
	return nil
}

// callMemory is for how many seconds a call is remembered that may be repeated.
func (i *Inbox) callMemory() int64 { return seconds(4*i.cfg.Patience + time.Second) }

package state

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// readGroup is the consumer group of the ready streams, and the one consumer
	// in it: nothing is left pending, so nobody needs to know who read what, and
	// replicas that come and go leave nothing behind.
	readGroup = "planbot"

	// readBlock is how long a read waits for a lane to be ready.
	readBlock = 2 * time.Second

	// readCount is how many lanes of one stream a read takes: few, since the reader
	// may find room for one only, and the others wait then.
	readCount = 4
)

// Run reads which lanes are ready, and looks after those whose time has come,
// until ctx ends. It calls ready for each lane, in goroutines of its own. Ready
// calls [Inbox.Claim]; it may block as long as there is no room for more work,
// and other replicas read meanwhile. Redis being away is no error: Run goes on
// when it is back. Leases are renewed with or without Run.
func (i *Inbox) Run(ctx context.Context, ready func(Lane)) error {
	client := i.r.reader()
	var wg sync.WaitGroup
	wg.Go(func() { i.sweep(ctx) })
	wg.Go(func() {
		<-ctx.Done()
		_ = client.Close() // ends the reads that wait
	})
	for _, s := range i.streamsFor(client) {
		r := &reader{in: i, client: client, streams: s, ready: ready}
		wg.Go(func() { r.run(ctx) })
	}
	wg.Wait()
	return nil
}

// streamsFor says which ready streams are read together: on a cluster each by
// itself, for their partitions may lie on several nodes.
func (i *Inbox) streamsFor(client redis.UniversalClient) [][]string {
	all := make([]string, partitions)
	for p := range all {
		all[p], _ = i.parts[p].ready.(string)
	}
	if _, cluster := client.(*redis.ClusterClient); !cluster {
		return [][]string{all}
	}
	each := make([][]string, partitions)
	for p := range each {
		each[p] = all[p : p+1]
	}
	return each
}

// reader reads some of the ready streams.
type reader struct {
	in      *Inbox
	client  redis.UniversalClient
	streams []string
	ready   func(Lane)
	read    map[string][]string // ids of entries, by stream, that can be deleted
}

func (r *reader) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		changed := r.in.changed()
		streams, err := r.next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures++
			r.failed(ctx, err, failures)
			continue
		}
		if failures > 0 {
			failures = 0
			r.in.cfg.Log.Info().Msg("the inbox is read again")
		}
		r.hand(ctx, streams)
		if len(streams) == 0 {
			r.in.sleepUntil(ctx, changed, maxSleep)
		}
	}
}

// next deletes what was read before and waits for more, in one round trip.
func (r *reader) next(ctx context.Context) ([]redis.XStream, error) {
	ctx, cancel := context.WithTimeout(ctx, readBlock+4*time.Second)
	defer cancel()
	pipe := r.client.Pipeline()
	for stream, ids := range r.read {
		pipe.XDel(ctx, stream, ids...)
	}
	args := make([]string, 0, 2*len(r.streams))
	args = append(args, r.streams...)
	for range r.streams {
		args = append(args, ">")
	}
	reply := pipe.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: readGroup, Consumer: readGroup, Streams: args, Count: readCount, Block: readBlock, NoAck: true,
	})
	_, err := pipe.Exec(ctx)
	if reply.Err() == nil && reply.Val() == nil && err != nil {
		return nil, err
	}
	if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	r.read = nil
	return reply.Val(), nil
}

func (r *reader) hand(ctx context.Context, streams []redis.XStream) {
	r.read = make(map[string][]string, len(streams))
	for _, stream := range streams {
		for _, entry := range stream.Messages {
			r.read[stream.Stream] = append(r.read[stream.Stream], entry.ID)
			path, _ := entry.Values["lane"].(string)
			lane, err := parseLane(path)
			if err != nil {
				r.in.cfg.Log.Error().Err(err).Str("stream", stream.Stream).Msg("an entry that is not the inbox's")
				continue
			}
			if ctx.Err() != nil {
				return // the others find them in the set of leases
			}
			r.ready(lane)
		}
	}
}

// failed makes the groups where they are missing, which costs no pause, and else
// waits. It logs the first failure of a row.
func (r *reader) failed(ctx context.Context, err error, failures int) {
	if redis.HasErrorPrefix(err, "NOGROUP") {
		if err = r.makeGroups(ctx); err == nil && failures < 3 {
			return
		}
	}
	if failures == 2 && err != nil {
		r.in.cfg.Log.Warn().Err(err).Msg("the inbox cannot be read now")
	}
	r.in.pause(ctx, failures)
}

// makeGroups makes the groups from the streams' beginnings: what was put there
// before is read, too.
func (r *reader) makeGroups(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.in.r.cfg.Timeout)
	defer cancel()
	pipe := r.client.Pipeline()
	for _, stream := range r.streams {
		pipe.XGroupCreateMkStream(ctx, stream, readGroup, "0")
	}
	cmds, err := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
			return err
		}
	}
	if len(cmds) == 0 {
		return err
	}
	return nil
}

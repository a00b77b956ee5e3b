//go:build linux

package chaos_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// restoredBackup does what docs/deploy.md says of a backup: it is taken while turns run, and
// restored into an empty server. The bots go on from there. Turns that ran then run again, with their
// replies, and what came later is as if it had never been said.
func restoredBackup(t *testing.T) {
	t.Parallel()
	const think, talks = 3 * time.Second, 4
	const before, running, after, new, shown = 1, 2, 3, 4, 5 // messages of each conversation
	w := newWorld(t, circumstances{thinks: [2]time.Duration{think, think}})
	say := func(n int, as kind) (all []*delivery) {
		for talk := range talks {
			all = append(all, w.say(key{talk, n}, as))
		}
		return all
	}
	answered := func(all []*delivery) {
		late := time.After(answeredWithin)
		for _, d := range all {
			select {
			case <-d.answered:
			case <-late:
				t.Fatalf("%s is not answered", d.key)
			}
		}
	}
	answered(say(before, note))
	inFlight := say(running, note)
	w.redis.backUp(t)
	answered(inFlight)
	answered(say(after, note))

	w.breaks("everything but a backup is lost", func() {
		for _, r := range w.replicas {
			r.current().kill()
		}
		w.redis.restore(t)
		for _, r := range w.replicas {
			r.start(t)
		}
	})
	answered(say(new, note)) // behind those that run again
	answered(say(shown, show))
	w.pass(quiet)

	s := w.story()
	times := map[string]int{}
	for _, p := range s.posts {
		times[p.answers()]++
	}
	replies := s.replies()
	for talk := range talks {
		for n, want := range map[int]int{before: 1, running: 2, after: 1, new: 1, shown: 1} {
			if k := (key{talk, n}); times[k.id()] != want {
				t.Errorf("%s was answered %d times, want %d", k, times[k.id()], want)
			}
		}
		want := []string{key{talk, before}.String(), key{talk, running}.String(), key{talk, new}.String()}
		if got := readLists(joined(replies[key{talk, shown}.id()]))[once]; !slices.Equal(got, want) {
			t.Errorf("the list of %s holds %v, want %v", conversation(talk), got, want)
		}
	}
	for _, c := range s.calls {
		if want := []key{{c.talk, before}, {c.talk, running}}; c.n == new && !slices.Equal(c.history, want) {
			t.Errorf("asked of %s the model was told of %v, want %v", c.key, c.history, want)
		}
	}
	if n := w.logged("dead letter"); n > 0 {
		t.Errorf("%d dead letters", n)
	}
}

// backup is the name of the copy.
const backup = "backup.rdb"

// backUp takes a snapshot while the server works, and copies it.
func (r *redis) backUp(t *testing.T) {
	t.Helper()
	r.until(t, "BGSAVE", "Background saving started")
	r.until(t, "INFO persistence", "rdb_bgsave_in_progress:0")
	r.until(t, "INFO persistence", "rdb_last_bgsave_status:ok")
	if err := os.Rename(filepath.Join(r.dir, "dump.rdb"), filepath.Join(r.dir, backup)); err != nil {
		t.Fatal(err)
	}
}

// restore starts a server on a backup alone. With an append-only file switched on it would ignore
// the backup and start empty: so that is written first.
func (r *redis) restore(t *testing.T) {
	t.Helper()
	r.kill()
	if err := os.RemoveAll(filepath.Join(r.dir, "appendonlydir")); err != nil {
		t.Fatal(err)
	}
	r.startWith(t, "--appendonly", "no", "--dbfilename", backup)
	r.until(t, "CONFIG SET appendonly yes", "OK")
	r.until(t, "INFO persistence", "aof_rewrite_in_progress:0")
	r.until(t, "INFO persistence", "aof_rewrite_scheduled:0")
	r.kill()
	r.start(t)
}

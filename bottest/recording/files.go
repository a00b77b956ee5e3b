package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/internal/scrub"
)

// head is the first line of each file.
const head = "# What people said is in here. Names, ids and secrets have stand-ins, as far as they were found: look before you share it.\n"

// flush writes the files of the conversations that have changed. Those that it does not come
// to before ctx ends are as changed as before, and it reports how many.
func (r *Recorder) flush(ctx context.Context) (left int) {
	changed, fresh := r.changes()
	learn(fresh, r.scrub)
	for id, c := range changed {
		name := cmp.Or(r.scrub.ID(scrub.Conversation, id), "elsewhere")
		files, err := r.files(ctx, name, c)
		if ctx.Err() != nil {
			r.putBack(id)
			left++
			continue
		}
		for ending, data := range files {
			err = errors.Join(err, r.replace(r.prefix+name+ending, data))
		}
		if err != nil {
			r.complain("files", err)
		}
		if c.tooLong {
			r.complain("limit of "+name, fmt.Errorf("%s has reached the limit of one conversation, %d bytes: no more of it is written down", r.prefix+name, r.cfg.MaxEach))
		}
	}
	return left
}

// changes are the conversations that have changed, as they are now, and who was met since
// the last time.
func (r *Recorder) changes() (out map[string]*conversation, fresh []met) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, r.met = r.met, nil
	out = map[string]*conversation{}
	for id, c := range r.all {
		if c.dirty {
			c.dirty = false
			out[id] = c.clone()
		}
	}
	return out, fresh
}

func (r *Recorder) putBack(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[id].dirty = true
}

// files are those of a conversation, by the ends of their names. What is learned at the end
// of it, such as a password that is named there, holds for its beginning.
func (r *Recorder) files(ctx context.Context, name string, c *conversation) (out map[string][]byte, err error) {
	for version := -1; version != r.scrub.Version() && err == nil && ctx.Err() == nil; {
		version = r.scrub.Version()
		out, err = r.filesNow(ctx, name, c)
	}
	return out, err
}

// filesNow are the files with the stand-ins that are known by now.
func (r *Recorder) filesNow(ctx context.Context, name string, c *conversation) (map[string][]byte, error) {
	out := map[string][]byte{}
	isWhole := false
	if len(c.steps) > 0 {
		w := &writer{cfg: &r.cfg, scrub: r.scrub}
		list := w.scenarios(ctx, name, c)
		isWhole = !w.added
		raw, err := scenario.Write(list)
		if err != nil {
			return nil, err
		}
		out[".scenario.yaml"] = append([]byte(head), raw...)
	}
	if len(c.calls) > 0 {
		calls := slices.Clone(c.scrubbed.of(ctx, c.calls, r.scrub))
		if len(calls) > 0 && !isWhole {
			calls[0].Foreign = true
		}
		raw, err := cassette.Write(calls)
		if err != nil {
			return nil, err
		}
		out[".cassette.yaml"] = append([]byte(head), raw...)
	}
	return out, nil
}

// scrubbedCalls are calls with stand-ins: those that have them are not looked at again, as long
// as these stay the same. Only the writer uses it.
type scrubbedCalls struct {
	version int
	calls   []cassette.Call
}

// of are the calls with stand-ins, as far as it comes before ctx ends.
func (s *scrubbedCalls) of(ctx context.Context, calls []cassette.Call, by *scrub.Scrubber) []cassette.Call {
	if version := by.Version(); version != s.version {
		s.version, s.calls = version, nil
	}
	for i := len(s.calls); i < len(calls) && ctx.Err() == nil; i++ {
		s.calls = append(s.calls, cassette.Scrubbed(calls[i:i+1], by)...)
	}
	return s.calls
}

// replace writes a file of this recorder whole, or not at all. One that was there before is
// somebody else's.
func (r *Recorder) replace(name string, data []byte) error {
	name = filepath.Join(r.cfg.Dir, name)
	const part = ".part"
	err := os.WriteFile(name+part, data, 0o600)
	if err == nil && !r.own[name] {
		err = claim(name)
		r.own[name] = err == nil
	}
	if err != nil {
		return errors.Join(err, remove(name+part))
	}
	return os.Rename(name+part, name)
}

// claim makes the file, which must not be there.
func claim(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

package inbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// TestHistories plays random histories of calls on the real scripts and on the model, and wants the same
// replies and the same contents of Redis after each. Replicas crash (they call no more), are slow (they call
// with what they knew long ago) and miss answers (they repeat a call). Only the server's clock counts in the
// scripts, so replicas' own cannot matter. -rapid.checks says how many histories.
func TestHistories(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	rapid.Check(t, func(t *rapid.T) { play(t, server, client, scriptTexts()) })
}

func scriptTexts() map[string]string {
	all := map[string]string{}
	for _, name := range strings.Fields("accept claim save finish release beside join wake drop nudge fire") {
		all[name] = script("queue", name).Text()
	}
	for _, name := range strings.Fields("note sweep forget remember") {
		all[name] = script(name).Text()
	}
	return all
}

// step is a call in terms of what is there when it comes, so that a history stays one when parts of it are left out.
type step struct{ Do, Queue, Who, ID, A, B int }

func steps() *rapid.Generator[[]step] {
	small := rapid.IntRange(0, 11)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			rapid.IntRange(0, len(calls)-1).Draw(t, "do"), rapid.IntRange(0, 1).Draw(t, "queue"), small.Draw(t, "who"),
			small.Draw(t, "id"), small.Draw(t, "a"), small.Draw(t, "b"),
		}
	}), 60, 120)
}

const partition = 7

// world is the same history on both sides.
type world struct {
	t       *rapid.T
	server  *miniredis.Miniredis
	client  *redis.Client
	scripts map[string]string
	model   *model
	names   []string
	owners  []string // of all calls that asked for a queue
	made    int      // numbers what has to be unique
	past    []func() // repeat earlier calls
	evicted bool
	joined  map[string][]string // by the present call, by queue
}

func play(t *rapid.T, server *miniredis.Miniredis, client *redis.Client, scripts map[string]string) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server.FlushAll()
	server.SetTime(start)
	w := &world{t: t, server: server, client: client, scripts: scripts, names: []string{"a", "a" + inThread + "b"}}
	w.model = newModel(start.UnixMilli(), w.names...)
	for _, s := range steps().Draw(t, "steps") {
		calls[s.Do](w, s, w.names[s.Queue])
	}
}

func keyOf(name, part string) string { return shared(partition, name+"/"+part) }

func queueArgs(name string) (keys []string) {
	for _, part := range []string{"queue", "records", "waits", "lease"} {
		keys = append(keys, keyOf(name, part))
	}
	for _, part := range []string{"leases", "wake", "depth", "timers", "dead"} {
		keys = append(keys, shared(partition, part))
	}
	return append(keys, shared(partition, "threads"))
}

// call runs a script on both sides.
func (w *world) call(name, script string, moreKeys []string, args []any, want func() any) {
	keys := moreKeys
	if name != "" {
		keys = append(queueArgs(name), moreKeys...)
		args = append([]any{name}, args...)
	}
	once := func() {
		w.joined = nil
		before := w.orders()
		got, err := w.client.Eval(w.t.Context(), w.scripts[script], keys, args...).Result()
		if err != nil {
			w.t.Fatalf("%s %v: %v", script, args, err)
		}
		expected := fmt.Sprint(want())
		if reply := fmt.Sprint(got); reply != expected {
			w.t.Fatalf("%s %v answers %q, want %q", script, args, reply, expected)
		}
		w.same(fmt.Sprint(script, " ", args))
		if !w.evicted {
			w.ordered(before)
		}
	}
	once()
	w.past = append(w.past, once)
}

func (w *world) same(after string) {
	if diff := cmp.Diff(w.model.dump(partition, keyOf), dumpOf(w.server, w.client)); diff != "" {
		w.t.Fatalf("after %s Redis has not what it should have (-want +got):\n%s", after, diff)
	}
}

func dumpOf(server *miniredis.Miniredis, client *redis.Client) map[string]string {
	all := map[string]string{}
	for _, key := range server.Keys() {
		switch server.Type(key) {
		case "list":
			list, _ := server.List(key)
			all[key] = strings.Join(list, " | ")
		case "hash":
			hash := map[string]string{}
			names, _ := server.HKeys(key)
			for _, name := range names {
				hash[name] = server.HGet(key, name)
			}
			all[key] = strings.Join(fields(hash), " | ")
		case "zset":
			set, _ := server.SortedSet(key)
			hash := map[string]string{}
			for name, score := range set {
				hash[name] = fmt.Sprint(int64(score))
			}
			all[key] = strings.Join(fields(hash), " | ")
		case "set":
			members, _ := server.Members(key)
			all[key] = fmt.Sprint(members)
		default:
			text, _ := server.Get(key)
			if ttl := server.TTL(key); ttl > 0 {
				text = fmt.Sprint(text, " for ", ttl)
			}
			all[key] = text
		}
	}
	if all[shared(partition, "depth")] == "0" {
		delete(all, shared(partition, "depth"))
	}
	return all
}

// Invariants of the queue, checked on what the model holds, which is what Redis holds:
//   - order: a queue loses records at its head only, or those behind it that join it, and gets them at its end
//   - nothing twice: no record is in a queue twice, or both in it and waiting
//   - nothing lost: what is in a queue or waits is there, and what is there is in a queue or waits
//   - one owner: a queue with records that somebody has is looked at again when the lease ends
func (w *world) ordered(before map[string][]string) {
	for name, now := range w.orders() {
		was := slices.DeleteFunc(before[name], func(id string) bool { return slices.Contains(w.joined[name], id) })
		kept := 0
		for kept < len(was) && !slices.Equal(was[kept:], now[:min(len(now), len(was)-kept)]) {
			kept++
		}
		if gone := was[:kept]; len(gone) > 1 {
			w.t.Fatalf("order: %v was %v", now, was)
		}
		q := w.model.queues[name]
		for i, id := range now {
			_, waits := q.waits[id]
			if slices.Contains(now[:i], id) || waits {
				w.t.Fatalf("nothing twice: %s in %v, waiting %v", id, now, q.waits)
			}
		}
		for id := range q.records {
			_, waits := q.waits[id]
			if !waits && !slices.Contains(now, id) {
				w.t.Fatalf("nothing lost: %s is neither in %v nor in %v", id, now, q.waits)
			}
		}
		if _, known := w.model.check[name]; len(now) > 0 && !known {
			w.t.Fatalf("nothing lost: nobody looks at %s", name)
		}
	}
}

func (w *world) orders() map[string][]string {
	all := map[string][]string{}
	for name, q := range w.model.queues {
		all[name] = slices.Clone(q.ids)
	}
	return all
}

// owner is a call's name: mostly the present owner's, else one that had the queue once, or a new one.
func (w *world) owner(s step, name string) string {
	h := w.model.queues[name].lease
	switch {
	case h != nil && h.owner != "" && s.Who < 8:
		return h.owner
	case len(w.owners) > 0 && s.Who < 10:
		return w.owners[s.A*7%len(w.owners)]
	}
	return w.newOwner(s)
}

func (w *world) newOwner(s step) string {
	owner := fmt.Sprintf("host/%d.%d", s.Who%2, w.next())
	w.owners = append(w.owners, owner)
	return owner
}

func (w *world) next() int {
	w.made++
	return w.made
}

var ids = []string{"1", "2", "3", "4", "5"}

// id is mostly the one at the head.
func (w *world) id(s step, name string) string {
	if q := w.model.queues[name]; q.lease != nil && s.ID < 9 {
		return q.lease.id
	}
	return ids[s.ID%len(ids)]
}

// waiter is mostly the id of a record that waits.
func (w *world) waiter(s step, name string) string {
	if all := slices.Sorted(maps.Keys(w.model.queues[name].waits)); len(all) > 0 && s.ID < 10 {
		return all[s.ID%len(all)]
	}
	return ids[s.ID%len(ids)]
}

func (s step) lease() int64 { return []int64{6000, 300}[s.B%2] }

// record is a new text, or nil to leave the stored one.
func (w *world) record(leave bool) (record *string, args []any) {
	if leave {
		return nil, []any{"0", ""}
	}
	text := fmt.Sprint("record ", w.next())
	return &text, []any{"1", text}
}

func (w *world) wait(s step) (one *waiting, args []any) {
	one = &waiting{since: w.model.at, operator: s.B%3 == 0, about: fmt.Sprint("about ", s.B)}
	if s.A > 2 {
		one.due = w.model.at + []int64{0, 1, 1000, 5000}[s.A%4]
	}
	return one, []any{fmt.Sprint(one.due), flag(one.operator), one.about}
}

// documents are up to two, which mostly replace what is there.
func (w *world) documents(s step) (docs []document, keys []string, args []any) {
	args = []any{docTTL}
	for i := range max(0, s.A/3-1) {
		doc := document{key: shared(partition, fmt.Sprint("doc/", (s.B+i)%3)), text: fmt.Sprintf("planbot/1 %026d and more", w.next())}
		have := w.model.memos[doc.key].text
		doc.replaces = []string{have[:min(len(have), 36)], doc.text[:36]}
		switch (s.B + i) % 8 {
		case 0:
			doc.text, doc.replaces[1] = "", ""
		case 1:
			doc.replaces = doc.replaces[1:]
		case 2:
			doc.replaces[0] = ""
		}
		docs, keys = append(docs, doc), append(keys, doc.key)
		args = append(args, doc.text, "\n"+strings.Join(doc.replaces, "\n")+"\n")
	}
	return docs, keys, args
}

func (w *world) deliveries(s step, id string) (all []delivery, keys []string, args []any) {
	for i := range 1 + s.B%3 {
		d := delivery{shared(partition, fmt.Sprint("seen/", (s.A+i)%4)), int64(1000 * (1 + s.B + i))}
		if s.A > 5 {
			d.key = shared(partition, "seen/of-"+id)
		}
		if slices.Contains(keys, d.key) {
			break
		}
		all, keys, args = append(all, d), append(keys, d.key), append(args, d.ms/1000)
	}
	return all, keys, args
}

// calls begins with none, which is what shrinking makes of a step.
var calls = []func(w *world, s step, name string){
	func(*world, step, string) {},
	(*world).accept, (*world).accept, (*world).acceptWaiting, (*world).claim, (*world).claim, (*world).save, (*world).save,
	(*world).finish, (*world).finish, (*world).finishWaiting, (*world).release, (*world).beside, (*world).join, (*world).join, (*world).wakeUp, (*world).drop, (*world).fire,
	(*world).nudge, (*world).sweep, (*world).forgetOrRemember, (*world).writeNote,
	(*world).pass, (*world).pass, (*world).pass, (*world).pop, (*world).repeat, (*world).repeat, (*world).repeat,
	(*world).evict, (*world).crowd,
}

func (w *world) accept(s step, name string) {
	w.acceptAs(s, name, nil, []any{"", "", ""})
}

func (w *world) acceptWaiting(s step, name string) {
	one, args := w.wait(s)
	w.acceptAs(s, name, one, args)
}

func (w *world) acceptAs(s step, name string, wait *waiting, waitArgs []any) {
	id, owner := ids[s.ID%len(ids)], ""
	if s.Who > 3 {
		owner = w.newOwner(s)
	}
	most := []int{0, 0, 1, 2, 3, -1}[s.A%6]
	record, _ := w.record(false)
	all, keys, ages := w.deliveries(s, id)
	args := slices.Concat([]any{id, *record, owner, s.lease(), most}, waitArgs, ages)
	w.call(name, "accept", keys, args, func() any {
		if wait != nil {
			wait.since = w.model.at
		}
		return w.model.accept(name, id, *record, owner, s.lease(), most, wait, all)
	})
}

func (w *world) claim(s step, name string) {
	owner := w.owner(s, name)
	if s.A > 2 {
		owner = w.newOwner(s)
	}
	w.call(name, "claim", nil, []any{owner, s.lease()}, func() any { return w.model.claim(name, owner, s.lease()) })
}

func (w *world) save(s step, name string) {
	owner, id := w.owner(s, name), w.id(s, name)
	record, args := w.record(s.B%3 == 0)
	if s.B == 9 {
		id, record, args = "", nil, []any{"0", ""}
	}
	lease := s.lease() * int64(s.ID%2)
	docs, keys, docArgs := w.documents(s)
	args = slices.Concat([]any{owner, id, lease}, args, []any{flag(s.Who%2 == 0)}, docArgs)
	w.call(name, "save", keys, args, func() any { return w.model.save(name, owner, id, lease, record, s.Who%2 == 0, docs) })
}

func (w *world) finish(s step, name string) { w.finishAs(s, name, nil, []any{"", "", ""}) }

func (w *world) finishWaiting(s step, name string) {
	one, args := w.wait(s)
	w.finishAs(s, name, one, args)
}

func (w *world) finishAs(s step, name string, wait *waiting, waitArgs []any) {
	owner, id := w.owner(s, name), w.id(s, name)
	var answer *memo
	answerArgs := []any{0, ""}
	if s.B > 7 {
		answer = &memo{fmt.Sprint("answer ", w.next()), 60_000}
		answerArgs = []any{60, answer.text}
	}
	record, recordArgs := w.record(s.B%2 == 0)
	docs, keys, docArgs := w.documents(s)
	key := shared(partition, "answers/"+id)
	args := slices.Concat([]any{owner, id, s.lease()}, answerArgs, waitArgs, recordArgs, docArgs)
	w.call(name, "finish", append([]string{key}, keys...), args, func() any {
		if wait != nil {
			wait.since = w.model.at
		}
		return w.model.finish(name, owner, id, s.lease(), key, answer, wait, record, docs)
	})
}

func (w *world) release(s step, name string) {
	owner, after := w.owner(s, name), int64(s.B%3*500)
	w.call(name, "release", nil, []any{owner, after}, func() any { return w.model.release(name, owner, after) })
}

func (w *world) beside(s step, name string) {
	owner, id, text := w.owner(s, name), w.id(s, name), fmt.Sprint("beside ", w.next())
	w.call(name, "beside", nil, []any{owner, id, text}, func() any { return w.model.beside(name, owner, id, text) })
}

// join takes mostly what follows the head.
func (w *world) join(s step, name string) {
	owner, id, record := w.owner(s, name), w.id(s, name), fmt.Sprint("record ", w.next())
	var all []string
	if q := w.model.queues[name]; len(q.ids) > 1 {
		all = slices.Clone(q.ids[1:min(len(q.ids), 2+s.A%3)])
	}
	if len(all) == 0 || s.B > 8 {
		all = append(all, ids[s.B%len(ids)])
	}
	if s.B == 8 {
		all[0] = "another"
	}
	args := []any{owner, id, record}
	for _, one := range all {
		args = append(args, one)
	}
	w.call(name, "join", nil, args, func() any {
		had := w.orders()[name]
		reply := w.model.join(name, owner, id, record, all)
		if len(w.orders()[name]) < len(had) {
			w.joined = map[string][]string{name: all}
		}
		return reply
	})
}

func (w *world) wakeUp(s step, name string) {
	id := w.waiter(s, name)
	record, args := w.record(s.B%3 == 0)
	have := []string{"", sumOf(w.model.queues[name].records[id]), sumOf("another")}[min(s.A/4, 2)]
	again := shared(partition, fmt.Sprint("again/", w.next()))
	args = slices.Concat([]any{id, have}, args, []any{33})
	w.call(name, "wake", []string{again}, args, func() any { return w.model.wakeUp(name, id, have, record, again, 33_000) })
}

func (w *world) drop(s step, name string) {
	id, again := w.waiter(s, name), shared(partition, fmt.Sprint("again/", w.next()))
	w.call(name, "drop", []string{again}, []any{id, 33}, func() any { return w.model.drop(name, id, again, 33_000) })
}

func (w *world) fire(s step, name string) {
	id := w.waiter(s, name)
	w.call(name, "fire", nil, []any{id}, func() any { return w.model.fire(name, id) })
}

func (w *world) nudge(s step, name string) {
	ahead, patient := int64(s.A%3*2500), s.B%2 == 0
	w.call(name, "nudge", nil, []any{ahead, flag(patient)}, func() any { return w.model.nudge(name, ahead, patient) })
}

func (w *world) sweep(s step, _ string) {
	limit, ahead := 1+s.B%2, int64(s.A%3*2500)
	var keys []string
	for _, p := range []int{partition + 1, partition} {
		keys = append(keys, shared(p, "leases"), shared(p, "depth"), shared(p, "timers"))
	}
	w.call("", "sweep", keys, []any{limit, ahead}, func() any {
		return []any{[]any{0, []any{}, []any{}, longest}, w.model.sweep(limit, ahead)}
	})
}

func (w *world) forgetOrRemember(s step, _ string) {
	id, key := ids[s.ID%len(ids)], shared(partition, fmt.Sprint("seen/", s.A%4))
	if s.B%2 == 0 {
		w.call("", "forget", []string{key}, []any{id}, func() any { return w.model.forget(key, id) })
		return
	}
	w.call("", "remember", []string{key}, []any{id, 1 + s.B}, func() any { return w.model.rememberNew(key, id, int64(1000*(1+s.B))) })
}

func (w *world) writeNote(s step, _ string) {
	key, text := shared(partition, fmt.Sprint("notes/", s.ID%2)), fmt.Sprint("note ", w.next())
	docs, keys, args := w.documents(s)
	args = append([]any{60, text}, args...)
	w.call("", "note", append([]string{key}, keys...), args, func() any { return w.model.note(key, text, 60_000, docs) })
}

// pass lets time pass, mostly up to a moment around one at which something ends.
func (w *world) pass(s step, name string) {
	at := w.model.at
	ends := []int64{at + 100, at + 1 + int64(s.ID*700)}
	if q := w.model.queues[name]; q.lease != nil {
		ends = append(ends, q.lease.until, q.lease.until, w.model.check[name])
	}
	for _, due := range w.model.timers() {
		ends = append(ends, due)
	}
	slices.Sort(ends)
	to := ends[s.A%len(ends)] + int64(s.B%3) - 1
	if to <= at {
		return
	}
	w.server.FastForward(time.Duration(to-at) * time.Millisecond)
	w.server.SetTime(time.UnixMilli(to))
	w.model.pass(to - at)
	w.same("a while")
}

// pop is a replica that reads a name and may die with it.
func (w *world) pop(_ step, _ string) {
	if len(w.model.ready) > 0 {
		w.model.ready = w.model.ready[1:]
		_, _ = w.server.Lpop(shared(partition, "wake"))
	}
}

// repeat calls again, as who got no answer does, perhaps late.
func (w *world) repeat(s step, _ string) {
	if n := len(w.past); n > 0 {
		w.past[n-1-s.A/3%n]()
	}
}

// evict loses a record, as a server without memory does.
func (w *world) evict(s step, name string) {
	id := w.waiter(s, name)
	if s.A < 6 {
		id = w.id(s, name)
	}
	if q := w.model.queues[name]; s.B > 6 && q.records[id] != "" {
		delete(q.records, id)
		w.client.HDel(w.t.Context(), keyOf(name, "records"), id)
		w.evicted = true
	}
}

// crowd fills the list of names that nobody reads.
func (w *world) crowd(s step, name string) {
	for range min(readies-1-len(w.model.ready), readies*(s.B/11)) {
		w.model.ready = append(w.model.ready, name)
		_, _ = w.server.Push(shared(partition, "wake"), name)
	}
}

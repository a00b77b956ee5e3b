package inbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// model is what Redis has to hold after each call of a script, in the words of docs rather than of
// Redis: what follows from something else (depth, timers, dead) is not kept, but counted when asked for.
type model struct {
	at      int64            // the server's clock, ms
	queues  map[string]*line // by name
	check   map[string]int64 // when to look at a queue
	threads map[string]bool  // that had records when they last got one or came to an end
	ready   []string
	memos   map[string]memo // deliveries, answers, notes and documents, by key
}

type line struct {
	ids     []string // the head is being worked on
	records map[string]string
	waits   map[string]waiting
	lease   *holding // nil: none
}

type waiting struct {
	since, due int64 // due 0: never
	operator   bool
	about      string
}

type holding struct {
	owner, id string
	until     int64
	tries     int
	wanted    bool
	beside    string
}

type memo struct {
	text  string
	until int64
}

// document is one that a call writes, if the present version is among those that it may replace.
type document struct {
	key, text string
	replaces  []string
}

const (
	docTTL  = 90_000 // ms
	readies = 1000   // names that the list of ready queues holds
	grace   = 5000   // ms until a queue whose name was read is looked at again
	longest = 3_600_000
)

func newModel(at int64, names ...string) *model {
	m := &model{at: at, queues: map[string]*line{}, check: map[string]int64{}, memos: map[string]memo{}, threads: map[string]bool{}}
	for _, name := range names {
		m.queues[name] = &line{records: map[string]string{}, waits: map[string]waiting{}}
	}
	return m
}

// pass lets time go by.
func (m *model) pass(ms int64) {
	m.at += ms
	maps.DeleteFunc(m.memos, func(_ string, one memo) bool { return one.until <= m.at })
}

func (m *model) remember(key, text string, ms int64) { m.memos[key] = memo{text, m.at + ms} }

func (m *model) wake(name string) {
	m.check[name] = m.at + grace
	m.ready = append(m.ready, name)
	m.ready = m.ready[max(0, len(m.ready)-readies):]
}

func (m *model) enqueue(name, id string) {
	q := m.queues[name]
	q.ids = append(q.ids, id)
	if len(q.ids) == 1 {
		m.wake(name)
	}
}

// head drops what has no record.
func (m *model) head(name string) (id, record string) {
	q := m.queues[name]
	q.ids = slices.DeleteFunc(q.ids, func(id string) bool {
		if record != "" || q.records[id] != "" {
			record = cmp.Or(record, q.records[id])
			return false
		}
		return true
	})
	if len(q.ids) == 0 {
		q.lease = nil
		delete(m.check, name)
		m.listThread(name)
		return "", ""
	}
	return q.ids[0], record
}

// listThread lists a thread that has records, and no other.
func (m *model) listThread(name string) {
	delete(m.threads, name)
	if strings.Contains(name, inThread) && len(m.queues[name].records) > 0 {
		m.threads[name] = true
	}
}

func (m *model) take(name, owner, id string, tries int, ms int64) {
	q := m.queues[name]
	if q.lease == nil {
		q.lease = &holding{}
	}
	q.lease.owner, q.lease.id, q.lease.tries = owner, id, tries
	m.extend(name, ms)
}

func (m *model) extend(name string, ms int64) {
	m.queues[name].lease.until = m.at + ms
	m.check[name] = m.at + ms
}

// holds is the lease of an owner, or nil.
func (q *line) holds(owner string) *holding {
	if q.lease == nil || q.lease.owner != owner {
		return nil
	}
	return q.lease
}

func (m *model) conflicts(docs []document) (numbers []any) {
	for i, doc := range docs {
		have := m.memos[doc.key].text
		if !slices.Contains(doc.replaces, have[:min(len(have), 36)]) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

func (m *model) store(docs []document) {
	for _, doc := range docs {
		delete(m.memos, doc.key)
		if doc.text != "" {
			m.remember(doc.key, doc.text, docTTL)
		}
	}
}

type delivery struct {
	key string
	ms  int64
}

func (m *model) accept(name, id, record, owner string, lease int64, most int, wait *waiting, deliveries []delivery) any {
	q := m.queues[name]
	again := false
	for i, d := range deliveries {
		first, known := m.memos[d.key]
		switch {
		case !known:
			m.remember(d.key, id, d.ms)
		case first.text == id:
			again = true
		default:
			for _, before := range deliveries[:i] {
				m.remember(before.key, first.text, before.ms)
			}
			return []any{3, first.text}
		}
	}
	full := func() any {
		for _, d := range deliveries {
			delete(m.memos, d.key)
		}
		return []any{4}
	}
	_, kept := q.records[id]
	if wait != nil {
		_, waits := q.waits[id]
		switch {
		case !waits && (again || kept):
			return []any{2}
		case !waits && most != 0 && q.crowd() >= most:
			return full()
		}
		for _, d := range deliveries {
			m.remember(d.key, id, d.ms)
		}
		q.records[id], q.waits[id] = record, *wait
		m.listThread(name)
		return []any{2}
	}
	if again || kept {
		if h := q.holds(owner); owner == "" || h == nil || h.id != id {
			return []any{2}
		}
		m.extend(name, lease)
		return []any{1}
	}
	if most != 0 && len(q.ids)+1 > most {
		return full()
	}
	q.records[id] = record
	m.listThread(name)
	switch {
	case len(q.ids) > 0 && owner != "" && q.lease != nil && q.lease.owner != "" && process(q.lease.owner) != process(owner):
		q.lease.wanted = true
	case len(q.ids) == 0 && owner != "":
		q.ids = append(q.ids, id)
		m.take(name, owner, id, 0, lease)
		return []any{1}
	}
	m.enqueue(name, id)
	return []any{2}
}

// process is the first part of an owner's name.
func process(owner string) string { return owner[:strings.LastIndex(owner, ".")] }

// crowd counts what waits, without dead letters.
func (q *line) crowd() (n int) {
	for _, w := range q.waits {
		if !w.operator {
			n++
		}
	}
	return n
}

func (m *model) claim(name, owner string, lease int64) any {
	q := m.queues[name]
	before := q.lease
	mine := before != nil && before.owner == owner
	if before != nil && !mine && before.until > m.at {
		return []any{}
	}
	id, record := m.head(name)
	if id == "" {
		return []any{}
	}
	tries, over, beside := 0, 0, ""
	if before != nil {
		tries, beside = before.tries, before.beside
		if !mine && before.owner != "" {
			tries, over = tries+1, 1
		}
	}
	m.take(name, owner, id, tries, lease)
	return []any{tries, over, id, record, beside}
}

func (m *model) save(name, owner, id string, lease int64, record *string, progress bool, docs []document) any {
	q := m.queues[name]
	h := q.holds(owner)
	if h == nil || id != "" && h.id != id {
		return []any{3}
	}
	if lost := m.conflicts(docs); len(lost) > 0 {
		return append([]any{5}, lost...)
	}
	m.store(docs)
	if record != nil {
		q.records[id] = *record
	}
	if progress {
		h.tries = 0
	}
	if lease != 0 {
		m.extend(name, lease)
	}
	return []any{0}
}

func (m *model) finish(
	name, owner, id string, lease int64, answerKey string, answer *memo, wait *waiting, record *string, docs []document,
) any {
	q := m.queues[name]
	h := q.holds(owner)
	switch {
	case h == nil && q.lease != nil && q.lease.id == id:
		return []any{3}
	case h == nil:
		return []any{4}
	}
	first := h.id == id
	if first {
		if lost := m.conflicts(docs); len(lost) > 0 {
			return append([]any{5}, lost...)
		}
		m.store(docs)
		if answer != nil {
			m.remember(answerKey, answer.text, answer.until)
		}
		q.ids = q.ids[1:]
		if wait == nil {
			delete(q.records, id)
		} else {
			if record != nil {
				q.records[id] = *record
			}
			q.waits[id] = *wait
		}
	}
	next, text := m.head(name)
	switch {
	case next == "":
		return []any{1}
	case first && h.wanted:
		*h = holding{id: next, until: m.at, beside: h.beside}
		m.wake(name)
		return []any{1}
	}
	m.take(name, owner, next, 0, lease)
	return []any{2, next, text, len(q.ids) - 1}
}

func (m *model) release(name, owner string, after int64) any {
	h := m.queues[name].lease
	switch {
	case h == nil || h.owner == "":
		return 1
	case h.owner != owner:
		return 0
	}
	h.owner = ""
	m.extend(name, after)
	if after == 0 {
		m.wake(name)
	}
	return 1
}

func (m *model) beside(name, owner, id, text string) any {
	h := m.queues[name].holds(owner)
	if h == nil || h.id != id {
		return 0
	}
	h.beside = id + "\n" + text
	return 1
}

func (m *model) join(name, owner, id, record string, ids []string) any {
	q := m.queues[name]
	h := q.holds(owner)
	switch {
	case h == nil || h.id != id:
		return 0
	case q.records[id] == record:
		return 1
	case len(q.ids) <= len(ids) || !slices.Equal(q.ids[1:1+len(ids)], ids):
		return 2
	}
	q.ids = slices.Delete(q.ids, 1, 1+len(ids))
	for _, joined := range ids {
		delete(q.records, joined)
	}
	q.records[id] = record
	return 1
}

func (m *model) wakeUp(name, id, sum string, record *string, again string, ms int64) any {
	q := m.queues[name]
	have, kept := q.records[id]
	_, waits := q.waits[id]
	if !kept || !waits || sum != "" && sum != sumOf(have) {
		if _, done := m.memos[again]; done {
			return 1
		}
		return 0
	}
	m.remember(again, "1", ms)
	if record != nil {
		q.records[id] = *record
	}
	delete(q.waits, id)
	m.enqueue(name, id)
	return 1
}

func sumOf(record string) string { return sum([]byte(record)) }

func (m *model) drop(name, id, again string, ms int64) any {
	q := m.queues[name]
	if _, waits := q.waits[id]; !waits {
		if _, done := m.memos[again]; done {
			return 1
		}
		return 0
	}
	delete(q.waits, id)
	delete(q.records, id)
	m.listThread(name)
	m.remember(again, "1", ms)
	return 1
}

func (m *model) fire(name, id string) any {
	q := m.queues[name]
	w, waits := q.waits[id]
	if !waits || w.due == 0 || w.due > m.at {
		return 0
	}
	delete(q.waits, id)
	if q.records[id] == "" {
		return 0
	}
	m.enqueue(name, id)
	return 1
}

func (m *model) nudge(name string, ahead int64, patient bool) any {
	due, known := m.check[name]
	h := m.queues[name].lease
	switch {
	case !known || due > m.at+ahead:
		return 0
	case h != nil && (h.until > m.at || h.owner != "" && patient):
		return 0
	}
	m.wake(name)
	return 1
}

func (m *model) sweep(limit int, ahead int64) any {
	rest := int64(longest)
	due := func(set map[string]int64, until int64) []any {
		some := []any{}
		sooner := func(a, b string) int { return cmp.Or(cmp.Compare(set[a], set[b]), cmp.Compare(a, b)) }
		for i, name := range slices.SortedFunc(maps.Keys(set), sooner) {
			rest = max(0, min(rest, set[name]-m.at))
			if i < limit && set[name] <= until {
				some = append(some, name)
			}
		}
		return some
	}
	queues, timers := due(m.check, m.at+ahead), due(m.timers(), m.at)
	return []any{m.depth(), queues, timers, rest}
}

func (m *model) depth() (n int) {
	for _, q := range m.queues {
		n += len(q.ids)
	}
	return n
}

func (m *model) timers() map[string]int64 {
	return m.waiting(func(w waiting) int64 { return w.due })
}

func (m *model) dead() map[string]int64 {
	return m.waiting(func(w waiting) int64 {
		if w.operator {
			return w.since
		}
		return 0
	})
}

// waiting is what waits, by a time that is not 0.
func (m *model) waiting(when func(waiting) int64) map[string]int64 {
	all := map[string]int64{}
	for name, q := range m.queues {
		for id, w := range q.waits {
			if at := when(w); at != 0 {
				all[name+"\n"+id] = at
			}
		}
	}
	return all
}

// forget and rememberNew work on one id of a delivery.
func (m *model) forget(key, id string) any {
	if m.memos[key].text != id {
		return 0
	}
	delete(m.memos, key)
	return 1
}

func (m *model) rememberNew(key, id string, ms int64) any {
	if _, known := m.memos[key]; known {
		return 0
	}
	m.remember(key, id, ms)
	return 1
}

func (m *model) note(key, text string, ms int64, docs []document) any {
	if m.memos[key].text == text {
		return []any{}
	}
	lost := m.conflicts(docs)
	if len(lost) > 0 {
		return lost
	}
	m.store(docs)
	m.remember(key, text, ms)
	return []any{}
}

// dump is what Redis holds, a line for each key that has something.
func (m *model) dump(partition int, keyOf func(name, part string) string) map[string]string {
	all := map[string]string{}
	put := func(key string, lines ...string) {
		if len(lines) > 0 {
			all[key] = strings.Join(lines, " | ")
		}
	}
	scores := func(set map[string]int64) (lines []string) {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			lines = append(lines, fmt.Sprint(name, "=", set[name]))
		}
		return lines
	}
	for name, q := range m.queues {
		put(keyOf(name, "queue"), q.ids...)
		put(keyOf(name, "records"), fields(q.records)...)
		waits := map[string]string{}
		for id, w := range q.waits {
			waits[id] = fmt.Sprintf("%d %d %s\n%s", w.since, w.due, flag(w.operator), w.about)
		}
		put(keyOf(name, "waits"), fields(waits)...)
		if h := q.lease; h != nil {
			has := map[string]string{"owner": h.owner, "id": h.id, "until": fmt.Sprint(h.until), "tries": fmt.Sprint(h.tries)}
			if h.wanted {
				has["wanted"] = "1"
			}
			if h.beside != "" {
				has["beside"] = h.beside
			}
			put(keyOf(name, "lease"), fields(has)...)
		}
	}
	if len(m.threads) > 0 {
		put(shared(partition, "threads"), fmt.Sprint(slices.Sorted(maps.Keys(m.threads))))
	}
	put(shared(partition, "leases"), scores(m.check)...)
	put(shared(partition, "timers"), scores(m.timers())...)
	put(shared(partition, "dead"), scores(m.dead())...)
	put(shared(partition, "wake"), m.ready...)
	if m.depth() > 0 {
		put(shared(partition, "depth"), fmt.Sprint(m.depth()))
	}
	for key, one := range m.memos {
		put(key, fmt.Sprint(one.text, " for ", time.Duration(one.until-m.at)*time.Millisecond))
	}
	return all
}

func fields(hash map[string]string) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(hash)) {
		lines = append(lines, name+"="+hash[name])
	}
	return lines
}

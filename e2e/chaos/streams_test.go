//go:build linux

package chaos_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

const (
	readers = 150 // people, each in a personal chat
	atOnce  = 100 // messages that grow while a replica is killed
	// writes is how long the model writes at most, a piece at a time.
	writes, pieces = 10 * time.Second, 20
	// unsaved is how long it takes a process at most to save the id of a message that it has
	// begun. Nobody can end one whose process was killed before.
	unsaved = time.Second
)

// killedStreams kills replicas while people read answers that are being written. Another try of
// a turn gets another text from the model, or another plan.
func killedStreams(t *testing.T) {
	t.Parallel()
	screens := &screens{}
	w := newWorld(t, circumstances{screens: screens, env: []string{"BOT_STREAM=true"}})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range readers {
		talk := i/2*3 + i%2 // no groups
		w.talks.Go(func() {
			wait(ctx, rand.N(writes/2)) // not all at once
			w.write(ctx, talk, i%2, []kind{ask})
		})
	}
	w.repeat(func() {
		w.pass(w.between(2*time.Second, 5*time.Second))
		for late := time.Now().Add(answeredWithin); (screens.open() < atOnce || screens.worn() || w.lostTwice()) && time.Now().Before(late); {
			w.pass(50 * time.Millisecond)
		}
		if n := screens.open(); n < atOnce {
			t.Errorf("only %d messages grow, want %d", n, atOnce)
		}
		w.kill(w.dice.IntN(replicas))
	})
	stop()
	w.talks.Wait()
	s := screens.story(w.settle())
	t.Log(screens.summary())
	if grew, changed := screens.seen(); grew == 0 || changed == 0 {
		t.Error("no text was shown before it was whole, or none that another try had to take back: this test showed nothing")
	}
	w.holds(s, slices.Concat(promises(), screens.promises(), []check{answers(0)})...)
}

// ask is a question that the model answers as it likes, another way each time.
const ask kind = "ask"

// reply is what the model has planned for a message.
type reply struct {
	says, lists []string
	whole, over bool // the model wrote all of it, or the asker left
}

// screens are what people see: a connector with the rules of Teams for messages that grow, in front
// of which it takes down what was shown, and a model that writes slowly.
type screens struct {
	*record
	rules *bottest.Connector
	dice  uint64

	// mu of record is for the fields below, and held by those who call methods without an own lock
	bubbles []*bubble // as they came
	planned map[string][]*reply
	refused map[string]int // requests of the bot, by the connector's words
}

// bubble is a message on the screen.
type bubble struct {
	conversation, id, text string
	replyTo                string // "": not known before its end
	parts                  int    // that were shown before its end
	longest                string // text before its end
	open, changed          bool
	passed                 bool  // something else was said after it began
	asked, begun, ended    times // ended: the first time
}

// begin starts them for a test.
func (s *screens) begin(t *testing.T, r *record, seed uint64) (channel, model http.Handler) {
	s.record, s.rules, s.dice = r, bottest.NewConnector(t), seed
	s.planned, s.refused = map[string][]*reply{}, map[string]int{}
	return http.HandlerFunc(s.take), http.HandlerFunc(s.answer)
}

// take hands on a request that came whole, and takes down what it changed on a screen. Its answer
// takes a moment, in which processes may be killed.
func (s *screens) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a process that was killed while it wrote
	}
	asked := s.now()
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, strings.TrimSuffix(s.rules.URL, "/")+r.URL.EscapedPath(), bytes.NewReader(body))
	if err != nil {
		panic(err) // of a request that came
	}
	req.Header = r.Header.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		abort(w)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		abort(w)
	}
	s.sees(r, body, resp.StatusCode, answer, asked)
	wait(r.Context(), rand.N(60*time.Millisecond))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) // to a process that may be gone
}

// sees takes down what a request changed.
func (s *screens) sees(r *http.Request, body []byte, status int, answer []byte, asked times) {
	a, err := activity.Decode(body)
	var said struct {
		ID, Code string
		Error    struct{ Message string }
	}
	if err != nil && r.Method != http.MethodDelete || json.Unmarshal(answer, &said) != nil {
		return // what is no activity is the rules' business
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if status >= http.StatusBadRequest || said.Code != "" {
		s.refused[fmt.Sprint(status, " ", cmp.Or(said.Error.Message, said.Code))]++
		return
	}
	conversation := strings.Split(r.URL.Path, "/")[3]
	if r.Method == http.MethodDelete {
		s.bubbles = slices.DeleteFunc(s.bubbles, func(b *bubble) bool { return b.id == lastOf(r.URL.Path) })
		return
	}
	part := a.Stream()
	if part.Type == "" && r.Method == http.MethodPost && a.Type != activity.Message {
		return
	}
	id := cmp.Or(part.ID, said.ID)
	if r.Method == http.MethodPut {
		id = lastOf(r.URL.Path)
	}
	i := slices.IndexFunc(s.bubbles, func(b *bubble) bool { return b.id == id })
	if i < 0 {
		i = len(s.bubbles)
		s.bubbles = append(s.bubbles, &bubble{conversation: conversation, id: id, asked: asked, begun: s.now()})
	}
	b := s.bubbles[i]
	b.text, b.replyTo = a.Text, cmp.Or(b.replyTo, a.ReplyToID)
	b.changed = b.changed || r.Method == http.MethodPut
	if b.open = part.Type == activity.StreamStatus || part.Type == activity.StreamText; b.open {
		b.parts++
		if part.Type == activity.StreamText {
			b.longest = a.Text
		}
		return
	}
	if b.ended == 0 {
		b.ended = s.now()
	}
	for _, before := range s.bubbles[:i] {
		before.passed = before.passed || before.conversation == conversation
	}
	s.tell(b.replyTo)
}

func lastOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// finished are the messages in answer to another, as they are now.
func (s *screens) finished(replyTo string) (all []*bubble) {
	for _, b := range s.bubbles {
		if !b.open && b.replyTo == replyTo {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b *bubble) int { return cmp.Compare(a.ended, b.ended) })
	return all
}

// texts are those of the messages, each once.
func texts(of []*bubble) (all []string) {
	for _, b := range of {
		if !slices.Contains(all, b.text) {
			all = append(all, b.text)
		}
	}
	return all
}

// tell closes answered when the message has all of its replies.
func (s *screens) tell(replyTo string) {
	k, _ := keyIn(replyTo)
	d := s.messages[k]
	shown := texts(s.finished(replyTo))
	if d == nil || len(d.got) > 0 || len(shown) == 0 {
		return
	}
	if slices.Equal(shown, s.due(replyTo).says) || d.kind == show {
		d.got = shown
		close(d.answered)
	}
}

// due is the reply that a message should get: the last one that the model wrote. A process that gets
// one either saves it or is gone.
func (s *screens) due(replyTo string) reply {
	for _, r := range slices.Backward(s.planned[replyTo]) {
		if r.whole {
			return *r
		}
	}
	return reply{}
}

// answer is the model.
func (s *screens) answer(w http.ResponseWriter, r *http.Request) {
	asked, err := fakemodel.Read(r.Body)
	if err != nil {
		return
	}
	var told []key
	text := ""
	for _, said := range asked.Messages {
		if k, ok := keyIn(said.Text); ok && said.Role == "user" {
			told, text = append(told, k), said.Text[max(0, strings.Index(said.Text, k.String())-len("show ")):]
		}
	}
	if len(told) == 0 {
		http.Error(w, `{"error":{"message":"no message in the prompt"}}`, http.StatusBadRequest)
		return
	}
	last := told[len(told)-1]
	s.asks(call{key: last, history: told[:len(told)-1]})
	if strings.HasPrefix(text, string(show)) {
		fakemodel.Answer{Text: written(show.plan(last))}.Write(w, r, asked)
		return
	}
	s.mu.Lock()
	p := &reply{}
	s.planned[last.id()] = append(s.planned[last.id()], p)
	content := p.plan(last, len(s.planned[last.id()]), rand.New(rand.NewPCG(s.dice, uint64(last.talk<<20|last.n<<4|len(s.planned[last.id()])))))
	s.mu.Unlock()
	answer, takes := fakemodel.Answer{}, writes-rand.N(writes/2)
	for i := range pieces {
		part := content[len(content)*i/pieces : len(content)*(i+1)/pieces]
		answer.Pieces = append(answer.Pieces, fakemodel.Piece{At: takes * time.Duration(i+1) / pieces, Text: part})
	}
	gone := false
	answer.Left = func() { gone = true }
	answer.Write(w, r, asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.whole, p.over = !gone, true
	s.tell(last.id())
}

// plan chooses what to answer to a message on that try.
func (p *reply) plan(to key, try int, dice *rand.Rand) string {
	long := fmt.Sprintf("%s, try %d:", to, try)
	for n := range 40 {
		long += fmt.Sprintf(" and %d", n)
	}
	noted := fmt.Sprintf("%s, try %d: noted", to, try)
	switch roll := dice.Float64(); {
	case roll < 0.7:
		p.says = []string{long + "."}
	case roll < 0.85:
		p.says, p.lists = []string{noted}, []string{once}
	default:
		p.says, p.lists = []string{noted, noted + " twice"}, []string{once, twice}
	}
	if len(p.lists) > 0 {
		return written(planOf(to, p.lists, p.says))
	}
	return `{"type":"answer","commands":[{"type":"SAY","response":"` + p.says[0] + `"}]}`
}

// open is how many messages grow.
func (s *screens) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bubbles {
		if b.open && !b.passed {
			n++
		}
	}
	return n
}

// worn reports whether a message lost two processes, and has no reply. A turn that loses a third is put
// aside: see [record.worn], which hears of one only when it is asked again.
func (s *screens) worn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, tries := range s.planned {
		if len(tries) > 1 && tries[1].over && len(s.finished(id)) == 0 {
			return true
		}
	}
	return false
}

// lostTwice reports whether a turn runs of which the logs say that it lost two processes, maybe before
// they asked the model.
func (w *world) lostTwice() bool {
	running := map[string]bool{}
	for _, r := range w.replicas {
		log, err := os.ReadFile(filepath.Join(r.dir, r.name+".log"))
		if err != nil {
			w.t.Fatal(err)
		}
		for line := range bytes.Lines(log) {
			var said struct {
				Turn, Message string
				Times         int
			}
			switch ended := bytes.Contains(line, []byte(`"turn ended"`)); {
			case !ended && !bytes.Contains(line, []byte(`"turn taken over"`)), json.Unmarshal(line, &said) != nil:
			case ended:
				running[said.Turn] = false
			case said.Times > 1:
				if _, over := running[said.Turn]; !over {
					running[said.Turn] = true
				}
			}
		}
	}
	return slices.Contains(slices.Collect(maps.Values(running)), true)
}

// seen is how many messages showed a part of their text first, and how many were changed after
// their end.
func (s *screens) seen() (grew, changed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bubbles {
		if b.longest != "" && b.longest != b.text {
			grew++
		}
		if b.changed {
			changed++
		}
	}
	return grew, changed
}

// story adds what was on the screens in the end.
func (s *screens) story(seen story) story {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range seen.messages {
		seen.messages[i].added = s.due(m.id()).lists
	}
	for _, b := range s.bubbles {
		if !b.open {
			seen.posts = append(seen.posts, post{conversation: b.conversation, replyTo: b.replyTo, text: b.text, at: b.ended, done: b.ended, outcome: taken})
		}
	}
	slices.SortStableFunc(seen.posts, func(a, b post) int { return cmp.Compare(a.at, b.at) })
	seen.thinks = writes
	return seen
}

// summary says how much was seen.
func (s *screens) summary() string {
	grew, changed := s.seen()
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := 0
	for _, b := range s.bubbles {
		parts += b.parts
	}
	return fmt.Sprintf("%d messages showed a part of their text first, %d parts in all, %d were changed after their end, %d repeated, %d left growing; refused: %v",
		grew, parts, changed, len(s.repeated()), len(s.left()), s.refused)
}

// promises are those about what is on the screens in the end.
func (s *screens) promises() []check {
	return []check{
		{"no message is left growing", func(seen story) (broken []string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, b := range s.left() {
				if !b.orphan(seen) {
					broken = append(broken, fmt.Sprintf("%s in %s, begun at %s, shows %q", b.id, b.conversation, b.begun, b.text))
				}
			}
			return broken
		}},
		{"people are left with the reply of the plan that ran", func(seen story) (broken []string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, m := range seen.messages {
				if got, want := texts(s.finished(m.id())), s.due(m.id()).says; m.kind == ask && (len(want) == 0 || !slices.Equal(got, want)) {
					broken = append(broken, fmt.Sprintf("%s: %q, want %q", m.key, got, want))
				}
			}
			return broken
		}},
		{"at most one message is repeated for a kill", func(seen story) []string {
			s.mu.Lock()
			defer s.mu.Unlock()
			if again := s.repeated(); len(again) > len(seen.faults) {
				return append(again, fmt.Sprintf("for %d kills", len(seen.faults)))
			}
			return nil
		}},
	}
}

// left are the messages that still grow.
func (s *screens) left() (all []*bubble) {
	for _, b := range s.bubbles {
		if b.open {
			all = append(all, b)
		}
	}
	return all
}

// orphan reports whether the process may have been killed before it saved the message's id.
func (b *bubble) orphan(seen story) bool {
	return b.parts == 1 && slices.ContainsFunc(seen.faults, func(f fault) bool { return f.overlaps(b.asked, b.begun+unsaved) })
}

// repeated are the messages that came again.
func (s *screens) repeated() (again []string) {
	before := map[string]bool{}
	for _, b := range s.bubbles {
		if b.open {
			continue
		}
		if before[b.replyTo+b.text] {
			again = append(again, fmt.Sprintf("%q at %s", b.text, b.ended))
		}
		before[b.replyTo+b.text] = true
	}
	return again
}

// Package bench_test measures whole turns: the built bot in a process of its own, a redis-server
// that keeps nothing on disk, and stand-ins for the model and the channel. README.md says how to
// read the figures.
package bench_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/builtbot"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/state"
)

var (
	replicas = flag.Int("replicas", 1, "processes of the bot; the messages of every conversation go round them")
	built    = builtbot.New("..")
)

// BenchmarkTurns has a cell for each load. Each conversation sends its next message when the reply
// to the last one is there.
func BenchmarkTurns(b *testing.B) {
	for _, latency := range []time.Duration{0, 200 * time.Millisecond} {
		for _, conversations := range []int{16, 128, 512} {
			b.Run(fmt.Sprintf("model=%v/conversations=%d", latency, conversations), func(b *testing.B) {
				r := newRig(b, latency, conversations, steps)
				r.talk(b, conversations) // opens connections
				before := r.used(b)
				b.ResetTimer()
				took := r.talk(b, b.N)
				b.StopTimer()
				after := r.used(b)
				report(b, before, after)
				b.ReportMetric(float64(r.cold)/1e6, "cold-ms")
				slices.Sort(took)
				for _, p := range []int{50, 99} {
					b.ReportMetric(float64(took[(len(took)*p+99)/100-1])/1e6, fmt.Sprintf("p%d-ms", p))
				}
			})
		}
	}
}

// report reports what b.N turns used.
func report(b *testing.B, before, after map[string]float64) {
	for name, n := range after {
		if unit, perTurn := strings.CutSuffix(name, "/turn"); perTurn {
			b.ReportMetric((n-before[name])/float64(b.N), unit+"/turn")
		} else {
			b.ReportMetric(n, name)
		}
	}
}

// BenchmarkStreams is about answers that the model writes at 30 tokens a second, while the person
// reads them.
func BenchmarkStreams(b *testing.B) {
	// The first words are due half a second after the message, once there are 20 characters of text.
	for _, latency := range []time.Duration{0, 600 * time.Millisecond} {
		b.Run(fmt.Sprintf("first/model=%v", latency), func(b *testing.B) {
			r := newRig(b, latency, 16, question(60), "BOT_STREAM=true")
			r.talk(b, b.N)
			slices.Sort(r.late)
			for _, p := range []int{50, 99} {
				b.ReportMetric(float64(r.late[(len(r.late)*p+99)/100-1])/1e6, fmt.Sprintf("late-p%d-ms", p))
			}
		})
	}
	// Two bots get the same messages in turn: one shows its answers while they are written.
	for _, messages := range [][]step{steps, question(60)} {
		b.Run(fmt.Sprintf("cpu/tokens=%d/conversations=128", messages[0].tokens), func(b *testing.B) {
			const rounds = 4
			used := map[string]float64{}
			cells := []string{"BOT_STREAM=true", "BOT_STREAM=false"}
			var rigs []*rig
			for _, setting := range cells {
				rigs = append(rigs, newRig(b, 0, 128, messages, setting))
			}
			for round := range 2 * (rounds + 1) {
				r := rigs[round%2]
				before := r.used(b)["cpu-µs/turn"]
				r.talk(b, max(128, b.N/rounds))
				if round >= 2 { // the first one opens connections
					used[cells[round%2]] += (r.used(b)["cpu-µs/turn"] - before) / float64(max(128, b.N/rounds)) / rounds
				}
			}
			b.ReportMetric(used[cells[0]], "streamed-cpu-µs/turn")
			b.ReportMetric(used[cells[1]], "whole-cpu-µs/turn")
			b.ReportMetric(used[cells[0]]/used[cells[1]], "ratio")
		})
	}
	b.Run("open/conversations=512", func(b *testing.B) {
		r := newRig(b, 0, 512, question(600), "BOT_STREAM=true")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.talk(b, max(512, b.N))
		}()
		before := r.used(b)
		peak := before
		for done := false; !done; {
			select {
			case <-ended:
				done = true
			case <-time.After(time.Second):
			}
			if now := r.used(b); now["rss-MiB"] > peak["rss-MiB"] {
				peak = now
			}
		}
		b.ReportMetric(peak["rss-MiB"], "peak-rss-MiB")
		b.ReportMetric(float64(r.mostOpen), "open")
	})
}

// TestTurns sees that what is measured happens.
func TestTurns(t *testing.T) {
	t.Parallel()
	const turns = 40
	r := newRig(t, time.Millisecond, 4, steps)
	if took := r.talk(t, turns); len(took) != turns || slices.Min(took) < time.Millisecond {
		t.Errorf("%d turns took %v", len(took), took)
	}
	used := r.used(t) // with the first turn
	calls, sent, allocs := used["model-calls/turn"], used["model-B/turn"], used["allocs/turn"]
	if calls != turns+1 || sent < 1000*turns || allocs < 100*turns || used["redis-trips/turn"] < turns {
		t.Errorf("used %v", used)
	}
}

// step is a message of the cycle that each conversation goes through, and what the model plans
// for it. After the cycle the state is as it was after the first one.
type step struct {
	text, dos string
	tokens    int // it writes an answer of that many words instead, one after another
}

const tokensPerSecond = 30

func question(tokens int) []step { return []step{{text: "what is a list?", tokens: tokens}} }

var steps = []step{
	{
		text: "create a list Groceries and add bananas to it",
		dos: `{"type":"DO","action":"createList","entities":{"list":"Groceries"}},` +
			`{"type":"DO","action":"addItem","entities":{"list":"Groceries","item":"bananas"}}`,
	},
	{text: "add milk to Groceries", dos: `{"type":"DO","action":"addItem","entities":{"list":"Groceries","item":"milk"}}`},
	{text: "remove bananas from Groceries", dos: `{"type":"DO","action":"removeItem","entities":{"list":"Groceries","item":"bananas"}}`},
	{text: "summarize my lists", dos: `{"type":"DO","action":"summarizeLists"}`},
}

// rig is the bot, and all that it talks to.
type rig struct {
	latency            time.Duration
	steps              []step
	under              []string      // the program that runs the bot, with its arguments; nil: nothing does
	cold               time.Duration // from the start of the processes to the first reply
	model, channel     string        // their URLs
	redisAddr          string
	store              *state.Store
	bots               []process
	client             *http.Client
	calls, asked, sent atomic.Int64 // calls of the model, their bytes, and messages to the bot
	talks              []*talk

	mu             sync.Mutex
	late           []time.Duration // how late the first words of each answer were
	open, mostOpen int             // messages that grow
}

// process is a process of the bot: where it takes activities, where it has its metrics, and its id.
type process struct {
	url, metrics string
	pid          int
}

// talk is one person's conversation with the bot.
type talk struct {
	id      string
	said    int
	replies chan string

	// Of the message that grows, guarded by the rig's mu.
	due    time.Time // when it may have its first words
	shown  string
	last   time.Time // when its last part came
	broken error
}

func newRig(t testing.TB, latency time.Duration, conversations int, steps []step, env ...string) *rig {
	t.Helper()
	r := &rig{latency: latency, steps: steps}
	r.begin(t, conversations, env...)
	return r
}

// begin starts everything, and has one turn.
func (r *rig) begin(t testing.TB, conversations int, env ...string) {
	t.Helper()
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conversations}}
	t.Cleanup(r.client.CloseIdleConnections)
	for i := range conversations {
		r.talks = append(r.talks, &talk{id: fmt.Sprintf("a:%d", i), replies: make(chan string, 16)})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", r.complete)
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities", r.reply)
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities/{activity}", r.reply)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.model, r.channel = server.URL+"/v1", server.URL+"/"
	r.startRedis(t)
	bin, err := built.Path()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range *replicas {
		r.bots = append(r.bots, r.startBot(t, bin, env))
	}
	if err := r.turn(r.talks[0]); err != nil {
		t.Fatal(err)
	}
	r.cold = time.Since(began)
}

// complete is the model. It says the tag with which the person's message ends, so that the reply
// can be told from all others.
func (r *rig) complete(w http.ResponseWriter, req *http.Request) {
	r.calls.Add(1)
	r.asked.Add(req.ContentLength)
	call, err := fakemodel.Read(req.Body)
	text, tag, _ := strings.Cut(call.Last("user"), " #")
	i := slices.IndexFunc(r.steps, func(s step) bool { return s.text == text })
	answer := fakemodel.Answer{Status: http.StatusBadRequest, Code: "not_in_the_cycle"}
	switch {
	case err != nil || i < 0:
	case r.steps[i].tokens > 0:
		const enough = 4 // words
		id, _, _ := strings.Cut(tag, "-")
		r.mu.Lock()
		if c, due := r.talkOf(id), time.Now().Add(r.latency+enough*time.Second/tokensPerSecond); due.After(c.due) {
			c.due = due
		}
		r.mu.Unlock()
		write := func(n int, text string) {
			answer.Pieces = append(answer.Pieces, fakemodel.Piece{At: r.latency + time.Duration(n)*time.Second/tokensPerSecond, Text: text})
		}
		answer = fakemodel.Answer{}
		write(0, `{"type":"answer","commands":[{"type":"SAY","response":"`)
		for n := range r.steps[i].tokens {
			write(n+1, "words ")
		}
		write(r.steps[i].tokens+1, "#"+tag+`"}]}`)
	default:
		answer = fakemodel.Answer{Takes: r.latency, Text: fmt.Sprintf(`{"type":"plan","commands":[%s,{"type":"SAY","response":"Done. #%s"}]}`, r.steps[i].dos, tag)}
	}
	answer.Write(w, req, call)
}

// reply is the channel's connector.
func (r *rig) reply(w http.ResponseWriter, req *http.Request) {
	var a struct {
		Type, Text string
		Entities   []struct{ StreamType, StreamID string }
	}
	err := json.NewDecoder(req.Body).Decode(&a)
	c := r.talkOf(req.PathValue("conversation"))
	for _, e := range a.Entities {
		if e.StreamType != "" {
			r.part(c, e.StreamType, a.Text)
		}
	}
	if err == nil && a.Type == "message" {
		c.replies <- a.Text
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"id":"1"}`)
}

// talkOf is the conversation with that id.
func (r *rig) talkOf(id string) *talk {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "a:")) // its own ids
	return r.talks[n]
}

// part takes a part of a message that grows.
func (r *rig) part(c *talk, kind, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case !strings.HasPrefix(text, c.shown):
		c.broken = errors.New("a part of an answer does not continue the one before")
	case now.Sub(c.last) < time.Second:
		c.broken = fmt.Errorf("a part of an answer came %v after the one before", now.Sub(c.last))
	}
	if c.last.IsZero() {
		r.open++
		r.mostOpen = max(r.mostOpen, r.open)
	}
	c.last = now
	switch kind {
	case "final":
		c.last, c.shown = time.Time{}, ""
		r.open--
	case "streaming":
		if c.shown == "" {
			r.late = append(r.late, now.Sub(c.due))
		}
		c.shown = text
	}
}

// talk has the conversations take this many turns, and returns how long each took. A reply that
// comes twice, late or for nothing fails the test.
func (r *rig) talk(t testing.TB, turns int) (took []time.Duration) {
	t.Helper()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		left atomic.Int64
	)
	left.Store(int64(turns))
	for _, c := range r.talks {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				if err := r.turn(c); err != nil {
					t.Errorf("%s: %v", c.id, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, c := range r.talks {
		if n := len(c.replies); n > 0 {
			t.Errorf("%s: %d replies too many", c.id, n)
		}
	}
	if len(took) != turns {
		t.Fatalf("%d of %d turns ended", len(took), turns)
	}
	return took
}

type object = map[string]any

// turn sends the next message of the cycle and waits for the reply.
func (r *rig) turn(c *talk) error {
	tag := fmt.Sprintf("#%s-%d", c.id, c.said)
	raw, err := json.Marshal(object{
		"type": "message", "id": strconv.Itoa(c.said), "timestamp": time.Now().UTC(), "serviceUrl": r.channel, "channelId": "msteams",
		"from":         object{"id": "29:" + c.id, "name": "Person", "aadObjectId": "aad-" + c.id},
		"conversation": object{"id": c.id, "conversationType": "personal", "tenantId": "tenant"},
		"recipient":    object{"id": "28:bot", "name": "Bot"},
		"text":         r.steps[c.said%len(r.steps)].text + " " + tag, "textFormat": "plain", "locale": "en-US",
		"entities":    []object{{"type": "clientInfo", "locale": "en-US", "country": "US", "platform": "Web"}},
		"channelData": object{"tenant": object{"id": "tenant"}},
	})
	if err != nil {
		return err
	}
	c.said++
	r.mu.Lock()
	c.due = time.Now().Add(500 * time.Millisecond)
	r.mu.Unlock()
	res, err := r.client.Post(r.bots[r.sent.Add(1)%int64(len(r.bots))].url, "application/json", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode/100 != 2 {
		return fmt.Errorf("the bot answered %s %s", res.Status, answer)
	}
	select {
	case text := <-c.replies:
		if !strings.HasSuffix(text, tag) {
			return fmt.Errorf("the reply to %s is %q", tag, text)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return c.broken
	case <-time.After(time.Minute):
		return fmt.Errorf("no reply to %s", tag)
	}
}

// used is what was used so far.
func (r *rig) used(t testing.TB) map[string]float64 {
	t.Helper()
	info, err := r.store.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	redis := numbers(info, ":")
	used := map[string]float64{
		"redis-trips/turn": redis["total_reads_processed"], "redis-cpu-µs/turn": 1e6 * (redis["used_cpu_user"] + redis["used_cpu_sys"]),
		"model-calls/turn": float64(r.calls.Load()), "model-B/turn": float64(r.asked.Load()),
	}
	for _, bot := range r.bots {
		res, err := r.client.Get(bot.metrics)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err = cmp.Or(err, res.Body.Close()); err != nil {
			t.Fatal(err)
		}
		metrics := numbers(string(text), " ")
		used["cpu-µs/turn"] += 1e6 * metrics["process_cpu_seconds_total"]
		used["allocs/turn"] += metrics["go_memstats_mallocs_total"]
		used["rss-MiB"] += metrics["process_resident_memory_bytes"] / (1 << 20)
	}
	return used
}

// numbers reads lines of names and numbers.
func numbers(text, separator string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), separator)
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = n
		}
	}
	return all
}

func (r *rig) startRedis(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.redisAddr = socket.Addr().String()
	_ = socket.Close() // Redis takes the port
	_, port, _ := net.SplitHostPort(r.redisAddr)
	start(t, nil, []string{"Ready to accept connections"}, "redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--appendonly", "no")
	if r.store, err = state.Open(t.Context(), "redis://"+r.redisAddr, state.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close() })
}

// startBot starts a process of the bot. What the caller has set in the environment stays, but for
// what would make the bot call somebody else.
func (r *rig) startBot(t testing.TB, bin string, extra []string) process {
	t.Helper()
	env := append(os.Environ(), "BOT_ADDR=127.0.0.1:0", "BOT_METRICS_ADDR=127.0.0.1:0", "BOT_LOG_FORMAT=json", "REDIS_URL=redis://"+r.redisAddr,
		"MICROSOFT_APP_ID=", "AZURE_OPENAI_ENDPOINT=", "BOT_FALLBACK_MODELS=", "OPENAI_BASE_URL="+r.model, "OPENAI_API_KEY=bench", "OPENAI_MODEL=bench")
	var urls []string
	lines, pid := start(t, append(env, extra...), []string{`"message":"listening"`, `"message":"serving metrics"`}, append(slices.Clone(r.under), bin)...)
	for _, line := range lines {
		var said struct{ URL string }
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, said.URL)
	}
	return process{urls[0], urls[1], pid}
}

// start starts a program that ends with the test, and waits until its output has these texts. It
// returns their lines, and the id of the process.
func start(t testing.TB, env, texts []string, command ...string) (found []string, pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...) //nolint:gosec // the programs that are measured
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context has ended, and with it the process
	found = make([]string, len(texts))
	var seen strings.Builder
	for lines := bufio.NewScanner(out); slices.Contains(found, ""); {
		if !lines.Scan() {
			t.Fatalf("%s ended before it was ready:\n%s", command[0], &seen)
		}
		seen.WriteString(lines.Text() + "\n")
		for i, text := range texts {
			if strings.Contains(lines.Text(), text) {
				found[i] = lines.Text()
			}
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
	return found, cmd.Process.Pid
}

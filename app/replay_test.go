package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/internal/testing/ci"
)

var many = flag.Int("turns", 1000, "how many turns TestReplay/much replays")

// warehouse is a bot whose model follows the rules that it reads in the prompt.
type warehouse struct {
	rules  []string // "when somebody says WORD, use ACTION"
	marks  map[string][]actions.Option
	about  map[string]string // descriptions
	schema map[string]string // "narrow", "wide" or "renamed", by action
	gone   []string
	more   []string // further actions
	policy actions.Policy
	own    func(*Bot)
}

type (
	item struct {
		Item string `json:"item"`
	}
	named struct {
		Thing string `json:"thing"`
	}
	few struct {
		Item string `json:"item" maxLength:"3"`
	}
	coloured struct {
		Item  string `json:"item"`
		Color string `json:"color" enum:"red,green"`
	}
	freely struct {
		Item  string `json:"item"`
		Color string `json:"color"`
	}
	noted struct {
		Item string `json:"item"`
		Note string `json:"note,omitempty"`
	}
)

// words are what people say, each with the action that it is for.
var words = map[string]string{
	"stock": "addStock", "move": "moveStock", "order": "orderGoods", "scrap": "scrapStock", "label": "labelItem", "count": "countStock", "call": "callTruck", "note": "noteDown",
}

func newWarehouse() *warehouse {
	w := &warehouse{about: map[string]string{}, schema: map[string]string{}, marks: map[string][]actions.Option{
		"orderGoods": {actions.NeedsApproval}, "scrapStock": {actions.Destructive}, "countStock": {actions.ReturnsData},
	}}
	for word, action := range words {
		w.rules = append(w.rules, "When somebody says "+word+", use "+action+".")
	}
	slices.Sort(w.rules)
	return w
}

func (w *warehouse) bot() Bot {
	b := Bot{Name: "Warehouse", Instructions: "You run a warehouse.\n" + strings.Join(w.rules, "\n"), Register: func(r *actions.Registry) {
		for _, name := range slices.Concat(sortedActions(), w.more) {
			if slices.Contains(w.gone, name) {
				continue
			}
			about, marks := cmp.Or(w.about[name], "Does "+name), w.marks[name]
			switch kind := cmp.Or(w.schema[name], map[string]string{"labelItem": "color"}[name]); kind {
			case "color":
				add[coloured](r, name, about, marks)
			case "wide":
				add[freely](r, name, about, marks)
			case "renamed":
				add[named](r, name, about, marks)
			case "narrow":
				add[few](r, name, about, marks)
			case "noted":
				add[noted](r, name, about, marks)
			default:
				add[item](r, name, about, marks)
			}
		}
	}}
	if w.policy != nil {
		b.Setup = func(cfg *bot.Config) error {
			cfg.Policy = w.policy
			return nil
		}
	}
	if w.own != nil {
		w.own(&b)
	}
	return b
}

func add[In any](r *actions.Registry, name, about string, marks []actions.Option) {
	actions.Add(r, name, about, func(context.Context, *actions.Turn, In) (actions.Result, error) {
		return actions.JSON(map[string]any{"done": name}), nil
	}, marks...)
}

func sortedActions() (names []string) {
	for _, action := range words {
		names = append(names, action)
	}
	slices.Sort(names)
	return names
}

var (
	aRule   = regexp.MustCompile(`When somebody says (\w+), use (\w+)\.`)
	anOffer = regexp.MustCompile(`(?m)^(\w+)\(([^)]*)\)`)
)

// obedient is a model that plans what the rules in its prompt say, with the parameters that it reads there. away
// says how many calls it still answers; negative: all.
func obedient(t *testing.T, away *atomic.Int64) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, err := fakemodel.Read(r.Body)
		if err != nil {
			t.Error(err)
		}
		if away != nil && away.Add(-1) == -1 {
			away.Store(0)
			fakemodel.Answer{Status: http.StatusUnauthorized}.Write(w, r, call)
			return
		}
		fakemodel.Answer{Text: follow(call)}.Write(w, r, call)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func follow(call fakemodel.Call) string {
	say := func(text string) string { return `{"type":"SAY","response":` + quote(text) + `}` }
	plan := func(commands ...string) string {
		return `{"type":"plan","commands":[` + strings.Join(commands, ",") + `]}`
	}
	prompt := call.Messages[0].Text
	said := strings.Fields(call.Last("user"))
	repaired := false
	for _, m := range slices.Backward(call.Messages) { // a refused answer is followed by what is wrong with it
		if fields := strings.Fields(m.Text); m.Role == "user" && len(fields) == 2 && (words[fields[0]] != "" || fields[0] == "again") {
			repaired = m.Text != call.Messages[len(call.Messages)-1].Text
			said = fields
			break
		}
	}
	if len(said) != 2 {
		return plan(say("Yes."))
	}
	if said[0] == "again" { // the last thing that the history has
		for _, m := range slices.Backward(call.Messages) {
			if m.Role == "assistant" && strings.Contains(m.Text, `"DO"`) {
				return m.Text
			}
		}
	}
	for _, rule := range aRule.FindAllStringSubmatch(prompt, -1) {
		if rule[1] != said[0] {
			continue
		}
		for _, offer := range anOffer.FindAllStringSubmatch(prompt, -1) {
			if offer[1] != rule[2] {
				continue
			}
			var entities []string
			for i, name := range strings.Split(offer[2], ", ") {
				name, _, _ = strings.Cut(name, ":")
				value := said[1]
				if i == 1 {
					value = map[bool]string{false: "blue", true: "red"}[repaired]
				}
				if call.Model == "other" {
					value = strings.ToUpper(value)
				}
				if !strings.HasSuffix(name, "?") {
					entities = append(entities, quote(name)+":"+quote(value))
				}
			}
			text := plan(`{"type":"DO","action":"`+rule[2]+`","entities":{`+strings.Join(entities, ",")+`},"saveAs":"A"}`, say("Done with "+said[1]+"."))
			if rule[2] == "scrapStock" {
				text = "Sure, here you are: " + text // which nobody wanted
			}
			return text
		}
	}
	return plan(say("I cannot do that."))
}

func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// recordTurns has people say these things to a bot that is recorded, each in a conversation of its own or all in one, and
// returns the folder. Approvals are given.
func recordTurns(t *testing.T, b Bot, model string, together bool, texts ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "said")
	b.features = AllFeatures()
	s := settingsOf(b)
	if err := s.Read("--record="+dir, "--openai-base-url="+model, "--openai-model=m"); err != nil {
		t.Fatal(err)
	}
	p := &program{Settings: s, own: b, log: zerolog.New(io.Discard)}
	defer p.close()
	say, rest, approvals := conversing(t, p)
	for i, text := range texts {
		conversation := "all"
		if !together {
			conversation = fmt.Sprint("c", i)
		}
		say(conversation, text)
		if together || i%20 == 19 { // a recording does not see all of a burst
			rest()
		}
	}
	rest()
	for conversation, id := range approvals() {
		if !strings.HasSuffix(texts[len(texts)-1], "never") {
			say(conversation, "/approve "+id)
		}
	}
	rest()
	conversations := len(texts)
	if together {
		conversations = 1
	}
	// At its end a recording writes for some seconds only.
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(dir, "*.turns.jsonl"))
		if err != nil || time.Now().After(end) {
			t.Fatal(len(files), "files are written, ", err)
		}
		if len(files) >= conversations {
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.bot.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	return dir
}

// conversing starts a bot. say has a person say something to it, rest waits until it has nothing to do, and approvals
// are the newest that it has asked for, by conversation.
func conversing(t *testing.T, p *program) (say func(conversation, text string), rest func(), approvals func() map[string]string) {
	t.Helper()
	var mu sync.Mutex
	asked := map[string]string{} // by conversation
	channel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if m := regexp.MustCompile(`"approval":"(\w+)"`).FindSubmatch(raw); m != nil {
			mu.Lock()
			asked[strings.Split(r.URL.Path, "/")[3]] = string(m[1])
			mu.Unlock()
		}
		fmt.Fprint(w, `{"id":"m"}`)
	}))
	t.Cleanup(channel.Close)
	if err := cmp.Or(p.open(io.Discard), p.assemble(t.Context())); err != nil {
		t.Fatal(err)
	}
	p.bot.Start()
	handler := p.handler()
	say = func(conversation, text string) {
		text, with, _ := strings.Cut(text, " with ")
		raw, _ := json.Marshal(map[string]any{
			"type": "message", "id": rand.Text(), "channelId": "msteams", "locale": "de-DE", "text": text, "serviceUrl": channel.URL, "from": map[string]any{"id": "29:mia-" + conversation},
			"recipient": map[string]any{"id": "28:bot"}, "conversation": map[string]any{"id": conversation, "conversationType": "personal"},
			"attachments": map[string][]any{"a quote": {map[string]any{
				"contentType": "text/html", "content": `<blockquote itemtype="http://schema.skype.com/Reply"><p itemprop="preview">Oh</p></blockquote><p>` + text + `</p>`,
			}}, "a file": {map[string]any{
				"contentType": "application/vnd.microsoft.teams.file.download.info", "name": "a.txt", "content": map[string]any{"downloadUrl": channel.URL + "/a.txt", "fileType": "txt"},
			}}}[with],
		})
		in := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/api/messages", bytes.NewReader(raw))
		in.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		if handler.ServeHTTP(out, in); out.Code >= http.StatusBadRequest {
			t.Fatalf("%d %s", out.Code, out.Body)
		}
	}
	rest = func() {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			in, err := p.openInbox(p.store)
			if err != nil {
				t.Fatal(err)
			}
			if depth, err := in.Depth(t.Context()); err == nil && depth == 0 {
				return
			}
		}
		t.Fatal("the bot does not come to rest")
	}
	return say, rest, func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(asked)
	}
}

// corpus is what so many people said.
func corpus(people int) (texts []string) {
	said := slices.Sorted(func(yield func(string) bool) {
		for word := range words {
			if !yield(word) {
				return
			}
		}
	})
	for i := range people {
		texts = append(texts, fmt.Sprintf("%s part%d", said[i%len(said)], i))
	}
	return texts
}

// TestReplay finds what a build would do otherwise, and only that.
func TestReplay(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it plays every turn for each of fifty changes")
	turns := 40
	if ci.Runs() {
		turns = 200
	}
	model := obedient(t, nil)
	dir := recordTurns(t, newWarehouse().bot(), model, false, corpus(turns)...)
	replay := func(t *testing.T, change func(*warehouse), args ...string) (code int, out string) {
		t.Helper()
		w := newWarehouse()
		change(w)
		args = append([]string{"replay", dir, "--openai-base-url=" + model, "--openai-model=m"}, args...)
		code, out, errs := executeFor(t, w.bot(), "", args...)
		if !strings.Contains(out, fmt.Sprint(turns, " turns replayed")) {
			t.Errorf("code %d: %s\n%s", code, out, errs)
		}
		return code, out
	}
	deny := func(name string) func(*warehouse) {
		return func(w *warehouse) {
			w.policy = func(ctx context.Context, turn *actions.Turn, c actions.Call) (actions.Approval, error) {
				if c.Action.Name == name {
					return actions.Approval{Denied: "not today"}, nil
				}
				return actions.DefaultPolicy(ctx, turn, c)
			}
		}
	}
	type regression struct {
		change func(*warehouse)
		args   []string
		want   string
	}
	regressions := map[string]regression{
		"an order needs no approval": {func(w *warehouse) { w.marks["orderGoods"] = nil }, nil, "approval  orderGoods"},
		"scrap is not destructive":   {func(w *warehouse) { w.marks["scrapStock"] = nil }, nil, "approval  scrapStock"},
		"everything may run": {func(w *warehouse) {
			w.policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
				return actions.Approval{}, nil
			}
		}, nil, "approval  orderGoods"},
		"the policy is turned round": {func(w *warehouse) {
			w.policy = func(_ context.Context, _ *actions.Turn, c actions.Call) (actions.Approval, error) {
				return actions.Approval{Required: !c.Action.Approval}, nil
			}
		}, nil, "asked     addStock"},
		"colours are free": {func(w *warehouse) { w.schema["labelItem"] = "wide" }, nil, `other entities: labelItem {"color":"red"`},
		"another model":    {func(*warehouse) {}, []string{"--against=OPENAI_MODEL=other"}, "other entities"},
		"another name that asks nobody": {func(w *warehouse) {
			w.gone, w.more = []string{"orderGoods"}, []string{"buyGoods"}
			for i := range w.rules {
				w.rules[i] = strings.Replace(w.rules[i], "orderGoods", "buyGoods", 1)
			}
		}, nil, "in place of orderGoods, which needed one"},
	}
	for word, action := range words {
		regressions["no rule for "+word] = regression{func(w *warehouse) {
			w.rules = slices.DeleteFunc(w.rules, func(rule string) bool { return strings.Contains(rule, "says "+word) })
		}, nil, "lost: " + action}
		regressions["no action "+action] = regression{func(w *warehouse) { w.gone = []string{action} }, nil, "lost: " + action}
		regressions[action+" is denied"] = regression{deny(action), nil, "fault     " + action + ": the policy denies it"}
		if action != "labelItem" {
			regressions[action+" calls it thing"] = regression{func(w *warehouse) { w.schema[action] = "renamed" }, nil, "other entities: " + action}
		}
		if slices.Contains([]string{"stock", "move"}, word) {
			regressions[action+" takes short names only"] = regression{func(w *warehouse) { w.schema[action] = "narrow" }, nil, "fault"}
		}
	}
	if len(regressions) != 40 {
		t.Errorf("%d regressions", len(regressions))
	}
	for name, of := range regressions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := of.args
			if strings.HasPrefix(of.want, "asked") {
				args = append(args, "--fail-on=asked")
			}
			if code, out := replay(t, of.change, args...); code != cli.ExitFailed || !strings.Contains(out, of.want) {
				t.Errorf("code %d, want %q in %.4000s", code, of.want, out)
			}
		})
	}
	for name, change := range map[string]func(*warehouse){
		"nothing":               func(*warehouse) {},
		"a description":         func(w *warehouse) { w.about["addStock"] = "Puts something on stock" },
		"the rules' order":      func(w *warehouse) { slices.Reverse(w.rules) },
		"a rule more":           func(w *warehouse) { w.rules = append(w.rules, "When somebody says sing, use addStock.") },
		"an action more":        func(w *warehouse) { w.more = []string{"sweepFloor"} },
		"an optional parameter": func(w *warehouse) { w.schema["noteDown"] = "noted" },
		"a title":               func(w *warehouse) { w.marks["moveStock"] = []actions.Option{actions.Title("Carry")} },
		"an example":            func(w *warehouse) { w.own = func(b *Bot) { b.Examples = []string{"stock bolts"} } },
		"the welcome":           func(w *warehouse) { w.own = func(b *Bot) { b.Welcome = "Hi." } },
		"the words around":      func(w *warehouse) { w.own = func(b *Bot) { b.Instructions = "Be kind. " + b.Instructions } },
	} {
		t.Run("harmless/"+name, func(t *testing.T) {
			t.Parallel()
			if code, out := replay(t, change, "--fail-on=approval,fault,do,asked,words"); code != 0 || !strings.Contains(out, ", 0 changed") {
				t.Errorf("code %d: %.4000s", code, out)
			}
		})
	}
	t.Run("reports", func(t *testing.T) {
		t.Parallel()
		to := t.TempDir()
		md, xml := filepath.Join(to, "a.md"), filepath.Join(to, "a.xml")
		w := func(w *warehouse) {
			w.marks["orderGoods"] = nil
			w.gone = []string{"addStock"}
		}
		code, out := replay(t, w, "--markdown="+md, "--junit="+xml)
		if at, other := strings.Index(out, "approval  "), strings.Index(out, "do  "); code != cli.ExitFailed || at < 0 || other < at {
			t.Errorf("code %d, and the worst is not first: %.2000s", code, out)
		}
		for file, parts := range map[string][]string{
			md:  {fmt.Sprintf("%d turns replayed, %d changed, approval %d, do %d", turns, turns/4, turns/8, turns/8), "| order part", "**approval** orderGoods", "| tokens in | "},
			xml: {fmt.Sprintf(`tests="%d" failures="%d"`, turns, turns/4), "without the approval that it needed"},
		} {
			raw, err := os.ReadFile(file)
			for _, part := range parts {
				if err != nil || !strings.Contains(string(raw), part) {
					t.Errorf("%v: no %q in %.3000s", err, part, raw)
				}
			}
		}
		if code, _ := replay(t, w, "--fail-on=none"); code != 0 {
			t.Errorf("code %d with --fail-on=none", code)
		}
	})
	t.Run("much", func(t *testing.T) {
		t.Parallel()
		times := *many / turns
		many := t.TempDir()
		for n := range times {
			files, _ := filepath.Glob(filepath.Join(dir, "*.turns.jsonl"))
			for i, file := range files {
				raw, err := os.ReadFile(file)
				raw = bytes.ReplaceAll(raw, []byte(`"version":1,"id":"`), fmt.Appendf(nil, `"version":1,"id":"%d-`, n))
				if err != nil || os.WriteFile(filepath.Join(many, fmt.Sprintf("%d-%d.turns.jsonl", n, i)), raw, 0o600) != nil {
					t.Fatal(err)
				}
			}
		}
		began := time.Now()
		code, out, errs := executeFor(t, newWarehouse().bot(), "", "replay", many, "--openai-base-url="+model, "--openai-model=m")
		t.Logf("%d turns in %s", turns*times, time.Since(began))
		if code != 0 || !strings.Contains(out, fmt.Sprint(turns*times, " turns replayed, 0 changed")) {
			t.Errorf("code %d: %.2000s %s", code, out, errs)
		}
	})
}

// TestReplayOfWhatOthersWrote plans with what the bot was shown of files and quotes, and asks where it asked.
func TestReplayOfWhatOthersWrote(t *testing.T) {
	t.Parallel()
	model := obedient(t, nil)
	w := newWarehouse()
	w.marks["moveStock"] = []actions.Option{actions.Destructive}
	files := recordTurns(t, w.bot(), model, true, "look at this with a file", "move nuts", "this never")
	quote := recordTurns(t, w.bot(), model, false, "move bolts with a quote", "this never")
	read, err := filepath.Glob(filepath.Join(files, "*.turns.jsonl"))
	if err != nil || len(read) != 1 {
		t.Fatal(read, err)
	}
	if raw, err := os.ReadFile(read[0]); err != nil || !strings.Contains(string(raw), `"attached":[{"name":"a.txt","text":"{`) {
		t.Errorf("%v: the file is not recorded: %s", err, raw)
	}
	for _, of := range []struct {
		marks []actions.Option
		code  int
		want  string
	}{{w.marks["moveStock"], 0, "5 turns replayed, 0 changed"}, {nil, 1, "5 turns replayed, 3 changed, approval 3"}} {
		w := newWarehouse()
		w.marks["moveStock"] = of.marks
		code, out, errs := executeFor(t, w.bot(), "", "replay", files, quote, "--openai-base-url="+model, "--openai-model=m")
		if code != of.code || !strings.Contains(out, of.want) {
			t.Errorf("code %d, want %q in %s%s", code, of.want, out, errs)
		}
	}
}

// TestReplayOfWhatTheModelSees plans again where the model was to see a result before the plan goes on.
func TestReplayOfWhatTheModelSees(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, err := fakemodel.Read(r.Body)
		if err != nil {
			t.Error(err)
		}
		do := func(action, item, saveAs string) string {
			return `{"type":"DO","action":"` + action + `","entities":{"item":"` + item + `"},"saveAs":"` + saveAs + `"}`
		}
		seen := call.Messages[len(call.Messages)-1].Text
		text := `{"type":"SAY","response":"I do not know."}`
		switch said := call.Last("user"); {
		case strings.Contains(seen, "shelf of nuts") && strings.Contains(seen, "shelf of bolts"):
			text = `{"type":"SAY","response":"Both are there."}`
		case strings.Contains(seen, "row of nuts"):
			text = `{"type":"SAY","response":"In that row."}`
		case strings.Contains(said, "both"):
			text = do("look", "nuts", "A") + "," + do("look", "bolts", "B") + `,{"type":"SAY","response":"Too early: $A."}`
		case strings.Contains(said, "named"):
			text = do("find", "nuts", "ROW") + `,{"type":"SAY","response":"It is the $ROW."}`
		case strings.Contains(said, "row"):
			text = do("find", "nuts", "") + `,{"type":"SAY","response":"Too early."}`
		}
		fakemodel.Answer{Text: `{"type":"plan","commands":[` + text + `]}`}.Write(w, r, call)
	}))
	t.Cleanup(model.Close)
	shelf := Bot{Name: "Shelf", Register: func(r *actions.Registry) {
		actions.Add(r, "look", "Looks for something", func(_ context.Context, _ *actions.Turn, in item) (actions.Result, error) {
			return actions.Observe("shelf of " + in.Item), nil
		}, actions.Parallel)
		actions.Add(r, "find", "Finds its row", func(_ context.Context, _ *actions.Turn, in item) (actions.Result, error) {
			return actions.Observe(map[string]any{"name": "row of " + in.Item}).UnlessSaved(), nil
		})
	}}
	dir := recordTurns(t, shelf, model.URL, false, "both", "row", "a named row", "hello never")
	code, out, errs := executeFor(t, shelf, "", "replay", dir, "--openai-base-url="+model.URL, "--openai-model=m")
	if code != 0 || !strings.Contains(out, "4 turns replayed, 0 changed") || !strings.Contains(out, "model calls: 6 became 6") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
	scenarios, err := filepath.Glob(filepath.Join(dir, "*.scenario.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := ""
	for _, name := range scenarios {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		recorded += string(raw)
	}
	for kind, want := range map[string]int{`"observe": "always"`: 2, `"observe": "unless saved"`: 2} {
		if got := strings.Count(recorded, kind); got != want {
			t.Errorf("%d times %q, want %d, in\n%s", got, kind, want, recorded)
		}
	}
}

// TestReplayOfKeptTurns replays what the bot keeps in Redis, as long as it keeps it.
func TestReplayOfKeptTurns(t *testing.T) {
	t.Parallel()
	var drafts atomic.Int64 // requests for an answer that is shown while the model writes it
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, err := fakemodel.Read(r.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(call.Messages[0].Text, "has the type answer") {
			drafts.Add(1)
		}
		fakemodel.Answer{Text: follow(call)}.Write(w, r, call)
	}))
	t.Cleanup(server.Close)
	redis, model := miniredis.RunT(t), server.URL
	serve := func() (p *program, say func(string, string), rest func(), approvals func() map[string]string) {
		b := newWarehouse().bot()
		b.features = AllFeatures()
		s := settingsOf(b)
		err := s.Read("--redis-url=redis://"+redis.Addr(), "--openai-base-url="+model, "--openai-model=m", "--bot-turns-keep=1h", "--bot-turns-content=true")
		if err != nil {
			t.Fatal(err)
		}
		p = &program{Settings: s, own: b, log: zerolog.New(io.Discard)}
		say, rest, approvals = conversing(t, p)
		return p, say, rest, approvals
	}
	end := func(p *program) {
		if err := p.bot.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.close()
	}
	replay := func(marks []actions.Option, code int, want string) {
		t.Helper()
		w := newWarehouse()
		w.marks["orderGoods"] = marks
		args := []string{"replay", "--kept", "--redis-url=redis://" + redis.Addr(), "--openai-base-url=" + model, "--openai-model=m"}
		if is, out, errs := executeFor(t, w.bot(), "", args...); is != code || !strings.Contains(out+errs, want) {
			t.Errorf("code %d, want %d and %q in %s%s", is, code, want, out, errs)
		}
	}
	asks := []actions.Option{actions.NeedsApproval}

	p, say, rest, approvals := serve()
	say("mia", "note password=hunter22")
	say("otto", "order bolts")
	rest()
	end(p)
	replay(asks, 0, "2 turns replayed, 0 changed")
	if n := drafts.Load(); n != 4 {
		t.Errorf("%d requests for answers that stream, not two and again two", n)
	}
	p, say, rest, _ = serve() // another process goes on, and does not know what the first one planned
	for conversation, id := range approvals() {
		say(conversation, "/approve "+id)
	}
	rest()
	say("mia", "stock nuts")
	rest()
	end(p)
	replay(asks, 0, "3 turns replayed, 0 changed")
	replay(nil, 1, "approval  orderGoods")
	for _, key := range redis.Keys() {
		ids, _ := redis.HKeys(key) // others are no hashes
		for _, id := range ids {
			if row := redis.HGet(key, id); strings.HasSuffix(key, "/rows/turn_contents") && strings.Contains(row, "hunter22") {
				t.Error("a secret is kept", row)
			}
		}
	}
	p, say, rest, _ = serve()
	say("mia", "/forget")
	rest()
	say("mia", "/forget yes")
	rest()
	end(p)
	replay(asks, 0, "1 turn replayed, 0 changed")
	redis.FastForward(2 * time.Hour)
	replay(asks, cli.ExitUsage, "there is no turn to replay")
	if code, _, errs := executeFor(t, newWarehouse().bot(), "", "serve", "--bot-turns-content=true"); code != cli.ExitUsage || !strings.Contains(errs, "BOT_TURNS_KEEP") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// TestReplayOfBadRecordings says what it cannot read, and replays the rest.
func TestReplayOfBadRecordings(t *testing.T) {
	t.Parallel()
	var answers atomic.Int64
	answers.Store(1 << 30)
	model := obedient(t, &answers)
	dir := recordTurns(t, newWarehouse().bot(), model, true, "stock bolts", "move nuts", "again now", "note password=hunter22")
	files, err := filepath.Glob(filepath.Join(dir, "*.turns.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(whole), "hunter22") {
		t.Fatalf("%v: %s", err, whole)
	}
	run := func(w *warehouse, content string, args ...string) (int, string) {
		file := filepath.Join(t.TempDir(), "x.turns.jsonl")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := executeFor(t, w.bot(), "", append([]string{"replay", file, "--openai-base-url=" + model, "--openai-model=m", "--concurrency=1"}, args...)...)
		return code, out + errs
	}
	other := newWarehouse()
	other.gone, other.more = sortedActions(), []string{"sing"}
	for name, of := range map[string]struct {
		bot     *warehouse
		content string
		code    int
		want    string
	}{
		"no growth":  {newWarehouse(), strings.ReplaceAll(string(whole), `"tokensIn":10`, `"tokensIn":9`), 0, "0 changed"},
		"growth":     {newWarehouse(), strings.ReplaceAll(string(whole), `"tokensIn":10`, `"tokensIn":8`), 1, "tokens    its questions have 10 tokens, and had 8"},
		"cut off":    {newWarehouse(), string(whole[:len(whole)-40]), 0, "line 5 is cut off"},
		"older":      {newWarehouse(), strings.Replace(string(whole), `"version":1`, `"version":0`, 1), 0, "has format 0, and this program knows 1"},
		"all older":  {newWarehouse(), strings.ReplaceAll(string(whole), `"version":1`, `"version":0`), cli.ExitUsage, "there is no turn to replay"},
		"no turn":    {newWarehouse(), "{}\n[]\n" + string(whole), 0, "line 2 is no recorded turn"},
		"of another": {other, string(whole), cli.ExitUsage, "the recording is of another bot: this one has none of its actions addStock, moveStock"},
	} {
		if code, out := run(of.bot, of.content, "--max-growth=20"); code != of.code || !strings.Contains(out, of.want) {
			t.Errorf("%s: code %d, want %q in %s", name, code, of.want, out)
		}
	}

	scenarios, err := filepath.Glob(filepath.Join(dir, "*.scenario.yaml"))
	if err != nil || len(scenarios) != 1 {
		t.Fatal(scenarios, err)
	}
	for _, of := range []struct {
		gone []string
		code int
		want string
	}{{nil, 0, "4 turns replayed, 0 changed"}, {[]string{"addStock"}, 1, "lost: addStock"}} {
		w := newWarehouse()
		w.gone = of.gone
		code, out, errs := executeFor(t, w.bot(), "", "replay", scenarios[0], "--openai-base-url="+model, "--openai-model=m")
		if code != of.code || !strings.Contains(out, of.want) {
			t.Errorf("a scenario: code %d: %s%s", code, out, errs)
		}
	}

	changed := newWarehouse() // "again" does what was done before: with --follow=new what this build would have done
	changed.rules = slices.DeleteFunc(changed.rules, func(rule string) bool { return strings.Contains(rule, "moveStock") })
	if code, out := run(changed, string(whole)); code != 1 || !strings.Contains(out, "4 turns replayed, 1 changed") {
		t.Errorf("code %d: %s", code, out)
	}
	if code, out := run(changed, string(whole), "--follow=new"); code != 1 || !strings.Contains(out, "4 turns replayed, 2 changed") {
		t.Errorf("code %d: %s", code, out)
	}

	dir = recordTurns(t, newWarehouse().bot(), model, false, "order never") // nobody decides that
	for _, of := range []struct {
		marks []actions.Option
		code  int
		want  string
	}{{[]actions.Option{actions.NeedsApproval}, 0, "1 turn replayed, 0 changed"}, {nil, 1, "approval  orderGoods"}} {
		w := newWarehouse()
		w.marks["orderGoods"] = of.marks
		code, out, errs := executeFor(t, w.bot(), "", "replay", dir, "--openai-base-url="+model, "--openai-model=m")
		if code != of.code || !strings.Contains(out, of.want) {
			t.Errorf("an approval that waits: code %d: %s%s", code, out, errs)
		}
	}

	kept := filepath.Join(t.TempDir(), "kept")
	answers.Store(2)
	if code, out := run(newWarehouse(), string(whole), "--resume="+kept); code != 3 || !strings.Contains(out, "It stopped after 2 of 4 turns") {
		t.Errorf("code %d: %s", code, out)
	}
	answers.Store(2)
	if code, out := run(newWarehouse(), string(whole), "--resume="+kept); code != 0 || !strings.Contains(out, "4 turns replayed, 0 changed") {
		t.Errorf("it does not go on: code %d: %s", code, out)
	}
	answers.Store(1 << 30)
	if code, out := run(changed, string(whole), "--resume="+kept); code != cli.ExitUsage || !strings.Contains(out, "is of another build") {
		t.Errorf("code %d: %s", code, out)
	}
}

package page_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// render makes a planner with the prompts, and returns what it asks.
func render(ctx context.Context, turn *actions.Turn, own fs.FS, name string) (asked *planner.Asked, err error) {
	library, err := prompts.LoadFS(own, "prompts")
	if err != nil {
		return nil, err
	}
	p, err := planner.NewSequence(ctx, planner.Config{
		Model: refuses{}, Prompts: library, Prompt: name, Actions: actions.New(), Watch: func(e planner.Event) {
			if e.Asked != nil {
				asked = e.Asked
			}
		},
	})
	if err != nil {
		return nil, err
	}
	_, err = p.Plan(ctx, turn)
	if asked != nil {
		err = nil
	}
	return asked, err
}

type refuses struct{}

func (refuses) Complete(context.Context, *models.Request) (*models.Response, error) {
	return nil, errors.New("no model")
}

// previewed is the JSON of a preview.
type previewed struct {
	Fault    string
	Draft    bool
	Tokens   int
	Sections []section
}

type section struct {
	Name, Role, Text string
	Tokens           int
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	own := fstest.MapFS{
		"sequence/prompt.txt": {Data: []byte("You are Hedda. You know $\u202e {{$conversation.lists}} {{actions}}")},
		"other/prompt.txt":    {Data: []byte("Another one, in JSON. {{actions}}")},
		"other/config.json":   {Data: []byte(`{"completion":{"max_tokens":10}}`)},
		"notes/read.md":       {Data: []byte("no prompt")},
		".hidden/prompt.txt":  {Data: []byte("x")},
	}
	wrote := ""
	c := setup(t, set{register: lists.Register, secrets: []string{"sk-verysecret1"}, parts: page.Parts{
		Prompts: own, Prompt: "sequence", Preview: render, WritePrompt: func(name, text string) error { wrote = name + ": " + text; return nil },
	}})
	c.say("mia", "create a list Home and add milk to it")
	id := c.say("mia", "show Home")
	var all struct {
		Version int
		Prompts []struct {
			Name          string
			Builtin, Used bool
			Files         []struct {
				Name, Text string
				Tokens     int
			}
		}
	}
	if err := json.Unmarshal([]byte(c.get("/dev/prompts.json")), &all); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all.Prompts {
		name := p.Name
		if p.Builtin {
			name += " (built in)"
		}
		if p.Used {
			name += " (used)"
		}
		got = append(got, name)
		for _, f := range p.Files {
			if f.Tokens != prompts.Tokens(f.Text) {
				t.Errorf("%s/%s has %d tokens", p.Name, f.Name, f.Tokens)
			}
		}
	}
	if list := strings.Join(got, ", "); list != "other, sequence (used), sequential (built in), tools (built in)" {
		t.Errorf("the prompts are %s", list)
	}
	for _, path := range []string{"/dev/prompts", "/dev/prompts/sequence", "/dev/prompts/tools", "/dev/prompts/other"} {
		noScript(t, strings.Replace(c.get(path), "$\u202e", "", 1)) // the text to edit stays as it is
	}
	body := c.get("/dev/prompts/sequence")
	if !strings.Contains(body, `<option value="`+id+`" selected>`) || !strings.Contains(body, "⟦U+202E⟧") || !strings.Contains(body, `data-section="prompt"`) {
		t.Error("the view lacks the last turn, the file or what was sent in it")
	}
	if status, _, _ := c.do("GET", "/dev/prompts/nothing", nil); status != http.StatusNotFound {
		t.Errorf("an unknown prompt: %d", status)
	}
	for name, p := range map[string]struct {
		path string
		form url.Values
		want string // in the first section, or in the fault
	}{
		"as it is":            {"sequence", url.Values{"turn": {id}}, "You are Hedda"},
		"variables":           {"sequence", url.Values{"turn": {id}, "draft": {"{{actions}} in JSON. Says {{$temp.input}} of {{$user.lists}}."}}, "Says show Home of all:\n- name: Home\n"},
		"of nobody":           {"sequence", url.Values{"draft": {"A draft in JSON. {{actions}}"}}, "A draft in JSON."},
		"with a secret":       {"sequence", url.Values{"draft": {"sk-verysecret1 in JSON. {{actions}}"}}, "[secret] in JSON"},
		"built in":            {"other", url.Values{"turn": {id}, "draft": {"Changed, in JSON. {{actions}}"}}, "Changed, in JSON."},
		"fault":               {"sequence", url.Values{"turn": {id}, "draft": {"one\n{{nothing}}"}}, `no function "nothing"`},
		"no template":         {"sequence", url.Values{"turn": {id}, "draft": {"{{"}}, "sequence/prompt.txt:1:1"},
		"a turn that is gone": {"sequence", url.Values{"turn": {"x"}}, "does not keep that turn"},
		"too long":            {"sequence", url.Values{"draft": {strings.Repeat("x", 300<<10)}}, "more than 256 KiB"},
	} {
		var got previewed
		c.post("/dev/prompts/"+p.path, p.form, &got)
		text := got.Fault
		if len(got.Sections) > 0 {
			text = got.Sections[0].Text
		}
		if !strings.Contains(text, p.want) || strings.Contains(text, "verysecret") {
			t.Errorf("%s: got %q", name, text)
		}
		told := slices.ContainsFunc(got.Sections, func(s section) bool { return s.Name == "history" && strings.Contains(s.Text, "add milk") })
		if got.Fault == "" && p.form.Has("turn") != told {
			t.Errorf("%s: the history of the turn is told: %v", name, told)
		}
		if got.Fault == "" && (got.Tokens == 0 || got.Sections[0].Tokens == 0) {
			t.Errorf("%s: no tokens are counted", name)
		}
	}
	draft := url.Values{"turn": {id}, "draft": {"Mine, in JSON.\r\n{{actions}}"}, "then": {"what-if"}, "token": {c.token}}
	if status, _, to := c.do("POST", "/dev/prompts/sequence", draft); status != http.StatusSeeOther || !strings.HasPrefix(to, "/dev/turns/"+id+"/what-if?draft=") {
		t.Errorf("a draft goes to what-if: %d, %s", status, to)
	}
	draft.Set("then", "write")
	draft.Set("was", fmt.Sprintf("%x", sha256.Sum256(own["sequence/prompt.txt"].Data)))
	if status, _, _ := c.do("POST", "/dev/prompts/sequence", draft); status != http.StatusSeeOther || wrote != "sequence/prompt.txt: Mine, in JSON.\n{{actions}}" {
		t.Errorf("a draft goes to the file: %d, %q", status, wrote)
	}
	draft.Set("draft", "{{")
	wrote = ""
	if c.do("POST", "/dev/prompts/sequence", draft); wrote != "" {
		t.Errorf("a draft that cannot be read was written: %q", wrote)
	}
	var kept struct {
		Prompts []struct{ Files []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(c.get("/dev/prompts.json")), &kept); err != nil || kept.Prompts[1].Files[0].Text != all.Prompts[1].Files[0].Text {
		t.Errorf("a preview has changed the prompt: %v", err)
	}
}

// TestPreviewWithoutScript follows the form, and then the way of the script.
func TestPreviewWithoutScript(t *testing.T) {
	t.Parallel()
	c := setup(t, set{parts: page.Parts{Preview: render}})
	long := strings.Repeat("B", 100<<10)
	body := c.submit("/dev/prompts/sequence", url.Values{"turn": {""}, "draft": {"\r\nDraft, " + hostile[:20] + " in JSON.\r\n{{actions}}" + long}})
	if !strings.Contains(body, ", with the draft") || !strings.Contains(body, "Draft, &lt;/p&gt;&lt;script&gt;alert") || !strings.Contains(body, "more bytes") {
		t.Error("the view has neither the preview nor the draft")
	}
	noScript(t, body)
	status, part, _ := c.do("POST", "/dev/prompts/sequence", url.Values{"part": {"1"}, "draft": {"{{nothing}}"}, "token": {c.token}}, "Accept", "text/html")
	if status != http.StatusOK || strings.Contains(part, "<html") || !strings.Contains(part, `class="fault"`) {
		t.Errorf("the part: %d %s", status, part)
	}
}

// TestTwoWriteOnePrompt edits the file while a draft of it is on the page.
func TestTwoWriteOnePrompt(t *testing.T) {
	t.Parallel()
	own, path := t.TempDir(), "/dev/prompts/mine"
	file := filepath.Join(own, "mine", "prompt.txt")
	write := func(text string) error { return os.WriteFile(file, []byte(text), 0o600) }
	read := func() string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), write("One, in JSON. {{actions}}")); err != nil {
		t.Fatal(err)
	}
	c := setup(t, set{parts: page.Parts{Prompts: os.DirFS(own), Preview: render, WritePrompt: func(_, text string) error { return write(text) }}})
	const draft, theirs = "Mine, in JSON. {{actions}}", "Theirs, in JSON. {{actions}}"
	form := func(body string) url.Values {
		_, rest, _ := strings.Cut(body, `name="was" value="`)
		was, _, ok := strings.Cut(rest, `"`)
		if !ok {
			t.Fatal("the form does not say which file it was made of")
		}
		return url.Values{"draft": {draft}, "was": {was}}
	}
	opened := form(c.get(path))
	if err := write(theirs); err != nil {
		t.Fatal(err)
	}
	again := form(c.submit(path, opened)) // a preview in between makes no difference
	again.Set("then", "write")
	body := c.submit(path, again)
	if read() != theirs || !strings.Contains(body, "the file has changed since you opened it") || !strings.Contains(body, draft) || !strings.Contains(body, theirs) {
		t.Errorf("the file says %q, and the page does not show the draft, the file and why", read())
	}
	again = form(body)
	again.Set("then", "write")
	if c.submit(path, again); read() != draft {
		t.Errorf("the draft of who has seen the change was not written: %q", read())
	}
}

// TestPromptsWithoutEnd reads folders that nobody meant.
func TestPromptsWithoutEnd(t *testing.T) {
	t.Parallel()
	own := fstest.MapFS{"big/prompt.txt": {Data: make([]byte, 300<<10)}, "dir/prompt.txt/x": {Data: []byte("x")}}
	for i := range 200 {
		own["a"+strings.Repeat("b", i)+"/prompt.txt"] = &fstest.MapFile{Data: []byte("x")}
	}
	c := setup(t, set{parts: page.Parts{Prompts: own, Preview: render}})
	body := c.get("/dev/prompts")
	if n := strings.Count(body, "data-prompt="); n != 100 || !strings.Contains(body, "There are more prompts") {
		t.Errorf("%d prompts", n)
	}
}

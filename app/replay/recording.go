package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1" // which keeps fields that nobody knows, see [activity.Activity]

	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// recorded is a turn of a recording.
type recorded struct {
	turnlog.Record
	file     string
	partly   bool     // a scenario does not say all that was done
	written  []string // what was said, where the record has no messages
	asksCard int      // how many approvals were asked for
}

// recording is what the files have.
type recording struct {
	turns  []*recorded
	faults []string // what could not be read, for people
}

const (
	keptFile = ".kept.json" // of the page
	maxLine  = 16 << 20     // how many bytes a turn may have
)

// read reads files and folders. A folder has whole turns, or else scenarios.
func (r *recording) read(names []string) {
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			r.fault("%v", err)
		case info.IsDir():
			r.readFolder(name)
		default:
			r.readFile(name)
		}
	}
	at := map[string]int{}
	var last []*recorded // what came of a turn that waited takes its place
	for _, t := range r.turns {
		if i, had := at[t.ID]; had {
			last[i] = t
			continue
		}
		at[t.ID] = len(last)
		last = append(last, t)
	}
	r.turns = last
	slices.SortStableFunc(r.turns, func(a, b *recorded) int { return a.At.Compare(b.At) })
}

func (r *recording) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

func (r *recording) readFolder(folder string) {
	found := 0
	for _, patterns := range [][]string{{"*" + record.TurnsFile, "*" + keptFile}, {"*.yaml", "*.yml", "*.json"}} {
		for _, pattern := range patterns {
			files, _ := filepath.Glob(filepath.Join(folder, pattern)) // the pattern is right
			for _, file := range files {
				if !strings.Contains(filepath.Base(file), ".cassette.") {
					found++
					r.readFile(file)
				}
			}
		}
		if found > 0 {
			return
		}
	}
	r.fault("%s: there is no recording in this folder", folder)
}

func (r *recording) readFile(name string) {
	file, err := os.Open(name) //nolint:gosec // the operator names it
	if err != nil {
		r.fault("%v", err)
		return
	}
	defer func() { _ = file.Close() }() // read only
	if strings.HasSuffix(name, ".jsonl") {
		r.readLines(name, file)
		return
	}
	text, err := io.ReadAll(file)
	if err != nil {
		r.fault("%v", err)
		return
	}
	var of struct {
		Turns    []turnlog.Record  `json:"turns"`
		Received *turnlog.Received `json:"received"`
	}
	isJSON := strings.HasSuffix(name, ".json") && v1.Unmarshal(text, &of) == nil
	switch {
	case isJSON && of.Received != nil:
		r.readTurn(name, text)
	case isJSON && of.Turns != nil:
		for _, t := range of.Turns {
			r.add(name, t)
		}
	default:
		all, err := record.Read(name, text)
		if err != nil {
			r.fault("%v", err)
			return
		}
		for i := range all {
			r.scenario(&all[i])
		}
	}
}

// readLines reads a turn a line. A line that begins with # is a comment.
func (r *recording) readLines(name string, from io.Reader) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		text := bytes.TrimSpace(line)
		switch {
		case len(line) > maxLine:
			r.fault("%s: line %d is too long", name, n)
		case len(text) == 0 || text[0] == '#':
		case err != nil && !json.Valid(text): // nothing ends it
			r.fault("%s: line %d is cut off", name, n)
		default:
			r.readTurn(name+": line "+strconv.Itoa(n), text)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.fault("%s: %v", name, err)
			return
		}
	}
}

func (r *recording) readTurn(place string, text []byte) {
	var t turnlog.Record
	if err := v1.Unmarshal(text, &t); err != nil {
		r.fault("%s is no recorded turn", place)
		return
	}
	r.add(place, t)
}

func (r *recording) add(place string, t turnlog.Record) {
	file, _, _ := strings.Cut(place, ": line ")
	switch {
	case t.Version != turnlog.Version:
		r.fault("%s has format %d, and this program knows %d: record it again", place, t.Version, turnlog.Version)
	case t.Outcome == turnlog.Running:
		r.fault("%s: turn %s was not over", file, t.ID)
	case t.Incomplete || t.Cut:
		r.fault("%s: some of turn %s was not seen, or was too large to be kept", file, t.ID)
	case slices.ContainsFunc(t.Received.Attached, func(a turnlog.Attached) bool { return a.Picture }):
		r.fault("%s: turn %s came with a picture, and pictures are not recorded", file, t.ID)
	case len(t.Plans) == 0 && t.Outcome != turnlog.Failed || t.Before == nil: // such as a click, or /reset
	default:
		one := &recorded{Record: t, file: file}
		for _, s := range t.Sent { // in a channel without cards the question is a text
			if (s.Kind == "send" || s.Kind == "reply") && s.Error == "" && s.Text != "" && !strings.Contains(s.Text, "/approve ") {
				one.written = append(one.written, s.Text)
			}
		}
		for _, s := range t.Journal {
			if s.For == "approval" && s.Error == "" && !s.Dropped {
				one.asksCard++
			}
		}
		r.turns = append(r.turns, one)
	}
}

// scenario adds the turns of a scenario, on the state that it begins with and on what was said in it.
func (r *recording) scenario(s *record.Scenario) {
	history := map[string]*prompts.History{}
	asked := map[string]*recorded{} // by conversation: what waits for a click
	for i := range s.Steps {
		for n, d := range s.Steps[i].Deliveries() {
			e := d.Event
			clicked := decides(e)
			if e.Redelivery || clicked == (asked[e.Conversation] == nil) || !clicked && (e.Type != string(activity.Message) || e.Text == nil) {
				continue
			}
			if clicked { // the turn that asked goes on
				asked[e.Conversation].goOn(d)
				delete(asked, e.Conversation)
				continue
			}
			if history[e.Conversation] == nil {
				history[e.Conversation] = &prompts.History{}
			}
			t := &recorded{file: s.File}
			t.ID = fmt.Sprintf("%s, step %d", s.Name, i+1)
			if n > 0 {
				t.ID += fmt.Sprintf(".%d", n+1)
			}
			t.begin(s, e, *history[e.Conversation])
			t.goOn(d)
			history[e.Conversation].Append(t.transcript(), maxHistory)
			if len(t.Plans) == 0 {
				continue // the bot itself answered it, or the model failed
			}
			if r.turns = append(r.turns, t); t.asksCard > 0 {
				asked[e.Conversation] = t
			}
		}
	}
}

const maxHistory = 5 // how many turns of a scenario the next one finds

// decides reports whether an event is the decision about a call.
func decides(e *record.Event) bool {
	value, _ := e.Value.(map[string]any)
	_, decides := value["approve"]
	return decides
}

// begin fills in what came, and what it found.
func (t *recorded) begin(s *record.Scenario, e *record.Event, said prompts.History) {
	text := strings.TrimSpace(strings.ReplaceAll(*e.Text, "<at>ListBot</at>", ""))
	kind := cmp.Or(e.Kind, "personal")
	t.Version, t.Outcome, t.Conversation, t.Kind, t.Text = turnlog.Version, turnlog.OK, s.Name+"/"+e.Conversation, kind, text
	t.Received.Text = text
	t.Received.Activity = jsontext.Value(plainjson.Text(map[string]any{
		"type": e.Type, "id": e.ID, "channelId": activity.Teams, "text": text, "locale": e.Locale,
		"from":         map[string]any{"id": "29:" + e.From, "name": e.From},
		"recipient":    map[string]any{"id": "28:bot"},
		"conversation": map[string]any{"id": e.Conversation, "conversationType": kind},
	}))
	values := func(of map[string]any) map[string]jsontext.Value {
		all := map[string]jsontext.Value{}
		for name, value := range of {
			all[name] = jsontext.Value(plainjson.Text(value))
		}
		return all
	}
	t.Before = turn.State{"conversation": values(s.Seed.Conversation), "user": values(s.Seed.User), "bot": values(s.Seed.Bot)}
	t.Before["conversation"][historyName] = jsontext.Value(plainjson.Text(said))
	var had lists.Lists
	had.All = slices.Clone(s.Seed.Ordered)
	for name, items := range s.Seed.Lists {
		one := lists.List{Name: name}
		for _, item := range items {
			one.Items = append(one.Items, lists.Item{Name: item})
		}
		had.All = append(had.All, one)
	}
	slices.SortFunc(had.All, func(a, b lists.List) int { return cmp.Compare(a.Name, b.Name) })
	holder := "conversation"
	if kind == "personal" {
		holder = "user"
	}
	if len(had.All) > 0 {
		t.Before[holder]["lists"] = jsontext.Value(plainjson.Text(had))
	}
}

const historyName = "history" // the name of a history in state

// goOn adds what the model wrote in a step, and what had to come of it.
func (t *recorded) goOn(d *record.Step) {
	for _, a := range d.Model {
		if a.Text == nil {
			continue
		}
		p, err := plan.Decode(*a.Text)
		if err != nil {
			continue // the model was asked again
		}
		var one turnlog.Plan
		for _, c := range p.Commands {
			written := turnlog.PlanCommand{Kind: c.Kind, Action: c.Action, SaveAs: c.SaveAs, Response: c.Response}
			if c.Kind == plan.Do {
				written.Entities = plainjson.Text(c.Entities)
			}
			one.Commands = append(one.Commands, written)
		}
		t.Plans = append(t.Plans, one)
	}
	t.partly = t.partly || d.Expect.Actions == nil || d.Expect.Replies == nil
	for _, a := range d.Expect.Actions {
		c := turnlog.Command{Action: a.Action, Resolved: plainjson.Text(a.Entities), Result: "ok", Text: a.Said(), Observe: a.Observe}
		switch {
		case a.Error != nil:
			c.Result, c.Text = "failed", *a.Error
		case a.Unchanged != nil:
			c.Result, c.Text = "unchanged", *a.Unchanged
		case a.Result != nil:
			c.Data = plainjson.Text(a.Result)
		}
		c.Approved = t.asksCard > 0
		t.Commands = append(t.Commands, c)
	}
	for _, reply := range d.Expect.Replies {
		if strings.HasPrefix(reply, "<approval_card") {
			t.asksCard++
		} else if word, _, _ := record.Placeholder(reply); word == "" {
			t.written = append(t.written, reply)
		}
	}
}

// transcript is the turn in the history of the next one.
func (t *recorded) transcript() prompts.Turn {
	var p plan.Plan
	for _, c := range t.Commands {
		var entities map[string]any
		_ = json.Unmarshal([]byte(c.Resolved), &entities) // it is an object
		p.Commands = append(p.Commands, plan.Command{Kind: plan.Do, Action: c.Action, Entities: entities})
	}
	for _, text := range t.written {
		p.Commands = append(p.Commands, plan.Command{Kind: plan.Say, Response: text})
	}
	return said(t, p)
}

// said is a turn in which the bot did and said that.
func said(t *recorded, p plan.Plan) prompts.Turn {
	a, _ := activity.Decode(t.Received.Activity)
	one := prompts.Turn{Messages: []prompts.Message{{Role: "user", Text: t.Received.Text}}}
	if a != nil {
		if one.From = a.From.ID; !a.Conversation.Personal() {
			one.Name = a.From.Name
		}
	}
	if text := p.Transcript(prompts.MaxMessage); text != "" {
		one.Messages = append(one.Messages, prompts.Message{Role: "assistant", Text: text})
	}
	return one
}

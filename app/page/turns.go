package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/app/turnlog"
	"github.com/planbot-go/planbot/prompts"
)

// turnView is what a view of a turn shows.
type turnView struct {
	turnlog.Record
	Page    bool // a page of its own
	Before  string
	After   string
	Spans   []span
	Prev    string
	Next    string
	ByPath  []turnlog.Change
	Follows []string // turns that follow from clicks on its cards
}

// span is a bar of the waterfall.
type span struct {
	Name string
	From int // per cent of the turn's time, as is Wide
	Wide int
	Took time.Duration
}

// merged has one change for each path: from the first value to the last. What is as it was is left
// out.
func merged(changes []turnlog.Change) (all []turnlog.Change) {
	for _, c := range changes {
		i := slices.IndexFunc(all, func(had turnlog.Change) bool { return had.Path == c.Path })
		if i < 0 {
			all = append(all, c)
			continue
		}
		all[i].After, all[i].By = c.After, cmp.Or(c.By, all[i].By)
	}
	return slices.DeleteFunc(all, func(c turnlog.Change) bool { return c.Before == c.After })
}

// folded has one line for the bookkeeping of the history, in place of each field of each message.
func folded(changes []turnlog.Change, rec *turnlog.Record) (all []turnlog.Change) {
	for _, c := range changes {
		scope, _, isHistory := strings.Cut(c.Path, ".history.")
		if isHistory {
			c = turnlog.Change{Path: scope + ".history", Before: remembered(rec.Before[scope]["history"]), After: remembered(rec.After[scope]["history"]), By: c.By}
			if slices.ContainsFunc(all, func(had turnlog.Change) bool { return had.Path == c.Path }) {
				continue
			}
		}
		all = append(all, c)
	}
	return all
}

// remembered says how many turns a history has.
func remembered(history jsontext.Value) string {
	var h struct {
		Turns []struct{} `json:"turns"`
	}
	if len(history) == 0 || json.Unmarshal(history, &h) != nil {
		return ""
	}
	return fmt.Sprintf("%d %s", len(h.Turns), plural(len(h.Turns), "turn"))
}

// waterfall says what took how long.
func waterfall(rec turnlog.Record) (spans []span) {
	whole := max(rec.WaitedNS+rec.TookNS, 1)
	if rec.Outcome == turnlog.Running {
		whole = max(time.Since(rec.At), 1)
	}
	add := func(name string, from, took time.Duration) {
		at := int(min(max(100*from/whole, 0), 99))
		spans = append(spans, span{name, at, int(max(1, min(100*took/whole, time.Duration(100-at)))), took})
	}
	add("wait", 0, rec.WaitedNS)
	for _, r := range rec.Rounds {
		if r.Answer != nil {
			add("model", r.At.Sub(rec.At), r.Answer.TookNS)
		}
	}
	for _, c := range rec.Commands {
		add(c.Action, c.At.Sub(rec.At)-c.TookNS, c.TookNS)
	}
	for _, s := range rec.Sent {
		add(s.Kind, s.At.Sub(rec.At), s.TookNS)
	}
	return spans
}

// countTokens counts the tokens of the prompts: the log leaves that to whoever shows them.
func countTokens(rec *turnlog.Record, counter prompts.Counter) {
	for i := range rec.Rounds {
		rec.Rounds[i].Sections = slices.Clone(rec.Rounds[i].Sections)
		for j := range rec.Rounds[i].Sections {
			s := &rec.Rounds[i].Sections[j]
			s.Tokens = counter.Tokens(s.Text)
		}
	}
}

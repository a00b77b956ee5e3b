// Package stop lets people stop what they asked a bot for: with /stop, and with a bare "stop" while something of theirs
// runs. Otherwise that word goes to the planner, as bots have machines to stop.
package stop

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
)

const (
	// Command stops what the person asked for in the conversation, or the thread of a channel.
	Command = "/stop"
	// endsWithin is how long a stopped turn has to end without a word about that: only an action takes longer.
	endsWithin = 2 * time.Second
	lookEvery  = 100 * time.Millisecond
)

// words mean [Command] while something runs, in the languages of the bot's texts.
var words = []string{
	"stop", "stop it",
	"stopp", "halt", "anhalten", "aufhören",
	"arrête", "arrêter", "arrêtez",
	"para", "parar", "detente", "alto",
	"ferma", "fermati", "basta",
	"停止", "止めて", "やめて", "ストップ", "中止",
	"停", "停下", "停止吧",
}

// withdrawn is a [turn.Pause] that answers for the person who says so that it is not to be done. It changes nothing
// if there is an answer.
type withdrawn interface{ Withdraw(by *activity.Activity) }

// New returns the feature. replaced reports whether the bot has a command /stop of its own.
func New(replaced func() bool) turn.Feature {
	return turn.Feature{
		Name: "stop",
		Accept: func(ctx context.Context, t *turn.Turn) error {
			if !t.IsMessage() || replaced() || !isWord(t.Text) {
				return nil
			}
			all, err := turn.Unfinished(ctx, t)
			if slices.ContainsFunc(all, runs) {
				t.Text = Command
			}
			return err
		},
		Reads: func(a *activity.Activity, text string) *turn.Reply {
			if a.Type != activity.Message || replaced() || !isCommand(text) {
				return nil
			}
			return &turn.Reply{Queue: "stops", Handle: stop}
		},
	}
}

func isCommand(text string) bool {
	for first := range strings.FieldsSeq(text) {
		return strings.EqualFold(first, Command)
	}
	return false
}

func isWord(text string) bool {
	text = strings.Trim(strings.TrimSpace(text), ".!。！ ")
	return slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, text) })
}

// runs reports whether the turn is at work or in its queue.
func runs(w *turn.Waiting) bool { return w.For == "" }

// done is what a turn of the command has done: after a crash it goes on from there.
type done struct {
	Turns    []string `json:"turns,omitempty"` // that it stopped
	TookBack bool     `json:"took_back,omitzero"`
}

var kept = turn.NewSlot[done]("stopped")

// stop stops the turns of the person that run or, if none does, takes back what they are asked. Those tell them how
// they end. If none is there any more, the person reads that.
func stop(ctx context.Context, t *turn.Turn) error {
	all, err := turn.Unfinished(ctx, t)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, runs) {
		all = slices.DeleteFunc(all, func(w *turn.Waiting) bool { return !runs(w) })
	}
	d := kept.Of(t)
	for _, w := range all {
		if !runs(w) {
			d.TookBack = true
		} else if !slices.Contains(d.Turns, w.Turn) {
			d.Turns = append(d.Turns, w.Turn)
		}
	}
	if len(all) > 0 {
		if err := t.Save(ctx); err != nil {
			return err
		}
	}
	for _, w := range all {
		if err := end(ctx, t, w); err != nil {
			return err
		}
	}
	tells, err := await(ctx, t, d.Turns)
	if err != nil || tells || d.TookBack {
		return err
	}
	return t.Tell(ctx, t.Translate("Nothing that you asked me for is running here."))
}

// end ends one turn. What waits for a person goes on without their answer, and ends before its next command.
func end(ctx context.Context, t *turn.Turn, w *turn.Waiting) error {
	err := turn.Halt(ctx, t, w)
	if err != nil || runs(w) {
		return err
	}
	_, _, err = turn.Wake(ctx, t, w, true, func(p turn.Pause) {
		if p, ok := p.(withdrawn); ok {
			p.Withdraw(t.Activity)
		}
	})
	return err
}

// await waits for the turns to end, and tells the person if one takes longer. One that was about to wait for a person
// ends, too. It reports whether one of them tells them that it stopped: those that were about to end have not.
func await(ctx context.Context, t *turn.Turn, turns []string) (tells bool, err error) {
	for until := time.Now().Add(endsWithin); ; {
		all, err := turn.Unfinished(ctx, t)
		if err != nil {
			return false, err
		}
		all = slices.DeleteFunc(all, func(w *turn.Waiting) bool { return !slices.Contains(turns, w.Turn) })
		if len(all) == 0 {
			halted, err := turn.Halted(ctx, t, turns...)
			return tells || halted, err
		}
		for _, w := range all {
			if runs(w) {
				continue
			}
			if err := end(ctx, t, w); err != nil {
				return false, err
			}
			tells = true
		}
		if !time.Now().Before(until) {
			return true, t.Tell(ctx, t.Translate("I'll stop as soon as the step that runs now is done. I can't interrupt it."))
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

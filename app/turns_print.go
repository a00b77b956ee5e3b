package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printTurns prints a line for each turn, and how many wait.
func printTurns(out io.Writer, list []bot.ParkedTurn, waiting int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(list) > 0 {
		fmt.Fprintln(table, "TURN\tPARKED\tTAKEOVERS\tREASON\tCONVERSATION")
	}
	for i := range list {
		t := &list[i]
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", printable(t.Turn), moment(t.Parked), t.Takeovers,
			printable(t.Reason), printable(cmp.Or(t.Conversation, t.Lane)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s parked, %s at work or waiting\n", turns(len(list)), turns(waiting))
	return err
}

func turns(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprint(n, " turns")
}

// printTurn prints what is known of one turn, leaving out what is not.
func printTurn(out io.Writer, t bot.ParkedTurn) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, printable(value))
		}
	}
	line("turn", t.Turn)
	line("reason", t.Reason)
	line("parked", moment(t.Parked))
	line("accepted", moment(t.Accepted))
	line("takeovers", fmt.Sprint(t.Takeovers))
	line("type", t.Type)
	line("channel", t.Channel)
	line("conversation", t.Conversation)
	line("from", t.From)
	line("follows approval", t.Approval)
	if t.Text != "" {
		line("text", strconv.QuoteToGraphic(t.Text))
	}
	if !t.Begun {
		line("journal", "none: it begins anew")
	}
	line("done", strings.Join(t.Done, ", "))
	for _, step := range t.Plan {
		line("plan", step.Command+afterDash(step.State))
	}
	line("sent", strings.Join(t.Sent, ", "))
	if t.Unsent > 0 {
		line("to be sent", fmt.Sprint(t.Unsent))
	}
	line("not read", t.Unread)
	line("lane", t.Lane)
	return table.Flush()
}

func afterDash(state string) string {
	switch state {
	case "":
		return ""
	case "begun":
		return " - begun, nobody knows whether it was done"
	}
	return " - " + state
}

// moment is empty for a time that is not known.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}

// printable is a text from outside without what a terminal obeys.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// exportedTurn is all of a parked turn, as JSON where it is that.
type exportedTurn struct {
	Turn      string    `json:"turn"`
	Reason    string    `json:"reason"`
	Parked    time.Time `json:"parked"`
	Accepted  time.Time `json:"accepted"`
	Takeovers int       `json:"takeovers"`
	Lane      string    `json:"lane"`
	Item      any       `json:"item"`
	Journal   any       `json:"journal,omitempty"`
}

func exported(p state.Parked) exportedTurn {
	t := exportedTurn{
		Turn: p.Turn, Reason: p.Reason, Parked: p.At, Accepted: p.Accepted, Takeovers: p.Tries,
		Lane: p.Lane.String(), Item: asJSON(p.Body),
	}
	if len(p.Journal) > 0 {
		t.Journal = asJSON(p.Journal)
	}
	return t
}

// asJSON is the value itself or, of what is no JSON, a text of it.
func asJSON(raw []byte) any {
	if json.Valid(raw) {
		return json.RawMessage(raw)
	}
	return string(raw)
}

package prompts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/planbot-go/planbot/prompts"
)

func user(text string) prompts.Message { return prompts.Message{Role: "user", Text: text} }
func bot(text string) prompts.Message  { return prompts.Message{Role: "assistant", Text: text} }

func turn(from string, messages ...prompts.Message) prompts.Turn {
	return prompts.Turn{From: from, Messages: messages}
}

// of is a turn of these messages.
func of(t prompts.Turn, ids ...string) prompts.Turn {
	t.IDs = ids
	return t
}

func historyOf(turns ...prompts.Turn) *prompts.History {
	var h prompts.History
	for _, t := range turns {
		h.Append(t, 0)
	}
	return &h
}

func TestHistoryJSON(t *testing.T) {
	t.Parallel()
	h := historyOf(
		prompts.Turn{From: "29:1a", Name: "Mia", Messages: []prompts.Message{user("hi"), bot("hello")}},
		turn("29:1b", user("torn \xff text")),
	)
	raw, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"turns":[` +
		`{"from":"29:1a","name":"Mia","messages":[{"role":"user","text":"hi"},{"role":"assistant","text":"hello"}]},` +
		`{"from":"29:1b","messages":[{"role":"user","text":"torn ` + "\ufffd" + ` text"}]}]}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var back prompts.History
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, &back); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
	if raw, err := json.Marshal(new(prompts.History)); err != nil || string(raw) != "{}" {
		t.Errorf("empty history: %s, %v", raw, err)
	}
}

// TestHistoryAmended: what is not certain goes, and an older program still reads what is kept.
func TestHistoryAmended(t *testing.T) {
	t.Parallel()
	of := func(ids string, messages ...prompts.Message) prompts.Turn {
		return prompts.Turn{From: "29:1a", Messages: messages, IDs: strings.Fields(ids)}
	}
	many := make([]string, 201)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	covers := func(summary string, ids ...string) func(*prompts.History) {
		return func(h *prompts.History) { h.Summary, h.Summarized = summary, ids }
	}
	for name, tt := range map[string]struct {
		before func(*prompts.History)
		turn   prompts.Turn
		sum    int // of how many turns
		id     string
		text   string
		want   prompts.History
	}{
		"one of two messages": {
			turn: of("1 2", user("a"), user("b"), bot("c")), id: "2", text: "B",
			want: prompts.History{Version: 1, Turns: []prompts.Turn{of("1 2", user("a"), user("B"), bot("c"))}},
		},
		"two that are one text":   {turn: of("1 2", user("a\nb"), bot("c")), id: "2", text: "B", want: prompts.History{Version: 1}},
		"deleted, one of two":     {turn: of("1 2", user("a"), user("b")), id: "1", want: prompts.History{Version: 1}},
		"of an older program":     {turn: of("", user("a")), id: "1", text: "A", want: prompts.History{Version: 1, Turns: []prompts.Turn{{From: "29:1a", Messages: []prompts.Message{user("a")}}}}},
		"without an id":           {turn: of("", bot("a")), id: "", want: prompts.History{Version: 1, Turns: []prompts.Turn{{From: "29:1a", Messages: []prompts.Message{bot("a")}}}}},
		"summed up":               {turn: of("1", user("a")), sum: 1, id: "1", want: prompts.History{Version: 1}},
		"not summed up":           {turn: of("1", user("a")), sum: 1, id: "2", want: prompts.History{Version: 1, Summary: "new", Summarized: []string{"1"}}},
		"a summary of more":       {before: covers("old", "0"), turn: of("1", user("a")), sum: 1, id: "7", want: prompts.History{Version: 1, Summary: "new", Summarized: []string{"0", "1"}}},
		"nobody knows of what":    {before: covers("old"), turn: of("1", user("a")), sum: 1, id: "7", want: prompts.History{Version: 1}},
		"too much to know":        {before: covers("old", many...), turn: of("1", user("a")), sum: 1, id: "7", want: prompts.History{Version: 1}},
		"an older turn in it":     {turn: of("", user("a")), sum: 1, id: "7", want: prompts.History{Version: 1}},
		"what the bot said alone": {turn: of("", bot("a")), sum: 1, id: "7", want: prompts.History{Version: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h prompts.History
			if tt.before != nil {
				tt.before(&h)
			}
			h.Append(tt.turn, 0)
			if tt.sum > 0 {
				h.Summarize("new", tt.sum)
			}
			h.Edit("29:1b", tt.id, "somebody else's") // the summary does not know whose words it has
			if tt.sum == 0 {
				h.Edit("29:1a", tt.id, tt.text)
			}
			if diff := cmp.Diff(tt.want, h, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			raw, err := json.Marshal(&h)
			if err != nil {
				t.Fatal(err)
			}
			var old struct {
				Version int `json:"v"`
				Turns   []struct{ Messages []prompts.Message }
			}
			if err := json.Unmarshal(raw, &old, json.MatchCaseInsensitiveNames(true)); err != nil || old.Version != 1 || len(old.Turns) != len(tt.want.Turns) {
				t.Errorf("an older program reads %v, %v of %s", old, err, raw)
			}
		})
	}
}

func TestHistoryOfNewerVersion(t *testing.T) {
	t.Parallel()
	var h prompts.History
	err := json.Unmarshal([]byte(`{"v":2,"turns":[{"messages":[{"role":"user","text":"hi"}]}]}`), &h)
	if err == nil || !strings.Contains(err.Error(), "version 2 is newer than 1") {
		t.Errorf("got %v", err)
	}
	if len(h.Turns) > 0 {
		t.Error("half read")
	}
}

func TestHistoryAppend(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 50<<10) // is cut to 8 KiB
	var many []prompts.Message
	for range 20 {
		many = append(many, bot(long))
	}
	cut := strings.Repeat("x", 8<<10) + " […]"
	for _, tt := range []struct {
		name  string
		turns []prompts.Turn
		most  int
		want  []prompts.Turn
	}{
		{"no messages", []prompts.Turn{{From: "a"}}, 0, nil},
		{
			"again",
			[]prompts.Turn{of(turn("a", user("1")), "x"), of(turn("a", user("2")), "y"), of(turn("b", user("3")), "y"), of(turn("a", user("2, again")), "y", "z")},
			0,
			[]prompts.Turn{of(turn("a", user("1")), "x"), of(turn("b", user("3")), "y"), of(turn("a", user("2, again")), "y", "z")},
		},
		{
			"count",
			[]prompts.Turn{turn("a", user("1")), turn("b", user("2")), turn("c", user("3"))},
			2,
			[]prompts.Turn{turn("b", user("2")), turn("c", user("3"))},
		},
		{
			"message",
			[]prompts.Turn{turn("a", user(strings.Repeat("é", 5000)), bot("ok"))},
			0,
			[]prompts.Turn{turn("a", user(strings.Repeat("é", 4096)+" […]"), bot("ok"))},
		},
		{
			"all",
			[]prompts.Turn{turn("a", user(long), bot(long)), turn("b", many[:7]...), turn("c", many[:7]...)},
			0,
			[]prompts.Turn{turn("b", repeat(bot(cut), 7)...), turn("c", repeat(bot(cut), 7)...)},
		},
		{
			"one turn over all",
			[]prompts.Turn{turn("a", user("old")), turn("b", slices.Concat([]prompts.Message{user("first")}, many, []prompts.Message{bot("last")})...)},
			0,
			[]prompts.Turn{turn("a", user("old")), turn("b", user("first"), bot("last"))},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var h prompts.History
			for _, turn := range tt.turns {
				h.Append(turn, tt.most)
			}
			if diff := cmp.Diff(tt.want, h.Turns); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func repeat(m prompts.Message, n int) []prompts.Message {
	return slices.Repeat([]prompts.Message{m}, n)
}

func TestHistoryKeepsFiveTurns(t *testing.T) {
	t.Parallel()
	var h prompts.History
	for i := range 25 {
		h.Append(turn("a", user(fmt.Sprint(i))), 0)
	}
	if len(h.Turns) != 5 || h.Turns[4].Messages[0].Text != "24" {
		t.Errorf("kept %d turns, the last is %v", len(h.Turns), h.Turns[len(h.Turns)-1])
	}
}

func TestHistoryKeepsEndsOfEndlessTurn(t *testing.T) {
	t.Parallel()
	messages := []prompts.Message{user("go")}
	for i := range 40 {
		messages = append(messages, bot(fmt.Sprint(i)))
	}
	h := historyOf(turn("a", messages...))
	if diff := cmp.Diff([]prompts.Message{user("go"), bot("39")}, h.Turns[0].Messages); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHistoryCopiesWhatItKeeps(t *testing.T) {
	t.Parallel()
	messages := []prompts.Message{user("hi")}
	h := historyOf(turn("a", messages...))
	messages[0].Text = "changed"
	if got := h.Turns[0].Messages[0].Text; got != "hi" {
		t.Errorf("got %q", got)
	}
}

func TestHistoryLines(t *testing.T) {
	t.Parallel()
	const plan = `{"type":"plan","commands":[{"type":"DO","action":"openTicket","entities":{"title":"VPN"}},{"type":"SAY","response":"Ticket 1 is open."},{"type":"SAY","response":"Anything else?"}]}`
	h := historyOf(
		turn("29:mia", user("the VPN is down"), bot(plan), prompts.Message{Role: "system", Text: "[openTicket was approved.]"}),
		prompts.Turn{From: "29:otto", Name: "Otto", Messages: []prompts.Message{user("me too"), bot("Noted.")}},
	)
	want := []string{"Mia: the VPN is down", "Helpdesk: Ticket 1 is open.", "Helpdesk: Anything else?", "Otto: me too", "Helpdesk: Noted."}
	if diff := cmp.Diff(want, h.Lines("Mia", "Helpdesk")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var long []prompts.Message
	for range 30 {
		long = append(long, user(strings.Repeat("ä", 400)))
	}
	lines := historyOf(turn("29:mia", long...)).Lines("Mia", "Helpdesk")
	if len(lines) != 20 || len(lines[0]) > 500 || !utf8.ValidString(lines[0]) || !strings.HasSuffix(lines[0], "ä […]") {
		t.Errorf("%d long lines, the first is %q", len(lines), lines[0])
	}
}

func TestHistoryForget(t *testing.T) {
	t.Parallel()
	h := historyOf(turn("a", user("1")), turn("b", user("2")), turn("a", user("3")))
	h.Forget("a")
	if diff := cmp.Diff([]prompts.Turn{turn("b", user("2"))}, h.Turns); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func FuzzHistoryJSON(f *testing.F) {
	f.Add([]byte(`{"v":1,"turns":[{"from":"a","messages":[{"role":"user","text":"hi"}]}]}`))
	f.Add([]byte(`{"turns":[{"messages":null},{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h prompts.History
		if json.Unmarshal(raw, &h) != nil {
			return
		}
		h.Append(turn("a", user(string(raw))), 0)
		for _, m := range h.Turns[len(h.Turns)-1].Messages {
			if !utf8.ValidString(m.Text) {
				t.Errorf("torn text %q", m.Text)
			}
		}
		if _, err := json.Marshal(&h); err != nil {
			t.Error(err)
		}
	})
}

package tags_test

import (
	"testing"

	"github.com/planbot-go/planbot/internal/tags"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]tags.Tag{
		"<think>":                   {Size: 7, Name: "think", Kind: tags.Thinking},
		"</Think>x":                 {Size: 8, Name: "think", Kind: tags.Thinking, Closes: true},
		"<|channel>thought":         {Size: 10, Name: "channel", Kind: tags.Thinking, Special: true},
		"<channel|>":                {Size: 10, Name: "channel", Kind: tags.Thinking, Special: true, Closes: true},
		"<|END_THINKING|>":          {Size: 16, Name: "think", Kind: tags.Thinking, Special: true, Closes: true},
		"<｜begin▁of▁thought｜>":      {Size: 28, Name: "thought", Kind: tags.Thinking, Special: true},
		"<｜DSML｜invoke name=\"a\">": {Size: 27, Name: "dsml_invoke_name", Kind: tags.Call, Special: true},
		"</｜｜DSML｜｜tool_calls>":     {Size: 29, Name: "dsml_tool_calls", Kind: tags.Call, Special: true, Closes: true},
		"<minimax:tool_call>":       {Size: 19, Name: "minimax_tool_call", Kind: tags.Call},
		"<br/>":                     {Size: 5, Name: "br", Whole: true},
		"<a href=\"https://x.y\">":  {Size: 22, Name: "a"},
		"<<zorp>>":                  {Size: 8, Name: "zorp"},
		"[/NOTES]":                  {Size: 8, Name: "notes", Closes: true},
		"<|end|>":                   {Size: 7, Special: true, Closes: true},
		"<unused95>":                {Size: 10, Name: "thought", Kind: tags.Thinking, Closes: true},
		"<|endofthinking|>":         {Size: 17, Name: "think", Kind: tags.Thinking, Special: true, Closes: true},
		"{think}":                   {Size: 7, Name: "think", Kind: tags.Thinking, Soft: true},
		"(/draft)":                  {Size: 8, Name: "draft", Closes: true, Soft: true},
		"< think >":                 {Size: 9, Name: "think", Kind: tags.Thinking},
		"</ think >":                {Size: 10, Name: "think", Kind: tags.Thinking, Closes: true},
		"[ THINK ]":                 {Size: 9, Name: "think", Kind: tags.Thinking},
		"< | DSML | tool_use>":      {Size: 20, Name: "dsml_tool_use", Kind: tags.Call, Special: true},
		"<∣think∣>":                 {Size: 13, Name: "think", Kind: tags.Thinking, Special: true},
		"{list}":                    {},
		"(see)":                     {},
		"<https://x.y>":             {},
		"<| b |>":                   {},
		"< b>":                      {},
		"<3>":                       {},
		"[1]":                       {},
		"[two words]":               {},
		"<think\n>":                 {},
		"<":                         {},
		"":                          {},
		"x":                         {},
		"— dash":                    {},
	} {
		got, ok := tags.Read(text)
		if want.Size == 0 {
			if ok {
				t.Errorf("%q is %+v", text, got)
			}
			continue
		}
		got = tags.Tag{Size: got.Size, Name: got.Name, Kind: got.Kind, Special: got.Special, Closes: got.Closes, Whole: got.Whole, Soft: got.Soft}
		if !ok || got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
}

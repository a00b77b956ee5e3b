package plan_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner/plan"
)

// answers is how a plan begins that declares itself an answer.
const answers = `{"type":"answer","commands":[{"type":"SAY","response":"`

// draft is all that a draft shows of a text that comes in pieces, as text that grew.
func draft(t testing.TB, prose bool, pieces ...string) (shown []string) {
	t.Helper()
	d := plan.Draft{Prose: prose}
	last := ""
	for _, piece := range pieces {
		text, grew := d.Write(piece)
		if grew != (len(text) > len(last)) || !strings.HasPrefix(text, last) || !utf8.ValidString(text) || strings.TrimRight(text, " \t\r\n") != text {
			t.Fatalf("after %q comes %q, grew %v", last, text, grew)
		}
		if last = text; grew {
			shown = append(shown, text)
		}
	}
	return shown
}

func lastOf(shown []string) string {
	if len(shown) == 0 {
		return ""
	}
	return shown[len(shown)-1]
}

func TestDraft(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 120)
	tests := []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"words", []string{answers, "You have", " two ", "lists.", `"}]}`}, []string{"You hav", "You have two", "You have two lists", "You have two lists."}},
		{"spaced", []string{" {\n \"type\" : \"answer\",\r\n\t\"commands\": [ {\"type\":\"SAY\",\"response\": \"Hi there", `"`}, []string{"Hi ther", "Hi there"}},
		{"only the first SAY", []string{answers + `One."},{"type":"SAY","response":"Two."}]}`, "more"}, []string{"One."}},
		{"only white space", []string{answers + ` \n\t`, `"},{"type":"SAY","response":"Two."}]}`}, nil},
		{"half an escape", []string{answers + `caf\`, `u00`, `e9 li\`, `nst`, `s`}, []string{"ca", "café l", "café li\ns", "café li\nst"}},
		{"escapes", []string{answers + `\"\\\/\b\f\n\r\ta"`}, []string{"\"\\/\b\f\n\r\ta"}},
		{"a pair", []string{answers + `ab\ud83d`, `\ude00c`}, []string{"a", "ab😀"}},
		{"half a pair in half", []string{answers + `ab\ud83d\ude`, `00`, `!`}, []string{"a", "ab", "ab😀"}},
		{"lone surrogates", []string{answers + `a\ud83db\ude00c\ud83d\ud83d\ude00\ud83d"`}, []string{"a\ufffdb\ufffdc\ufffd😀\ufffd"}},
		{"half a character", []string{answers + "abc\xf0\x9f", "\x98", "\x80d"}, []string{"ab", "abc😀"}},
		{"no character", []string{answers + "abc\xf0\x9fdef"}, []string{"ab"}},
		{"a joined family", []string{answers + "a👩", "\u200d", "👩\u200d", "👧", "b"}, []string{"a", "a👩\u200d👩\u200d👧"}},
		{"a skin tone", []string{answers + "a👋", "🏽", "b"}, []string{"a", "a👋🏽"}},
		{"flags", []string{answers + "🇦", "🇹", "🇩", "🇪", "b"}, []string{"🇦🇹", "🇦🇹🇩🇪"}},
		{"a combining mark", []string{answers + "ae", "\u0301", "x"}, []string{"a", "ae\u0301"}},
		{"a mark on a space", []string{answers + "a ", "\u0301", "x"}, []string{"a"}},
		{"Korean", []string{answers + "a\u1112", "\u1161", "\u11ab", "b"}, []string{"a", "a\u1112\u1161\u11ab"}},
		{"citation", []string{answers + "See [", "1", "]", " now"}, []string{"See", "See [1] no"}},
		{"mention", []string{answers + "Hi <a", "t", ">An", "n</at", ">", " you"}, []string{"Hi", "Hi <at>A", "Hi <at>Ann", "Hi <at>Ann</at> yo"}},
		{"brackets without end", []string{answers + "a [b", long}, []string{"a", "a [b" + long[1:]}},
		{"less than", []string{answers + "1 < 2", long}, []string{"1", "1 < 2" + long[1:]}},
		{"a bracket at the end", []string{answers + "a [b", `"`}, []string{"a", "a [b"}},
		{"end of the turn", []string{answers + "Bye.</", "s> more", `"}]}`}, []string{"Bye."}},
		{"another token", []string{answers + `Bye.<|im_end|><|im_start|>user`}, []string{"Bye."}},
		{"a token behind a bracket", []string{answers + "a <" + long[:95] + "<|im_", "end|> b"}, []string{"a <" + long[:95]}},
		{"two openings", []string{answers + "a <b <c> d"}, []string{"a <b <c>"}},
		{"a plan", []string{`{"type":"plan","commands":[{"type":"SAY","response":"Hello there"}]}`}, nil},
		{"undeclared", []string{`{"commands":[{"type":"SAY","response":"Hello there"}]}`}, nil},
		{"declared too late", []string{`{"commands":[{"type":"SAY","response":"Hello there"}],"type":"answer"}`}, nil},
		{"a DO", []string{`{"type":"answer","commands":[{"type":"DO","action":"x"},{"type":"SAY","response":"Hello"}]}`}, nil},
		{"response first", []string{`{"type":"answer","commands":[{"response":"Hello there","type":"SAY"}]}`}, nil},
		{"another key", []string{`{"type":"answer","x":1,"commands":[{"type":"SAY","response":"Hello"}]}`}, nil},
		{"another spelling", []string{`{"Type":"answer","commands":[{"type":"SAY","response":"Hello"}]}`}, nil},
		{"an escaped key", []string{`{"typ\u0065":"answer","commands":[{"type":"SAY","response":"Hello"}]}`}, nil},
		{"a fence", []string{"```json\n" + answers + "Hello there" + `"}]}` + "\n```"}, nil},
		{"prose", []string{"Sure! " + answers + "Hello there"}, nil},
		{"reasoning", []string{"<think>hm</think>" + answers + "Hello there"}, nil},
		{"a byte order mark", []string{"\ufeff" + answers + "Hello there"}, nil},
		{"a comment", []string{`{"type":"answer",/* hm */"commands":[{"type":"SAY","response":"Hello"}]}`}, nil},
		{"single quotes", []string{`{'type':'answer','commands':[{'type':'SAY','response':'Hello'}]}`}, nil},
		{"a number", []string{`{"type":"answer","commands":[{"type":"SAY","response":12345}]}`}, nil},
		{"a raw line feed", []string{answers + "one", "\ntwo"}, []string{"on"}},
		{"an unknown escape", []string{answers + "one", `\qtwo`}, []string{"on"}},
		{"no hex", []string{answers + "one", `\u00gg two`}, []string{"on"}},
		{"too long", []string{answers + "one", strings.Repeat("x", 1<<20), "two"}, []string{"on"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, draft(t, false, tt.pieces...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDraftOfProse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"words", []string{"\n", "You have ", "two lists: \"a\\n\"", " and b."}, []string{"You have two lists: \"a\\n", "You have two lists: \"a\\n\" and b"}},
		{"lines", []string{"- one thing here\n- ", "two"}, []string{"- one thing here\n-", "- one thing here\n- tw"}},
		{"assistant", []string{"**Assis", "tant:** You have two lists"}, nil},
		{"say", []string{`Say: "You have two lists"`}, nil},
		{"saying", []string{`SAY "You have two lists"`}, nil},
		{"a plan", []string{answers + "Hello there you"}, nil},
		{"a string", []string{`"You have two lists"`}, nil},
		{"a fence", []string{"```\nYou have two lists"}, nil},
		{"reasoning", []string{"<think>You have two lists"}, nil},
		{"reasoning that ends late", []string{"You have two lists, I think.</thi", "nk> Hello."}, []string{"You have two lists, I think."}},
		{"reasoning in the middle", []string{"You have two lists. [think] hm [/think] Hello."}, []string{"You have two lists."}},
		{"another channel", []string{"You have two lists<|channel|>final<|message|>Hello"}, []string{"You have two lists"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, draft(t, true, tt.pieces...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// strayReasoning is what makes Decode drop the start of prose.
var strayReasoning = regexp.MustCompile(`(?i)[<[◁]/(think|thinking|reasoning|analysis|scratchpad)[>\]▷]|<\|channel\|>final`)

// checkDraft holds what is shown of a text in pieces to what becomes of the text.
func checkDraft(t testing.TB, prose bool, text string, pieces ...string) (shown string) {
	t.Helper()
	shown = lastOf(draft(t, prose, pieces...))
	if shown == "" {
		return ""
	}
	p, err := plan.Decode(text)
	switch {
	case err != nil, p.Prose != prose, prose && strayReasoning.MatchString(text):
	case p.LastDo() >= 0:
		t.Fatalf("shown %q of a plan with a DO\n%s", shown, text)
	case !strings.HasPrefix(p.Commands[0].Response, shown):
		t.Fatalf("shown %q, said %q\n%s", shown, p.Commands[0].Response, text)
	}
	return shown
}

// checkSplits does so with the text in one piece, byte by byte, and in two at each place.
func checkSplits(t testing.TB, text string) {
	t.Helper()
	for _, prose := range []bool{false, true} {
		whole := checkDraft(t, prose, text, text)
		if bytes := checkDraft(t, prose, text, byBytes(text)...); bytes != whole {
			t.Fatalf("shown %q byte by byte, %q at once\n%s", bytes, whole, text)
		}
		for i := range len(text) {
			if parts := checkDraft(t, prose, text, text[:i], text[i:]); parts != whole {
				t.Fatalf("shown %q when split at %d, %q at once\n%s", parts, i, whole, text)
			}
		}
	}
}

// byBytes splits a text into its bytes.
func byBytes(text string) (pieces []string) {
	for i := range len(text) {
		pieces = append(pieces, text[i:i+1])
	}
	return pieces
}

// written are outputs of models that declare an answer, and whatever may go wrong in them.
var written = []string{
	answers + `You have two lists: groceries and garden.\nShall I show one?"}]}`,
	answers + `caf\u00e9 \ud83d\ude00 cr\u00e8me \ud83d "},{"type":"SAY","response":"Two."}]}`,
	answers + `One."},{"type":"DO","action":"wipe","entities":{}}]}`,
	answers + `One.","response":"Two."}]}`,
	answers + `One.","response":"One."}]}`,
	answers + `One.","Response":"Two."}]}`,
	answers + `One.","type":"DO","action":"wipe"}]}`,
	answers + `One."}],"commands":[{"type":"DO","action":"wipe","entities":{}}]}`,
	answers + `One."}],"type":"plan"}`,
	answers + `One."}],"steps":[{"type":"DO","action":"wipe","entities":{}}]}`,
	answers + `One."}]} {"type":"plan","commands":[{"type":"DO","action":"wipe","entities":{}}]}`,
	answers + `One."}]}` + "\n" + answers + `Two."}]}`,
	answers + `One."}]}</think>{"type":"plan","commands":[{"type":"DO","action":"wipe","entities":{}}]}`,
	answers + `One."}]}<|im_end|>`,
	answers + `One."}] and some more`,
	answers + `One.</s>"}]}`,
	answers + `One.</think>Two"}]}`,
	answers + `   "},{"type":"SAY","response":"Two."}]}`,
	answers + `<response>"}]}`,
	answers + `One", "saveAs":"A"}]}`,
	answers + `One.", // hm` + "\n" + `}]}`,
	answers + "One\ntwo" + `"}]}`,
	answers + `One \q two"}]}`,
	answers + `[1] <at>Ann</at> [2`,
	answers + "a\xffb" + `"}]}`,
	answers + "👩\u200d👩\u200d👧🇦🇹e\u0301" + `"}]}`,
	"The answer is </think> 42, and here it is.",
	"assistant: You have two lists",
	`SAY "You have two lists" to me`,
	"You have two lists.</s> more",
	"You have two lists <think>\nhm\n</think> and more of them",
}

// TestDraftsOfEveryOutput: each output of the decoder's tests, also as an answer, at every split.
func TestDraftsOfEveryOutput(t *testing.T) {
	t.Parallel()
	check := func(name, text string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkSplits(t, text)
		})
	}
	for _, v := range readVectors(t) {
		if len(v.Output) > 2000 {
			continue
		}
		check(v.Name, v.Output)
		if answer := strings.Replace(v.Output, `"type":"plan"`, `"type":"answer"`, 1); answer != v.Output {
			check(v.Name+", an answer", answer)
		}
	}
	for i, text := range written {
		check(fmt.Sprint(i), text)
	}
}

func FuzzDraft(f *testing.F) {
	for _, text := range written {
		f.Add(text, uint(len(answers)+3))
	}
	for _, v := range readVectors(f) {
		if len(v.Output) < 500 {
			f.Add(strings.Replace(v.Output, `"type":"plan"`, `"type":"answer"`, 1), uint(40))
		}
	}
	f.Fuzz(func(t *testing.T, text string, split uint) {
		for _, text := range []string{text, answers + text} {
			for _, prose := range []bool{false, true} {
				at := int(split % uint(len(text)+1))
				whole := checkDraft(t, prose, text, text)
				if parts := checkDraft(t, prose, text, text[:at], text[at:]); parts != whole {
					t.Fatalf("shown %q when split at %d, %q at once", parts, at, whole)
				}
			}
		}
	})
}

// TestAnswersHaveNoDo: a plan that declares itself an answer and has one is refused, wherever it
// is read.
func TestAnswersHaveNoDo(t *testing.T) {
	t.Parallel()
	const do = `{"type":"DO","action":"wipe","entities":{}}`
	for _, text := range []string{
		`{"type":"answer","commands":[` + do + `]}`,
		`{"commands":[` + do + `],"type":"Answer "}`,
		`{"type":"answer","commands":` + do + `}`,
		answers + `One."},` + do + `]}`,
		"Sure:\n" + answers + `One."},` + do + `]}`,
		`[` + answers + `One."},` + do + `]}]`,
		`{"plan":{"type":"answer","commands":[` + do + `]}}`,
		`"{\"type\":\"answer\",\"commands\":[{\"type\":\"DO\",\"action\":\"wipe\"}]}"`,
	} {
		p, err := plan.Decode(text)
		if fault, ok := errors.AsType[*plan.Fault](err); !ok || fault.Kind != plan.InvalidPlan {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
		if err := p.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("read %s", text)
		}
	}
	var p plan.Plan
	if err := p.UnmarshalJSON([]byte(answers + `One."}]}`)); err != nil || p.Commands[0].Response != "One." {
		t.Errorf("%+v, %v", p, err)
	}
}

// draftTokens are 10,000 tokens with all that a draft takes care of.
var draftTokens = append([]string{answers}, strings.SplitAfter(strings.Repeat(`There are two lists, caf\u00e9 and garden <at>Ann</at> [1] 😀. `, 1000), " ")...)

// BenchmarkDraft reads 10,000 tokens; one may take a microsecond.
func BenchmarkDraft(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var d plan.Draft
		for _, token := range draftTokens {
			d.Write(token)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(draftTokens)), "ns/token")
}

// TestDraftAllocations: only the text itself is allocated, as it grows.
func TestDraftAllocations(t *testing.T) { // not parallel: it counts allocations
	allocs := testing.AllocsPerRun(10, func() {
		var d plan.Draft
		for _, token := range draftTokens {
			d.Write(token)
		}
	})
	if allocs > float64(len(draftTokens)/4) { // 22 of them, but the race detector adds its own
		t.Errorf("%v allocations for %d tokens", allocs, len(draftTokens))
	}
}

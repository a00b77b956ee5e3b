package plan_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/planner/plan"
)

// hostileBytes is the size of the hostile inputs in tests.
const hostileBytes = 8 << 10

// hostile are inputs that make careless decoders slow: each is a start and a
// part that is repeated up to the size of the input.
var hostile = map[string]struct{ start, part string }{
	"open braces":            {"", "{"},
	"open brackets":          {"", "["},
	"open pairs":             {"", `[{`},
	"nested objects":         {"", `{"a":`},
	"nested objects, lines":  {"", "{\"a\":\n"},
	"nested in prose":        {"Sure:\n", "{\"a\":\n"},
	"nested commands":        {"", `{"commands":[`},
	"nested commands, prose": {"Sure:\n", "\n{\"commands\":["},
	"quotes":                 {"", `"`},
	"quotes in a key":        {`{"`, `"`},
	"quotes in a plan":       {`{"type":"plan","commands":[{"type":"SAY","response":"`, `"`},
	"quotes and spaces":      {`{"type":"plan","commands":[{"type":"SAY","response":"`, `"  `},
	"guessed ends":           {`{"type":"plan","commands":[{"type":"SAY","response":"`, `"  }  x`},
	"backslashes":            {`{"type":"plan","commands":[{"type":"SAY","response":"`, `\`},
	"unicode escapes":        {`{"type":"plan","commands":[{"type":"SAY","response":"`, `\u00e9`},
	"half surrogates":        {`{"type":"plan","commands":[{"type":"SAY","response":"`, `\ud83d`},
	"braces in prose":        {"Note ", "{x} "},
	"closing braces":         {`{"type":"plan","commands":[]`, "}"},
	"fences":                 {"", "```json\n"},
	"fenced scraps":          {"", "```json\n{\"a\":\n```\n"},
	"objects":                {"", `{"a":1} `},
	"objects in lines":       {"", "{\"a\":1}\n"},
	"objects in prose":       {"Sure:\n", "{\"a\":1}\n"},
	"plans":                  {"", "{\"commands\":[{\"type\":\"SAY\",\"response\":\"x\"}]}\n"},
	"plans in a line":        {"x ", "{\"commands\":[{\"type\":\"SAY\",\"response\":\"x\"}]} "},
	"plans, different":       {"{\"commands\":[{\"type\":\"SAY\",\"response\":\"y\"}]}\n", "{\"commands\":[{\"type\":\"SAY\",\"response\":\"x\"}]}\n"},
	"broken plans":           {"Sure:\n", "{\"commands\":[}\n"},
	"broken objects":         {"Sure:\n", "{\"a\" \"b\" \"c\"}\n"},
	"open strings":           {"Sure:\n", "{\"a\n"},
	"bare keys":              {"Sure:\n", "{a: "},
	"bare keys, broken":      {"Sure:\n", "{a: b\n"},
	"bare commands":          {"", "{\"type\":\"SAY\",\"response\":\"x\"}\n"},
	"same keys":              {`{"commands":[{"type":"DO","action":"a","entities":{`, `"a":1,`},
	"many keys":              {`{`, `"commands":[],`},
	"numbers":                {"[", "1,"},
	"long number":            {"[", "1"},
	"commas":                 {"[", ","},
	"comments":               {`{"commands":[`, "/**/"},
	"line comments":          {`{"commands":[`, "//\n"},
	"comment marks":          {`{"commands":[`, "/*"},
	"joined strings":         {`{"commands":[{"type":"SAY","response":`, `"a"+`},
	"wide spaces":            {`{"commands":[`, "\u00a0"},
	"smart quotes":           {`{“commands”:[`, "“a"},
	"reasoning":              {"", "<think>"},
	"reasoning closed":       {"", "</think>"},
	"reasoning in a line":    {"Hi ", "a <think> "},
	"reasoning blocks":       {"Hi\n", "<think>\na\n</think>\n"},
	"reasoning and JSON":     {"Hi\n", "{\"a\":\"</think>\n"},
	"reasoning, many tags":   {"Hi ", "a <think> b [thinking] c <analysis> d"},
	"end tokens":             {"", "<|im_end|>"},
	"starts of tokens":       {"", "<|im_en"},
	"harmony":                {"", "<|channel|>final<|message|>"},
	"role labels":            {"", "assistant:"},
	"byte order marks":       {"", "\ufeff"},
	"invalid UTF-8":          {"", "\xff"},
	"list of steps":          {"", "- DO "},
	"calls":                  {"a(", "a=1,"},
	"thoughts":               {"", "Thought: a\n"},
	"XML":                    {"", "<plan "},
	"spaces":                 {"a", " "},
	"lines":                  {"a", "\n"},
	"braces and lines":       {"", "{\n"},
	"dollars":                {`{"commands":[{"type":"SAY","response":"`, "$a"},
	"HTML":                   {"", "</s><s>"},
	"HTML, late":             {strings.Repeat("a", hostileBytes/2) + "<s>", "</s>"},
	"late ends":              {strings.Repeat("a", hostileBytes/2), "</s>"},
	"late reasoning":         {"a\n" + strings.Repeat(" ", hostileBytes/2) + "b", "<think>c</think>"},
	"drafts":                 {"a\n", "{\"commands\":[}\n</think>a\n"},
	"open drafts":            {"a\n", "{\"commands\":[\n</think>a\n"},
	"short drafts":           {"a\n", "{\"a\":[\n</think>a\n"},
	"HTML comments":          {"a", "<!--"},
	"HTML comments, closed":  {"a", "<!-- {\"a\": -->"},
	"comments in prose":      {"a ", "/* "},
	"comments, closed":       {"a ", "/**/"},
	"open quotes, tags":      {`a "`, "</think>"},
	"broken, quotes, tags":   {"a\n{\"commands\":[} \"", "</think>"},
	"open quotes":            {"a ", `"{[`},
	"closed badly":           {"a\n", "{]\n"},
	"comments in braces":     {"a\n", "{/*}\n"},
	"torn comments":          {"a\n", "{\"a\":1/*{*/}\n"},
	"nested comments":        {"a\n", "{/*"},
	"inches":                 {"a ", `5" `},
	"apostrophes":            {"a ", "'a "},
	"typographic quotes":     {"a ", "“"},
	"words in braces":        {"a ", "{a: "},
	"emoticons":              {"a ", ":-{ "},
	"plans behind prose":     {"a\n", planX + "\na\n"},
	"HTML strikes":           {"<s>", "</s>"},
}

// hostileEnds close the hostile inputs in some way.
var hostileEnds = []string{"", `"}]}`, "\n{\"commands\":[{\"type\":\"SAY\",\"response\":\"x\"}]}"}

// TestDecodeTakesLinearTime decodes each hostile input and counts its steps. A clock would say the
// same on a quiet machine only; see BenchmarkHostile.
func TestDecodeTakesLinearTime(t *testing.T) {
	for name, h := range hostile {
		for _, end := range hostileEnds {
			text := h.start + strings.Repeat(h.part, (hostileBytes-len(h.start))/len(h.part)) + end
			_, _ = plan.Decode(text)
			if steps := plan.Steps(text); steps > 32*len(text) {
				t.Errorf("%s, end %q: %d steps for %d bytes", name, end, steps, len(text))
			}
		}
	}
}

// BenchmarkHostile decodes the hostile inputs at the largest size: each takes
// less than 50 ms.
func BenchmarkHostile(b *testing.B) {
	const size = 1<<20 - 256
	for name, h := range hostile {
		text := strings.Repeat(h.part, (size-min(size, len(h.start)))/len(h.part))
		text = h.start + text + hostileEnds[1]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = plan.Decode(text)
			}
		})
	}
}

package scrub_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/scrub"
)

// TestJSON: what is quoted is looked at for what it means.
func TestJSON(t *testing.T) {
	t.Parallel()
	s := scrub.New("correct \"horse\"")
	s.Name("29:1abcdef", "Jürgen Öztürk")
	s.Name("471147", "True")
	key := secretive("sk", "-proj-0123456789abcdef")
	for text, want := range map[string]string{
		`{"a":"Hi\nJürgen\tJ\u00fcrgen"}`:                      `{"a":"Hi\nuser-1\tuser-1"}`,
		`{"a":"J\u00fcrgen\u00a0\u00d6zt\u00fcrk"}`:            `{"a":"user-1"}`,
		`{"a":"x\n` + key + `\n29:1abcdef\nbob.x@contoso.it"}`: `{"a":"x\n[secret]\nuser-1\nperson-1@example.com"}`,
		`{"a":"\n12345678-1234-4123-8123-123456789abc"}`:       `{"a":"\n00000000-0000-0000-0000-000000000001"}`,
		`{"a":"https:\/\/me:pw12@host\/x"}`:                    `{"a":"https://[secret]@host/x"}`,
		`{"a":"the correct \"horse\" \u003c"}`:                 `{"a":"the [secret] <"}`,
		`{"password":"hun\"ter2","b":"\u0041"}`:                `{"password":"[secret]","b":"\u0041"}`,
		`{"password" : 471147, "token": 7, "n": 471147}`:       `{"password" : 0, "token": 7, "n": 471147}`,
		`{"a":"{\"to\":\"J\\u00fcrgen\"}"}`:                    `{"a":"{\"to\":\"user-1\"}"}`,
		`{"a":"{\"pwd\":\"x y\"}"}`:                            `{"a":"{\"pwd\":\"[secret]\"}"}`,
		`["password=", "next", "null", null]`:                  `["password=", "next", "null", null]`,
		`{"Jürgen": {"Öztürk": 1}}`:                            `{"user-1": {"user-1": 1}}`,
		`{"a":"-----BEGIN PRIVATE KEY-----","b":"c"}`:          `{"a":"[secret]","b":"c"}`,
		`"Hi\nJürgen"`: `"Hi\nuser-1"`,
		`Sure! {"type":"plan","a":"Hi\nJ\u00fcrgen"} as you, Jürgen, like`: `Sure! {"type":"plan","a":"Hi\nuser-1"} as you, user-1, like`,
		`a 5" screen: {"a":"\u0041\nJürgen"}`:                              `a 5" screen: {"a":"A\nuser-1"}`,
		`say "Hi\nJürgen\tbob.x@contoso.it"`:                               `say "Hi\nuser-1\tperson-1@example.com"`,
		`{"type":"plan","say":"Hi\nJürgen\n` + key:                         `{"type":"plan","say":"Hi\nuser-1\n[secret]`,
		`secret="Quoted33 with space", password: "a \"b c"`:                `secret="[secret]", password: "[secret]"`,
		`C:\new\Jürgen and C:\Jürgen`:                                      `C:\new\user-1 and C:\user-1`,
	} {
		got := s.Text(text)
		if got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", text, got, want)
		}
		if again := s.Text(got); again != got {
			t.Errorf("%s is no end: %s", got, again)
		}
		var tree any
		if json.Unmarshal([]byte(text), &tree) != nil {
			continue
		}
		a, err := json.Marshal(s.Value(tree))
		if err != nil {
			t.Fatal(err)
		}
		var of any
		if err := json.Unmarshal([]byte(got), &of); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if b, err := json.Marshal(of); err != nil || string(a) != string(b) {
			t.Errorf("as a tree %s, as a text %s", a, b)
		}
	}
	if got := (*scrub.Scrubber)(nil).Value("x"); got != "x" {
		t.Errorf("without a scrubber: %v", got)
	}
}

// TestWhatIsLearned: a secret that was named is found where nothing says what it is.
func TestWhatIsLearned(t *testing.T) {
	t.Parallel()
	for _, named := range []string{"my password is Hunter2Xyz", "pwd=Hunter2Xyz", `{"token":"Hunter2Xyz"}`, "密码是Hunter2Xyz", "run it --password Hunter2Xyz"} {
		s := scrub.New()
		before := s.Version()
		if got := s.Text(named); strings.Contains(got, "Hunter") {
			t.Errorf("%s became %s", named, got)
		}
		if got := s.Text("say Hunter2Xyz!"); got != "say [secret]!" || s.Version() == before {
			t.Errorf("behind %s: %s, version %d", named, got, s.Version())
		}
	}
	s := scrub.New()
	s.Text("token: whatever")
	if got := s.Text("whatever"); got != "whatever" {
		t.Errorf("a word was learned: %s", got)
	}
}

// TestCopies: the same text has the same stand-ins whether it is quoted or not.
func TestCopies(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		s, text := people(), randomText(r)
		depth := 1 + r.IntN(3)
		quoted := text
		for range depth {
			quoted = `{"say":` + quote(r, quoted) + `}`
		}
		plain := s.Text(text)
		got := s.Text(quoted)
		for range depth {
			var in map[string]string
			if err := json.Unmarshal([]byte(got), &in); err != nil {
				t.Fatalf("%s became %s: %v", quoted, got, err)
			}
			got = in["say"]
		}
		if got != plain {
			t.Fatalf("%q became\n%q, quoted\n%q", text, plain, got)
		}
		for _, planted := range plants {
			if strings.Contains(plain, planted) {
				t.Fatalf("%q is in %q of %q", planted, plain, text)
			}
		}
	}
}

var plants = []string{
	secretive("sk", "-proj-0123456789abcdef"), secretive("gh", "p_0123456789012345678901"), "12345678-1234-4123-8123-123456789abc", "29:1AbCdEfGhIjKlMnOpQrSt",
	"19:abcdefabcdef@thread.tacv2", "bob.x@contoso.it", "Jürgen", "öztürk", "水哥", "kn0wn secret",
}

func people() *scrub.Scrubber {
	s := scrub.New("kn0wn secret")
	s.Name("29:1", "Jürgen Öztürk")
	s.Name("29:2", "水哥")
	return s
}

// randomText has plants among words, marks and line breaks.
func randomText(r *rand.Rand) string {
	between := []string{"\n", "\t", " ", ", ", "\n\n", `"`, " <", "/", "\\ ", "&\u00a0", "\r\n", " ü ", "{", `": "`, "😀"}
	words := append([]string{"hello", "list", "a", "1", "true", `"x"`, `{"a":"b"}`, "ünder", "it's", "password", "x:"}, plants...)
	var out strings.Builder
	for range 1 + r.IntN(8) {
		out.WriteString(words[r.IntN(len(words))] + between[r.IntN(len(between))])
	}
	return out.String()
}

// quote writes a string of JSON with escapes where there need not be any.
func quote(r *rand.Rand, text string) string {
	var out strings.Builder
	for _, c := range text {
		switch {
		case r.IntN(8) == 0 && c < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, c)
		case c == '/' && r.IntN(2) == 0:
			out.WriteString(`\/`)
		default:
			raw, _ := json.Marshal(string(c))
			out.WriteString(strings.Trim(string(raw), `"`))
			if c == '"' {
				out.WriteString(`"`)
			}
		}
	}
	return `"` + out.String() + `"`
}

// FuzzText: JSON stays JSON, and what was scrubbed has nothing left to be scrubbed.
func FuzzText(f *testing.F) {
	f.Add(`{"a":"Hi\nJ\u00fcrgen","password":"x\"y","n":[1,"b@c.de"]}`)
	f.Add("say \"password=\\\"x y\\\", token: abc\\nMia\"")
	f.Add("sa1 \"password=bc\\n0b\"! token: \"\\\"000\\0\"")
	f.Add(`["pwd=", "a:b@c", "-----BEGIN PRIVATE KEY-----"]`)
	f.Fuzz(func(t *testing.T, text string) {
		s := people()
		got := s.Text(text)
		if json.Valid([]byte(text)) && !json.Valid([]byte(got)) {
			t.Errorf("%q became %q, which is no JSON", text, got)
		}
		if again := s.Text(got); again != got {
			t.Errorf("%q became %q and then %q", text, got, again)
		}
	})
}

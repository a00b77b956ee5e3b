package prompts_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/planbot-go/planbot/prompts"
)

// count is how many tokens a text is said to have, exact how many it has.
func count(text string) int { return prompts.Tokens(text) - prompts.Tokens() }

func exact(t *testing.T, text string) int {
	t.Helper()
	n, err := vocabulary().Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var vocabulary = sync.OnceValue(codec.NewO200kBase)

// texts are in English, in the six languages that the bot speaks besides, code, and base64.
func texts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	read := func(name, path string) {
		raw, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(raw)
	}
	read("en", "../docs/design.md")
	read("code", "history.go")
	for _, lang := range []string{"de", "es", "fr", "it", "ja", "zh"} {
		read(lang, "../internal/texts/"+lang+".json")
		translated := map[string]string{}
		if err := json.Unmarshal([]byte(all[lang]), &translated); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, text := range translated {
			said = append(said, text)
		}
		slices.Sort(said)
		all[lang] = strings.Join(said, "\n")
	}
	random := make([]byte, 6000)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random) // it never fails
	all["base64"] = base64.StdEncoding.EncodeToString(random)
	return all
}

// TestCountIsNeverTooLow: what is counted with a sixth of the vocabulary is at least the exact count, for whole
// texts, their lines and texts of odd signs, and not much more.
func TestCountIsNeverTooLow(t *testing.T) {
	t.Parallel()
	var ratios []float64
	for name, text := range texts(t) {
		for line := range strings.Lines(text) {
			if got, want := count(line), exact(t, line); got < want {
				t.Errorf("%q has %d tokens, and is said to have %d", line, want, got)
			}
		}
		got, want := count(text), exact(t, text)
		ratio := float64(got) / float64(want)
		ratios = append(ratios, ratio)
		t.Logf("%s: %.2f", name, ratio)
		if ratio < 1 || ratio > 1.6 {
			t.Errorf("%s: %d tokens are counted as %d", name, want, got)
		}
	}
	slices.Sort(ratios)
	if median := ratios[len(ratios)/2]; median > 1.3 {
		t.Errorf("the median is %.2f times the exact count", median)
	}
	signs := []rune("aAbBzZéÉßıİǅʰªあ漢ا\u0301\u0300 \t\n\r  '’sSdlLvVrReEmt0129½٣.,;/\\-_<|>😀👍\u200d\u00a0\u3000")
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b strings.Builder
		for range 1 + random.IntN(12) {
			b.WriteRune(signs[random.IntN(len(signs))])
		}
		if got, want := count(b.String()), exact(t, b.String()); got < want {
			t.Errorf("%q has %d tokens, and is said to have %d", b.String(), want, got)
		}
	}
}

// TestTheFirstTokens: tokens.bin has the tokens of the lowest numbers. BOTTEST_UPDATE=1 writes it.
func TestTheFirstTokens(t *testing.T) {
	t.Parallel()
	var all []byte
	for i := range uint(32_000) {
		token, err := vocabulary().Decode([]uint{i})
		if err != nil || len(token) > 255 {
			t.Fatal(i, err)
		}
		all = append(all, byte(len(token)))
		all = append(all, token...)
	}
	if os.Getenv("BOTTEST_UPDATE") != "" {
		if err := os.WriteFile("tokens.bin", all, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile("tokens.bin"); err != nil || !bytes.Equal(have, all) {
		t.Fatal("they are others", err)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"":            0,
		"hello world": 2,
		// A mark of the vocabulary is ordinary text in a message: seven tokens, not one.
		"<|endoftext|>":                7,
		"a<|endoftext|>b<|im_start|>c": 16,
		"\xff":                         1,
	} {
		if got := count(text); got != want {
			t.Errorf("%q has %d tokens, want %d", text, got, want)
		}
	}
	if got := prompts.Counter(func(text string) int { return len(text) }).Tokens("ab", "c"); got != 4+3 {
		t.Errorf("got %d", got)
	}
}

func TestCountOfLongText(t *testing.T) {
	t.Parallel()
	piece := "Wörter 长 🍕 "
	once := count(strings.Repeat(piece, 100))
	got := count(strings.Repeat(piece, 10000))
	if low, high := once*99, once*101; got < low || got > high {
		t.Errorf("got %d, want about %d", got, once*100)
	}
	// Text without an end of word is what makes naive tokenizers quadratic.
	if got := count(strings.Repeat("a", 1<<18)); got < 1<<15 || got > 1<<18 {
		t.Errorf("got %d", got)
	}
}

func TestCountAtOnce(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := count("hello world"); got != 2 {
				t.Errorf("got %d", got)
			}
		})
	}
	all.Wait()
}

func BenchmarkCount(b *testing.B) {
	text := strings.Repeat("Add bananas to the groceries list, please. ", 200)
	count(text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		count(text)
	}
}

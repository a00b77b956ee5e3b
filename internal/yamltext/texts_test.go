package yamltext_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/yamltext"
)

// TestTextsAreReadBack: whatever somebody writes, YAML gives it back as it was.
func TestTextsAreReadBack(t *testing.T) {
	t.Parallel()
	parts := []string{
		"a", "word", " ", "\n", "\n\n", "\n  b", "\n- x", "\t", ":", ": ", "#", " #", "- ", "'", `"`, `\`, `\n`, "|", ">", "%", "@", "`", "{", "}", "[", "]", ",",
		"é", "😀", "\u00a0", "\u200b", "\u2028", "\r", "\r\n", "\u0085", "\ufeff", "\x1b", "\x00", "\U000e0001", "0", "1e3", "true", "null", "~", "<<", "&", "*", "!", "?",
		"=", "...", "---", "2020-01-01", "0x1", "1_000", ".", "<at>", "\u202e",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		text := ""
		for range r.IntN(7) {
			text += parts[r.IntN(len(parts))]
		}
		want := map[string]any{"text": text, "list": []any{text, []any{text}, map[string]any{"a": text, "b": text}}, "map": map[string]any{text: text}}
		raw, err := yamltext.Write(want)
		if err != nil {
			t.Fatal(err)
		}
		raw, err = yamltext.JSON(raw)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var got any
		err = json.Unmarshal(raw, &got)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%q: %v, -want +got\n%s\n%s", text, err, diff, raw)
		}
	}
}

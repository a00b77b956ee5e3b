package console // the translation of keys has no place in the API

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"golang.org/x/term"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ typed, want string }{
		"text":                     {"héllo\r", "héllo\r"},
		"arrows in both forms":     {"\x1b[A\x1bOB", "\x1b[A\x1b[B"},
		"home and end of tmux":     {"\x1b[1~\x1b[4~", "\x1b[H\x1b[F"},
		"words":                    {"\x1bb\x1b[1;5C", "\x1b[1;3D\x1b[1;3C"},
		"unknown keys":             {"\x1b[15~a\x1bOPb\x1b[200;1Hc", "abc"},
		"Escape, then text":        {"\x1bhi\r", "hi\r"},
		"Escape twice":             {"\x1b\x1b[D", "\x1b[D"},
		"Escape, then Ctrl-C":      {"\x1b\x03", "\x03"},
		"broken off sequences":     {"\x1b[1;\x03\x1bO\x04", "\x03\x04"},
		"endless sequence":         {"\x1b[" + strings.Repeat("1", 50) + "\x03", "11111111111111111\x03"},
		"Alt-Enter":                {"a\x1b\rb\r", "a␤b\r"},
		"no UTF-8":                 {"a\xffb\xc3(\ufffd\r", "ab(\r"},
		"paste":                    {"x\x1b[200~one\r\n\ttwo\nthree\r\x1b[201~\r", "x\x1b[200~one␤␉two␤three␤\x1b[201~\r"},
		"paste steers nothing":     {"\x1b[200~a\x1b[31m\x03\x9b\xffz\u009b\x1b[201~", "\x1b[200~a[31mz\x1b[201~"},
		"paste of a long text":     {"\x1b[200~" + strings.Repeat("x", maxPaste+9) + "\x1b[201~", "\x1b[200~" + strings.Repeat("x", maxPaste) + "␤[the pasted text was cut here]\x1b[201~"},
		"typed symbols are no \\n": {"a␤b␉", "ab"},
	} {
		for way, from := range map[string]func(io.Reader) io.Reader{
			"whole":        func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
		} {
			got, err := io.ReadAll(newKeys(from(strings.NewReader(c.typed))))
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %s: got %.200q, %v\nwant %.200q", name, way, got, err, c.want)
			}
		}
	}
}

func TestUnfold(t *testing.T) {
	t.Parallel()
	const text = "one\n\ttwo\n"
	if got := unfold(fold(text)); got != text {
		t.Errorf("got %q", got)
	}
}

// FuzzKeys feeds the line editor, which must come to an end and never see what
// it cannot take.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("a\x1b[200~b\r\nc\x1b[201~\r"), byte(3))
	f.Add([]byte("\x1b[1;\xff\x1bO\ufffd\x1b\x1b\r"), byte(1))
	f.Fuzz(func(t *testing.T, typed []byte, size byte) {
		whole, err := io.ReadAll(newKeys(bytes.NewReader(typed)))
		if err != nil || !utf8.Valid(whole) || bytes.ContainsRune(whole, utf8.RuneError) {
			t.Fatalf("got %q, %v", whole, err)
		}
		parts, _ := io.ReadAll(newKeys(&chunks{typed, 1 + int(size)}))
		if !bytes.Equal(whole, parts) {
			t.Fatalf("in parts %q\nwhole    %q", parts, whole)
		}
		line := term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{newKeys(bytes.NewReader(typed)), io.Discard}, "> ")
		for err == nil || errors.Is(err, term.ErrPasteIndicator) {
			_, err = line.ReadLine()
		}
	})
}

// chunks reads a few bytes at a time.
type chunks struct {
	data []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(c.size, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

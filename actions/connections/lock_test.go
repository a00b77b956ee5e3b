package connections_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions/connections"
)

const (
	send = `{"name":"send","description":"Send a mail","inputSchema":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}}`
	// sendAgain is the same in another order and spacing.
	sendAgain = `{ "inputSchema":{"required":["to"],"properties":{"to":{"type":"string"}},"type":"object"},
		"description":"Send a mail", "name":"send" }`
)

func TestDigest(t *testing.T) {
	t.Parallel()
	for definition, want := range map[string]string{
		send:      "2cf3dc1aa18cab1f7ada447d9da12bb44a52251747c7d9178fa680544061173c",
		sendAgain: "2cf3dc1aa18cab1f7ada447d9da12bb44a52251747c7d9178fa680544061173c",
		strings.Replace(send, "a mail", "a mail.", 1):                           "414d0740",
		strings.TrimSuffix(send, "}") + `,"annotations":{"readOnlyHint":true}}`: "d83015da",
	} {
		if got, err := connections.Digest(jsontext.Value(definition)); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, %v, want %s", definition, got, err, want)
		}
	}
	for _, definition := range []string{``, `{"a":1,"a":1}`, `{"a":"\ud800"}`, `{`} {
		if got, err := connections.Digest(jsontext.Value(definition)); err == nil {
			t.Errorf("%q has the digest %s", definition, got)
		}
	}
}

// lockOf is a lock with the definitions of one connection.
func lockOf(t *testing.T, key string, definitions map[string]jsontext.Value) *connections.Lock {
	t.Helper()
	lock := connections.NewLock()
	if err := lock.Set(key, definitions); err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestALockIsAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "actions.lock")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for name, read := range map[string]func() (*connections.Lock, error){
		"no file":       func() (*connections.Lock, error) { return connections.ReadLock(path) },
		"no file in fs": func() (*connections.Lock, error) { return connections.ReadLockFS(fstest.MapFS{}, "actions.lock") },
		"an empty file in fs": func() (*connections.Lock, error) {
			return connections.ReadLockFS(fstest.MapFS{"a.lock": {Data: []byte("\n")}}, "a.lock")
		},
	} {
		lock, err := read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, known := lock.Pins("mail"); known || lock.FirstUse {
			t.Errorf("%s: it accepts something", name)
		}
	}
	hidden := `{"name":"b","description":"x\u202ey 9007199254740993","inputSchema":{"minimum":9007199254740993}}`
	lock := lockOf(t, "mail", map[string]jsontext.Value{"send": jsontext.Value(sendAgain), "b": jsontext.Value(hidden)})
	if err := lock.Set("empty", nil); err != nil {
		t.Fatal(err)
	}
	if err := lock.Write(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if !strings.HasPrefix(text, "{\n  \"connections\": {\n    \"empty\": {},\n    \"mail\": {\n      \"b\": {\n") || !strings.Contains(text, "2cf3dc1aa18cab1f7ada447d9da12bb44a52251747c7d9178fa680544061173c") {
		t.Errorf("not sorted and indented, or without the digest:\n%s", text)
	}
	if strings.ContainsRune(text, '\u202e') || !strings.Contains(text, `x\u202ey`) || !strings.Contains(text, `"minimum": 9007199254740993`) {
		t.Errorf("it hides something, or has changed a number:\n%s", text)
	}
	again, err := connections.ReadLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := lock.Diff(again); diff != nil {
		t.Errorf("what was read is not what was written: %v", diff)
	}
	embedded, err := connections.ReadLockFS(os.DirFS(filepath.Dir(path)), "actions.lock")
	if err != nil {
		t.Fatal(err)
	}
	if diff := lock.Diff(embedded); diff != nil {
		t.Errorf("what a file system has is not what was written: %v", diff)
	}
	if pins, known := again.Pins("empty"); !known || len(pins) != 0 {
		t.Errorf("empty has %v, %v", pins, known)
	}
	if _, known := again.Pins("other"); known {
		t.Error("it knows a connection that nobody pinned")
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestALockFileThatSomebodyEdited(t *testing.T) {
	t.Parallel()
	good := `{"version":1,"connections":{"mail":{"send":{"digest":"2cf3dc1aa18cab1f7ada447d9da12bb44a52251747c7d9178fa680544061173c","definition":` + send + `}}}}`
	path := filepath.Join(t.TempDir(), "actions.lock")
	read := func(text string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := connections.ReadLock(path)
		return err
	}
	if err := read(good); err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{"Send a mail", "Send all mail"}:                  "mail: send: the digest",
		{`"version":1`, `"version":2`}:                    "version 2",
		{`"version":1`, `"version":1,"more":1`}:           "more",
		{`"mail":`, `"Mail":`}:                            `"Mail"`,
		{`"definition":{`, `"definition":{"name":"x",`}:   "name",
		{`{"version":1,`, `{"version":1,"version":1,`}:    "version",
		{`{"version":1,`, `<<<<<<< HEAD` + "\n" + `{"v"`}: "invalid",
	} {
		if err := read(strings.Replace(good, change[0], change[1], 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", change[1], err, want)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	before := lockOf(t, "mail", map[string]jsontext.Value{"send": jsontext.Value(send), "old": jsontext.Value(`{"name":"old"}`), "same": jsontext.Value(`{}`)})
	after := lockOf(t, "mail", map[string]jsontext.Value{
		"send": jsontext.Value(strings.Replace(send, "a mail", `a\u202e mail`, 1)), "new": jsontext.Value(`{"name":"new"}`), "same": jsontext.Value(`{ }`),
	})
	var lines []string
	changes := before.Diff(after)
	for _, c := range changes {
		line, _, _ := strings.Cut(c, "\n")
		lines = append(lines, line)
	}
	digest := func(text string) string {
		d, err := connections.Digest(jsontext.Value(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := []string{
		"added mail new " + digest(`{"name":"new"}`),
		"removed mail old " + digest(`{"name":"old"}`),
		"changed mail send 2cf3dc1aa18cab1f7ada447d9da12bb44a52251747c7d9178fa680544061173c -> " + digest(strings.Replace(send, "a mail", `a\u202e mail`, 1)),
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got := changes[2]; !strings.HasSuffix(got, "\n  -   \"description\": \"Send a mail\",\n  +   \"description\": \"Send a\\u202e mail\",") {
		t.Errorf("got %s", got)
	}
	version := before.Version()
	if err := before.Set("mail", map[string]jsontext.Value{"bad": jsontext.Value(`{`)}); err == nil || before.Version() != version {
		t.Errorf("got %v: a definition that is no JSON was pinned", err)
	}
	if err := before.Set("mail", nil); err != nil || before.Version() == version {
		t.Errorf("got %v, and the version is the same", err)
	}
}

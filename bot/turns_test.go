package bot_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/planbot-go/planbot/internal/fakemodel"
)

var update = flag.Bool("update", false, "write what was sent into testdata/turns")

// TestTurns plays whole turns from files. Each "N activity" section holds the
// fields of an activity over the defaults of a personal chat in Teams; "N model"
// what the model says, a section a call, or "N calls" what it calls as tools, a
// line of id, name and arguments each; "N sent" everything that the bot sends
// for it; "N prompt", if there is one, lines that the last prompt has to hold. A
// first section "planner" names the planner.
func TestTurns(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/turns/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no turns: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := "sequence"
			if len(archive.Files) > 0 && archive.Files[0].Name == "planner" {
				name = strings.TrimSpace(string(archive.Files[0].Data))
			}
			play(setupPlanner(t, name), archive)
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func play(b *bundle, archive *txtar.Archive) {
	b.Helper()
	seen := 0
	for n := 1; ; n++ {
		activities := sections(archive, n, "activity")
		if len(activities) == 0 {
			if n == 1 {
				b.Fatal("no turn in the file")
			}
			return
		}
		script(b, archive, n)
		var over event
		b.must(json.Unmarshal(activities[0].Data, &over))
		over["id"] = fmt.Sprint("activity-", n)
		if got := b.deliver(over); got.status != http.StatusOK {
			b.Errorf("turn %d: status %d", n, got.status)
		}
		all := b.connector.All()
		sent := ""
		for _, s := range all[seen:] {
			raw, err := json.MarshalIndent(s.Body, "", "  ")
			b.must(err)
			sent += s.Method + " " + s.Path + "\n" + turnID.ReplaceAllString(string(raw), "(turn ID)") + "\n"
		}
		seen = len(all)
		want := sections(archive, n, "sent")
		if *update {
			want[0].Data = []byte(sent)
		}
		if diff := cmp.Diff(string(want[0].Data), sent); diff != "" {
			b.Errorf("turn %d sent (-want +got):\n%s", n, diff)
		}
		for _, p := range sections(archive, n, "prompt") {
			checkPrompt(b, n, string(p.Data))
		}
	}
}

// script tells the model its answers in turn n, in the order of the file.
func script(b *bundle, archive *txtar.Archive, n int) {
	for i := range archive.Files {
		data := strings.TrimSuffix(string(archive.Files[i].Data), "\n")
		switch archive.Files[i].Name {
		case fmt.Sprint(n, " model"):
			b.model.Says(data)
		case fmt.Sprint(n, " calls"):
			var calls []fakemodel.ToolCall
			for line := range strings.SplitSeq(data, "\n") {
				id, call, _ := strings.Cut(line, " ")
				name, arguments, _ := strings.Cut(call, " ")
				calls = append(calls, fakemodel.ToolCall{ID: id, Name: name, Arguments: arguments})
			}
			b.model.CallsTools("", calls...)
		}
	}
}

var turnID = regexp.MustCompile(`\(turn [a-z0-9]+\)`)

func checkPrompt(b *bundle, n int, lines string) {
	b.Helper()
	calls := b.model.Calls()
	if len(calls) == 0 {
		b.Fatalf("turn %d: the model was not asked", n)
	}
	prompt := calls[len(calls)-1].Text()
	for line := range strings.Lines(lines) {
		if !strings.Contains(prompt, strings.TrimSuffix(line, "\n")) {
			b.Errorf("turn %d: the prompt does not hold %q:\n%s", n, line, prompt)
		}
	}
}

func sections(archive *txtar.Archive, n int, kind string) []*txtar.File {
	var found []*txtar.File
	for i := range archive.Files {
		if archive.Files[i].Name == fmt.Sprint(n, " ", kind) {
			found = append(found, &archive.Files[i])
		}
	}
	return found
}
